"""The capacity of clusters for replicas of a workload, for the assignment to clusters.

Source: docs/explanation/placement.md. The Cluster's status.resourceSummary counts; without it, the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from controller.federatedhpa.cluster_reader import ClusterReading
from controller.federatedhpa.node_capacity import NodeCapacity, total_requests
from fedhpa.api.errors import InvalidQuantity
from fedhpa.api.quantity import RawQuantity, parse_milli
from fedhpa.assignment import BY_CAPACITY
from fedhpa.decision import PlacementSpec
from fedhpa.members import Cluster, Member
from fedhpa.scaling import PodRecord

# A node takes a limited number of pods, whatever their requests.
ONE_POD = {"pods": 1000}
_MAX_CACHED_LENGTH: Final = 32


async def available_replicas(
    nodes: NodeCapacity,
    members: Mapping[str, Member],
    assignment: PlacementSpec,
    readings: Mapping[str, ClusterReading],
    *,
    direct: bool,
    always: bool = False,
) -> dict[str, int | None]:
    """The number of further replicas that fit, by cluster; None if unknown.

    Summaries cost no request, so they always count. The nodes are listed only if the decision needs them: by
    its policy or for an unschedulable pod, if this controller places the replicas (`direct`). A list of all
    pods of a large cluster is too much for an outlook; `always` asks for it all the same.
    """
    pods = [pod for reading in readings.values() for pod in reading.snapshot.pods]
    reads_nodes = always or (
        direct
        and (assignment.policy in BY_CAPACITY or any(pod.unschedulable_since is not None for pod in pods))
    )
    registered = {name: members[name] for name in readings if name in members}
    summed = any(member.cluster.status.resourceSummary is not None for member in registered.values())
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
    readings: Mapping[str, ClusterReading],
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
    requests = requests_of_replica(pod for reading in readings.values() for pod in reading.snapshot.pods)
    current = {name: found.scale.spec.replicas for name, found in readings.items() if found.scale}
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
