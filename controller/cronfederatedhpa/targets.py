"""Reads the values that rules set on a target, and writes them.

The target is a FederatedHPA, a workload on the hub with the scale subresource, or with --propagation=direct a
workload in the members. After a conflict the target is read again. The same values are written if nobody
changed the present ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from controller.cronfederatedhpa.objects import TargetKey
from fedhpa.api.errors import ApiError, Conflict, FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.api.wire import Scale
from fedhpa.assignment import apportion
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, REPLICAS, ObservedTarget, Values, split_markers
from fedhpa.kube import (
    NOT_FOUND,
    ApiClient,
    Backoff,
    Clock,
    Resource,
    ResourceMapper,
    contain,
    get_scale,
    put_scale,
    resource_path,
)
from fedhpa.members import Member

FIELD_MANAGER: Final = "fedhpa-cron"
# Names the executions and ends of windows of the last write to a FederatedHPA: `object/rule@time`, with
# commas between several of them. After a crash before the result is stored, it shows which of them were
# applied.
LAST_EXECUTION: Final = "autoscaling.karmada.io/last-cron-execution"
# The bounds from before the open windows, in case their record is lost: `{"minReplicas":1}`.
BASELINE: Final = "autoscaling.karmada.io/cron-baseline"
HUB_DEADLINE_SECONDS: Final = 10.0
TRIES: Final = 5
FIRST_WAIT_SECONDS: Final = 0.02
MAX_WAIT_SECONDS: Final = 0.5
# The other names of the bounds. An object has one name of each.
OTHER_NAMES: Final = {MINIMUM: "federatedMinReplicas", MAXIMUM: "federatedMaxReplicas"}

Members = Callable[[], Mapping[str, Member]]
# Writes values with the marker of their events, and the baseline of the windows that are then open.
Write = Callable[[Values, str, Values | None], Awaitable[None]]


@dataclass(frozen=True)
class Reading:
    """A target as it was read, and the function that writes values to it."""

    target: ObservedTarget
    write: Write


def mappers_of_members(clock: Clock) -> Callable[[Member], ResourceMapper]:
    """Returns a function that returns the mapper of a member, which lasts as long as the member."""
    mappers: dict[str, tuple[Member, ResourceMapper]] = {}

    def mapper_of(member: Member) -> ResourceMapper:
        kept = mappers.get(member.name)
        if kept is None or kept[0] is not member:
            kept = mappers[member.name] = (member, ResourceMapper(member.client, clock=clock.monotonic))
        return kept[1]

    return mapper_of


async def _nothing_to_write(values: Values, marker: str, baseline: Values | None) -> None:  # noqa: ARG001
    raise InvalidObject(f"{values} cannot be written for {marker}: the target was not read")


def unreadable(error: str, *, gone: bool = False) -> Reading:
    """Returns the reading of a target that cannot be read."""
    return Reading(ObservedTarget({}, error, gone), _nothing_to_write)


class TargetChanged(FedHPAError):
    """Somebody changed the values of a target between its reading and the write, so nothing was written."""


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
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._mapper = ResourceMapper(hub, clock=clock.monotonic)
        self._members = members
        self._mapper_of = mapper_of
        self._direct = direct
        self._member_deadline = member_deadline

    async def read(self, key: TargetKey, api_version: str, shares: dict[str, int]) -> Reading:
        """Returns the present values of a target. Failures are part of the reading.

        `shares` are the last known replicas of the target by cluster; they are brought up to date.
        """
        try:
            if (api_version, key.kind) == (API_VERSION, KIND):
                return await self._read_federatedhpa(key)
            if key.kind == KIND:
                return unreadable(f"apiVersion {api_version} is not that of a {KIND}: write {API_VERSION}")
            if key.group == GROUP:
                return unreadable(f"kind {key.kind} of {GROUP} cannot be scaled: write kind {KIND}")
            if self._direct:
                return await self._read_members(key, api_version, shares)
            return await self._read_scale(key, api_version)
        except ApiError as error:
            missing = error.status == NOT_FOUND
            return unreadable(f"{key} does not exist" if missing else f"{key}: {error}", gone=missing)
        except FedHPAError as error:
            return unreadable(f"{key}: {error}")

    async def _read_federatedhpa(self, key: TargetKey) -> Reading:
        path = resource_path(API_VERSION, "federatedhpas", key.namespace, key.name)
        raw = await self._hub.get_json(path, deadline=HUB_DEADLINE_SECONDS)
        metadata = raw["metadata"]
        target = ObservedTarget(
            bounds_of(raw),
            done=split_markers(_our_annotation(metadata, LAST_EXECUTION)),
            managers=_managers(raw),
            baseline=_named_baseline(_our_annotation(metadata, BASELINE)),
        )
        return Reading(target, partial(self._write_federatedhpa, path, raw))

    async def _write_federatedhpa(
        self, path: str, raw: Mapping[str, Any], values: Values, marker: str, baseline: Values | None
    ) -> None:
        """Sets bounds under the names that the object uses, in one patch."""
        backoff = Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS)
        for attempt in range(1, TRIES + 1):
            spec = raw.get("spec") or {}
            annotations = {LAST_EXECUTION: marker} if marker else {}
            patch = {
                "metadata": {
                    "resourceVersion": raw["metadata"].get("resourceVersion", ""),
                    "annotations": annotations | {BASELINE: _baseline_text(baseline)},
                },
                "spec": {_name_in_use(spec, field): value for field, value in values.items()},
            }
            try:
                await self._hub.patch(path, patch, manager=FIELD_MANAGER, deadline=HUB_DEADLINE_SECONDS)
            except Conflict:
                if attempt == TRIES:
                    raise
            else:
                return
            await asyncio.sleep(backoff.next())
            before, raw = raw, await self._hub.get_json(path, deadline=HUB_DEADLINE_SECONDS)
            if bounds_of(before) != bounds_of(raw):
                raise TargetChanged(f"the bounds of {path.rpartition('/')[2]} were changed at the same time")

    async def _read_scale(self, key: TargetKey, api_version: str) -> Reading:
        resource = await self._mapper.resolve(api_version, key.kind, deadline=HUB_DEADLINE_SECONDS)
        path = resource.path(key.namespace, key.name)
        if problem := _unscalable(resource):
            return unreadable(problem)
        scale = await get_scale(self._hub, path, deadline=HUB_DEADLINE_SECONDS)

        async def write(values: Values, *_: object) -> None:  # a scale has no annotations
            await _put_replicas(self._hub, path, scale, values.get(REPLICAS) or 0, HUB_DEADLINE_SECONDS)

        return Reading(ObservedTarget({REPLICAS: scale.spec.replicas}), write)

    async def _read_members(self, key: TargetKey, api_version: str, known: dict[str, int]) -> Reading:
        """Reads the workload in all members. Its size is the sum; an absent member has its last share."""
        found = await self._scales(key, api_version)
        scales = {name: one for name, one in found.items() if isinstance(one, _MemberScale)}
        failed = {name: one for name, one in found.items() if isinstance(one, FedHPAError)}
        errors = {name: str(one) for name, one in failed.items()}
        known |= {name: one.scale.spec.replicas for name, one in scales.items()}
        for name in known.keys() - scales.keys() - errors.keys():
            del known[name]
        if not scales:
            if errors:
                name, error = min(errors.items())
                if all(isinstance(one, InvalidObject) for one in failed.values()):
                    return unreadable(f"cluster {name}: {error}")
                return unreadable(f"{key}: no member answered; {name}: {error}")
            return unreadable(f"{key} does not exist in any member", gone=True)
        total = sum(known.values())
        return Reading(ObservedTarget({REPLICAS: total}), partial(self._write_members, known, scales))

    async def _scales(self, key: TargetKey, api_version: str) -> dict[str, _MemberScale | FedHPAError | None]:
        """Returns the scale in each member, its failure, or None where the workload does not exist."""
        members = dict(self._members())

        async def read(member: Member) -> _MemberScale | FedHPAError | None:
            problem = ""
            try:
                resource = await self._mapper_of(member).resolve(
                    api_version, key.kind, deadline=self._member_deadline
                )
                problem = _unscalable(resource)
                path = resource.path(key.namespace, key.name)
                return _MemberScale(
                    member.client, path, await get_scale(member.client, path, deadline=self._member_deadline)
                )
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return InvalidObject(problem) if problem else None
                return error
            except FedHPAError as error:
                return error

        tasks = [
            contain("read-scale", partial(read, member), FedHPAError, cluster=name)
            for name, member in members.items()
        ]
        return dict(zip(members, await asyncio.gather(*tasks), strict=True))

    async def _write_members(
        self, known: dict[str, int], scales: Mapping[str, _MemberScale], values: Values, *_: object
    ) -> None:
        """Splits the size in equal parts over the members that answered. All of them are tried."""
        elsewhere = sum(replicas for name, replicas in known.items() if name not in scales)
        left = max((values.get(REPLICAS) or 0) - elsewhere, 0)
        shares = apportion(left, dict.fromkeys(scales, 1))
        changes = {name: share for name, share in shares.items() if scales[name].scale.spec.replicas != share}

        async def write(name: str, share: int) -> FedHPAError | None:
            one = scales[name]
            try:
                await _put_replicas(one.client, one.path, one.scale, share, self._member_deadline)
            except FedHPAError as error:
                return FedHPAError(f"cluster {name}: {error}")
            known[name] = share
            return None

        tasks = [
            contain("write-scale", partial(write, name, share), FedHPAError, cluster=name)
            for name, share in changes.items()
        ]
        for error in await asyncio.gather(*tasks):
            if error is not None:
                raise error


@dataclass(frozen=True)
class _MemberScale:
    """The scale of a member's workload, with its client and path."""

    client: ApiClient
    path: str
    scale: Scale


def _unscalable(resource: Resource) -> str:
    """Returns why rules cannot scale a kind; empty if they can."""
    if not resource.namespaced:
        return f"{resource.kind} is cluster-scoped, and rules scale objects of their own namespace only"
    if not resource.scale:
        return f"{resource.kind} has no scale subresource, so it cannot be scaled"
    return ""


def bounds_of(raw: Mapping[str, Any]) -> Values:
    """Returns the bounds of a FederatedHPA under their usual names; None for one that is absent."""
    spec = raw.get("spec") or {}
    found: Values = {}
    for field in (MINIMUM, MAXIMUM):
        value = spec.get(_name_in_use(spec, field))
        found[field] = value if isinstance(value, int) and not isinstance(value, bool) else None
    return found


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
        writers = _writers(raw["metadata"], "f:spec", f"f:{_name_in_use(spec, field)}")
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


def _name_in_use(spec: Mapping[str, Any], field: str) -> str:
    """Returns the name under which a FederatedHPA has a bound."""
    other = OTHER_NAMES[field]
    return other if spec.get(other) is not None and spec.get(field) is None else field


async def _put_replicas(client: ApiClient, path: str, scale: Scale, replicas: int, deadline: float) -> None:
    """Sets the replicas of a scale. Raises TargetChanged if another client sets them at the same time."""
    backoff = Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS)
    for attempt in range(1, TRIES + 1):
        try:
            await put_scale(client, path, scale, replicas, manager=FIELD_MANAGER, deadline=deadline)
        except Conflict:
            if attempt == TRIES:
                raise
        else:
            return
        await asyncio.sleep(backoff.next())
        before, scale = scale, await get_scale(client, path, deadline=deadline)
        if before.spec.replicas != scale.spec.replicas:
            raise TargetChanged(f"the replicas of {path.rpartition('/')[2]} were changed at the same time")
