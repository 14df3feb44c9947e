"""Evaluates the metrics over all clusters, and takes the highest proposal.

Source: Kubernetes HPA 1.36, reconcile 4.6, metric sources 5 and selector handling 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fedhpa.api.fielderror import unsupported
from fedhpa.decision.context import Context, NoDecision
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.messages import SCALING_ACTIVE
from fedhpa.decision.model import MetricResult
from fedhpa.metric_types.metric import USAGE_API, MetricError, MetricProposal, ScalingMetric
from fedhpa.metric_types.sources import AGGREGATIONS, TARGET_TYPES
from fedhpa.metric_types.table import metric_type
from fedhpa.scaling import CurrentSize, Readiness, Tolerances

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
    kind = spec.metric_type
    try:
        if kind.field and not spec.present:
            raise MetricError(f"invalid metric source: type {spec.type} without {kind.field}")
        _check_words(spec)
        found = kind.propose(fleet, scale, readiness, spec)
    except MetricError as error:
        source = kind.failure_source.format(name=spec.name, container=spec.container)
        text = f"failed to get {source} metric value: {error.text}" if source else error.text
        failed = _result(fleet, index, spec, None, text)
        return EvaluatedMetric(failed, kind.failure_reason, error.inner)
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
        missing=dict(fleet.failures(spec)),
    )


def status_entry(spec: ScalingMetric, current: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Returns the metric's entry of status.currentMetrics with its current value."""
    body = {**spec.metric_type.status_fields(spec), "current": current}
    return {"type": spec.type, spec.metric_type.field: body}


def highest_proposal(context: Context, current: int) -> tuple[int, str]:
    """Returns the highest proposal and the name of its metric; sets ScalingActive. Raises NoDecision.

    If a metric fails, the others may still propose growth or no change. A smaller size would rest on missing
    data, so it is no decision.
    """
    _check_selectors(context)
    evaluated = _evaluate_all(context, current)
    best, name = 0, ""
    failed: list[EvaluatedMetric] = []
    for found, metric in zip(evaluated, context.spec.metrics, strict=True):
        proposal = found.result.proposal
        if proposal is None:
            failed.append(found)
            context.builder.warn(found.failure_reason, found.failure_text)
        elif best == 0 or proposal > best:
            best, name = proposal, metric.metric_type.display_name(metric)
    if failed and (len(failed) == len(evaluated) or best < current):
        first = failed[0]
        message = f"the HPA was unable to compute the replica count: {first.failure_text}"
        context.builder.condition(SCALING_ACTIVE, False, first.failure_reason, message)
        raise NoDecision(
            f"invalid metrics ({len(failed)} invalid out of {len(evaluated)}), "
            f"first error is: {first.result.error}"
        )
    message = f"the HPA was able to successfully calculate a replica count from {name}"
    context.builder.condition(SCALING_ACTIVE, True, "ValidMetricFound", message)
    return best, name


def check_ambiguity(context: Context) -> None:
    """Raises NoDecision if another autoscaler selects the same pods; sets ScalingActive and adds the events.

    Kubernetes compares the selectors only after the bounds. Two owners with other bounds then take turns.
    """
    if len(context.snapshot.ambiguous_with) > 1 and context.fleet.answered:
        selector = context.fleet.answered[0].scale.selector  # the text as stored, not the canonical form
        others = " ".join(context.snapshot.ambiguous_with)
        text = f"pods by selector {selector} are controlled by multiple HPAs: [{others}]"
        context.builder.warn("AmbiguousSelector", text)
        context.builder.warn("FailedComputeMetricsReplicas", text)
        context.builder.condition(SCALING_ACTIVE, False, "AmbiguousSelector", text)
        raise NoDecision(text)


def follows_pods(metric: MetricResult) -> bool:
    """True if its usage falls when pods are added. Memory does not."""
    return metric.name != "memory" or metric_type(metric.type).api != USAGE_API


def tolerances(context: Context) -> Tolerances:
    """Returns the tolerance of each direction: that of spec.behavior, else the controller's."""
    up = down = context.settings.tolerance
    behavior = context.spec.behavior
    if behavior is not None:
        up = up if behavior.scale_up.tolerance is None else behavior.scale_up.tolerance
        down = down if behavior.scale_down.tolerance is None else behavior.scale_down.tolerance
    return Tolerances(up, down)


def _evaluate_all(context: Context, current: int) -> list[EvaluatedMetric]:
    settings = context.settings
    scale = CurrentSize(current, tolerances(context), context.fleet.calibration)
    readiness = Readiness(context.now, settings.cpu_initialization_period, settings.initial_readiness_delay)
    evaluated = [
        evaluate(context.fleet, scale, readiness, index, metric)
        for index, metric in enumerate(context.spec.metrics)
    ]
    context.metrics = tuple(found.result for found in evaluated)
    return evaluated


def _check_selectors(context: Context) -> None:
    if not context.fleet.answered:
        event, text = context.fleet.selector_errors[0]
        lacks = event == "SelectorRequired"
        message = "the HPA target's scale is missing a selector" if lacks else text
        context.builder.warn(event, text)
        context.builder.condition(SCALING_ACTIVE, False, "InvalidSelector", message)
        raise NoDecision(text)
