"""Evaluates one entry of spec.metrics over all clusters.

Source: Kubernetes HPA 1.36, metric sources 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fedhpa.api.fielderror import unsupported
from fedhpa.api.metrics.parts import AGGREGATIONS, TARGET_TYPES
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.messages import failure_of
from fedhpa.decision.metrics.proposal import MetricError, MetricProposal
from fedhpa.decision.metrics.table import EVALUATORS
from fedhpa.decision.model import MetricResult
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import CurrentSize, Readiness

JSON = object


class EvaluatedMetric(NamedTuple):
    """A metric's result and, if it failed, the reason and text of its event."""

    result: MetricResult
    failure_reason: str = ""
    failure_text: str = ""


def evaluate(
    fleet: FleetView, scale: CurrentSize, readiness: Readiness, index: int, spec: ScalingMetric
) -> EvaluatedMetric:
    """Returns the result of one entry of spec.metrics. A failure is part of the result; nothing is raised."""
    evaluator = EVALUATORS.get(spec.type)
    try:
        if evaluator is None:
            raise MetricError(f'unknown metric source type "{spec.type}"')
        if not spec.present:
            raise MetricError(f"invalid metric source: type {spec.type} without {spec.metric_type.field}")
        _check_words(spec)
        found = evaluator.propose(fleet, scale, readiness, spec)
    except MetricError as error:
        failed = _result(fleet, index, spec, None, failure_of(spec, error.text))
        return EvaluatedMetric(failed, spec.metric_type.failure_reason, error.inner)
    return EvaluatedMetric(_result(fleet, index, spec, found, None))


def _check_words(spec: ScalingMetric) -> None:
    """Raises MetricError for a value that a newer release may know: it would be read as another one here."""
    place = f"spec.metrics[].{spec.metric_type.field}"
    if spec.target_type and spec.target_type not in TARGET_TYPES:
        raise MetricError(str(unsupported(f"{place}.target.type", spec.target_type, TARGET_TYPES)))
    if spec.aggregation not in AGGREGATIONS:
        raise MetricError(str(unsupported(f"{place}.aggregation", spec.aggregation, AGGREGATIONS)))


def _result(
    fleet: FleetView, index: int, spec: ScalingMetric, found: MetricProposal | None, error: str | None
) -> MetricResult:
    return MetricResult(
        index=index,
        type=spec.type,
        name=spec.name,
        current=found.current if found else None,
        target=spec.target,
        usage_ratio=found.proposal.ratio if found else None,
        # Kubernetes lets a negative number wrap around or overflow; here it counts as 0.
        proposal=max(0, found.proposal.replicas) if found else None,
        error=error,
        pods=found.pods if found else None,
        clusters=found.shares if found else {},
        status=status_entry(spec, found.current) if found else {"type": ""},
        missing={cluster: failure.error for cluster, failure in fleet.failures(spec)},
    )


def status_entry(spec: ScalingMetric, current: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Returns the metric's entry of status.currentMetrics with its current value."""
    body = {**EVALUATORS[spec.type].status(spec), "current": current}
    return {"type": spec.type, spec.metric_type.field: body}
