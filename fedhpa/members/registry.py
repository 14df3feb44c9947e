"""The registry of members: one `Member` for each cluster that a source knows.

Each source follows objects of one kind on the hub. Of two that know a name, the first one has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import structlog

from fedhpa.api.default_values import MEMBER_DEADLINE_SECONDS
from fedhpa.api.identity import Claim, duplicates_of
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.kube import ApiClient, Backoff, Clock, report_failure
from fedhpa.members.cluster import Cluster, ForeignCluster
from fedhpa.members.member import PROBE_SECONDS, Member
from fedhpa.members.sources import Source, sources_of

log = structlog.get_logger(__name__)

# A member is looked at again so long after the deadline of its first answer.
GRACE_SECONDS = 0.1
# A Cluster whose access could not be applied, for an unexpected reason, is applied again after this.
RETRY_SECONDS = (1.0, 60.0)
# All objects of a source that are deleted together are gone within this time.
SETTLED_SECONDS: Final = 5.0


class Gone(NamedTuple):
    """A cluster that no source registers any more.

    It is lost once `settled`. `held` says why its replicas stay where they are, "" if others take them.
    """

    reason: str
    settled: bool
    held: str


class _Left(NamedTuple):
    """A record that a source does not have any more: what registered the cluster, and since when it lacks."""

    kind: str
    what: str
    at: float


class MemberRegistry:
    """Keeps `members` equal to the clusters of the `sources` while `run` runs.

    `deadline` is the deadline of each call to a member, in seconds. `qps` and `burst` limit the calls to each
    member; qps 0 means no limit.
    """

    def __init__(
        self,
        hub: ApiClient,
        *,
        deadline: float = MEMBER_DEADLINE_SECONDS,
        probe_period: float = PROBE_SECONDS,
        qps: float = 0.0,
        burst: int = 0,
        sources: MemberSources = ONLY_CLUSTERS,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._deadline = deadline
        self._probe_period = probe_period
        self._qps, self._burst = qps, burst
        self._clock = clock.monotonic
        self._wall = clock.wall
        self._sources, self.notes = sources_of(sources, hub, self._touch, deadline=deadline, clock=clock)
        self._ranks = {kind: rank for rank, kind in enumerate(sources.names)}
        self._has_foreign = sources.has_foreign
        self._is_listed = False
        self._registered: dict[str, Member] = {}
        # The source that each registered member has its access from.
        self._used: dict[str, Source] = {}
        self._left: dict[str, _Left] = {}
        # The registered members, parted by whether they count.
        self._members: dict[str, Member] = {}
        self._duplicates: dict[str, Member] = {}
        self._claims: dict[str, Claim] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._dirty: set[str] = set()
        self._changed = asyncio.Event()
        self._applying = asyncio.Lock()
        self._retries: dict[str, Backoff] = {}

    @property
    def members(self) -> Mapping[str, Member]:
        """The registered clusters, each under one name only; a live view.

        A Cluster that is being deleted is there while a finalizer of ours holds it. A name counts from its
        member's first answer on, or when that is overdue.
        """
        return MappingProxyType(self._members)

    @property
    def staying(self) -> Mapping[str, Member]:
        """The `members` whose Clusters are not being deleted."""
        return {name: member for name, member in self._members.items() if not member.known.deleted}

    @property
    def duplicates(self) -> Mapping[str, Member]:
        """The other names of these clusters, each with the member that stands back; a live view."""
        return MappingProxyType(self._duplicates)

    @property
    def registered(self) -> Mapping[str, Member]:
        """The registered names, with those that do not count; a live view."""
        return MappingProxyType(self._registered)

    @property
    def problem(self) -> str | None:
        """The reason why the clusters may be out of date; None if they are not."""
        return next((source.problem for source in self._sources if source.problem is not None), None)

    @property
    def unlisted(self) -> str | None:
        """The reason why nobody knows the clusters yet; None once the hub has listed them."""
        if self._is_listed:  # each request of a caller asks, and a list once read stays
            return None
        waiting = next((source for source in self._sources if not source.listed), None)
        self._is_listed = waiting is None
        return None if waiting is None else waiting.problem or f"{waiting.kind} are not listed yet"

    def synced(self) -> bool:
        """Returns True once the clusters are listed and each member has answered or failed to in time."""
        return (
            all(source.listed for source in self._sources)
            and not self._dirty
            and not self._applying.locked()
            and len(self._registered) == len(self._members) + len(self._duplicates)
        )

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the name of each member that is added, removed, or changes its state.

        Returns the function that unsubscribes it.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def run(self) -> None:
        """Follow the hub until cancelled, then close all connections to members."""
        async with asyncio.TaskGroup() as group:
            for source in self._sources:
                group.create_task(source.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                while self._dirty:
                    async with self._applying:
                        await self._apply_safely(self._dirty.pop(), group)

    def _touch(self, name: str) -> None:
        self._dirty.add(name)
        self._changed.set()

    def _notify(self, name: str) -> None:
        self._recount(name)
        for listener in tuple(self._listeners):
            try:
                listener(name)
            except Exception as error:
                report_failure("member-listener", error, cluster=name)

    def _recount(self, name: str) -> None:
        """Bring `members` and `duplicates` up to date after a change of one name."""
        member, before = self._registered.get(name), self._claims.pop(name, None)
        if member is not None:
            created = member.cluster.metadata.creationTimestamp or ""
            rank = self._ranks[self._used[name].kind]
            self._claims[name] = Claim(name, member.uid, member.answers, created, rank)
        if before == self._claims.get(name) and (name in self._members or name in self._duplicates):
            return
        found = duplicates_of(self._claims.values())
        for each, one in tuple(self._registered.items()):
            other = found.get(each, "")
            if other:
                self._members.pop(each, None)
                self._duplicates[each] = one
            elif self._duplicates.pop(each, None) is not None or one.settled:
                self._members[each] = one
            if one.same_as != other:
                one.stand_back(other, expected=bool(other) and self._used[each] is not self._used[other])

    async def _apply_safely(self, name: str, group: asyncio.TaskGroup) -> None:
        """Apply one Cluster. A failure makes only this member unready, and is tried again after a while."""
        try:
            await self._apply(name, group)
        except Exception as error:
            member = self._registered.get(name)
            report_failure(
                "member-access", error, on_failure=member.fail if member is not None else None, cluster=name
            )
            retry = self._retries.setdefault(name, Backoff(*RETRY_SECONDS))
            asyncio.get_running_loop().call_later(retry.next(), self._touch, name)
        else:
            self._retries.pop(name, None)

    async def _apply(self, name: str, group: asyncio.TaskGroup) -> None:
        source, cluster = self._record(name)
        if source is None or cluster is None:
            self._remove(name)
            return
        used = self._used.get(name)
        if used is not None and used is not source:
            used.release(name)
        self._used[name] = source
        self._left.pop(name, None)
        member = self._registered.get(name)
        if member is None:
            member = self._add(cluster, group)
        await self._observe(member, source, cluster)
        self._notify(name)

    def _record(self, name: str) -> tuple[Source | None, Cluster | None]:
        """Returns the first source that knows a name, with its record of the cluster."""
        for source in self._sources:
            found = source.find(name)
            if found is not None:
                return source, found
        return None, None

    async def _observe(self, member: Member, source: Source, cluster: Cluster) -> None:
        found = source.access(cluster)
        await member.observe(cluster, found.access, pending=found.pending)

    def _add(self, cluster: Cluster, group: asyncio.TaskGroup) -> Member:
        name = cluster.metadata.name
        member = Member(
            cluster,
            deadline=self._deadline,
            probe_period=self._probe_period,
            reread=lambda: self._reread(name),
            on_change=lambda: self._notify(name),
            qps=self._qps,
            burst=self._burst,
            connector=self._hub.config.connector,  # members are reached the way the hub is
            clock=self._clock,
            wall=self._wall,
        )
        self._registered[name] = member
        self._recount(name)
        asyncio.get_running_loop().call_later(self._deadline + GRACE_SECONDS, self._notify, name)
        self._tasks[name] = group.create_task(member.run())
        log.info("member registered", cluster=name)
        return member

    def _remove(self, name: str) -> None:
        member = self._registered.pop(name, None)
        if member is None:
            return
        self._members.pop(name, None)
        self._duplicates.pop(name, None)
        member.closed = True
        self._tasks.pop(name).cancel()
        source = self._used.pop(name)
        source.release(name)
        if isinstance(member.cluster, ForeignCluster) and not member.same_as:
            origin = member.cluster.source
            what = f"{origin.kind} {origin.namespace}/{origin.name}"
            self._left[name] = _Left(source.kind, what, self._clock())
        log.info("member deregistered", cluster=name)
        self._notify(name)

    def gone(self, name: str) -> Gone | None:
        """Returns what is known of a cluster that no source registers; None if one does, or may still.

        A deleted Cluster is not gone in this sense, because a finalizer holds it until its replicas moved.
        """
        if not self._has_foreign or name in self._registered:
            return None
        if not all(source.complete for source in self._sources):
            return None
        left = self._left.get(name)
        if left is None:
            # Nobody remembers which source it had before this process started.
            emptied = [source.kind for source in self._sources if not source.names()]
            return Gone("no source registers it any more", True, _held(emptied))
        ended = max(one.at for one in self._left.values() if one.kind == left.kind)
        settled = self._clock() - ended >= SETTLED_SECONDS
        emptied = [one.kind for one in self._sources if one.kind == left.kind and not one.names()]
        return Gone(f"its {left.what} is gone", settled, _held(emptied))

    async def _reread(self, name: str) -> None:
        """Ask the source of a member for another token after its own was refused, and apply it."""
        member, source = self._registered.get(name), self._used.get(name)
        if member is None or source is None:
            return

        async def apply() -> None:
            async with self._applying:
                if not member.closed:
                    await self._observe(member, source, member.cluster)

        await source.reread(member.cluster, apply)


def _held(emptied: list[str]) -> str:
    """Returns why nothing is failed over; "" if something is. Sources whose members are all gone stop it."""
    if not emptied:
        return ""
    return f"all members of {' and '.join(emptied)} are gone at once: nothing is failed over"
