"""The size that the metrics ask for: every metric evaluated, the highest proposal taken.

Source: Kubernetes HPA 1.36, reconcile 4.6 and selector handling 12.
"""

from __future__ import annotations

from fedhpa.decision.context import Context, NoDecision
from fedhpa.decision.messages import NO_SELECTOR, SCALING_ACTIVE, SELECTOR_REQUIRED, metric_name
from fedhpa.decision.metrics.evaluate import Measured, measure
from fedhpa.scaling.grouping import Readiness
from fedhpa.scaling.replicas import Scale
from fedhpa.scaling.rules import Tolerances


def highest_proposal(context: Context, current: int) -> tuple[int, str]:
    """The highest proposal and the name of its metric; sets ScalingActive. Raises NoDecision.

    Failed metrics leave room for growth and for no change: a smaller size than the present one would rest on
    missing data.
    """
    _check_selectors(context)
    measured = _measure_all(context, current)
    best, name = 0, ""
    failed: list[Measured] = []
    for found, metric in zip(measured, context.spec.metrics, strict=True):
        proposal = found.result.proposal
        if proposal is None:
            failed.append(found)
            context.draft.warn(found.failure_reason, found.failure_text)
        elif best == 0 or proposal > best:
            best, name = proposal, metric_name(metric)
    if failed and (len(failed) == len(measured) or best < current):
        first = failed[0]
        message = f"the HPA was unable to compute the replica count: {first.failure_text}"
        context.draft.condition(SCALING_ACTIVE, False, first.failure_reason, message)
        raise NoDecision(
            f"invalid metrics ({len(failed)} invalid out of {len(measured)}), "
            f"first error is: {first.result.error}"
        )
    message = f"the HPA was able to successfully calculate a replica count from {name}"
    context.draft.condition(SCALING_ACTIVE, True, "ValidMetricFound", message)
    return best, name


def _measure_all(context: Context, current: int) -> list[Measured]:
    settings = context.settings
    scale = Scale(current, tolerances(context), context.world.calibration)
    readiness = Readiness(context.now, settings.cpu_initialization_period, settings.initial_readiness_delay)
    measured = [
        measure(context.world, scale, readiness, index, metric)
        for index, metric in enumerate(context.spec.metrics)
    ]
    context.metrics = tuple(found.result for found in measured)
    return measured


def _check_selectors(context: Context) -> None:
    if not context.world.members:
        reason, text = context.world.selector_errors[0]
        message = text
        if reason == "SelectorRequired":
            text, message = SELECTOR_REQUIRED, NO_SELECTOR
        _refuse(context, reason, text, "InvalidSelector", message)
    if len(context.snapshot.ambiguous_with) > 1:
        selector = context.world.members[0].scale.selector  # as it is written, not as it is understood
        others = " ".join(context.snapshot.ambiguous_with)
        text = f"pods by selector {selector} are controlled by multiple HPAs: [{others}]"
        _refuse(context, "AmbiguousSelector", text, "AmbiguousSelector", text)


def _refuse(context: Context, event: str, text: str, reason: str, message: str) -> None:
    context.draft.warn(event, text)
    context.draft.condition(SCALING_ACTIVE, False, reason, message)
    raise NoDecision(text)


def tolerances(context: Context) -> Tolerances:
    """How far from a target usage may be, going up and down: the object's word, else the controller's."""
    up = down = context.settings.tolerance
    behavior = context.spec.behavior
    if behavior is not None:
        up = up if behavior.scale_up.tolerance is None else behavior.scale_up.tolerance
        down = down if behavior.scale_down.tolerance is None else behavior.scale_down.tolerance
    return Tolerances(up, down)
