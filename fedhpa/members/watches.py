"""Caches of members' collections, kept as compact records by watches that start with the first use."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog

from fedhpa.api.errors import ApiError, InvalidObject, MemberUnavailable
from fedhpa.api.selectors import selector_of
from fedhpa.api.wire import ObjectMeta, Pod, Scale, ScaleSpec, ScaleStatus
from fedhpa.kube import NOT_FOUND, Backoff, Key, Reflector, get_scale, resource_path, supervise
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
        clock: Callable[[], float],
    ) -> None:
        self._api_version = api_version
        self._plural = plural
        self._item = item
        self._make = make
        self._clock = clock
        # By namespace, because a reconcile reads one namespace of all members.
        self._watched: dict[str, dict[Member, _NamespaceWatch[T]]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def watched(self) -> list[tuple[str, str]]:
        """The watched namespaces, as (cluster, namespace)."""
        return [(one.name, namespace) for namespace, members in self._watched.items() for one in members]

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

    def of_available(self, member: Member, namespace: str, now: float) -> Reflector[T] | None:
        """Returns the namespace's reflector if it is up to date; if None, `reflector` raises the reason.

        `now` is the time of the clock. The caller knows that the member is available.
        """
        watched = self._watched[namespace].get(member) if namespace in self._watched else None
        if watched is None or not watched.reflector.is_up_to_date(UNWATCHED_SECONDS):
            return None
        watched.reflector.needed_at = now
        return watched.reflector

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
        if problem is not None and watched.reflector.problem_seconds > STALE_SECONDS:
            raise MemberUnavailable(member.name, f"its {self._plural} are out of date: {problem}")
        if watched.reflector.listing_seconds > STALE_SECONDS:
            # Nothing has failed, but the records are as old as the list that is still arriving.
            raise MemberUnavailable(
                member.name, f"its {self._plural} are out of date: a new list takes too long"
            )
        return watched.reflector

    def sweep(self) -> None:
        """Stop the watches that are no longer used, and those of members that are gone."""
        now = self._clock()
        for namespace, members in tuple(self._watched.items()):
            for member, watched in tuple(members.items()):
                if member.closed or now - watched.reflector.needed_at > KEEP_SECONDS:
                    watched.task.cancel()
                    del members[member]
                    log.debug(
                        "no longer watched", cluster=member.name, namespace=namespace, collection=self._plural
                    )
            if not members:
                del self._watched[namespace]

    def _need(self, member: Member, namespace: str, patience: float) -> _NamespaceWatch[T]:
        watched = self._watched.get(namespace, {}).get(member)
        if watched is None:
            watched = self._watch(member, namespace, patience)
            self._watched.setdefault(namespace, {})[member] = watched
        watched.reflector.needed_at = self._clock()
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
        return _NamespaceWatch(reflector, task, self._clock() + patience, attempted)


class PodCache(WatchCache[T]):
    """The records of pods. `make` makes one from the cluster's name and a pod; None leaves the pod out."""

    def __init__(self, make: Callable[[str, Pod], T | None], *, clock: Callable[[], float]) -> None:
        super().__init__("v1", "pods", Pod, make, clock=clock)


WATCHED_VERSION: Final = "apps/v1"
WATCHED: Final = ("deployments", "statefulsets", "replicasets")

Place = tuple[Member, int, str]
# The writes that are remembered one by one, until the watch has reached them.
MAX_NOTED: Final = 10_000
# etcd's versions have at most 19 digits. Others are compared for equality.
MAX_VERSION_DIGITS: Final = 19


class _WorkloadSpec(msgspec.Struct, frozen=True, gc=False):
    replicas: int | None = None
    selector: dict[str, Any] | None = None


class _WorkloadStatus(msgspec.Struct, frozen=True, gc=False):
    replicas: int = 0


class _Workload(msgspec.Struct, frozen=True, gc=False):
    """The fields that the three kinds share."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()


class ScaleCache:
    """The scales of workloads, while `run` runs."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._collections = {
            plural: WatchCache(WATCHED_VERSION, plural, _Workload, _scale, clock=clock) for plural in WATCHED
        }
        self._clock = clock
        # The written versions that a watch may lack.
        self.pending: dict[Place, str] = {}
        # The newest version among the forgotten writes, by member and kind: the watch must have reached it.
        self.forgotten: dict[Place, str] = {}
        self._unwatchable: set[tuple[Member, str, str]] = set()

    @property
    def watched(self) -> list[tuple[str, str, str]]:
        """The watched collections, as (plural, cluster, namespace)."""
        return [(plural, *place) for plural, kept in self._collections.items() for place in kept.watched]

    async def run(self) -> None:
        """Run the watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for collection in self._collections.values():
                group.create_task(collection.run())

    def cached(self, member: Member, plural: str, namespace: str, name: str) -> Scale | None:
        """Returns the watched scale of an apps/v1 workload; None if it must be read from the server.

        Raises ApiError with status 404 and the API server's message if there is no such workload.
        """
        reflector = self.of_available(member, plural, namespace, self._clock())
        found = None if reflector is None else self.stored(reflector, member, plural, (namespace, name))
        return None if member.unavailable() is not None else found

    def of_available(
        self, member: Member, plural: str, namespace: str, now: float
    ) -> Reflector[Scale] | None:
        """Returns the reflector of a namespace's scales as `WatchCache.of_available` does."""
        collection = self._collections.get(plural)
        return None if collection is None else collection.of_available(member, namespace, now)

    def stored(self, reflector: Reflector[Scale], member: Member, plural: str, key: Key) -> Scale | None:
        """Returns a scale of the reflector as `cached` does."""
        if self.forgotten and not self._has_reached_forgotten(member, plural, reflector.resource_version):
            return None
        scale = reflector.get(key)
        if self.pending:
            place = (member, member.client.generation, resource_path(WATCHED_VERSION, plural, *key))
            newest = self.pending.get(place)
            if newest is not None:
                if scale is None or not is_at_least(scale.metadata.resourceVersion, newest):
                    return None
                del self.pending[place]
        if scale is None:
            raise ApiError(f'{plural}.apps "{key[1]}" not found', status=NOT_FOUND, reason="NotFound")
        return scale if scale.metadata.resourceVersion else None

    async def read(self, member: Member, plural: str, namespace: str, name: str) -> Scale:
        """Returns the scale of an apps/v1 workload. Raises ApiError and MemberUnavailable as any call."""
        collection = self._collections.get(plural)
        if collection is not None:
            await self._follow(collection, member, plural, namespace)
            scale = self.cached(member, plural, namespace, name)
            if scale is not None:
                return scale
        path = resource_path(WATCHED_VERSION, plural, namespace, name)
        try:
            return await get_scale(member.client, path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                self.pending.pop((member, member.client.generation, path), None)
            raise

    def awaits(self, member: Member, path: str) -> bool:
        """True if the watch may lack a write of the scale of the workload at `path`."""
        return bool(self.forgotten) or (member, member.client.generation, path) in self.pending

    def note(self, member: Member, path: str, scale: Scale) -> None:
        """Note the scale of the workload at `path` that a write or its conflict returned."""
        if path.split("/")[-2] not in self._collections:
            return
        place = (member, member.client.generation, path)
        self.pending.pop(place, None)  # the newest note comes last
        self.pending[place] = scale.metadata.resourceVersion
        if len(self.pending) > MAX_NOTED:
            self._forget_some()

    def _forget_some(self) -> None:
        """Forget the oldest tenth of the noted writes, but not that the watch must reach them."""
        for notes in (self.pending, self.forgotten):
            for place in [place for place in notes if not _is_current(place)]:
                del notes[place]
        for place in list(self.pending)[: max(len(self.pending) - MAX_NOTED * 9 // 10, 0)]:
            member, generation, path = place
            version = self.pending.pop(place)
            kind = (member, generation, path.split("/")[-2])
            if not is_at_least(self.forgotten.get(kind, ""), version):
                self.forgotten[kind] = version

    def _has_reached_forgotten(self, member: Member, plural: str, version: str) -> bool:
        kind = (member, member.client.generation, plural)
        forgotten = self.forgotten.get(kind)
        return forgotten is None or is_at_least(version, forgotten)

    async def _follow(
        self, collection: WatchCache[Scale], member: Member, plural: str, namespace: str
    ) -> None:
        """Wait until the namespace is watched. Logs once if it cannot be watched."""
        place = (member, plural, namespace)
        try:
            reflector = await collection.reflector(member, namespace)
        except MemberUnavailable as error:
            member.check()
            if place not in self._unwatchable:
                self._unwatchable = {one for one in self._unwatchable if not one[0].closed} | {place}
                log.warning(
                    "scales are read one by one: allow the member's token to list and watch them",
                    cluster=member.name,
                    namespace=namespace,
                    collection=plural,
                    error=error.reason,
                )
        else:
            if reflector.problem is None:
                self._unwatchable.discard(place)


def is_at_least(version: str, wanted: str) -> bool:
    """Returns True if a resourceVersion is not older than another one (Kubernetes 1.35: they are numbers)."""
    if version == wanted:
        return True
    return _is_number(version) and _is_number(wanted) and int(version) >= int(wanted)


def _is_number(version: str) -> bool:
    return len(version) <= MAX_VERSION_DIGITS and version.isascii() and version.isdecimal()


def _is_current(place: Place) -> bool:
    """True if the place is of a registered member, and of its present API server."""
    member, generation, _ = place
    return not member.closed and generation == member.client.generation


def _scale(_: str, workload: _Workload) -> Scale:
    """Returns the scale as the subresource has it; without a resourceVersion if it cannot be determined."""
    meta, spec = workload.metadata, workload.spec
    try:
        selector = str(selector_of(spec.selector)) if spec.selector is not None else ""
    except InvalidObject:
        selector = ""
    version = meta.resourceVersion if spec.replicas is not None and selector else ""
    return Scale(
        ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resourceVersion=version),
        ScaleSpec(spec.replicas or 0),
        ScaleStatus(workload.status.replicas, selector),
    )
