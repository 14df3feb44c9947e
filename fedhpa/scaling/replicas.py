"""The number of replicas that one metric proposes, from the pods of all clusters.

Source: Kubernetes HPA 1.36, replica arithmetic 6.1-6.5; Karmada v1.19 for calibration. Cluster and name
identify a pod: pods of two clusters with one name are two pods. Calibration is (replicas of the clusters that
answered) / (replicas of the workload): the clusters that answered stand for the others. It is applied once;
Karmada applies it twice to Object AverageValue. Values are milli-units. Where Go's conversions to int32
overflow, the result here is the largest int32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import MAX_INT64
from fedhpa.scaling.records import IGNORED, PENDING, CustomSample, PodRecord, UsageRecord
from fedhpa.scaling.requests import PodRequests


class Tolerances(msgspec.Struct, frozen=True):
    """The distances of usage from the target that cause no change, as fractions; both ends are included."""

    scale_up: float
    scale_down: float

    def within(self, ratio: float) -> bool:
        """True if the usage ratio calls for no change."""
        return 1.0 - self.scale_down <= ratio <= 1.0 + self.scale_up


class ClusterPods(Protocol):
    """The pods of a cluster. Its answer is `age` seconds old, and its pods are classified as of then."""

    @property
    def name(self) -> str:
        """The name of the cluster."""

    @property
    def pods(self) -> Sequence[PodRecord]:
        """The workload's pods."""

    @property
    def age(self) -> float:
        """The age of the answer in seconds."""


# One cluster's part of a metric: the cluster, the values by pod name in milli-units, and the records behind
# them, which only the rules for young pods read. The values may name pods that are not listed.
Part: TypeAlias = tuple[ClusterPods, dict[str, int], Sequence[UsageRecord | CustomSample]]


class Readiness(msgspec.Struct, frozen=True):
    """The ages at which the CPU usage of a pod counts: periods in seconds, `now` in POSIX seconds."""

    now: float
    cpu_initialization_period: float
    initial_readiness_delay: float


class Share(msgspec.Struct, frozen=True, gc=False):
    """One cluster's counted pods and the sum of their values in milli-units."""

    pods: int
    milli: int


class Groups(msgspec.Struct):
    """All pods of a metric, classified.

    `counted` are the values of ready pods and of unlisted pods, `known` those of ready pods alone. Requests
    are milli-units, and 0 unless `group_pods` adds them up. `request_error` says why the request
    of a pod could not be read, "" if all could.
    """

    pods: int = 0
    ready: int = 0
    unready: int = 0
    ignored: int = 0
    counted: int = 0
    counted_sum: int = 0
    known_sum: int = 0
    known_requests: int = 0
    unready_requests: int = 0
    missing_requests: list[int] = []
    shares: dict[str, Share] = {}
    request_error: str = ""

    @property
    def missing(self) -> int:
        """The number of pods without a value."""
        return len(self.missing_requests)


def running_and_ready(pods: Sequence[PodRecord]) -> int:
    """Returns how many pods run and have Ready=True. Object and External metrics count these."""
    # A decision counts the pods of all clusters, so this makes no list and no generator.
    ready = 0
    for pod in pods:
        if pod.running and pod.ready == "True":
            ready += 1
    return ready


def group_pods(
    parts: Sequence[Part],
    readiness: Readiness,
    *,
    cpu: bool,
    request: tuple[str, str] | None = None,
    strays: Mapping[str, Mapping[str, int]] = {},
) -> Groups:
    """Returns the pods of every cluster, classified for one metric.

    `cpu` turns on the rules for young pods. `request` (resource, container or "") adds up the requests. The
    values of the parts are emptied. `strays` are values of pods in no known cluster, by their source.
    """
    # The one loop over all pods of a decision. Its variables are local, and the first branch takes most pods.
    resource, container = request or ("", "")
    # The pods of a workload share their requests, in all clusters.
    last_requests, requested, request_error = None, 0, ""
    ready = unready = ignored = ready_sum = ready_requested = unready_requested = 0
    missing, shares = list[int](), dict[str, Share]()
    for cluster, values, records in parts:
        then = (
            msgspec.structs.replace(readiness, now=readiness.now - cluster.age) if cluster.age else readiness
        )
        # A pod that started before this is initialized. One more second is for the rounding in `_is_unready`.
        long_ago = then.now - then.cpu_initialization_period - 1.0
        take, others, other_sum = values.pop, ready, ready_sum
        samples: dict[str, UsageRecord | CustomSample] = {}
        for pod in cluster.pods:
            if request is not None and pod.requests is not last_requests:
                last_requests = pod.requests
                # A missing request fails only a utilization target, and only if there is usage at all.
                try:
                    requested = requested_milli(pod.requests, resource, container, pod.name)
                except MetricsUnavailable as error:
                    request_error, requested = request_error or str(error), 0
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
            elif cpu and _is_unready(pod, samples := samples or {one.name: one for one in records}, then):
                unready += 1
                unready_requested += requested
            else:
                ready += 1
                ready_sum += value
                ready_requested += requested
        counted, milli = ready - others, ready_sum - other_sum
        if values:
            # Those left are of unlisted pods. Kubernetes counts them in averages and in the last step.
            counted, milli = counted + len(values), milli + sum(values.values())
        shares[cluster.name] = Share(counted, milli)
    for source, left in strays.items():
        shares[source] = Share(len(left), sum(left.values()))
    return Groups(
        pods=sum([len(cluster.pods) for cluster, _, _ in parts]),
        ready=ready,
        unready=unready,
        ignored=ignored,
        counted=sum([share.pods for share in shares.values()]),
        counted_sum=sum([share.milli for share in shares.values()]),
        known_sum=ready_sum,
        known_requests=ready_requested,
        unready_requests=unready_requested,
        missing_requests=missing,
        shares=shares,
        request_error=request_error,
    )


def requested_milli(requests: PodRequests, resource: str, container: str, pod_name: str) -> int:
    """Returns the request of a pod, or of one container (`container` "" means all), in milli-units.

    Raises MetricsUnavailable with Kubernetes' text if a container that counts has no request.
    """
    if not container and requests.pod_level is not None:
        amount = requests.pod_level.get(resource)
        if amount is None:
            raise MetricsUnavailable(f"missing pod-level request for {resource} in Pod {pod_name}")
        return amount
    total = 0
    found = not container
    for name, milli in requests.containers:
        if container and name != container:
            continue
        found = True
        if resource not in milli:
            raise MetricsUnavailable(f"missing request for {resource} in container {name} of Pod {pod_name}")
        total += milli[resource]
    if not found:
        raise MetricsUnavailable(f"container {container} not found in Pod {pod_name}")
    return total


def _is_unready(
    pod: PodRecord, samples: Mapping[str, UsageRecord | CustomSample], readiness: Readiness
) -> bool:
    if not pod.ready or pod.start is None:
        return True
    if pod.start + readiness.cpu_initialization_period > readiness.now:
        sample = samples[pod.name]
        return pod.ready == "False" or sample.timestamp < pod.ready_since + sample.window
    # A pod whose last transition was soon after its start never became ready. Unknown is not False.
    return pod.ready == "False" and pod.start + readiness.initial_readiness_delay > pod.ready_since


MAX_INT32: Final = 2**31 - 1

NO_PODS: Final = "no pods returned by selector while calculating replica count"


class CurrentSize(msgspec.Struct, frozen=True):
    """The present size, the tolerances and the calibration."""

    current: int
    tolerances: Tolerances
    calibration: float = 1.0


class Proposal(msgspec.Struct, frozen=True):
    """The proposal of one metric.

    `ratio` is usage / target before missing pods are filled in. `milli` is the average or the value that the
    status reports. `utilization` is per cent of requests, None for metrics without requests.
    """

    replicas: int
    ratio: float
    milli: int
    utilization: int | None = None


def propose_utilization(groups: Groups, target: int, scale: CurrentSize) -> Proposal:
    """Returns the proposal for a target of `target` per cent of the requests. Raises MetricsUnavailable."""
    _check(groups)
    if groups.request_error:
        raise MetricsUnavailable(groups.request_error)
    if groups.known_requests == 0:
        raise MetricsUnavailable("no metrics returned matched known pods")
    utilization = _utilization(groups.known_sum, groups.known_requests)
    ratio = _ratio(utilization, target)
    average = _truncate(groups.known_sum, groups.ready)
    rebalance = groups.unready > 0 and ratio > 1
    if not rebalance and not groups.missing:
        return Proposal(_size_for(groups.ready, ratio, scale), ratio, average, utilization)
    filled_sum, filled_requests, counted = groups.known_sum, groups.known_requests, groups.counted
    if ratio != 1 and groups.missing:
        # Going down, a pod without usage counts as using its whole request; going up, as using nothing.
        share = max(100, target) if ratio < 1 else 0
        filled_sum += sum(_truncate(request * share, 100) for request in groups.missing_requests)
        filled_requests += sum(groups.missing_requests)
        counted += groups.missing
    if rebalance:
        filled_requests += groups.unready_requests
        counted += groups.unready
    again = _ratio(_utilization(filled_sum, filled_requests), target)
    return Proposal(_settle(ratio, again, counted, scale), ratio, average, utilization)


def propose_average(groups: Groups, target: int, scale: CurrentSize) -> Proposal:
    """Returns the proposal for an average per pod: Pods, and resources by averageValue.

    Raises MetricsUnavailable.
    """
    _check(groups)
    average = _truncate(groups.counted_sum, groups.counted)
    ratio = _ratio(average, target)
    rebalance = groups.unready > 0 and ratio > 1
    if not rebalance and not groups.missing:
        return Proposal(_size_for(groups.ready, ratio, scale), ratio, average)
    filled_sum, counted = groups.counted_sum, groups.counted
    if ratio != 1 and groups.missing:
        filled_sum += groups.missing * target if ratio < 1 else 0
        counted += groups.missing
    if rebalance:
        counted += groups.unready
    again = _ratio(_truncate(filled_sum, counted), target)
    return Proposal(_settle(ratio, again, counted, scale), ratio, average)


def propose_value(value: int, target: int, pods: int, ready_pods: int, scale: CurrentSize) -> Proposal:
    """Returns the proposal for one value against a target: Object and External with type Value.

    `ready_pods` of the `pods` selected pods run and are ready. Raises MetricsUnavailable.
    """
    ratio = _ratio(value, target)
    if scale.current == 0:
        return Proposal(_ceil(ratio), ratio, value)
    if scale.tolerances.within(ratio):
        return Proposal(scale.current, ratio, value)
    if not pods:
        raise MetricsUnavailable(f"unable to calculate ready pods: {NO_PODS}")
    return Proposal(_calibrated(ratio * ready_pods, scale.calibration), ratio, value)


def propose_per_pod(value: int, target: int, status_replicas: int, scale: CurrentSize) -> Proposal:
    """Returns the proposal for one value divided by all pods: Object and External with type AverageValue.

    Raises MetricsUnavailable.
    """
    whole = _ratio(value, target)
    if status_replicas == 0:
        # No pod runs, so there is no average: the value itself is reported.
        return Proposal(_calibrated(whole, scale.calibration), math.inf if value else math.nan, value)
    ratio = value / (float(target) * status_replicas)
    average = min(math.ceil(value / status_replicas), MAX_INT64)
    wanted = float(status_replicas) if scale.tolerances.within(ratio) else whole
    return Proposal(_calibrated(wanted, scale.calibration), ratio, average)


def _check(groups: Groups) -> None:
    if groups.pods == 0:
        raise MetricsUnavailable(NO_PODS)
    if groups.counted == 0:
        raise MetricsUnavailable("did not receive metrics for targeted pods (pods might be unready)")


def _size_for(ready: int, ratio: float, scale: CurrentSize) -> int:
    """Returns the size at `ratio` times the target; the current one if the ratio is within the tolerance."""
    if scale.tolerances.within(ratio):
        return scale.current
    return _calibrated(ratio * ready, scale.calibration)


def _settle(first: float, again: float, counted: int, scale: CurrentSize) -> int:
    """Returns the size after missing pods were filled in; the present one if that reversed the direction."""
    turned = (first < 1 and again > 1) or (first > 1 and again < 1)
    if turned or scale.tolerances.within(again):
        return scale.current
    replicas = _calibrated(again * counted, scale.calibration)
    against = (again < 1 and replicas > scale.current) or (again > 1 and replicas < scale.current)
    return scale.current if against else replicas


def _utilization(usage: int, requests: int) -> int:
    return min(_truncate(usage * 100, requests), MAX_INT32)


def _ratio(value: int, target: int) -> float:
    if target <= 0:
        raise MetricsUnavailable(f"the target is {target}, it must be greater than 0")
    return value / target


def _truncate(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def _calibrated(replicas: float, calibration: float) -> int:
    if calibration == 1.0:
        return _ceil(replicas)
    exact = replicas / calibration
    # Calibration is a rounded quotient. A result that is above a whole number only by rounding is that number
    # (3 of 5 replicas at 1.6 times the target give 8, not 9).
    nearest = round(exact) if math.isfinite(exact) else exact
    return _ceil(nearest if math.isclose(exact, nearest, rel_tol=1e-12) else exact)


def _ceil(replicas: float) -> int:
    if math.isnan(replicas):
        return 0
    return math.ceil(max(-MAX_INT32, min(replicas, MAX_INT32)))
