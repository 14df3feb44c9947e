"""Classifies the pods of all clusters for one metric.

Source: Kubernetes HPA 1.36, replica arithmetic 6.1. Cluster and name identify a pod: pods of two clusters
with one name are two pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.scaling.records import IGNORED, PENDING, PodRecord
from fedhpa.scaling.requests import requested_milli


class Sampled(Protocol):
    """The fields of a sample that the readiness rules read: POSIX seconds and seconds."""

    @property
    def timestamp(self) -> float:
        """The time of the measurement."""

    @property
    def window(self) -> float:
        """The length of the measurement."""


class ClusterSamples(msgspec.Struct, frozen=True):
    """One cluster's part of a metric: its selected pods and the values by pod name, in milli-units.

    `values` may name pods that are not listed in `pods`. `sample` finds the record behind a value; it is
    called only for young pods.
    """

    cluster: str
    pods: Sequence[PodRecord]
    values: dict[str, int]
    sample: Callable[[str], Sampled]


class Readiness(msgspec.Struct, frozen=True):
    """The ages at which the CPU usage of a pod counts: periods in seconds, `now` in POSIX seconds."""

    now: float
    cpu_initialization_period: float
    initial_readiness_delay: float


class Share(msgspec.Struct, frozen=True):
    """One cluster's counted pods and the sum of their values in milli-units."""

    pods: int
    milli: int


class Groups(msgspec.Struct, frozen=True):
    """All pods of a metric, classified.

    `counted` are the values of ready pods and of unlisted pods, `known` those of ready pods alone. Requests
    are milli-units, and 0 unless `group_pods` adds them up. `request_error` says why the request
    of a pod could not be read, "" if all could.
    """

    pods: int
    ready: int
    unready: int
    ignored: int
    missing: int
    counted: int
    counted_sum: int
    known_sum: int
    known_requests: int
    unready_requests: int
    missing_requests: tuple[int, ...]
    shares: Mapping[str, Share]
    request_error: str = ""


def running_and_ready(pods: Sequence[PodRecord]) -> int:
    """Returns how many pods run and have Ready=True. Object and External metrics count these."""
    # A list costs less than a generator here, and a decision counts the pods of all clusters.
    return len([pod for pod in pods if pod.running and pod.ready == "True"])


def group_pods(
    parts: Sequence[ClusterSamples],
    readiness: Readiness,
    *,
    cpu: bool,
    request: tuple[str, str] | None = None,
) -> Groups:
    """Returns the pods of every cluster, classified for one metric.

    `cpu` turns on the rules for young pods. `request` (resource, container or "") adds up the requests. The
    `values` of the parts are emptied.
    """
    total = _Total()
    shares: dict[str, Share] = {}
    for part in parts:
        counted, milli = _group_cluster(part, readiness, cpu, request, total)
        shares[part.cluster] = Share(counted, milli)
    return Groups(
        pods=sum(len(part.pods) for part in parts),
        ready=total.ready,
        unready=total.unready,
        ignored=total.ignored,
        missing=total.missing,
        counted=sum(share.pods for share in shares.values()),
        counted_sum=sum(share.milli for share in shares.values()),
        known_sum=total.known_sum,
        known_requests=total.known_requests,
        unready_requests=total.unready_requests,
        missing_requests=tuple(total.missing_requests),
        shares=shares,
        request_error=total.request_error,
    )


class _Total:
    __slots__ = (
        "ignored",
        "known_requests",
        "known_sum",
        "missing",
        "missing_requests",
        "ready",
        "request_error",
        "unready",
        "unready_requests",
    )

    def __init__(self) -> None:
        self.ready = self.unready = self.ignored = self.missing = 0
        self.known_sum = self.known_requests = self.unready_requests = 0
        self.missing_requests: list[int] = []
        self.request_error = ""

    def request_of(self, pod: PodRecord, resource: str, container: str) -> int:
        # A missing request fails only a utilization target, and only if there is usage at all.
        try:
            return requested_milli(pod.requests, resource, container, pod.name)
        except MetricsUnavailable as error:
            self.request_error = self.request_error or str(error)
            return 0


def _group_cluster(
    part: ClusterSamples, readiness: Readiness, cpu: bool, request: tuple[str, str] | None, total: _Total
) -> tuple[int, int]:
    # The one loop over all pods of a decision. Its variables are local, and the first branch takes most pods.
    take = part.values.pop
    # A pod that started before this is initialized. The extra second absorbs the rounding in `_is_unready`.
    long_ago = readiness.now - readiness.cpu_initialization_period - 1.0
    resource, container = request or ("", "")
    last_requests, requested = None, 0
    ready = unready = ignored = ready_sum = ready_requested = unready_requested = 0
    missing = total.missing_requests
    before = len(missing)
    for pod in part.pods:
        if request is not None and pod.requests is not last_requests:
            last_requests = pod.requests
            requested = total.request_of(pod, resource, container)
        value = take(pod.name, None)
        if value is not None and pod.settled and (not cpu or pod.start < long_ago):  # type: ignore[operator]  # settled pods have started
            ready += 1
            ready_sum += value
            ready_requested += requested
        elif pod.state == IGNORED:
            ignored += 1
        elif pod.state == PENDING:
            unready += 1
            unready_requested += requested
        elif value is None:
            missing.append(requested)
        elif cpu and _is_unready(pod, part.sample(pod.name), readiness):
            unready += 1
            unready_requested += requested
        else:
            ready += 1
            ready_sum += value
            ready_requested += requested
    total.ready += ready
    total.unready += unready
    total.ignored += ignored
    total.missing += len(missing) - before
    total.known_sum += ready_sum
    total.known_requests += ready_requested
    total.unready_requests += unready_requested
    # The values left are those of unlisted pods. Kubernetes counts them in averages and in the last step.
    unlisted = part.values.values()
    return ready + len(unlisted), ready_sum + sum(unlisted)


def _is_unready(pod: PodRecord, sample: Sampled, readiness: Readiness) -> bool:
    if not pod.ready or pod.start is None:
        return True
    if pod.start + readiness.cpu_initialization_period > readiness.now:
        return pod.ready == "False" or sample.timestamp < pod.ready_since + sample.window
    # A pod whose last transition was soon after its start never became ready. Unknown is not False.
    return pod.ready == "False" and pod.start + readiness.initial_readiness_delay > pod.ready_since
