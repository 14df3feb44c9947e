"""Caches of members' collections, kept as compact records by watches that start with the first use."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from fedhpa.api.errors import MemberUnavailable
from fedhpa.api.wire import Pod
from fedhpa.kube import Backoff, Key, Reflector, resource_path, supervise
from fedhpa.members.member import Member

log = structlog.get_logger(__name__)

T = TypeVar("T")

# The watch of a namespace stops after this long without use.
KEEP_SECONDS = 600.0
SWEEP_SECONDS = 30.0
# A broken watch usually recovers within a second. After this long its records count as out of date.
STALE_SECONDS = 5.0
# A watch that ended is opened again within this time; its records are used meanwhile.
UNWATCHED_SECONDS = 2.0
# Short, so that a member that is back is soon listed; while it is away its breaker refuses at no cost.
BACKOFF_SECONDS = (0.2, 3.0)


@dataclass
class _NamespaceWatch(Generic[T]):
    """The watch of one namespace of one member. Callers wait for the first list until `wait_until`."""

    reflector: Reflector[T]
    task: asyncio.Task[None]
    needed_at: float
    wait_until: float
    # Set when the first list has arrived or failed.
    attempted: asyncio.Event = field(default_factory=asyncio.Event)


class WatchCache(Generic[T]):
    """The records of one resource by member and namespace, while `run` runs.

    `make` makes a record from the cluster's name and an object decoded as `item`; None leaves the object out.
    """

    def __init__(
        self,
        api_version: str,
        plural: str,
        item: type[Any],
        make: Callable[[str, Any], T | None],
        *,
        keep: float = KEEP_SECONDS,
        stale_after: float = STALE_SECONDS,
        clock: Callable[[], float],
    ) -> None:
        self._api_version = api_version
        self._plural = plural
        self._item = item
        self._make = make
        self._keep = keep
        self._stale_after = stale_after
        self._clock = clock
        self._watched: dict[tuple[Member, str], _NamespaceWatch[T]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def watched(self) -> list[tuple[str, str]]:
        """The watched namespaces, as (cluster, namespace)."""
        return [(member.name, namespace) for member, namespace in self._watched]

    async def run(self) -> None:
        """Run the watches until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                while True:
                    await asyncio.sleep(SWEEP_SECONDS)
                    self.sweep()
        finally:
            self._group = None
            self._watched.clear()

    def up_to_date(self, member: Member, namespace: str) -> Reflector[T] | None:
        """Returns the namespace's reflector if it is up to date; if None, `reflector` raises the reason."""
        watched = self._watched.get((member, namespace))
        if watched is None or watched.reflector.problem is not None or not watched.reflector.current:
            return None
        if watched.reflector.unwatched_seconds > UNWATCHED_SECONDS:
            return None
        watched.needed_at = self._clock()
        return None if member.unavailable() is not None else watched.reflector

    async def reflector(
        self, member: Member, namespace: str = "", *, wait: float | None = None
    ) -> Reflector[T]:
        """Returns the reflector of a namespace ("" for all) of a member.

        The first call starts the watch. Callers wait for the first list, at most `wait` seconds from that
        start (default: the member's deadline). Raises MemberUnavailable if the member is unavailable, has not
        listed the objects yet, or if the records are out of date.
        """
        member.check()
        watched = self._need(member, namespace, member.client.deadline if wait is None else wait)
        if not watched.reflector.current:
            try:
                async with asyncio.timeout(max(watched.wait_until - self._clock(), 0.0)):
                    await watched.attempted.wait()
            except TimeoutError:
                pass
        member.check()
        problem = watched.reflector.problem
        if not watched.reflector.current:
            raise MemberUnavailable(
                member.name, f"its {self._plural} are not listed: {problem or 'its access has changed'}"
            )
        if problem is not None and watched.reflector.problem_seconds > self._stale_after:
            raise MemberUnavailable(member.name, f"its {self._plural} are out of date: {problem}")
        if watched.reflector.listing_seconds > self._stale_after:
            # Nothing has failed, but the records are as old as the list that is still arriving.
            raise MemberUnavailable(
                member.name, f"its {self._plural} are out of date: a new list takes too long"
            )
        return watched.reflector

    def sweep(self) -> None:
        """Stop the watches that are no longer used, and those of members that are gone."""
        now = self._clock()
        for key, watched in tuple(self._watched.items()):
            member, namespace = key
            if member.closed or now - watched.needed_at > self._keep:
                watched.task.cancel()
                del self._watched[key]
                log.debug(
                    "no longer watched", cluster=member.name, namespace=namespace, collection=self._plural
                )

    def _need(self, member: Member, namespace: str, patience: float) -> _NamespaceWatch[T]:
        watched = self._watched.get((member, namespace))
        if watched is None:
            watched = self._watch(member, namespace, patience)
            self._watched[(member, namespace)] = watched
        watched.needed_at = self._clock()
        return watched

    def _watch(self, member: Member, namespace: str, patience: float) -> _NamespaceWatch[T]:
        if self._group is None:
            raise RuntimeError(f"{type(self).__name__} is used while its `run` does not run")
        attempted = asyncio.Event()
        reflector = Reflector(
            member.client,
            resource_path(self._api_version, self._plural, namespace),
            self._item,
            functools.partial(self._make, member.name),
            name=f"{self._plural} of {namespace or 'all namespaces'}",
            backoff=Backoff(*BACKOFF_SECONDS),
            on_problem=lambda _: attempted.set(),
            clock=self._clock,
        )
        task = self._group.create_task(
            supervise("member-watch", reflector.run, cluster=member.name, collection=self._plural)
        )
        now = self._clock()
        return _NamespaceWatch(reflector, task, now, now + patience, attempted)


class PodCache(WatchCache[T]):
    """The records of pods by member and namespace, while `run` runs.

    `make` makes a record from the cluster's name and a pod; None leaves the pod out.
    """

    def __init__(
        self,
        make: Callable[[str, Pod], T | None],
        *,
        keep: float = KEEP_SECONDS,
        stale_after: float = STALE_SECONDS,
        clock: Callable[[], float],
    ) -> None:
        super().__init__("v1", "pods", Pod, make, keep=keep, stale_after=stale_after, clock=clock)

    async def pods(
        self, member: Member, namespace: str = "", *, wait: float | None = None
    ) -> Mapping[Key, T]:
        """Returns the pods of a namespace ("" for all) of a member, by (namespace, name); a live view.

        Raises MemberUnavailable as `reflector` does.
        """
        return (await self.reflector(member, namespace, wait=wait)).store
