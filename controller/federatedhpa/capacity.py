"""The capacity of clusters for replicas of a workload, for the assignment to clusters.

The status.resourceSummary of the Cluster counts; without it, the free part of the ready nodes. Nodes and pods
are listed only if the decision needs them, at most every 30 seconds, and in the background. Only the first
reconcile waits for them. Source: docs/explanation/placement.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

import msgspec
import structlog

from fedhpa.api.errors import InvalidQuantity
from fedhpa.api.quantity import RawQuantity, parse_milli
from fedhpa.api.wire import ObjectMeta, PodCondition, PodSpec
from fedhpa.decision import ClusterSnapshot, PlacementSpec
from fedhpa.kube import resource_path
from fedhpa.members import Cluster, Member
from fedhpa.scaling import PodRecord, PodRequests, amounts, shared_requests

log = structlog.get_logger(__name__)

KEEP_SECONDS: Final = 30.0
# The first reconcile waits no longer than for any other call to a member.
FIRST_WAIT_SECONDS: Final = 3.0
# All pods of a large cluster are many pages. A page that does not arrive ends the list sooner.
LIST_SECONDS: Final = 30.0
NODES_PATH: Final = resource_path("v1", "nodes")
PODS_PATH: Final = resource_path("v1", "pods")
_ENDED: Final = frozenset(("Succeeded", "Failed"))
# Replicas of one workload differ little, but a tenant could change the requests at every reconcile.
_MAX_CACHED: Final = 256


class NodeSpec(msgspec.Struct, frozen=True):
    """core/v1 NodeSpec: the field that `kubectl cordon` sets."""

    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True):
    """core/v1 NodeStatus: allocatable resources and conditions."""

    allocatable: dict[str, RawQuantity] | None = None
    conditions: list[PodCondition] | None = None


class Node(msgspec.Struct, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def takes_pods(self) -> bool:
        """True for a node that is ready and not cordoned."""
        ready = any(one.type == "Ready" and one.status == "True" for one in self.status.conditions or ())
        return ready and not self.spec.unschedulable


class _Phase(msgspec.Struct, frozen=True):
    phase: str = ""


class PlacedPod(msgspec.Struct, frozen=True):
    """core/v1 Pod: its node and its requests."""

    spec: PodSpec = PodSpec()
    status: _Phase = _Phase()


class FreeCapacity:
    """The free resources of each node, and the sum of allocatable ones, in milli-units by resource."""

    def __init__(self, nodes: Iterable[Mapping[str, int]], allocatable: Mapping[str, int]) -> None:
        self.allocatable = allocatable
        self._nodes = tuple(nodes)
        self._cached: dict[tuple[tuple[str, int], ...], int] = {}

    def fits(self, requests: Mapping[str, int]) -> int:
        """The replicas of these requests that fit, node by node, each by its scarcest resource."""
        key = tuple(sorted((resource, milli) for resource, milli in requests.items() if milli > 0))
        found = self._cached.get(key)
        if found is None:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            found = self._cached[key] = sum(
                min((max(node.get(resource, 0), 0) // milli for resource, milli in key), default=0)
                for node in self._nodes
            )
        return found


def total_requests(requests: PodRequests) -> Mapping[str, int]:
    """A pod's requests over all its containers, in milli-units by resource."""
    if requests.pod_level is not None:
        return requests.pod_level
    found: dict[str, int] = {}
    for _, each in requests.containers:
        for resource, milli in each.items():
            found[resource] = found.get(resource, 0) + milli
    return found


def free_capacity(nodes: Iterable[Node], pods: Iterable[PlacedPod]) -> FreeCapacity | None:
    """The free capacity of the nodes that take pods.

    None for an empty list of nodes: the pods run somewhere, so such a list says nothing about capacity.
    Raises InvalidObject for an invalid quantity.
    """
    listed = list(nodes)
    free = {
        node.metadata.name: dict(amounts(node.status.allocatable, "status.allocatable"))
        for node in listed
        if node.takes_pods
    }
    allocatable: dict[str, int] = {}
    for one in free.values():
        for resource, milli in one.items():
            allocatable[resource] = allocatable.get(resource, 0) + milli
    for pod in pods:
        node = free.get(pod.spec.nodeName)
        if node is None or pod.status.phase in _ENDED:
            continue
        for resource, milli in total_requests(shared_requests(pod.spec)).items():
            node[resource] = node.get(resource, 0) - milli
        node["pods"] = node.get("pods", 0) - 1000
    return FreeCapacity(free.values(), allocatable) if listed else None


@dataclass
class _MemberEntry:
    """One member's free capacity (None: unknown), and when it was read."""

    member: Member
    free: FreeCapacity | None = None
    at: float = float("-inf")
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class NodeCapacity:
    """The free capacity of members, shared by all objects; `run` reads it in the background."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[str, _MemberEntry] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Read what `get` needs, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()  # until this and its tasks are cancelled
            finally:
                self._group = None
                self._entries.clear()

    async def get(self, members: Mapping[str, Member]) -> dict[str, FreeCapacity]:
        """The free capacity of these members. A member that cannot be read, or must not, is left out."""
        entries = {name: self._entry(member) for name, member in members.items()}
        first = [
            entry.task
            for entry in entries.values()
            if entry.task is not None and entry.at == float("-inf")  # never read yet
        ]
        if first:
            await asyncio.wait(first, timeout=FIRST_WAIT_SECONDS)
        return {name: entry.free for name, entry in entries.items() if entry.free is not None}

    def _entry(self, member: Member) -> _MemberEntry:
        entry = self._entries.get(member.name)
        if entry is None or entry.member is not member:
            entry = self._entries[member.name] = _MemberEntry(member)
        if entry.task is None and self._group is not None and self._clock() - entry.at >= KEEP_SECONDS:
            entry.task = self._group.create_task(self._read(entry))
        return entry

    async def _read(self, entry: _MemberEntry) -> None:
        client = entry.member.client
        try:
            async with asyncio.timeout(LIST_SECONDS):
                nodes = (await client.list(NODES_PATH, Node)).items
                pods = (await client.list(PODS_PATH, PlacedPod)).items
            entry.free = free_capacity(nodes, pods)
        # A broken answer is the member's fault and must not stop the reads of other members.
        except Exception as error:
            entry.free = None  # unknown, which differs from full
            log.debug("nodes not listed", cluster=entry.member.name, error=str(error))
        finally:
            entry.at, entry.task = self._clock(), None
            self._drop_closed()

    def _drop_closed(self) -> None:
        for name in [name for name, entry in self._entries.items() if entry.member.closed]:
            del self._entries[name]


# A node takes a limited number of pods, whatever their requests.
ONE_POD = {"pods": 1000}
_MAX_CACHED_LENGTH: Final = 32


def needs_nodes(assignment: PlacementSpec, readings: Mapping[str, ClusterSnapshot]) -> bool:
    """True if a decision that places replicas needs the nodes: by its policy, or for an unschedulable pod.

    A list of all pods of a large cluster is too much for an outlook.
    """
    if assignment.policy.by_capacity:
        return True
    for reading in readings.values():
        for pod in reading.pods:
            if pod.unschedulable_since is not None:
                return True
    return False


async def available_replicas(
    nodes: NodeCapacity,
    members: Mapping[str, Member],
    readings: Mapping[str, ClusterSnapshot],
    *,
    reads_nodes: bool,
) -> dict[str, int | None]:
    """The number of further replicas that fit, by cluster; None if unknown.

    Summaries cost no request, so they always count. The nodes are listed only with `reads_nodes`.
    """
    pods = [pod for reading in readings.values() for pod in reading.pods]
    registered = {name: members[name] for name in readings if name in members}
    summed = [one for one in registered.values() if one.cluster.status.resourceSummary is not None]
    if not reads_nodes and not summed:
        return {}
    requests = requests_of_replica(pods)
    available = {name: fits_by_summary(member.cluster, requests) for name, member in registered.items()}
    if not reads_nodes:
        return available
    unknown = {
        name: registered[name]
        for name, count in available.items()
        if count is None and registered[name].state.ready
    }
    if unknown:
        free = await nodes.get(unknown)
        available.update((name, capacity.fits(requests)) for name, capacity in free.items())
    return available


async def capped_replicas(
    nodes: NodeCapacity,
    members: Mapping[str, Member],
    assignment: PlacementSpec,
    readings: Mapping[str, ClusterSnapshot],
) -> dict[str, int | None]:
    """The most replicas of each cluster by clusterHPAPreference; None for no limit."""
    shares = {name: share for name, share in assignment.caps.items() if name in readings and name in members}
    if not shares:
        return {}
    offers = {name: allocatable(members[name].cluster) for name in shares}
    unknown = {name: members[name] for name, offer in offers.items() if offer is None}
    if unknown:
        free = await nodes.get(unknown)
        offers.update((name, capacity.allocatable) for name, capacity in free.items())
    requests = requests_of_replica(pod for reading in readings.values() for pod in reading.pods)
    scales = {name: reading.workload.scale for name, reading in readings.items()}
    current = {name: scale.spec.replicas for name, scale in scales.items() if scale is not None}
    return {
        name: replicas_within(share, offers[name], requests, current.get(name, 0))
        for name, share in shares.items()
    }


def requests_of_replica(pods: Iterable[PodRecord]) -> Mapping[str, int]:
    """The requests of one more replica in milli-units: of each resource the highest request of any pod."""
    highest = dict(ONE_POD)
    for requests in {id(pod.requests): pod.requests for pod in pods}.values():
        for resource, milli in total_requests(requests).items():
            highest[resource] = max(highest.get(resource, 0), milli)
    return highest


def fits_by_summary(cluster: Cluster, requests: Mapping[str, int]) -> int | None:
    """The replicas that fit into the free part of status.resourceSummary; None if it lacks a resource."""
    summary = cluster.status.resourceSummary
    if summary is None or not summary.allocatable:
        return None
    fits: list[int] = []
    for resource, milli in requests.items():
        if milli <= 0:
            continue
        try:
            offered = _milli(summary.allocatable, resource)
            used = (_milli(amounts, resource) or 0 for amounts in (summary.allocated, summary.allocating))
            if offered is None:
                return None
            fits.append(max(offered - sum(used), 0) // milli)
        except InvalidQuantity:
            return None
    return min(fits, default=None)


def allocatable(cluster: Cluster) -> Mapping[str, int] | None:
    """The allocatable resources of status.resourceSummary, in milli-units; None without a summary."""
    summary = cluster.status.resourceSummary
    if summary is None or not summary.allocatable:
        return None
    try:
        return {resource: parse_milli(quantity) for resource, quantity in summary.allocatable.items()}
    except InvalidQuantity:
        return None


def replicas_within(
    share: Fraction, offer: Mapping[str, int] | None, requests: Mapping[str, int], current: int
) -> int | None:
    """The largest number of replicas whose requests stay within the share of `offer`; None for no limit.

    If the offer is unknown, the cluster keeps its `current` replicas at most: an unknown cap means no growth.
    Pods without requests take no share of anything.
    """
    wanted = {resource: milli for resource, milli in requests.items() if resource != "pods" and milli > 0}
    if not wanted:
        return None
    if offer is None or not wanted.keys() <= offer.keys():
        return current
    return min(int(share * max(offer[resource], 0) // milli) for resource, milli in wanted.items())


def _milli(amounts: Mapping[str, RawQuantity] | None, resource: str) -> int | None:
    found = (amounts or {}).get(resource)
    if found is None:
        return None
    # Every object asks for the same quantities at every reconcile. A long text is not worth the memory.
    return (
        _parsed(found) if isinstance(found, str) and len(found) <= _MAX_CACHED_LENGTH else parse_milli(found)
    )


@lru_cache(maxsize=4096)
def _parsed(quantity: str) -> int:
    return parse_milli(quantity)
