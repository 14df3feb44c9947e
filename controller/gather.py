"""Reading the world for one decision: every candidate cluster at once, each within its deadline.

Nothing here decides. What could not be read becomes a reason in the snapshot, never a number.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.metrics import Asking, questions_of, read_metrics, reason
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.selectors import Selector, parse_selector
from fedhpa.api.wire import ObjectList, PodMetrics, Scale
from fedhpa.decision.snapshot import ClusterScale, ClusterSnapshot, Failure
from fedhpa.decision.spec import CONTAINER_RESOURCE, RESOURCE, MetricSpec
from fedhpa.kube.mapping import Resource, ResourceMapper
from fedhpa.kube.responses import NOT_FOUND, decoder
from fedhpa.kube.writes import get_scale
from fedhpa.members.lists import SharedLists, pod_metrics
from fedhpa.members.member import Member
from fedhpa.members.pods import PodCache
from fedhpa.scaling.records import PodRecord, UsageRecord, pod_record, usage_record

NOT_REGISTERED = "no Cluster of this name is registered"
# A first list of tens of megabytes does not fit the deadline of a call; it has this long, once.
FIRST_PODS_SECONDS = 10.0


@dataclass(frozen=True)
class Workload:
    """A scale target: its resource as the API serves it, and where it is."""

    resource: Resource
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Its URL path, the same on the hub and in every member."""
        return self.resource.path(self.namespace, self.name)


@dataclass(frozen=True)
class Wanted:
    """What is read of the workload: usage or not, and the questions about other metrics.

    Answers may be `max_age` seconds old.
    """

    usage: bool
    questions: Mapping[str, MetricSpec]
    max_age: float

    @classmethod
    def of(cls, metrics: Sequence[MetricSpec], max_age: float) -> Wanted:
        """What these metrics need, and nothing else."""
        usage = any(spec.type in (RESOURCE, CONTAINER_RESOURCE) for spec in metrics)
        return cls(usage, questions_of(metrics), max_age)


@dataclass(frozen=True)
class Reading:
    """What one cluster gave: its part of the snapshot, and the scale a write must be based on.

    `path` is the workload's URL path in that cluster. `absent` says that the cluster answered and has no such
    workload; `selector` is None where it has none.
    """

    snapshot: ClusterSnapshot
    path: str = ""
    scale: Scale | None = None
    selector: Selector | None = None
    absent: bool = False


@dataclass
class Readers:
    """What the members are read with, shared by all objects."""

    lists: SharedLists
    pods: PodCache[PodRecord] = field(default_factory=lambda: PodCache(pod_record))
    clock: Callable[[], float] = time.monotonic
    _decoders: dict[str, Callable[[bytes], tuple[UsageRecord, ...]]] = field(default_factory=dict)
    _mappers: dict[str, tuple[Member, ResourceMapper]] = field(default_factory=dict)

    def usage_decoder(self, cluster: str) -> Callable[[bytes], tuple[UsageRecord, ...]]:
        """The one decoder of a cluster's PodMetrics: shared lists go by its identity."""
        return self._decoders.setdefault(cluster, functools.partial(usage_records, cluster))

    def mapper(self, member: Member) -> ResourceMapper:
        """Discovery of a member, kept while it is registered."""
        kept = self._mappers.get(member.name)
        if kept is None or kept[0] is not member:
            kept = self._mappers[member.name] = (
                member,
                ResourceMapper(member.client, clock=self.clock),
            )
        return kept[1]


def usage_records(cluster: str, body: bytes) -> tuple[UsageRecord, ...]:
    """The records of a PodMetricsList; ValueError or InvalidObject if it cannot be read or believed."""
    items = decoder(ObjectList[PodMetrics]).decode(body).items or ()
    records = tuple(usage_record(cluster, item) for item in items)
    for record in records:
        for container in record.containers:
            # Nothing uses less than nothing: who says so knows nothing, and would scale down.
            amounts = (container.cpu or 0, container.memory or 0, *(container.others or {}).values())
            if min(amounts) < 0:
                place = f"pod {record.namespace}/{record.name}, container {container.name!r}"
                raise InvalidObject(f"{place}: usage is negative")
    return records


async def read_clusters(
    readers: Readers,
    members: Mapping[str, Member],
    workload: Workload,
    names: tuple[str, ...],
    wanted: Wanted,
) -> dict[str, Reading]:
    """Read every named cluster at once. Never raises for a member."""
    async with asyncio.TaskGroup() as group:
        tasks = {
            name: group.create_task(_read(readers, members.get(name), name, workload, wanted))
            for name in names
        }
    return {name: task.result() for name, task in tasks.items()}


async def _read(
    readers: Readers, member: Member | None, name: str, workload: Workload, wanted: Wanted
) -> Reading:
    if member is None:
        return Reading(ClusterSnapshot(name=name, ready=False, error=NOT_REGISTERED))
    state = member.state
    if not state.ready:
        return Reading(ClusterSnapshot(name=name, ready=False, error=state.message or state.reason))
    try:
        path = await _path(readers, member, workload)
        scale = await get_scale(member.client, path)
    except ApiError as error:
        failure = Failure(str(error))
        return Reading(ClusterSnapshot(name=name, scale=failure), absent=error.status == NOT_FOUND)
    except InvalidObject as error:  # a kind that this cluster does not serve has no object there either
        return Reading(ClusterSnapshot(name=name, scale=Failure(str(error))), absent=True)
    except FedHPAError as error:
        return Reading(ClusterSnapshot(name=name, error=reason(error)))
    return await _with_pods(readers, member, workload, path, scale, wanted)


async def _path(readers: Readers, member: Member, workload: Workload) -> str:
    # A member may serve another version of a group than the hub does; core workloads are the same everywhere.
    if workload.resource.api_version == "apps/v1":
        return workload.path
    resource = await readers.mapper(member).resolve(workload.resource.api_version, workload.resource.kind)
    return resource.path(workload.namespace, workload.name)


async def _with_pods(
    readers: Readers, member: Member, workload: Workload, path: str, scale: Scale, wanted: Wanted
) -> Reading:
    numbers = ClusterScale(scale.spec.replicas, scale.status.replicas, scale.status.selector)
    try:
        selector = parse_selector(scale.status.selector) if scale.status.selector else None
    except InvalidObject as error:
        return Reading(ClusterSnapshot(name=member.name, scale=Failure(str(error))), path, scale)
    if selector is None:
        return Reading(ClusterSnapshot(name=member.name, scale=numbers), path, scale)
    async with asyncio.TaskGroup() as group:  # none of them raises
        reading_usage = group.create_task(_usage(readers, member, workload.namespace, wanted))
        pods = await _pods(readers, member, workload.namespace, selector)
        if isinstance(pods, Failure):
            reading_usage.cancel()
            return Reading(ClusterSnapshot(name=member.name, scale=numbers, error=pods.error), path, scale)
        names = {pod.name for pod in pods}
        mapper = readers.mapper(member)
        asking = Asking(readers.lists, member, mapper, workload.namespace, selector, names, wanted.max_age)
        custom, external = await read_metrics(asking, wanted.questions)
    usage = reading_usage.result()
    if isinstance(usage, tuple):
        # The list is the namespace's: only the workload's own pods go on, or every decision pays for all.
        usage = tuple(record for record in usage if _belongs(record, names, selector))
    snapshot = ClusterSnapshot(
        name=member.name,
        scale=numbers,
        pods=pods,
        usage=usage,
        custom_metrics=custom,
        external_metrics=external,
    )
    return Reading(snapshot, path, scale, selector)


async def _pods(
    readers: Readers, member: Member, namespace: str, selector: Selector
) -> tuple[PodRecord, ...] | Failure:
    try:
        kept = await readers.pods.pods(member, namespace, wait=FIRST_PODS_SECONDS)
    except FedHPAError as error:
        return Failure(reason(error))
    return tuple(pod for pod in kept.values() if selector.matches(pod.labels))


def _belongs(record: UsageRecord, names: set[str], selector: Selector) -> bool:
    if record.name in names:
        return True
    return record.labels is not None and selector.matches(record.labels)


async def _usage(
    readers: Readers, member: Member, namespace: str, wanted: Wanted
) -> tuple[UsageRecord, ...] | Failure:
    if not wanted.usage:
        return ()
    decode = readers.usage_decoder(member.name)
    try:
        fetched = await pod_metrics(readers.lists, member, namespace, max_age=wanted.max_age, decode=decode)
    except FedHPAError as error:
        return Failure(reason(error))
    return fetched.value
