"""The size that a workload should have: bounds, then metrics, policy, failover, stabilization and limits.

Source: Kubernetes HPA 1.36, reconcile 4.5-4.8 and zero 9; docs/reference/federatedhpa.md for partialMetrics.
"""

from __future__ import annotations

from typing import NamedTuple

from fedhpa.decision.builder import DecisionBuilder
from fedhpa.decision.context import Context, NoDecision
from fedhpa.decision.coverage import apply_policy, falls_back, holds
from fedhpa.decision.failover import failover_of
from fedhpa.decision.messages import (
    ABOVE_MAXIMUM,
    ALL_BELOW_TARGET,
    BELOW_MINIMUM,
    DISABLED_AT_ZERO,
    NO_OTHER_SIZE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
)
from fedhpa.decision.metrics import check_ambiguity, highest_proposal
from fedhpa.decision.normalize import normalize
from fedhpa.decision.rebalance import is_surging


class SizeVerdict(NamedTuple):
    """A number of replicas, and the reason that the event gives if it is a change."""

    replicas: int
    reason: str


def decide_size(context: Context, current: int) -> SizeVerdict:
    """Returns the size to have; adds the steps that led there. Raises NoDecision."""
    context.failover = failover_of(context.snapshot, context.fleet, current)
    # With direct propagation and no answer, the present size is unknown: it cannot be compared with bounds.
    if context.fleet.answered or not context.fleet.direct:
        verdict = _without_metrics(context, current)
        if verdict is not None:
            return verdict
    return _normalized(context, current, _after_policy(context, current, _proposed(context, current)))


def _floored(context: Context, size: int) -> int:
    """Returns the size with the replicas of lost clusters; adds the step if there are any."""
    failover = context.failover
    if failover is None:
        return size
    return context.builder.step("failover", size, max(size, failover.floor), failover.reason)


def _without_metrics(context: Context, current: int) -> SizeVerdict | None:
    """Returns what can be decided before metrics are evaluated, if anything."""
    spec, builder = context.spec, context.builder
    if current == 0 and not _may_wake(context):
        builder.condition(SCALING_ACTIVE, False, "ScalingDisabled", DISABLED_AT_ZERO)
        return SizeVerdict(builder.step("metrics", 0, 0, DISABLED_AT_ZERO), "")
    # Two owners of the same pods may have other bounds, and would take turns.
    check_ambiguity(context)
    # The user sets the bounds. They need no data, so partialMetrics does not apply.
    if current > spec.max_replicas and not is_surging(context, current):
        return SizeVerdict(builder.step("bounds", current, spec.max_replicas, ABOVE_MAXIMUM), ABOVE_MAXIMUM)
    if 0 < current < spec.min_replicas:
        size = builder.step("bounds", current, spec.min_replicas, BELOW_MINIMUM)
        floored = min(_floored(context, size), spec.max_replicas)
        if floored == size or context.failover is None:
            return SizeVerdict(size, BELOW_MINIMUM)
        return SizeVerdict(floored, context.failover.reason)
    return None


def _may_wake(context: Context) -> bool:
    """True if the autoscaler scaled the workload to zero and may scale it up again."""
    by_autoscaler = context.builder.has(SCALED_TO_ZERO)
    return by_autoscaler and (context.spec.min_replicas != 0 or context.wakes_on_metrics)


def _proposed(context: Context, current: int) -> SizeVerdict:
    builder = context.builder
    try:
        proposal, name = highest_proposal(context, current)
    except NoDecision as stop:
        if not (context.fleet.answered and falls_back(context.spec, context.coverage)):
            builder.warn("FailedComputeMetricsReplicas", str(stop))
            raise
        return SizeVerdict(builder.step("metrics", current, current, str(stop)), "")
    reason = ""
    if proposal != current:
        reason = f"{name} above target" if proposal > current else ALL_BELOW_TARGET
    return SizeVerdict(builder.step("metrics", current, proposal, reason or NO_OTHER_SIZE), reason)


def _after_policy(context: Context, current: int, proposed: SizeVerdict) -> SizeVerdict:
    context.policy_in_force = bool(context.coverage.missing)
    covered = apply_policy(context.builder, context.spec, context.coverage, current, proposed.replicas)
    reason = proposed.reason if covered == proposed.replicas else context.builder.steps[-1].reason
    return SizeVerdict(covered, reason)


def _normalized(context: Context, current: int, covered: SizeVerdict) -> SizeVerdict:
    spec, failover = context.spec, context.failover
    held = holds(spec, context.coverage)
    floored = _floored(context, covered.replicas)
    # While the policy holds the size, only the recommendations of the normalisation are kept: an older
    # recommendation must not change the size. The steps go to a builder that is thrown away.
    builder = DecisionBuilder(context.stored, context.now) if held else context.builder
    allowed, recommendations = normalize(
        builder,
        spec,
        context.settings,
        context.history,
        current,
        covered.replicas,
        None if failover is None else failover.floor,
    )
    context.recommend(recommendations)
    if held and floored == current:
        return SizeVerdict(current, covered.reason)
    if failover is not None and floored > covered.replicas:
        if held:
            allowed = min(floored, spec.max_replicas)
            context.builder.step("bounds", floored, allowed, failover.reason)
        return SizeVerdict(allowed, failover.reason)
    # An older recommendation changed a size that the policy kept: the policy's reason does not apply.
    overruled = bool(context.coverage.missing) and covered.replicas == current != allowed
    reason = "" if overruled else covered.reason
    if current == 0 and allowed < spec.min_replicas:
        allowed = builder.step("bounds", allowed, spec.min_replicas, BELOW_MINIMUM)
        reason = reason or BELOW_MINIMUM
    return SizeVerdict(allowed, reason)
