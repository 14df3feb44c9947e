"""Pods as the autoscaler sees them, and the groups that it sorts them into.

Source: groupPods and calculateRequests of Kubernetes' HPA 1.36 (replica_calculator.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

READY: Final = "ready"
UNREADY: Final = "unready"
MISSING: Final = "missing"
IGNORED: Final = "ignored"


@dataclass(slots=True)
class PodFacts:
    """One pod as the HPA sees it. Times are POSIX seconds; the API gives whole ones."""

    name: str
    phase: str = "Running"
    """Pending, Running, Failed or Succeeded."""
    started: float | None = None
    """status.startTime."""
    ready: bool = False
    """The Ready condition is True; otherwise it is False, never Unknown."""
    ready_changed: float | None = None
    """lastTransitionTime of the Ready condition; None if there is no such condition."""
    deleted: bool = False
    request: int | None = 1000
    """Milli-cores that all containers request; None if a container requests none."""
    usage: int | None = None
    """Milli-cores by the metrics API; None if it has no metrics of the pod."""
    measured: float = 0.0
    """Timestamp of the metrics."""
    window: float = 15.0
    """Seconds that the metrics cover."""


class Readiness(NamedTuple):
    """The time, and the seconds after the start of a pod in which its CPU metrics are suspect."""

    now: float
    cpu_initialization: float
    initial_readiness: float


@dataclass(slots=True)
class Groups:
    """Sizes of the groups, with sums in milli-units. `strays` are metrics of pods that are not listed."""

    listed: int = 0
    measured: int = 0
    ready: int = 0
    unready: int = 0
    missing: int = 0
    ignored: int = 0
    strays: int = 0
    usage: int = 0
    """Usage of ready pods."""
    stray_usage: int = 0
    requests: int = 0
    """Requests of ready pods."""
    unready_requests: int = 0
    missing_requests: list[int] = field(default_factory=list)
    unrequested: str = ""
    """The first pod without a request, whichever its group."""


def group_of(pod: PodFacts, readiness: Readiness | None) -> str:
    """Returns the group of a pod. Only CPU knows readiness: None leaves its rules out."""
    if pod.deleted or pod.phase == "Failed":
        return IGNORED
    if pod.phase == "Pending":
        return UNREADY
    if pod.usage is None:
        return MISSING
    if readiness is None:
        return READY
    started, changed = pod.started, pod.ready_changed
    if started is None or changed is None:
        return UNREADY
    if started + readiness.cpu_initialization > readiness.now:
        # Metrics must cover a whole window since the pod became ready: its start burns CPU.
        return READY if pod.ready and pod.measured >= changed + pod.window else UNREADY
    # A transition soon after the start means that the pod has never been ready.
    return READY if pod.ready or started + readiness.initial_readiness <= changed else UNREADY


def group_pods(pods: Sequence[PodFacts], readiness: Readiness | None, strays: Iterable[int] = ()) -> Groups:
    """Returns the groups of all pods. `strays` are milli-cores of pods that only the metrics API lists."""
    groups = Groups(listed=len(pods))
    for usage in strays:
        groups.strays += 1
        groups.measured += 1
        groups.stray_usage += usage
    for pod in pods:
        request = pod.request
        if request is None:
            groups.unrequested = groups.unrequested or pod.name
            request = 0
        if pod.usage is not None:
            groups.measured += 1
        group = group_of(pod, readiness)
        if group is READY:
            groups.ready += 1
            groups.usage += pod.usage or 0
            groups.requests += request
        elif group is UNREADY:
            groups.unready += 1
            groups.unready_requests += request
        elif group is MISSING:
            groups.missing += 1
            groups.missing_requests.append(request)
        else:
            groups.ignored += 1
    return groups
