"""Reading the world for one decision: every candidate cluster at once, each within its deadline.

Nothing here decides. What could not be read becomes a reason in the snapshot, never a number.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.federatedhpa.metrics import (
    Asking,
    CustomAnswers,
    ExternalAnswers,
    questions_of,
    read_metrics,
    reason,
)
from controller.federatedhpa.node_capacity import NodeCapacity
from controller.federatedhpa.selection import Labels, PodSelections, Selections
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.metric_types import USAGE_API
from fedhpa.api.selectors import Selector, parse_selector
from fedhpa.api.wire import ObjectList, PodMetrics, Scale
from fedhpa.cache import Fetched
from fedhpa.decision.snapshot import ClusterScale, ClusterSnapshot, Failure
from fedhpa.decision.spec.federatedhpa import MetricSpec
from fedhpa.kube.mapping import Resource, ResourceMapper
from fedhpa.kube.responses import NOT_FOUND, decoder
from fedhpa.kube.writes import get_scale
from fedhpa.members.lists import SharedLists, pod_metrics, pod_metrics_path
from fedhpa.members.member import Member
from fedhpa.members.scales import API_VERSION as WATCHED_VERSION
from fedhpa.members.scales import ScaleCache
from fedhpa.members.watches import PodCache
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

    @property
    def is_core(self) -> bool:
        """Whether it is of a kind that is the same everywhere, in the one version that there is."""
        return self.resource.api_version == WATCHED_VERSION


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
        usage = any(spec.metric_type.api == USAGE_API for spec in metrics)
        return cls(usage, questions_of(metrics), max_age)


@dataclass(frozen=True)
class Reading:
    """What one cluster gave: its part of the snapshot, and the scale a write must be based on.

    `path` is the workload's URL path in that cluster. `absent` says that the cluster answered and has no such
    workload; `selector` is None where it has none. `label_sets` are the sets of labels that its pods have.
    """

    snapshot: ClusterSnapshot
    path: str = ""
    scale: Scale | None = None
    selector: Selector | None = None
    absent: bool = False
    label_sets: tuple[Labels, ...] = ()


Usage = Fetched[tuple[UsageRecord, ...]]
_NO_USAGE: Usage = Fetched((), 0.0)


@dataclass
class Readers:
    """What the members are read with, shared by all objects."""

    lists: SharedLists
    pods: PodCache[PodRecord] = field(default_factory=lambda: PodCache(pod_record))
    clock: Callable[[], float] = time.monotonic
    scales: ScaleCache = field(default_factory=ScaleCache)
    nodes: NodeCapacity = field(default_factory=NodeCapacity)
    _decoders: dict[str, Callable[[bytes], tuple[UsageRecord, ...]]] = field(default_factory=dict)
    _mappers: dict[str, tuple[Member, ResourceMapper]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.selections = Selections(self.clock)

    @classmethod
    def of(cls, lists: SharedLists, clock: Callable[[], float] = time.monotonic) -> Readers:
        """Readers of their own caches, all by one clock."""
        return cls(
            lists, PodCache(pod_record, clock=clock), clock, ScaleCache(clock=clock), NodeCapacity(clock)
        )

    async def run(self) -> None:
        """Follow what was asked for until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pods.run())
            group.create_task(self.scales.run())
            group.create_task(self.nodes.run())

    def usage_decoder(self, cluster: str) -> Callable[[bytes], tuple[UsageRecord, ...]]:
        """The one decoder of a cluster's PodMetrics: shared lists go by its identity."""
        found = self._decoders.get(cluster)
        if found is None:
            found = self._decoders[cluster] = functools.partial(usage_records, cluster)
        return found

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
    return believable(tuple([usage_record(cluster, item) for item in items]))


def believable(records: tuple[UsageRecord, ...]) -> tuple[UsageRecord, ...]:
    """The same records; InvalidObject if one of them cannot be true."""
    for record in records:
        for container in record.containers:
            # Nothing uses less than nothing: who says so knows nothing, and would scale down.
            cpu, memory, others = container.cpu, container.memory, container.others
            if (
                (cpu is not None and cpu < 0)
                or (memory is not None and memory < 0)
                or (others is not None and min(others.values()) < 0)
            ):
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
    found = {name: _read_now(readers, members.get(name), name, workload, wanted) for name in names}
    missing = [name for name, reading in found.items() if reading is None]
    if missing:
        async with asyncio.TaskGroup() as group:
            tasks = {
                name: group.create_task(_read(readers, members[name], workload, wanted)) for name in missing
            }
        found.update((name, task.result()) for name, task in tasks.items())
    return {name: reading for name, reading in found.items() if reading is not None}


def _read_now(
    readers: Readers, member: Member | None, name: str, workload: Workload, wanted: Wanted
) -> Reading | None:
    """What is known of a cluster without asking it; None if it must be asked. Most looks ask nobody."""
    if member is None:
        return Reading(ClusterSnapshot(name=name, ready=False, error=NOT_REGISTERED))
    state = member.state
    if not state.ready:
        return Reading(ClusterSnapshot(name=name, ready=False, error=state.message or state.reason))
    if wanted.questions or not workload.is_core:
        return None
    try:
        scale = readers.scales.cached(member, workload.resource.plural, workload.namespace, workload.name)
    except ApiError as error:
        return _without_scale(name, error)
    pods = readers.pods.up_to_date(member, workload.namespace)
    usage: Usage | None = _NO_USAGE
    if wanted.usage:
        decode = readers.usage_decoder(name)
        path = pod_metrics_path(workload.namespace)
        usage = readers.lists.fresh(member, path, None, decode, max_age=wanted.max_age)
    if scale is None or pods is None or usage is None:
        return None
    selector = _selector(name, workload.path, scale)
    if isinstance(selector, Reading):
        return selector
    here = readers.selections.of(pods, workload.namespace)
    return _reading(name, workload.path, scale, selector, here, usage)


async def _read(readers: Readers, member: Member, workload: Workload, wanted: Wanted) -> Reading:
    name = member.name
    try:
        path, scale = await _scale(readers, member, workload)
    except InvalidObject as error:  # a kind that this cluster does not serve has no object there either
        return Reading(ClusterSnapshot(name=name, scale=Failure(str(error))), absent=True)
    except FedHPAError as error:
        return _without_scale(name, error)
    selector = _selector(name, path, scale)
    if isinstance(selector, Reading):
        return selector
    async with asyncio.TaskGroup() as group:  # none of them raises
        reading_usage = group.create_task(_usage(readers, member, workload.namespace, wanted))
        here = await _pods(readers, member, workload.namespace)
        if isinstance(here, Failure):
            reading_usage.cancel()
            snapshot = ClusterSnapshot(name=name, scale=_numbers(scale), error=here.error)
            return Reading(snapshot, path, scale)
        pods = here.selected(scale.status.selector, selector).names
        mapper = readers.mapper(member)
        asking = Asking(readers.lists, member, mapper, workload.namespace, selector, pods, wanted.max_age)
        custom, external = await read_metrics(asking, wanted.questions)
    return _reading(name, path, scale, selector, here, reading_usage.result(), custom, external)


async def _scale(readers: Readers, member: Member, workload: Workload) -> tuple[str, Scale]:
    """The workload's path in a cluster, and its scale there."""
    resource = workload.resource
    if workload.is_core:
        found = await readers.scales.read(member, resource.plural, workload.namespace, workload.name)
        return workload.path, found
    # A member may serve another version of a group than the hub does.
    resource = await readers.mapper(member).resolve(resource.api_version, resource.kind)
    path = resource.path(workload.namespace, workload.name)
    return path, await get_scale(member.client, path)


def _without_scale(name: str, error: FedHPAError) -> Reading:
    if isinstance(error, ApiError):
        failure = Failure(str(error))
        return Reading(ClusterSnapshot(name=name, scale=failure), absent=error.status == NOT_FOUND)
    return Reading(ClusterSnapshot(name=name, error=reason(error)))


def _numbers(scale: Scale) -> ClusterScale:
    return ClusterScale(scale.spec.replicas, scale.status.replicas, scale.status.selector)


def _selector(name: str, path: str, scale: Scale) -> Selector | Reading:
    """The selector of the pods, or what is known of a cluster without one."""
    try:
        selector = parse_selector(scale.status.selector) if scale.status.selector else None
    except InvalidObject as error:
        return Reading(ClusterSnapshot(name=name, scale=Failure(str(error))), path, scale)
    if selector is None:
        return Reading(ClusterSnapshot(name=name, scale=_numbers(scale)), path, scale)
    return selector


def _reading(
    name: str,
    path: str,
    scale: Scale,
    selector: Selector,
    here: PodSelections,
    usage: Usage | Failure,
    custom: CustomAnswers | None = None,
    external: ExternalAnswers | None = None,
) -> Reading:
    selected = here.selected(scale.status.selector, selector)
    snapshot = ClusterSnapshot(
        name=name,
        scale=_numbers(scale),
        pods=selected.pods,
        # The list is the namespace's: only the workload's own pods go on, or every decision pays for all.
        usage=usage if isinstance(usage, Failure) else here.usage(usage, selected),
        custom_metrics=custom or {},
        external_metrics=external or {},
    )
    return Reading(snapshot, path, scale, selector, label_sets=selected.label_sets)


async def _pods(readers: Readers, member: Member, namespace: str) -> PodSelections | Failure:
    try:
        reflector = await readers.pods.reflector(member, namespace, wait=FIRST_PODS_SECONDS)
    except FedHPAError as error:
        return Failure(reason(error))
    return readers.selections.of(reflector, namespace)


async def _usage(readers: Readers, member: Member, namespace: str, wanted: Wanted) -> Usage | Failure:
    if not wanted.usage:
        return _NO_USAGE
    decode = readers.usage_decoder(member.name)
    try:
        return await pod_metrics(readers.lists, member, namespace, max_age=wanted.max_age, decode=decode)
    except FedHPAError as error:
        return Failure(reason(error))
