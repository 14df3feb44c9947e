"""The scales of the members' workloads, from one watch per member, namespace and kind.

Deployments, StatefulSets and ReplicaSets are watched. Scales of other kinds are read one by one from the
scale subresource, and so are those whose watch is not allowed or not up to date. Writes always use the
subresource.

The watch lags behind writes. After a write or a conflict the scale is read from the server until the watch
has reached the new resourceVersion, so that no decision uses a size from before the last write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from fedhpa.api.errors import ApiError, InvalidObject, MemberUnavailable
from fedhpa.api.selectors import selector_of
from fedhpa.api.wire import ObjectMeta, Scale, ScaleSpec, ScaleStatus
from fedhpa.kube import NOT_FOUND, get_scale, resource_path
from fedhpa.members.member import Member
from fedhpa.members.watches import WatchCache

log = structlog.get_logger(__name__)

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
        self._newest: dict[Place, str] = {}
        # The newest version among the forgotten writes, by member and kind: the watch must have reached it.
        self._forgotten: dict[Place, str] = {}
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
        collection = self._collections.get(plural)
        reflector = None if collection is None else collection.up_to_date(member, namespace)
        if reflector is None:
            return None
        if self._forgotten and not self._has_reached_forgotten(member, plural, reflector.resource_version):
            return None
        scale = reflector.store.get((namespace, name))
        newest = None
        if self._newest:
            place = (
                member,
                member.client.generation,
                resource_path(WATCHED_VERSION, plural, namespace, name),
            )
            newest = self._newest.get(place)
            if (
                newest is not None
                and scale is not None
                and is_at_least(scale.metadata.resourceVersion, newest)
            ):
                del self._newest[place]
                newest = None
        if newest is not None:
            return None
        if scale is None:
            raise ApiError(f'{plural}.apps "{name}" not found', status=NOT_FOUND, reason="NotFound")
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
                self._newest.pop((member, member.client.generation, path), None)
            raise

    def note(self, member: Member, path: str, scale: Scale) -> None:
        """Note the scale of the workload at `path` that a write or its conflict returned."""
        if path.split("/")[-2] not in self._collections:
            return
        place = (member, member.client.generation, path)
        self._newest.pop(place, None)  # the newest note comes last
        self._newest[place] = scale.metadata.resourceVersion
        if len(self._newest) > MAX_NOTED:
            self._forget_some()

    def _forget_some(self) -> None:
        """Forget the oldest tenth of the noted writes, but not that the watch must reach them."""
        for notes in (self._newest, self._forgotten):
            for place in [place for place in notes if not _is_current(place)]:
                del notes[place]
        for place in list(self._newest)[: max(len(self._newest) - MAX_NOTED * 9 // 10, 0)]:
            member, generation, path = place
            version = self._newest.pop(place)
            kind = (member, generation, path.split("/")[-2])
            if not is_at_least(self._forgotten.get(kind, ""), version):
                self._forgotten[kind] = version

    def _has_reached_forgotten(self, member: Member, plural: str, version: str) -> bool:
        kind = (member, member.client.generation, plural)
        forgotten = self._forgotten.get(kind)
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
