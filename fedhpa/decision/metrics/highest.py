"""The highest proposal of all metrics.

Source: Kubernetes HPA 1.36, reconcile 4.6 and selector handling 12.
"""

from __future__ import annotations

from fedhpa.decision.context import Context, NoDecision
from fedhpa.decision.messages import NO_SELECTOR, SCALING_ACTIVE, SELECTOR_REQUIRED
from fedhpa.decision.metrics.evaluate import EvaluatedMetric, evaluate
from fedhpa.decision.metrics.table import EVALUATORS
from fedhpa.scaling import CurrentSize, Readiness, Tolerances


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
            best, name = proposal, EVALUATORS[metric.type].display_name(metric)
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
        message = text
        if event == "SelectorRequired":
            text, message = SELECTOR_REQUIRED, NO_SELECTOR
        _refuse(context, event, text, "InvalidSelector", message)


def _refuse(context: Context, event: str, text: str, reason: str, message: str) -> None:
    context.builder.warn(event, text)
    context.builder.condition(SCALING_ACTIVE, False, reason, message)
    raise NoDecision(text)
