"""The scales of the members' workloads, from one watch per member, namespace and kind.

Deployments, StatefulSets and ReplicaSets are watched, all other kinds (and those whose watch is not allowed,
or not up to date) are asked for one by one at their scale sub-resource. Writes always go there.

A watch tells what was; a write, or a conflict, tells what is. Until the watch has reached the newest version
that is known otherwise, the workload is asked for: nobody decides on a size that he has changed himself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from fedhpa.api.errors import ApiError, InvalidObject, MemberUnavailable
from fedhpa.api.selectors import selector_of
from fedhpa.api.wire import ObjectMeta, Scale, ScaleSpec, ScaleStatus
from fedhpa.kube.paths import resource_path
from fedhpa.kube.responses import NOT_FOUND
from fedhpa.kube.writes import get_scale
from fedhpa.members.member import Member
from fedhpa.members.watches import WatchCache

log = structlog.get_logger(__name__)

API_VERSION: Final = "apps/v1"
WATCHED: Final = ("deployments", "statefulsets", "replicasets")

Place = tuple[Member, int, str]


class _WorkloadSpec(msgspec.Struct, frozen=True, gc=False):
    replicas: int | None = None
    selector: dict[str, Any] | None = None


class _WorkloadStatus(msgspec.Struct, frozen=True, gc=False):
    replicas: int = 0


class _Workload(msgspec.Struct, frozen=True, gc=False):
    """What the three kinds have in common."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()


class ScaleCache:
    """Scales of workloads, while `run` runs."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._collections = {
            plural: WatchCache(API_VERSION, plural, _Workload, _scale, clock=clock) for plural in WATCHED
        }
        self._newest: dict[Place, str] = {}
        self._unwatchable: set[tuple[Member, str, str]] = set()

    @property
    def watched(self) -> list[tuple[str, str, str]]:
        """(plural, cluster, namespace) of what is watched now."""
        return [(plural, *place) for plural, kept in self._collections.items() for place in kept.watched]

    async def run(self) -> None:
        """Follow what was asked for until cancelled."""
        async with asyncio.TaskGroup() as group:
            for collection in self._collections.values():
                group.create_task(collection.run())

    def cached(self, member: Member, plural: str, namespace: str, name: str) -> Scale | None:
        """The scale of an apps/v1 workload as the watch tells it; None if it must be asked for.

        ApiError with status 404, in the API server's words, if there is no such workload.
        """
        collection = self._collections.get(plural)
        reflector = None if collection is None else collection.up_to_date(member, namespace)
        if reflector is None:
            return None
        scale = reflector.store.get((namespace, name))
        newest = None
        if self._newest:
            place = (member, member.client.generation, resource_path(API_VERSION, plural, namespace, name))
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
        """The scale of an apps/v1 workload. ApiError, MemberUnavailable as for any call."""
        collection = self._collections.get(plural)
        if collection is not None:
            await self._follow(collection, member, plural, namespace)
            scale = self.cached(member, plural, namespace, name)
            if scale is not None:
                return scale
        path = resource_path(API_VERSION, plural, namespace, name)
        try:
            return await get_scale(member.client, path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                self._newest.pop((member, member.client.generation, path), None)
            raise

    def note(self, member: Member, path: str, scale: Scale) -> None:
        """Take over what a write or its conflict told of the workload at `path`."""
        if len(self._newest) > 10_000:  # of workloads that are gone, or are not watched
            self._newest.clear()
        if path.split("/")[-2] in self._collections:
            self._newest[member, member.client.generation, path] = scale.metadata.resourceVersion

    async def _follow(
        self, collection: WatchCache[Scale], member: Member, plural: str, namespace: str
    ) -> None:
        """Have the namespace watched; say once if it cannot be."""
        place = (member, plural, namespace)
        try:
            reflector = await collection.reflector(member, namespace)
        except MemberUnavailable as error:
            member.check()
            if place not in self._unwatchable:
                self._unwatchable.add(place)
                log.warning(
                    "scales are asked for one by one: let the member's token list and watch them",
                    cluster=member.name,
                    namespace=namespace,
                    collection=plural,
                    error=error.reason,
                )
        else:
            if reflector.problem is None:
                self._unwatchable.discard(place)


def is_at_least(version: str, wanted: str) -> bool:
    """Whether one resourceVersion is not older than another (numbers, since Kubernetes 1.35 officially)."""
    if version == wanted:
        return True
    return version.isdecimal() and wanted.isdecimal() and int(version) >= int(wanted)


def _scale(_: str, workload: _Workload) -> Scale:
    """The scale as the sub-resource would show it; without a resourceVersion if that cannot be told."""
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
