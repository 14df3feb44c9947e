"""Collections of the members, watched only where somebody needs them, kept as compact records."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from fedhpa.api.errors import MemberUnavailable
from fedhpa.api.wire import Pod
from fedhpa.kube.backoff import Backoff
from fedhpa.kube.paths import resource_path
from fedhpa.kube.reflector import Key, Reflector
from fedhpa.members.member import Member

log = structlog.get_logger(__name__)

T = TypeVar("T")

# A namespace that nobody asked about for this long is watched no more.
KEEP_SECONDS = 600.0
SWEEP_SECONDS = 30.0
# A watch that broke is usually back within a second; for longer than this what it gave is not the up_to_date.
STALE_SECONDS = 5.0
# A watch that ended is opened again in less than this; nobody is asked meanwhile.
UNWATCHED_SECONDS = 2.0
# A member that came back is listed soon; while it is away its breaker answers, at no cost.
BACKOFF_SECONDS = (0.2, 3.0)


@dataclass
class _NamespaceWatch(Generic[T]):
    """One namespace of one member. `patience_ends` is until when who asks waits for the first list."""

    reflector: Reflector[T]
    task: asyncio.Task[None]
    needed_at: float
    patience_ends: float
    # Set when the first list came or failed.
    attempted: asyncio.Event = field(default_factory=asyncio.Event)


class WatchCache(Generic[T]):
    """Records of one resource by member and namespace, while `run` runs.

    `make` turns a cluster's name and an object, decoded as `item`, into the record that is kept; None leaves
    the object out.
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
        clock: Callable[[], float] = time.monotonic,
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
        """(cluster, namespace) of what is watched now."""
        return [(member.name, namespace) for member, namespace in self._watched]

    async def run(self) -> None:
        """Follow what was asked for until cancelled."""
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
        """The namespace's reflector if it is known to be up to date now; None: `reflector` says why not."""
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
        """What follows a namespace ("" for all) of a member.

        The first request starts the watch; it and those after it wait until the first list is there, at most
        `wait` seconds from that start (default: the member's deadline). MemberUnavailable if the member
        cannot be asked, has not listed the objects yet, or its watch has been broken for longer than a few
        seconds: old objects are never given as up_to_date ones.
        """
        member.check()
        watched = self._need(member, namespace, member.client.deadline if wait is None else wait)
        if not watched.reflector.current:
            try:
                async with asyncio.timeout(max(watched.patience_ends - self._clock(), 0.0)):
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
            # Nothing has failed, but while a list drips in for an hour the last one is not the up_to_date.
            raise MemberUnavailable(
                member.name, f"its {self._plural} are out of date: a new list takes too long"
            )
        return watched.reflector

    def sweep(self) -> None:
        """Stop watching what was not needed for long, and members that are gone."""
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
        task = self._group.create_task(reflector.run())
        now = self._clock()
        return _NamespaceWatch(reflector, task, now, now + patience, attempted)


class PodCache(WatchCache[T]):
    """Records of pods by member and namespace, while `run` runs.

    `make` turns a cluster's name and a pod into the record that is kept; None leaves the pod out.
    """

    def __init__(
        self,
        make: Callable[[str, Pod], T | None],
        *,
        keep: float = KEEP_SECONDS,
        stale_after: float = STALE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("v1", "pods", Pod, make, keep=keep, stale_after=stale_after, clock=clock)

    async def pods(
        self, member: Member, namespace: str = "", *, wait: float | None = None
    ) -> Mapping[Key, T]:
        """The pods of a namespace ("" for all) of a member, by (namespace, name); a live view.

        MemberUnavailable as of `reflector`.
        """
        return (await self.reflector(member, namespace, wait=wait)).store
