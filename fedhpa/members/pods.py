"""The pods of the members, watched only where somebody needs them, kept as compact records."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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
# A watch that broke is usually back within a second; for longer than this its pods are not the present.
STALE_SECONDS = 5.0
# A member that came back is listed soon; while it is away its breaker answers, at no cost.
BACKOFF_SECONDS = (0.2, 3.0)


@dataclass
class _Watched(Generic[T]):
    """One namespace of one member."""

    reflector: Reflector[T]
    task: asyncio.Task[None]
    needed_at: float
    # Set when the first list came or failed.
    attempted: asyncio.Event = field(default_factory=asyncio.Event)


class PodCache(Generic[T]):
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
        self._make = make
        self._keep = keep
        self._stale_after = stale_after
        self._clock = clock
        self._watched: dict[tuple[Member, str], _Watched[T]] = {}
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

    async def pods(
        self, member: Member, namespace: str = "", *, wait: float | None = None
    ) -> Mapping[Key, T]:
        """The pods of a namespace ("" for all) of a member, by (namespace, name); a live view.

        The first request starts the watch and waits at most `wait` seconds (default: the member's
        deadline) for the first list. MemberUnavailable if the member cannot be asked, has not listed
        its pods yet, or its watch has been broken for longer than a few seconds: old pods are never
        given as present ones.
        """
        member.check()
        watched = self._need(member, namespace)
        if not watched.reflector.current:
            try:
                async with asyncio.timeout(member.client.deadline if wait is None else wait):
                    await watched.attempted.wait()
            except TimeoutError:
                pass
        member.check()
        problem = watched.reflector.problem
        if not watched.reflector.current:
            raise MemberUnavailable(
                member.name, f"its pods are not listed: {problem or 'its access has changed'}"
            )
        if problem is not None and watched.reflector.problem_seconds > self._stale_after:
            raise MemberUnavailable(member.name, f"its pods are out of date: {problem}")
        return watched.reflector.store

    def sweep(self) -> None:
        """Stop watching what was not needed for long, and members that are gone."""
        now = self._clock()
        for key, watched in tuple(self._watched.items()):
            member, namespace = key
            if member.closed or now - watched.needed_at > self._keep:
                watched.task.cancel()
                del self._watched[key]
                log.debug("pods no longer watched", cluster=member.name, namespace=namespace)

    def _need(self, member: Member, namespace: str) -> _Watched[T]:
        watched = self._watched.get((member, namespace))
        if watched is None:
            watched = self._watch(member, namespace)
            self._watched[(member, namespace)] = watched
        watched.needed_at = self._clock()
        return watched

    def _watch(self, member: Member, namespace: str) -> _Watched[T]:
        if self._group is None:
            raise RuntimeError("PodCache is used while its `run` does not run")
        attempted = asyncio.Event()
        reflector = Reflector(
            member.client,
            resource_path("v1", "pods", namespace),
            Pod,
            functools.partial(self._make, member.name),
            name=f"pods of {namespace or 'all namespaces'}",
            backoff=Backoff(*BACKOFF_SECONDS),
            on_problem=lambda _: attempted.set(),
            clock=self._clock,
        )
        task = self._group.create_task(reflector.run())
        return _Watched(reflector, task, self._clock(), attempted)
