"""Reads the values that rules set on a target, and writes them.

The target is a FederatedHPA, a workload on the hub with the scale subresource, or with --propagation=direct a
workload in the members, which nobody but the rules scales there. After a conflict the target is read again.
The same values are written if nobody changed the present ones. Source: docs/explanation/membership.md,
"Rules".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from controller.apply.plan import carry_out, to_scales, written_scales
from controller.apply.scales import Superseded, WritableScale, set_replicas
from controller.cronfederatedhpa.objects import FIELD_MANAGER, HUB_DEADLINE_SECONDS, TargetKey
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.api.hold import HoldRequest, hold_request
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.assignment import Host, Result, next_scales, spread
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, REPLICAS, ObservedTarget, Values
from fedhpa.cron.execution.objects import split_markers
from fedhpa.decision import membership_of
from fedhpa.kube import (
    NOT_FOUND,
    ApiClient,
    Clock,
    ResourceMapper,
    contain,
    get_scale,
    patch_with_retry,
    resource_path,
)
from fedhpa.members import Member

# Names the executions and ends of windows of the last write to a FederatedHPA: `object/rule@time`, with
# commas between several of them. After a crash before the result is stored, it shows which of them were
# applied.
LAST_EXECUTION: Final = "autoscaling.karmada.io/last-cron-execution"
# The bounds from before the open windows, in case their record is lost: `{"minReplicas":1}`.
BASELINE: Final = "autoscaling.karmada.io/cron-baseline"
# The other names of the bounds. An object has one name of each.
OTHER_NAMES: Final = {MINIMUM: "federatedMinReplicas", MAXIMUM: "federatedMaxReplicas"}

Members = Callable[[], Mapping[str, Member]]
# Writes values with the marker of their events, and the baseline of the windows that are then open.
Write = Callable[[Values, str, Values | None], Awaitable[None]]
_UNKNOWN_REPLICAS: Final = "nobody knows its replicas, so the execution waits for its answer"


@dataclass(frozen=True)
class Reading:
    """A target as it was read, and the function that writes values to it.

    `awaited` says which cluster may have replicas that nobody has ever read: a size is not final without it.
    """

    target: ObservedTarget
    write: Write
    awaited: str = ""


@dataclass
class KnownShares:
    """The replicas of a workload in the members, as far as this process or the records know them.

    `replicas` are those that each cluster answered last. `silent_since` has the clusters whose replicas
    nobody knows, and when that was found, in POSIX seconds. `complete` is True once all clusters were asked
    with success, now or before a record.
    """

    replicas: dict[str, int] = field(default_factory=dict)
    silent_since: dict[str, float] = field(default_factory=dict)
    complete: bool = False


async def _nothing_to_write(values: Values, marker: str, baseline: Values | None) -> None:  # noqa: ARG001
    raise InvalidObject(f"{values} cannot be written for {marker}: the target was not read")


def unreadable(error: str, *, gone: bool = False, unread: bool = False) -> Reading:
    """Returns the reading of a target that cannot be read: never, or not now if it is `unread`."""
    return Reading(ObservedTarget({}, error, gone, unread), _nothing_to_write)


class CronTargets:
    """Reads targets of all kinds. With `in_members`, workloads are read there (--propagation=direct)."""

    def __init__(self, hub: ApiClient, in_members: MemberScales | None = None, *, clock: Clock) -> None:
        self._hub = hub
        self._mapper = ResourceMapper(hub, clock=clock.monotonic)
        self._in_members = in_members

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

        async def write(values: Values, marker: str, baseline: Values | None) -> None:
            """Sets bounds under the names that the object uses, in one patch.

            Raises Superseded if somebody changed them, or the hold.
            """
            text = None if baseline is None else msgspec.json.encode(baseline).decode()
            annotations = {**({LAST_EXECUTION: marker} if marker else {}), BASELINE: text}

            def change(found: Mapping[str, Any]) -> dict[str, Any]:
                if (bounds_of(found), _asked_hold(found)) != (bounds_of(raw), _asked_hold(raw)):
                    raise Superseded(f"the bounds or the hold of {key.name} were changed at the same time")
                spec = {_name_in_use(found, bound): value for bound, value in values.items()}
                return {"metadata": {"annotations": annotations}, "spec": spec}

            if not await patch_with_retry(
                self._hub, path, raw, change, manager=FIELD_MANAGER, deadline=HUB_DEADLINE_SECONDS
            ):
                raise Superseded(f"{key} was deleted at the same time")

        target = ObservedTarget(
            bounds_of(raw),
            done=split_markers(_our_annotation(raw, LAST_EXECUTION)),
            managers=_managers(raw),
            baseline=_named_baseline(_our_annotation(raw, BASELINE)),
            hold=_asked_hold(raw),
            uids=_uids(raw["metadata"].get("uid")),
        )
        return Reading(target, write)

    async def _read_scale(self, key: TargetKey, api_version: str) -> Reading:
        found = await read_scale(self._hub, self._mapper, key, api_version, HUB_DEADLINE_SECONDS)

        async def write(values: Values, *_: object) -> None:  # a scale has no annotations
            await set_replicas(found, values.get(REPLICAS) or 0, manager=FIELD_MANAGER, strict=True)

        return Reading(
            ObservedTarget({REPLICAS: found.replicas}, uids=_uids(found.scale.metadata.uid)), write
        )


async def read_scale(
    client: ApiClient, mapper: ResourceMapper, key: TargetKey, api_version: str, deadline: float
) -> WritableScale:
    """Returns the scale of a workload. Raises InvalidObject if rules cannot scale the kind, and ApiError."""
    resource = await mapper.resolve(api_version, key.kind, deadline=deadline)
    if not resource.namespaced:
        raise InvalidObject(
            f"{key.kind} is cluster-scoped, and rules scale objects of their own namespace only"
        )
    if not resource.scale:
        raise InvalidObject(f"{key.kind} has no scale subresource, so it cannot be scaled")
    path = resource.path(key.namespace, key.name)
    return WritableScale(client, path, await get_scale(client, path, deadline=deadline), deadline)


def bounds_of(raw: Mapping[str, Any]) -> Values:
    """Returns the bounds of a FederatedHPA under their usual names; None for one that is absent."""
    found: Values = {}
    for bound in (MINIMUM, MAXIMUM):
        value = (raw.get("spec") or {}).get(_name_in_use(raw, bound))
        found[bound] = value if isinstance(value, int) and not isinstance(value, bool) else None
    return found


def _name_in_use(raw: Mapping[str, Any], bound: str) -> str:
    """Returns the name under which a FederatedHPA has a bound."""
    spec, other = raw.get("spec") or {}, OTHER_NAMES[bound]
    return other if spec.get(other) is not None and spec.get(bound) is None else bound


def _asked_hold(raw: Mapping[str, Any]) -> HoldRequest | None:
    """Returns what the annotations of a FederatedHPA ask for."""
    metadata = raw["metadata"]
    return hold_request(metadata.get("annotations"), name=f"{KIND} {metadata.get('name', '')}")


def _uids(uid: str | None) -> dict[str, str]:
    """Returns the uid of a target on the hub."""
    return {"": uid} if uid else {}


def _our_annotation(raw: Mapping[str, Any], name: str) -> str:
    """Returns an annotation of the last write, "" if there is none or somebody else wrote it.

    The managed fields show who wrote it. A server without them leaves that open.
    """
    annotations = raw["metadata"].get("annotations")
    text = annotations.get(name) if isinstance(annotations, Mapping) else None
    if not isinstance(text, str):
        return ""
    writers = _writers(raw, "f:metadata", "f:annotations", f"f:{name}")
    return text if not writers or FIELD_MANAGER in writers else ""


def _named_baseline(text: str) -> Values | None:
    try:
        return decode_json(text, Values) if text else None
    except InvalidJson:
        return None


def _managers(raw: Mapping[str, Any]) -> dict[str, str]:
    """Returns the client that wrote each bound of a FederatedHPA, if it is known and not this controller."""
    found = {}
    for bound in (MINIMUM, MAXIMUM):
        writers = _writers(raw, "f:spec", f"f:{_name_in_use(raw, bound)}")
        if writers and FIELD_MANAGER not in writers:
            found[bound] = min(writers)
    return found


def _writers(raw: Mapping[str, Any], *path: str) -> set[str]:
    """Returns the managers of a field, by the managed fields of its object."""
    writers = set()
    for entry in raw["metadata"].get("managedFields") or ():
        found: Any = entry.get("fieldsV1")
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            writers.add(str(entry.get("manager", "")))
    return writers


class MemberScales:
    """Reads and writes the scale of a workload in all members.

    A cluster of which nothing is known counts as one without the workload once it is silent for `lost_after`
    seconds. Before, no size is known. After that a size is final only if all clusters answered once.
    """

    def __init__(
        self, members: Members, *, member_deadline: float, lost_after: float, wall: Callable[[], float]
    ) -> None:
        self._members = members
        self._deadline = member_deadline
        self._lost_after = lost_after
        self._wall = wall

    async def read(self, key: TargetKey, api_version: str, known: KnownShares) -> Reading:
        """Returns the size of a workload: the sum over the members, a silent one with its last replicas."""
        members = dict(self._members())
        tasks = [
            contain("read-scale", partial(self._ask, member, key, api_version), FedHPAError, cluster=name)
            for name, member in members.items()
        ]
        answers = dict(zip(members, await asyncio.gather(*tasks), strict=True))
        found = {name: one for name, one in answers.items() if isinstance(one, WritableScale)}
        silent = {name: one for name, one in answers.items() if isinstance(one, FedHPAError)}
        known.replicas |= {name: one.replicas for name, one in found.items()}
        for name in known.replicas.keys() - found.keys() - silent.keys():
            del known.replicas[name]
        # A cluster that does not serve the kind, or no scale of it, has answered.
        without = {name for name, one in silent.items() if isinstance(one, InvalidObject)}
        unknown = sorted(silent.keys() - without - known.replicas.keys())
        awaited = self._awaited(members, unknown, known)
        if not found:
            if not silent:
                return unreadable(f"{key} does not exist in any member", gone=True)
            name = min(silent)
            if without == silent.keys():
                return unreadable(f"cluster {name}: {silent[name]}")
            return unreadable(f"{key}: no member answered; {name}: {silent[name]}", unread=True)
        if awaited:
            name = min(awaited)
            return unreadable(f"{key}: cluster {name}: {silent[name]}: {_UNKNOWN_REPLICAS}", unread=True)
        known.complete |= not unknown
        late = "" if known.complete else f"cluster {unknown[0]}: {silent[unknown[0]]}: {_UNKNOWN_REPLICAS}"
        silent = {name: error for name, error in silent.items() if name in known.replicas}
        target = ObservedTarget(
            {REPLICAS: sum(known.replicas.values())},
            shares={name: one.replicas for name, one in found.items()},
            uids={name: one.scale.metadata.uid for name, one in found.items()},
        )
        return Reading(target, partial(self._write, known, members, found, silent), late)

    async def _ask(
        self, member: Member, key: TargetKey, api_version: str
    ) -> WritableScale | FedHPAError | None:
        """Returns the scale in a member, its failure, or None where the workload does not exist."""
        try:
            return await read_scale(member.client, member.mapper, key, api_version, self._deadline)
        except FedHPAError as error:
            return None if isinstance(error, ApiError) and error.status == NOT_FOUND else error

    def _awaited(
        self, members: Mapping[str, Member], unknown: Sequence[str], known: KnownShares
    ) -> list[str]:
        """Returns the silent clusters that may run the workload, although nobody has read its replicas."""
        now, before = self._wall(), known.silent_since
        known.silent_since = {
            name: min(before.get(name, now), now if state.ready else state.since)
            for name in unknown
            for state in [members[name].state]
        }
        return [name for name, since in known.silent_since.items() if now - since < self._lost_after]

    async def _write(
        self,
        known: KnownShares,
        members: Mapping[str, Member],
        found: Mapping[str, WritableScale],
        silent: Mapping[str, FedHPAError],
        values: Values,
        *_: object,
    ) -> None:
        """Divides the size over the clusters. All that answered are tried, those that grow first.

        Raises FedHPAError if one could not be written, or if the clusters do not have the size together
        before a silent one answers.
        """
        size, now = values.get(REPLICAS) or 0, self._wall()
        hosts = {
            name: Host(known.replicas[name], membership_of(members[name].known, now).state, name in found)
            for name in sorted(found.keys() | silent.keys())
        }
        shares = spread(size, hosts)
        present = {name: one.replicas for name, one in found.items()}
        outcomes = await carry_out(
            lambda done: next_scales(shares, present, done, grows_first=True),
            to_scales(found, manager=FIELD_MANAGER, strict=True),
        )
        known.replicas |= written_scales(outcomes)
        for one in outcomes:
            if one.result is not Result.CONFIRMED:
                raise FedHPAError(f"cluster {one.write.cluster}: {one.reason}")
        total = sum(shares.values()) + sum(hosts[name].replicas for name in silent)
        if total != size and silent:
            name, error = min((name, str(one)) for name, one in silent.items())
            raise FedHPAError(
                f"{total} instead of {size} replicas until cluster {name} answers, which had "
                f"{hosts[name].replicas}: {error}"
            )
