"""Reads all candidate clusters of a workload at once, each within its deadline, through shared caches.

An error becomes a reason in the snapshot, never a number.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.apply.member_hpas import NOT_REGISTERED
from controller.federatedhpa.capacity import NodeCapacity
from controller.federatedhpa.metric_reader import (
    MetricSource,
    decode_usage,
    error_reason,
    metric_queries,
    read_metrics,
)
from controller.federatedhpa.pod_index import (
    NO_USAGE,
    Look,
    PodIndex,
    UsageList,
    numbers_of,
    pod_index,
)
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.selectors import Selector, parse_selector
from fedhpa.api.wire import Scale
from fedhpa.decision import ClusterSnapshot, Failure, WorkloadReading
from fedhpa.kube import FORBIDDEN, NOT_FOUND, Resource, contain, get_scale, reason_of, supervise
from fedhpa.members import (
    WATCHED_VERSION,
    Again,
    Member,
    PodCache,
    ScaleCache,
    SharedLists,
    pod_metrics_path,
)
from fedhpa.members.hpas import HpaCache, forbidden_in_member
from fedhpa.metric_types.metric import USAGE_API, ScalingMetric
from fedhpa.scaling import PodRecord, UsageRecord, pod_record


class MemberCaches:
    """Lists of usage, watched pods, scales and HPAs, node capacity, and discovery of the members.

    `run` keeps the watched collections up to date. `lists` belongs to the caller.
    """

    def __init__(self, lists: SharedLists, clock: Callable[[], float]) -> None:
        self.lists = lists
        self.pods: PodCache[PodRecord] = PodCache(pod_record, clock=clock)
        self.scales = ScaleCache(clock=clock)
        self.hpas = HpaCache(clock=clock)
        self.nodes = NodeCapacity(clock)
        self.clock = clock
        self._decoders: dict[str, Callable[[bytes], tuple[UsageRecord, ...]]] = {}

    async def run(self) -> None:
        """Watch the collections that were read, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(supervise("pods", self.pods.run))
            group.create_task(supervise("scales", self.scales.run))
            group.create_task(supervise("member-hpas", self.hpas.run))
            group.create_task(supervise("nodes", self.nodes.run))

    def usage_decoder(self, cluster: str) -> Callable[[bytes], tuple[UsageRecord, ...]]:
        """The decoder of a cluster's PodMetrics, always the same object because it is part of a cache key."""
        if cluster not in self._decoders:
            self._decoders[cluster] = functools.partial(decode_usage, cluster)
        return self._decoders[cluster]


# A first list of tens of megabytes takes longer than the deadline of a call. It gets this long, once.
FIRST_LIST_SECONDS = 10.0
# The name of the task of each cluster, in the log and the counter of failures.
TASK: Final = "read-cluster"


@dataclass(frozen=True)
class Workload:
    """A scale target: its resource as the API serves it, its namespace and its name."""

    resource: Resource
    namespace: str
    name: str

    @functools.cached_property
    def path(self) -> str:
        """Its URL path, the same on the hub and in every member."""
        return self.resource.path(self.namespace, self.name)

    @functools.cached_property
    def usage_path(self) -> str:
        """The URL path of the usage of its namespace's pods."""
        return pod_metrics_path(self.namespace)

    @property
    def text(self) -> str:
        """Its kind, namespace and name, for messages."""
        return f"{self.resource.kind} {self.namespace}/{self.name}"

    def about(self, cluster: str) -> dict[str, str]:
        """Its name in one cluster, for the log."""
        return {"cluster": cluster, "namespace": self.namespace, "name": self.name}

    @functools.cached_property
    def is_builtin(self) -> bool:
        """True for built-in workload kinds, which every cluster serves in the same version."""
        return self.resource.api_version == WATCHED_VERSION


@dataclass(frozen=True)
class MetricNeeds:
    """The metrics to read for a workload: usage if `usage`, and one query for each other metric.

    Answers may be `max_age` seconds old, and the same are needed `again`.
    """

    usage: bool
    queries: Mapping[str, ScalingMetric]
    max_age: float
    again: Again | None = None

    @classmethod
    def of(cls, metrics: Sequence[ScalingMetric], max_age: float, again: Again | None = None) -> MetricNeeds:
        """The needs of an object's spec.metrics."""
        others = [spec for spec in metrics if spec.metric_type.api != USAGE_API]
        queries = metric_queries(others) if others else {}
        return cls(len(others) < len(metrics), queries, max_age, again)


async def read_clusters(
    caches: MemberCaches,
    members: Mapping[str, Member],
    workload: Workload,
    names: tuple[str, ...],
    needs: MetricNeeds,
    looks: dict[str, Look] | None = None,
) -> dict[str, ClusterSnapshot]:
    """Read all named clusters at once. An error of one cluster becomes the reason in its reading.

    `looks` are what the last readings were made of.
    """
    found: dict[str, ClusterSnapshot | None] = {}
    now, looks = caches.clock(), {} if looks is None else looks
    path, key, max_age = workload.path, (workload.namespace, workload.name), needs.max_age
    for name in names:
        member = members[name] if name in members else None  # noqa: SIM401  # a call for each cluster costs
        try:
            reading = None
            if name in looks and looks[name].member is not member:
                del looks[name]  # its watches have ended
            if name in looks and member is not None and not needs.queries:
                usage_age = max_age if needs.usage else None
                reading = looks[name].again(member, caches.scales, caches.lists, path, key, usage_age, now)
            found[name] = reading or _read_cached(caches, member, name, workload, needs, now, looks)
        except Exception as error:
            found[name] = _unread(name, reason_of(TASK, error, **workload.about(name)))
    missing = [name for name, reading in found.items() if reading is None]
    if missing:
        async with asyncio.TaskGroup() as group:  # the tasks never raise
            tasks = {
                name: group.create_task(
                    contain(
                        TASK,
                        functools.partial(_read, caches, members[name], workload, needs),
                        functools.partial(_unread, name),
                        **workload.about(name),
                    )
                )
                for name in missing
            }
        found.update((name, task.result()) for name, task in tasks.items())
    if len(looks) > len(names):
        for name in looks.keys() - set(names):
            del looks[name]
    return {name: reading for name, reading in found.items() if reading is not None}


def read_right(workload: Workload, *, scale: bool = True) -> str:
    """The right that reading the workload's scale, or the workload itself, needs; for messages."""
    group = workload.resource.api_version.rpartition("/")[0]
    what = f"{workload.resource.plural}{'/scale' if scale else ''}{f' of API group {group}' if group else ''}"
    return f"get {what} in namespace {workload.namespace}"


def _unread(name: str, reason: str) -> ClusterSnapshot:
    return ClusterSnapshot(name=name, error=reason)


def _read_cached(
    caches: MemberCaches,
    member: Member | None,
    name: str,
    workload: Workload,
    needs: MetricNeeds,
    now: float,
    looks: dict[str, Look],
) -> ClusterSnapshot | None:
    """A cluster's reading from the caches alone; None if it needs a request. Most reconciles need none."""
    if member is None:
        return ClusterSnapshot(name=name, ready=False, error=NOT_REGISTERED)
    if not member.ready:
        state = member.state
        return ClusterSnapshot(name=name, ready=False, error=state.message or state.reason)
    if needs.queries or not workload.is_builtin or member.closed:
        return None
    usage: UsageList | None = NO_USAGE
    if needs.usage:
        decode = caches.usage_decoder(name)
        path = workload.usage_path
        usage = caches.lists.fresh(member, path, None, decode, max_age=needs.max_age, again=needs.again)
    if usage is None:
        return None
    watched = _watched(caches, member, name, workload, now)
    if watched is None or isinstance(watched, ClusterSnapshot):
        return watched
    reading = watched.reading(usage)
    if watched.selected.reading is not None:
        if needs.usage:
            watched.usage = caches.lists.held(member, workload.usage_path, caches.usage_decoder(name))
        looks[name] = watched
    return reading


def _watched(
    caches: MemberCaches, member: Member, name: str, workload: Workload, now: float
) -> Look | ClusterSnapshot | None:
    """A built-in workload as an available member's watches have it, or its reading; None asks to read it."""
    namespace, plural = workload.namespace, workload.resource.plural
    scales = caches.scales.of_available(member, plural, namespace, now)
    pods = caches.pods.of_available(member, namespace, now)
    try:
        key = namespace, workload.name
        scale = None if scales is None else caches.scales.stored(scales, member, plural, key)
    except ApiError as error:
        return _without_scale(name, workload, error)
    if scales is None or scale is None or pods is None:
        return None
    known = pods.derived
    index = known if isinstance(known, PodIndex) else pod_index(pods, namespace, caches.clock)
    selected = index.known(scale.status.selector, now)
    if selected is None:
        selector = _selector(name, workload.path, scale)
        if isinstance(selector, ClusterSnapshot):
            return selector
        selected = index.selected(scale.status.selector, selector)
    return Look(member, workload.path, scales, pods, scale, index, selected)


async def _read(
    caches: MemberCaches, member: Member, workload: Workload, needs: MetricNeeds
) -> ClusterSnapshot:
    name = member.name
    about = workload.about(name)
    read_usage = functools.partial(_usage, caches, member, workload.namespace, needs)
    if workload.is_builtin and not needs.queries and member.unavailable() is None:
        # The watches have all but the usage, as in most periods.
        watched = _watched(caches, member, name, workload, caches.clock())
        if isinstance(watched, ClusterSnapshot):
            return watched
        if watched is not None:
            usage = await contain("read-usage", read_usage, Failure, **about)
            return watched.index.reading(member, workload.path, watched.scale, watched.selected, usage)
    try:
        path, scale = await _scale(caches, member, workload)
    except InvalidObject as error:  # without the kind, the cluster has no such workload
        return _without_workload(name, str(error))
    except FedHPAError as error:
        return _without_scale(name, workload, error)
    selector = _selector(name, path, scale)
    if isinstance(selector, ClusterSnapshot):
        return selector
    async with asyncio.TaskGroup() as group:  # the tasks never raise
        reading_usage = group.create_task(contain("read-usage", read_usage, Failure, **about))
        index = await _pods(caches, member, workload.namespace)
        if isinstance(index, Failure):
            reading_usage.cancel()
            return ClusterSnapshot(
                name=name,
                scale=numbers_of(scale),
                error=index.error,
                workload=WorkloadReading(path=path, scale=scale),
            )
        selected = index.selected(scale.status.selector, selector)
        source = MetricSource(
            caches.lists,
            member,
            member.mapper,
            workload.namespace,
            selector,
            selected.names,
            needs.max_age,
            needs.again,
        )
        metrics = await read_metrics(source, needs.queries)
    return index.reading(member, path, scale, selected, reading_usage.result(), metrics)


async def _scale(caches: MemberCaches, member: Member, workload: Workload) -> tuple[str, Scale]:
    """The workload's path in a cluster, and its scale there."""
    resource = workload.resource
    if workload.is_builtin:
        found = await caches.scales.read(member, resource.plural, workload.namespace, workload.name)
        return workload.path, found
    # A member may serve another version of a group than the hub does.
    resource = await member.mapper.resolve(resource.api_version, resource.kind)
    path = resource.path(workload.namespace, workload.name)
    return path, await get_scale(member.client, path)


def _without_scale(name: str, workload: Workload, error: FedHPAError) -> ClusterSnapshot:
    if not isinstance(error, ApiError):
        return ClusterSnapshot(name=name, error=error_reason(error))
    refused = error.status == FORBIDDEN
    text = forbidden_in_member(read_right(workload), str(error)) if refused else str(error)
    return _without_workload(name, text, absent=error.status == NOT_FOUND)


def _without_workload(name: str, reason: str, *, absent: bool = True) -> ClusterSnapshot:
    workload = WorkloadReading(is_absent=absent)
    return ClusterSnapshot(name=name, scale=Failure(reason), workload=workload)


def _selector(name: str, path: str, scale: Scale) -> Selector | ClusterSnapshot:
    """The selector of the pods, or the reading of a cluster whose scale has none."""
    unusable: str | None = None
    try:
        if scale.status.selector:
            return parse_selector(scale.status.selector)
    except InvalidObject as error:
        unusable = str(error)
    workload = WorkloadReading(path=path, scale=scale)
    return ClusterSnapshot(name=name, scale=numbers_of(scale), selector_error=unusable, workload=workload)


async def _pods(caches: MemberCaches, member: Member, namespace: str) -> PodIndex | Failure:
    try:
        reflector = await caches.pods.reflector(member, namespace, wait=FIRST_LIST_SECONDS)
    except FedHPAError as error:
        return Failure(error_reason(error))
    return pod_index(reflector, namespace, caches.clock)


async def _usage(
    caches: MemberCaches, member: Member, namespace: str, needs: MetricNeeds
) -> UsageList | Failure:
    if not needs.usage:
        return NO_USAGE
    decode = caches.usage_decoder(member.name)
    try:
        path = pod_metrics_path(namespace)
        return await caches.lists.get(member, path, None, decode, max_age=needs.max_age, again=needs.again)
    except FedHPAError as error:
        return Failure(error_reason(error))
