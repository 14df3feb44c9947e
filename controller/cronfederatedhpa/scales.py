"""The scale of a workload in the members: its size, and the division of the size that a rule sets.

With --propagation=direct nobody but the rules scales such a workload. Source: docs/explanation/membership.md,
"Rules".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from controller.apply.plan import carry_out, to_scales, written_scales
from controller.apply.scales import WritableScale
from controller.cronfederatedhpa.objects import FIELD_MANAGER, TargetKey
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.assignment import Host, Result, next_scales, spread
from fedhpa.cron.execution.model import REPLICAS, ObservedTarget, Values
from fedhpa.decision import membership_of
from fedhpa.kube import (
    NOT_FOUND,
    Clock,
    Resource,
    ResourceMapper,
    contain,
    get_scale,
)
from fedhpa.members import Member

Members = Callable[[], Mapping[str, Member]]
# Writes values with the marker of their events, and the baseline of the windows that are then open.
Write = Callable[[Values, str, Values | None], Awaitable[None]]


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


def mappers_of_members(clock: Clock) -> Callable[[Member], ResourceMapper]:
    """Returns a function that returns the mapper of a member, which lasts as long as the member."""
    mappers: dict[str, tuple[Member, ResourceMapper]] = {}

    def mapper_of(member: Member) -> ResourceMapper:
        kept = mappers.get(member.name)
        if kept is None or kept[0] is not member:
            kept = mappers[member.name] = (member, ResourceMapper(member.client, clock=clock.monotonic))
        return kept[1]

    return mapper_of


_UNKNOWN_REPLICAS: Final = "nobody knows its replicas, so the execution waits for its answer"


async def _nothing_to_write(values: Values, marker: str, baseline: Values | None) -> None:  # noqa: ARG001
    raise InvalidObject(f"{values} cannot be written for {marker}: the target was not read")


def unreadable(error: str, *, gone: bool = False, unread: bool = False) -> Reading:
    """Returns the reading of a target that cannot be read: never, or not now if it is `unread`."""
    return Reading(ObservedTarget({}, error, gone, unread), _nothing_to_write)


class MemberScales:
    """Reads and writes the scale of a workload in all members.

    A cluster of which nothing is known counts as one without the workload once it is silent for `lost_after`
    seconds. Before, no size is known. After that a size is final only if all clusters answered once.
    """

    def __init__(
        self,
        members: Members,
        mapper_of: Callable[[Member], ResourceMapper],
        *,
        member_deadline: float,
        lost_after: float,
        wall: Callable[[], float],
    ) -> None:
        self._members = members
        self._mapper_of = mapper_of
        self._deadline = member_deadline
        self._lost_after = lost_after
        self._wall = wall

    async def read(self, key: TargetKey, api_version: str, known: KnownShares) -> Reading:
        """Returns the size of a workload: the sum over the members, a silent one with its last replicas."""
        members = dict(self._members())
        answers = await self._ask(members, key, api_version)
        found = {name: one for name, one in answers.items() if isinstance(one, WritableScale)}
        silent = {name: one for name, one in answers.items() if isinstance(one, FedHPAError)}
        known.replicas |= {name: one.replicas for name, one in found.items()}
        for name in known.replicas.keys() - found.keys() - silent.keys():
            del known.replicas[name]
        if problem := self._problem(key, members, found, silent, known):
            return problem
        total = sum(known.replicas.values())
        unknown = self._unknown(silent, known)
        known.complete |= not unknown
        awaited = "" if known.complete else f"cluster {unknown[0]}: {silent[unknown[0]]}: {_UNKNOWN_REPLICAS}"
        silent = {name: error for name, error in silent.items() if name in known.replicas}
        target = ObservedTarget(
            {REPLICAS: total},
            shares={name: one.replicas for name, one in found.items()},
            uids={name: one.scale.metadata.uid for name, one in found.items()},
        )
        return Reading(target, partial(self._write, known, members, found, silent), awaited)

    @staticmethod
    def _unknown(silent: Mapping[str, FedHPAError], known: KnownShares) -> list[str]:
        """Returns the silent clusters whose replicas nobody knows. One without the kind has answered."""
        without = {name for name, one in silent.items() if isinstance(one, InvalidObject)}
        return sorted(silent.keys() - without - known.replicas.keys())

    def _problem(
        self,
        key: TargetKey,
        members: Mapping[str, Member],
        found: Mapping[str, WritableScale],
        silent: Mapping[str, FedHPAError],
        known: KnownShares,
    ) -> Reading | None:
        """Returns the reading of a workload whose size is unknown, or None."""
        # A cluster that does not serve the kind, or no scale of it, has answered.
        without_scale = {name: one for name, one in silent.items() if isinstance(one, InvalidObject)}
        awaited = self._awaited(members, self._unknown(silent, known), known)
        if found and awaited:
            name = min(awaited)
            return unreadable(f"{key}: cluster {name}: {silent[name]}: {_UNKNOWN_REPLICAS}", unread=True)
        if found:
            return None
        if silent and silent.keys() == without_scale.keys():
            name, error = min((name, str(one)) for name, one in without_scale.items())
            return unreadable(f"cluster {name}: {error}")
        if silent:
            name, error = min((name, str(one)) for name, one in silent.items())
            return unreadable(f"{key}: no member answered; {name}: {error}", unread=True)
        return unreadable(f"{key} does not exist in any member", gone=True)

    def _awaited(
        self, members: Mapping[str, Member], unknown: Sequence[str], known: KnownShares
    ) -> list[str]:
        """Returns the silent clusters that may run the workload, although nobody has read its replicas."""
        now, awaited = self._wall(), []
        for name in known.silent_since.keys() - set(unknown):
            del known.silent_since[name]
        for name in unknown:
            state = members[name].state
            since = min(known.silent_since.get(name, now), now if state.ready else state.since)
            known.silent_since[name] = since
            if now - since < self._lost_after:
                awaited.append(name)
        return awaited

    async def _ask(
        self, members: Mapping[str, Member], key: TargetKey, api_version: str
    ) -> dict[str, WritableScale | FedHPAError | None]:
        """Returns the scale in each member, its failure, or None where the workload does not exist."""

        async def ask(member: Member) -> WritableScale | FedHPAError | None:
            problem = ""
            try:
                resource = await self._mapper_of(member).resolve(
                    api_version, key.kind, deadline=self._deadline
                )
                problem = unscalable(resource)
                path = resource.path(key.namespace, key.name)
                scale = await get_scale(member.client, path, deadline=self._deadline)
                return WritableScale(member.client, path, scale, self._deadline)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return InvalidObject(problem) if problem else None
                return error
            except FedHPAError as error:
                return error

        tasks = [
            contain("read-scale", partial(ask, member), FedHPAError, cluster=name)
            for name, member in members.items()
        ]
        return dict(zip(members, await asyncio.gather(*tasks), strict=True))

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


def unscalable(resource: Resource) -> str:
    """Returns why rules cannot scale a kind; empty if they can."""
    if not resource.namespaced:
        return f"{resource.kind} is cluster-scoped, and rules scale objects of their own namespace only"
    if not resource.scale:
        return f"{resource.kind} has no scale subresource, so it cannot be scaled"
    return ""
