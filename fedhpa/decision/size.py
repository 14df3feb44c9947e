"""The size that a workload should have: bounds first, then metrics, policy, stabilization and limits.

Source: Kubernetes HPA 1.36, reconcile 4.5-4.8 and zero 9; docs/reference/federatedhpa.md for partialMetrics.
"""

from __future__ import annotations

from typing import NamedTuple

from fedhpa.decision import coverage as partial
from fedhpa.decision.builder import DecisionBuilder
from fedhpa.decision.context import Context, NoDecision
from fedhpa.decision.messages import (
    ABOVE_MAXIMUM,
    ALL_BELOW_TARGET,
    BELOW_MINIMUM,
    DISABLED_AT_ZERO,
    NO_OTHER_SIZE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
)
from fedhpa.decision.metrics.highest import highest_proposal
from fedhpa.decision.normalize import normalize


class Verdict(NamedTuple):
    """A number of replicas, and the reason that the event gives if it is a change."""

    replicas: int
    reason: str


def decide_size(context: Context, current: int) -> Verdict:
    """The size to have; adds the steps that led there. Raises NoDecision."""
    # Without a template and without an answer there is no size to compare with anything.
    if context.world.members or not context.world.direct:
        verdict = _without_metrics(context, current)
        if verdict is not None:
            return verdict
    wanted = _wanted(context, current)
    return _allowed(context, current, _covered(context, current, wanted))


def _without_metrics(context: Context, current: int) -> Verdict | None:
    """What is decided before any metric is looked at, if anything."""
    spec, draft = context.spec, context.draft
    if current == 0 and not _may_wake(context):
        draft.condition(SCALING_ACTIVE, False, "ScalingDisabled", DISABLED_AT_ZERO)
        return Verdict(draft.step("metrics", 0, 0, DISABLED_AT_ZERO), "")
    # Bounds are the user's word, not the metrics': no data is needed and no policy applies.
    if current > spec.max_replicas:
        return Verdict(draft.step("bounds", current, spec.max_replicas, ABOVE_MAXIMUM), ABOVE_MAXIMUM)
    if 0 < current < spec.min_replicas:
        return Verdict(draft.step("bounds", current, spec.min_replicas, BELOW_MINIMUM), BELOW_MINIMUM)
    return None


def _may_wake(context: Context) -> bool:
    """Whether a workload at zero was put there by us and may be scaled again."""
    by_us = context.draft.has(SCALED_TO_ZERO)
    return by_us and (context.spec.min_replicas != 0 or context.wakes_on_metrics)


def _wanted(context: Context, current: int) -> Verdict:
    draft = context.draft
    try:
        proposal, name = highest_proposal(context, current)
    except NoDecision as stop:
        if not (context.world.members and partial.falls_back(context.spec, context.coverage)):
            draft.warn("FailedComputeMetricsReplicas", str(stop))
            raise
        return Verdict(draft.step("metrics", current, current, str(stop)), "")
    reason = ""
    if proposal != current:
        reason = f"{name} above target" if proposal > current else ALL_BELOW_TARGET
    return Verdict(draft.step("metrics", current, proposal, reason or NO_OTHER_SIZE), reason)


def _covered(context: Context, current: int, wanted: Verdict) -> Verdict:
    context.policy_in_force = bool(context.coverage.missing)
    covered = partial.apply_policy(context.draft, context.spec, context.coverage, current, wanted.replicas)
    reason = wanted.reason if covered == wanted.replicas else context.draft.steps[-1].reason
    return Verdict(covered, reason)


def _allowed(context: Context, current: int, covered: Verdict) -> Verdict:
    spec = context.spec
    held = partial.holds(spec, context.coverage)
    # While held, the normalisation is run for its memory alone: an older recommendation must not move it.
    draft = DecisionBuilder(context.stored, context.now) if held else context.draft
    allowed, recommendations = normalize(
        draft, spec, context.settings, context.history, current, covered.replicas
    )
    context.recommend(recommendations)
    if held:
        return Verdict(current, covered.reason)
    # What the policy said of keeping the size is no reason for the change that an older recommendation makes.
    moved_on = bool(context.coverage.missing) and covered.replicas == current != allowed
    reason = "" if moved_on else covered.reason
    if current == 0 and allowed < spec.min_replicas:
        allowed = draft.step("bounds", allowed, spec.min_replicas, BELOW_MINIMUM)
        reason = reason or BELOW_MINIMUM
    return Verdict(allowed, reason)
