"""The synchronisation of one HPA.

Source: reconcileAutoscaler of Kubernetes' HPA 1.36 (horizontal.go). The feature gates are those of a default
cluster: HPAConfigurableTolerance is on and HPAScaleToZero is off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from benchmarks.world.hpa.normalisation import (
    MESSAGES,
    Recommendation,
    ScaleEvent,
    limit,
    limit_legacy,
    remember,
    stabilise,
    stabilise_legacy,
)
from benchmarks.world.hpa.pods import Groups, PodFacts, Readiness, group_pods
from benchmarks.world.hpa.proposals import (
    MetricError,
    Proposal,
    Tolerances,
    propose_average,
    propose_utilization,
)
from benchmarks.world.hpa.quantities import text_of
from benchmarks.world.hpa.specs import CpuMetric, Spec, read_spec

# The controller waits a period after the end of a sync, so an entry of n syncs ago is a little older than n
# periods. Simulated syncs are exactly a period apart: without this moment a window would last a sync longer.
_LATER: Final = 0.001


@dataclass(slots=True)
class Sync:
    """The outcome of one sync."""

    replicas: int | None
    """Replicas to write to the scale; None if nothing is to be written."""
    status: dict[str, Any]
    """The HPA's status as JSON. A zero `currentReplicas`, which the API leaves out, is there too."""


class Hpa:
    """The controller's memory of one HPA. The durations are the controller's flags, in seconds.

    A write of the scale is taken to succeed. A pod has one container, so metrics of type ContainerResource
    read the same facts as those of type Resource.
    """

    def __init__(
        self,
        *,
        tolerance: float = 0.1,
        downscale_stabilization: float = 300.0,
        cpu_initialization: float = 300.0,
        initial_readiness: float = 30.0,
    ) -> None:
        self._tolerance = tolerance
        self._downscale_stabilization = downscale_stabilization
        self._cpu_initialization = cpu_initialization
        self._initial_readiness = initial_readiness
        self._recommendations: list[Recommendation] = []
        self._ups: list[ScaleEvent] = []
        self._downs: list[ScaleEvent] = []
        self._conditions: dict[str, dict[str, str]] = {}
        self._desired = 0
        self._last_scale: float | None = None

    def sync(
        self,
        spec: Mapping[str, Any],
        current: int,
        status_replicas: int,  # noqa: ARG002  # only metrics of type Object and External read it
        pods: Sequence[PodFacts],
        now: float,
    ) -> Sync:
        """Returns what the controller writes at `now` (POSIX seconds) to a scale of `current` replicas.

        `spec` is that of an HPA of autoscaling/v2 as JSON, with or without the API server's defaults.
        Raises NotImplementedError for a metric that is not of CPU.
        """
        read = read_spec(spec)
        self._condition(
            "AbleToScale",
            True,
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
            now,
        )
        if not self._recommendations:
            self._recommendations.append(Recommendation(now, current))
        metrics: list[dict[str, Any]] | None = None
        if current == 0:
            self._condition(
                "ScalingActive",
                False,
                "ScalingDisabled",
                "scaling is disabled since the replica count of the target is zero",
                now,
            )
            desired = 0
        elif current > read.maximum:
            desired = read.maximum
        elif current < read.minimum:
            desired = read.minimum
        else:
            proposed, metrics = self._measure(read, current, pods, now)
            if proposed is None:
                return Sync(None, self._status(current, self._desired, metrics))
            desired = self._normalise(read, current, proposed, now)
        if desired != current:
            self._rescaled(read, current, desired, now)
        self._desired = desired
        return Sync(None if desired == current else desired, self._status(current, desired, metrics))

    def _measure(
        self, spec: Spec, current: int, pods: Sequence[PodFacts], now: float
    ) -> tuple[int | None, list[dict[str, Any]]]:
        """Returns the highest proposal, or None if nothing can be decided, and the metrics of the status."""
        groups = group_pods(pods, Readiness(now + _LATER, self._cpu_initialization, self._initial_readiness))
        tolerances = self._tolerances(spec)
        highest, name, failures = 0, "", list[tuple[str, str]]()
        statuses = []
        for metric in spec.metrics:
            try:
                proposal = _propose(metric, groups, current, tolerances)
            except MetricError as error:
                failures.append((f"FailedGet{metric.type}Metric", str(error)))
                statuses.append({"type": ""})
                continue
            statuses.append(_metric_status(metric, proposal))
            if highest == 0 or proposal.replicas > highest:
                highest, name = proposal.replicas, metric.name
        # With a metric unknown, the others may only hold or raise the size.
        if len(failures) == len(spec.metrics) or (failures and highest < current):
            reason, text = failures[0]
            message = f"the HPA was unable to compute the replica count: {text}"
            self._condition("ScalingActive", False, reason, message, now)
            return None, statuses
        message = f"the HPA was able to successfully calculate a replica count from {name}"
        self._condition("ScalingActive", True, "ValidMetricFound", message, now)
        return highest, statuses

    def _tolerances(self, spec: Spec) -> Tolerances:
        up = down = self._tolerance
        if spec.rules is not None:
            up = up if spec.rules[0].tolerance is None else spec.rules[0].tolerance
            down = down if spec.rules[1].tolerance is None else spec.rules[1].tolerance
        return Tolerances(up, down)

    def _normalise(self, spec: Spec, current: int, desired: int, now: float) -> int:
        """Returns the size after stabilisation and limits; sets the conditions that tell of both."""
        clock = now + _LATER
        past = self._recommendations
        if spec.rules is None:
            cutoff = clock - self._downscale_stabilization
            stabilised, held = stabilise_legacy(desired, past, cutoff), "ScaleDownStabilized"
        else:
            up, down = spec.rules
            up_cutoff = clock - (up.window or 0)
            # The controller cuts its flag to whole seconds.
            down_cutoff = clock - (int(self._downscale_stabilization) if down.window is None else down.window)
            cutoff = min(up_cutoff, down_cutoff)
            stabilised, held = stabilise(current, desired, past, up_cutoff, down_cutoff)
        remember(past, Recommendation(now, desired), cutoff)
        reason = "ReadyForNewScale" if stabilised == desired else held
        self._condition("AbleToScale", True, reason, MESSAGES[reason], now)

        if spec.rules is None:
            limited, reason = limit_legacy(current, stabilised, spec.minimum, spec.maximum)
        else:
            events = self._ups, self._downs
            limited, reason = limit(
                current, stabilised, spec.minimum, spec.maximum, spec.rules, events, clock
            )
        self._condition("ScalingLimited", limited != stabilised, reason, MESSAGES[reason], now)
        return limited

    def _rescaled(self, spec: Spec, current: int, desired: int, now: float) -> None:
        """Takes note of a scale. Without behavior nobody reads scale events, so there are none."""
        message = f"the HPA controller was able to update the target scale to {desired}"
        self._condition("AbleToScale", True, "SucceededRescale", message, now)
        self._last_scale = now
        if spec.rules is not None:
            up = desired > current
            rules, events = (spec.rules[0], self._ups) if up else (spec.rules[1], self._downs)
            cutoff = now + _LATER - rules.longest_period()
            remember(events, ScaleEvent(now, abs(desired - current)), cutoff)

    def _condition(self, kind: str, met: bool, reason: str, message: str, now: float) -> None:
        status = "True" if met else "False"
        condition = self._conditions.get(kind)
        if condition is None:
            condition = self._conditions[kind] = {"type": kind, "status": ""}
        if condition["status"] != status:
            condition["status"] = status
            condition["lastTransitionTime"] = _time(now)
        condition["reason"], condition["message"] = reason, message

    def _status(self, current: int, desired: int, metrics: list[dict[str, Any]] | None) -> dict[str, Any]:
        status: dict[str, Any] = {
            "currentReplicas": current,
            "desiredReplicas": desired,
            "currentMetrics": metrics,
            "conditions": [dict(condition) for condition in self._conditions.values()],
        }
        if self._last_scale is not None:
            status["lastScaleTime"] = _time(self._last_scale)
        return status


def _propose(metric: CpuMetric, groups: Groups, current: int, tolerances: Tolerances) -> Proposal:
    """Returns the proposal of one metric; an average value goes before a utilization."""
    try:
        if metric.average_value is not None:
            return propose_average(groups, metric.average_value, current, tolerances)
        if metric.average_utilization is not None:
            return propose_utilization(groups, metric.average_utilization, current, tolerances)
    except MetricError as error:
        figure = "utilization" if metric.average_value is None else "usage"
        raise MetricError(f"failed to get cpu {figure}: {error}") from error
    raise MetricError(
        "invalid resource metric source: neither an average utilization target "
        "nor an average value (usage) target was set"
    )


def _metric_status(metric: CpuMetric, proposal: Proposal) -> dict[str, Any]:
    current: dict[str, Any] = {"averageValue": text_of(proposal.average)}
    if proposal.utilization is not None:
        current["averageUtilization"] = proposal.utilization
    found: dict[str, Any] = {"name": "cpu", "current": current}
    if metric.container is not None:
        found["container"] = metric.container
    return {"type": metric.type, metric.source: found}


def _time(moment: float) -> str:
    """RFC 3339 in whole seconds, cut as the API machinery cuts."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
