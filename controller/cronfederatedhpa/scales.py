"""Reads and writes the size of a workload: on the hub, or with --propagation=direct in the members.

Nobody but the rules scales a workload in the members. Source: docs/explanation/membership.md, "Rules".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from controller.apply.plan import carry_out, to_scales, written_scales
from controller.apply.scales import WritableScale, set_replicas
from controller.cronfederatedhpa.objects import FIELD_MANAGER, HUB_DEADLINE_SECONDS, TargetKey
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.assignment import Host, Result, next_scales, spread
from fedhpa.cron.execution.model import REPLICAS, ObservedTarget, Values
from fedhpa.decision import membership_of
from fedhpa.kube import NOT_FOUND, ApiClient, ResourceMapper, contain, get_scale
from fedhpa.members import Member

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


async def read_on_hub(
    hub: ApiClient, mapper: ResourceMapper, key: TargetKey, api_version: str, _: KnownShares
) -> Reading:
    """Returns the size of a workload on the hub."""
    found = await read_scale(hub, mapper, key, api_version, HUB_DEADLINE_SECONDS)

    async def write(values: Values, *_: object) -> None:  # a scale has no annotations
        await set_replicas(found, values.get(REPLICAS) or 0, manager=FIELD_MANAGER, strict=True)

    uid = found.scale.metadata.uid
    return Reading(ObservedTarget({REPLICAS: found.replicas}, uids={"": uid} if uid else {}), write)


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
