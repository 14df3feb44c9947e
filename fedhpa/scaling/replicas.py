"""The number of replicas that one metric proposes.

Source: Kubernetes HPA 1.36, replica arithmetic 6.2-6.5; Karmada v1.19 for calibration. Calibration is
(replicas of the clusters that answered) / (replicas of the workload): the clusters that answered stand for
the others. It is applied once; Karmada applies it twice to Object AverageValue. Values are milli-units. Where
Go's conversions to int32 overflow, the result here is the largest int32.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import MAX_INT64
from fedhpa.scaling.grouping import Groups
from fedhpa.scaling.rules import Tolerances

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
