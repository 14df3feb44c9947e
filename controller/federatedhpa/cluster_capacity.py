"""How many more replicas of a workload a cluster could run, read off what the hub knows of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.federatedhpa.node_capacity import total
from fedhpa.api.errors import InvalidQuantity
from fedhpa.api.quantity import RawQuantity, parse_milli
from fedhpa.assignment.direct import BY_CAPACITY
from fedhpa.decision.spec.placement import Placement
from fedhpa.members.cluster import Cluster
from fedhpa.scaling.records import PodRecord

# A node takes only so many pods, whatever they ask for.
ONE_POD = {"pods": 1000}


def is_needed(assignment: Placement, pods: Iterable[PodRecord]) -> bool:
    """Whether a decision looks at the room of clusters: by its policy, or because pods wait for some."""
    return assignment.policy in BY_CAPACITY or any(pod.unschedulable_since is not None for pod in pods)


def asked(pods: Iterable[PodRecord]) -> Mapping[str, int]:
    """What one more replica asks for, in milli-units: of each resource the most that a pod asks for."""
    most = dict(ONE_POD)
    for requests in {id(pod.requests): pod.requests for pod in pods}.values():
        for resource, milli in total(requests).items():
            most[resource] = max(most.get(resource, 0), milli)
    return most


def available_replicas(cluster: Cluster, asked: Mapping[str, int]) -> int | None:
    """How often what is asked for fits into what status.resourceSummary leaves; None if it does not say."""
    summary = cluster.status.resourceSummary
    if summary is None or not summary.allocatable:
        return None
    fits: list[int] = []
    for resource, milli in asked.items():
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


def _milli(amounts: Mapping[str, RawQuantity] | None, resource: str) -> int | None:
    found = (amounts or {}).get(resource)
    return None if found is None else parse_milli(found)
