"""Reads the values that rules set on a target, and writes them.

The target is a FederatedHPA, a workload on the hub with the scale subresource, or with --propagation=direct a
workload in the members. After a conflict the target is read again. The same values are written if nobody
changed the present ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from controller.apply.scales import (
    WritableScale,
    asked_hold,
    bounds_of,
    name_in_use,
    patch_bounds,
    set_replicas,
)
from controller.cronfederatedhpa.objects import FIELD_MANAGER, HUB_DEADLINE_SECONDS, TargetKey
from controller.cronfederatedhpa.scales import (
    KnownShares,
    Members,
    MemberScales,
    Reading,
    unreadable,
    unscalable,
)
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, REPLICAS, ObservedTarget, Values, split_markers
from fedhpa.kube import (
    NOT_FOUND,
    ApiClient,
    Clock,
    ResourceMapper,
    get_scale,
    resource_path,
)
from fedhpa.members import Member

# Names the executions and ends of windows of the last write to a FederatedHPA: `object/rule@time`, with
# commas between several of them. After a crash before the result is stored, it shows which of them were
# applied.
LAST_EXECUTION: Final = "autoscaling.karmada.io/last-cron-execution"
# The bounds from before the open windows, in case their record is lost: `{"minReplicas":1}`.
BASELINE: Final = "autoscaling.karmada.io/cron-baseline"


class CronTargets:
    """Reads targets of all kinds. `direct` is True with --propagation=direct."""

    def __init__(
        self,
        hub: ApiClient,
        members: Members,
        mapper_of: Callable[[Member], ResourceMapper],
        *,
        direct: bool,
        member_deadline: float,
        lost_after: float,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._mapper = ResourceMapper(hub, clock=clock.monotonic)
        self._in_members = None
        if direct:
            self._in_members = MemberScales(
                members,
                mapper_of,
                member_deadline=member_deadline,
                lost_after=lost_after,
                wall=clock.wall,
            )

    async def read(self, key: TargetKey, api_version: str, shares: KnownShares) -> Reading:
        """Returns the present values of a target. Failures are part of the reading.

        `shares` is what is known of the clusters; it is brought up to date.
        """
        try:
            if (api_version, key.kind) == (API_VERSION, KIND):
                return await self._read_federatedhpa(key)
            if key.kind == KIND:
                return unreadable(f"apiVersion {api_version} is not that of a {KIND}: write {API_VERSION}")
            if key.group == GROUP:
                return unreadable(f"kind {key.kind} of {GROUP} cannot be scaled: write kind {KIND}")
            if self._in_members is not None:
                return await self._in_members.read(key, api_version, shares)
            return await self._read_scale(key, api_version)
        except ApiError as error:
            missing = error.status == NOT_FOUND
            text = f"{key} does not exist" if missing else f"{key}: {error}"
            return unreadable(text, gone=missing, unread=not missing)
        except FedHPAError as error:
            return unreadable(f"{key}: {error}", unread=not isinstance(error, InvalidObject))

    async def _read_federatedhpa(self, key: TargetKey) -> Reading:
        path = resource_path(API_VERSION, "federatedhpas", key.namespace, key.name)
        raw = await self._hub.get_json(path, deadline=HUB_DEADLINE_SECONDS)
        metadata = raw["metadata"]
        target = ObservedTarget(
            bounds_of(raw),
            done=split_markers(_our_annotation(metadata, LAST_EXECUTION)),
            managers=_managers(raw),
            baseline=_named_baseline(_our_annotation(metadata, BASELINE)),
            hold=asked_hold(raw),
            uids=_uids(metadata.get("uid")),
        )
        return Reading(target, partial(self._write_federatedhpa, path, raw))

    async def _write_federatedhpa(
        self, path: str, raw: Mapping[str, Any], values: Values, marker: str, baseline: Values | None
    ) -> None:
        """Sets bounds under the names that the object uses, in one patch."""
        annotations = {**({LAST_EXECUTION: marker} if marker else {}), BASELINE: _baseline_text(baseline)}
        await patch_bounds(
            self._hub, path, raw, values, annotations, manager=FIELD_MANAGER, deadline=HUB_DEADLINE_SECONDS
        )

    async def _read_scale(self, key: TargetKey, api_version: str) -> Reading:
        resource = await self._mapper.resolve(api_version, key.kind, deadline=HUB_DEADLINE_SECONDS)
        path = resource.path(key.namespace, key.name)
        if problem := unscalable(resource):
            return unreadable(problem)
        scale = await get_scale(self._hub, path, deadline=HUB_DEADLINE_SECONDS)

        async def write(values: Values, *_: object) -> None:  # a scale has no annotations
            target = WritableScale(self._hub, path, scale, HUB_DEADLINE_SECONDS)
            await set_replicas(target, values.get(REPLICAS) or 0, manager=FIELD_MANAGER, strict=True)

        return Reading(ObservedTarget({REPLICAS: scale.spec.replicas}, uids=_uids(scale.metadata.uid)), write)


def _uids(uid: str | None) -> dict[str, str]:
    """Returns the uid of a target on the hub."""
    return {"": uid} if uid else {}


def _our_annotation(metadata: Mapping[str, Any], name: str) -> str:
    """Returns an annotation of the last write, "" if there is none or somebody else wrote it.

    The managed fields show who wrote it. A server without them leaves that open.
    """
    annotations = metadata.get("annotations")
    text = annotations.get(name) if isinstance(annotations, Mapping) else None
    if not isinstance(text, str):
        return ""
    writers = _writers(metadata, "f:metadata", "f:annotations", f"f:{name}")
    return text if not writers or FIELD_MANAGER in writers else ""


def _named_baseline(text: str) -> Values | None:
    try:
        return decode_json(text, Values) if text else None
    except InvalidJson:
        return None


def _baseline_text(baseline: Values | None) -> str | None:
    return None if baseline is None else msgspec.json.encode(baseline).decode()


def _managers(raw: Mapping[str, Any]) -> dict[str, str]:
    """Returns the client that wrote each bound of a FederatedHPA, if it is known and not this controller."""
    spec, found = raw.get("spec") or {}, {}
    for field in (MINIMUM, MAXIMUM):
        writers = _writers(raw["metadata"], "f:spec", f"f:{name_in_use(spec, field)}")
        if writers and FIELD_MANAGER not in writers:
            found[field] = min(writers)
    return found


def _writers(metadata: Mapping[str, Any], *path: str) -> set[str]:
    """Returns the managers of a field, by the managed fields of its object."""
    writers = set()
    for entry in metadata.get("managedFields") or ():
        found: Any = entry.get("fieldsV1")
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            writers.add(str(entry.get("manager", "")))
    return writers
