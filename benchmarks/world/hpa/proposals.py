"""Replicas that one metric proposes.

Source: GetResourceReplicas and GetRawResourceReplicas of Kubernetes' HPA 1.36 (replica_calculator.go).
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from benchmarks.world.hpa.pods import Groups


class MetricError(Exception):
    """A metric proposes nothing; the text is the controller's."""


class Tolerances(NamedTuple):
    """Deviations from a usage ratio of 1 that change nothing."""

    up: float
    down: float

    def hold(self, ratio: float) -> bool:
        """True if the ratio is within the tolerances; both bounds are inclusive."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(NamedTuple):
    """Replicas, and what the status reports: measured values only, nothing assumed of other pods."""

    replicas: int
    average: int
    ratio: float
    utilization: int | None


def propose_utilization(groups: Groups, target: int, current: int, tolerances: Tolerances) -> Proposal:
    """Returns the proposal of a target in per cent of requests."""
    _require_metrics(groups)
    if groups.unrequested:
        # The controller also names the container, which PodFacts does not know.
        raise MetricError(f"missing request for cpu of Pod {groups.unrequested}")
    usage, requests = groups.usage, groups.requests
    if requests == 0:
        raise MetricError("no metrics returned matched known pods")
    # The percentage is cut to an integer before it is divided.
    utilization = usage * 100 // requests
    ratio, average = utilization / target, usage // groups.ready
    rebalance = groups.unready > 0 and ratio > 1.0
    if not rebalance and not groups.missing:
        replicas = current if tolerances.hold(ratio) else ceil(ratio * groups.ready)
        return Proposal(replicas, average, ratio, utilization)

    counted = groups.ready + groups.strays
    if groups.missing and ratio != 1.0:
        counted += groups.missing
        requests += sum(groups.missing_requests)
        if ratio < 1.0:
            # A scale-down must not rest on pods that nobody measured: they count as fully used.
            assumed = max(100, target)
            usage += sum(request * assumed // 100 for request in groups.missing_requests)
    if rebalance:
        counted += groups.unready
        requests += groups.unready_requests
    again = (usage * 100 // requests) / target
    return Proposal(_second_pass(ratio, again, counted, current, tolerances), average, ratio, utilization)


def propose_average(groups: Groups, target: int, current: int, tolerances: Tolerances) -> Proposal:
    """Returns the proposal of a target in milli-units per pod."""
    _require_metrics(groups)
    usage, counted = groups.usage + groups.stray_usage, groups.ready + groups.strays
    average = usage // counted
    ratio = average / target
    rebalance = groups.unready > 0 and ratio > 1.0
    if not rebalance and not groups.missing:
        replicas = current if tolerances.hold(ratio) else ceil(ratio * groups.ready)
        return Proposal(replicas, average, ratio, None)

    if groups.missing and ratio != 1.0:
        counted += groups.missing
        if ratio < 1.0:
            usage += target * groups.missing
    if rebalance:
        counted += groups.unready
    again = (usage // counted) / target
    return Proposal(_second_pass(ratio, again, counted, current, tolerances), average, ratio, None)


def _require_metrics(groups: Groups) -> None:
    if not groups.measured:
        raise MetricError(
            "unable to get metrics for resource cpu: no metrics returned from resource metrics API"
        )
    if not groups.listed:
        raise MetricError("no pods returned by selector while calculating replica count")
    if not groups.ready + groups.strays:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")


def _second_pass(first: float, again: float, counted: int, current: int, tolerances: Tolerances) -> int:
    """Returns the replicas once values were assumed for other pods, which may not reverse the direction."""
    if tolerances.hold(again) or first < 1.0 < again or again < 1.0 < first:
        return current
    replicas = ceil(again * counted)
    if (again < 1.0 and replicas > current) or (again > 1.0 and replicas < current):
        return current
    return replicas
