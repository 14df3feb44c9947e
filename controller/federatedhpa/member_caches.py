"""The caches that all objects read the members through."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from controller.federatedhpa.node_capacity import NodeCapacity
from controller.federatedhpa.pod_index import PodIndexes
from fedhpa.api.errors import InvalidObject
from fedhpa.api.lists import list_items
from fedhpa.api.wire import PodMetrics
from fedhpa.kube import ResourceMapper, supervise
from fedhpa.members import METRICS_API, POD_METRICS_LIST, HpaCache, Member, PodCache, ScaleCache, SharedLists
from fedhpa.scaling import PodRecord, UsageRecord, pod_record, usage_record


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
        self.pod_indexes = PodIndexes(clock)
        self._clock = clock
        self._decoders: dict[str, Callable[[bytes], tuple[UsageRecord, ...]]] = {}
        self._mappers: dict[str, tuple[Member, ResourceMapper]] = {}

    async def run(self) -> None:
        """Watch the collections that were read, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(supervise("pods", self.pods.run))
            group.create_task(supervise("scales", self.scales.run))
            group.create_task(supervise("member-hpas", self.hpas.run))
            group.create_task(supervise("nodes", self.nodes.run))

    def usage_decoder(self, cluster: str) -> Callable[[bytes], tuple[UsageRecord, ...]]:
        """The decoder of a cluster's PodMetrics, always the same object because it is part of a cache key."""
        found = self._decoders.get(cluster)
        if found is None:
            found = self._decoders[cluster] = functools.partial(decode_usage, cluster)
        return found

    def mapper(self, member: Member) -> ResourceMapper:
        """The discovery of a member, kept while the member is registered."""
        kept = self._mappers.get(member.name)
        if kept is None or kept[0] is not member:
            mapper = ResourceMapper(member.client, clock=self._clock)
            kept = self._mappers[member.name] = (member, mapper)
        return kept[1]


def decode_usage(cluster: str, body: bytes) -> tuple[UsageRecord, ...]:
    """The records of a PodMetricsList. Raises ValueError or InvalidObject if the list is invalid."""
    items = list_items(body, PodMetrics, POD_METRICS_LIST, METRICS_API)
    return checked_usage(tuple([usage_record(cluster, item) for item in items]))


def checked_usage(records: tuple[UsageRecord, ...]) -> tuple[UsageRecord, ...]:
    """The same records. Raises InvalidObject for negative usage, which would cause a scale-down."""
    for record in records:
        for container in record.containers:
            cpu, memory, others = container.cpu, container.memory, container.others
            if (
                (cpu is not None and cpu < 0)
                or (memory is not None and memory < 0)
                or (others is not None and min(others.values()) < 0)
            ):
                place = f"pod {record.namespace}/{record.name}, container {container.name!r}"
                raise InvalidObject(f"{place}: usage is negative")
    return records
