"""decide(snapshot, history, now, settings) -> Decision: one reconcile of one autoscaler, as a pure function.

The size comes from bounds, metrics, the partialMetrics policy, failover, stabilization, limits and a hold, in
this order. Source: Kubernetes HPA 1.36, reconcile 4 (the order matters), normalisation 7 and 8, zero 9;
docs/explanation/how-it-decides.md for partialMetrics, docs/reference/decision-record.md for several clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.texts import listed
from fedhpa.assignment import Outcome
from fedhpa.decision.context import (
    Context,
    NoDecision,
    apply_policy,
    failover_of,
    no_cluster,
    policy_of,
)
from fedhpa.decision.distributed import SeenMembers, decide_bounds
from fedhpa.decision.memory import History
from fedhpa.decision.messages import (
    ABLE_TO_SCALE,
    ASSIGNED,
    GOT_SCALE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SCALING_LIMITED,
)
from fedhpa.decision.metrics import check_ambiguity, highest_proposal
from fedhpa.decision.model import Decision, DecisionBuilder
from fedhpa.decision.moves import fewest_replicas, held_size
from fedhpa.decision.outcome import decided, undecided
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.snapshot import Failure, Snapshot
from fedhpa.decision.spec import CENTRALIZED, DISTRIBUTED, FALLBACK, HOLD, ScalingSpec
from fedhpa.scaling import (
    DOWN_LIMIT,
    MESSAGES,
    TOO_MANY,
    UP_LIMIT,
    WITHIN_RANGE,
    Bounds,
    Limited,
    Recommendation,
    ScalingRules,
    Stabilized,
    limit,
    limit_legacy,
    stabilize,
    stabilize_legacy,
)

_DISABLED: Final = "scaling is disabled since the replica count of the target is zero"
_BELOW_MINIMUM: Final = "Current number of replicas below Spec.MinReplicas"


def decide(
    snapshot: Snapshot,
    history: History,
    now: float,
    settings: ControllerSettings,
    *,
    write_error: str | None = None,
    written_change: int = 0,
    outcomes: Sequence[Outcome] | None = None,
    seen: SeenMembers | None = None,
) -> Decision:
    """Returns the decision on one FederatedHPA at `now` (POSIX seconds). No snapshot makes it raise.

    The decision assumes that the scale write succeeds. If it failed, the caller decides again on the same
    input with the error as `write_error`: then conditions and events name the error, and only
    `written_change` counts as a scale: by how many replicas the writes that succeeded changed the size.
    In mode Distributed, `outcomes` are the writes of member HPAs with their results. `seen` only saves time:
    it keeps what follows from a cluster alone for the next decision on the same object.
    """
    if seen is not None and outcomes is None and write_error is None:
        kept = seen.at_rest(snapshot, history, now, settings)
        if kept is not None:
            return kept
    context = Context(snapshot, history, now, settings)
    try:
        if (blocked := snapshot.blocked) is not None:
            context.builder.warn(blocked.event or blocked.reason, blocked.message)
            context.builder.condition(blocked.condition, False, blocked.reason, blocked.message)
            raise NoDecision(blocked.message)
        if context.spec.mode == CENTRALIZED:
            context.builder.forget(ASSIGNED)  # it is about the member HPAs of mode Distributed
        current = _read_scale(context)
    except NoDecision as stop:
        return undecided(context, 0, str(stop), have_scale=False)
    try:
        if context.spec.mode == DISTRIBUTED:
            check_ambiguity(context)
            return decide_bounds(context, outcomes=outcomes, write_error=write_error, seen=seen)
        context.seed(current)
        verdict = decide_size(context, current)
    except NoDecision as stop:
        return undecided(context, current, str(stop), have_scale=True)
    return decided(
        context,
        current,
        verdict.replicas,
        verdict.reason,
        write_error=write_error,
        written_change=written_change,
    )


def _read_scale(context: Context) -> int:
    """Returns the present size; sets AbleToScale. Raises NoDecision."""
    target, fleet = context.snapshot.target, context.fleet
    error = ""
    if isinstance(target, Failure):
        error = target.error or "the target's scale could not be read"
    elif not fleet.answered and not fleet.selector_errors:
        error = no_cluster(context.coverage)
    if error:
        context.builder.warn("FailedGetScale", error)
        message = f"the HPA controller was unable to get the target's current scale: {error}"
        context.builder.condition(ABLE_TO_SCALE, False, "FailedGetScale", message)
        raise NoDecision(error)
    context.builder.condition(ABLE_TO_SCALE, True, "SucceededGetScale", GOT_SCALE)
    return fleet.current


class SizeVerdict(NamedTuple):
    """A number of replicas, and the reason that the event gives if it is a change."""

    replicas: int
    reason: str


def decide_size(context: Context, current: int) -> SizeVerdict:
    """Returns the size to have; adds the steps that led there. Raises NoDecision."""
    verdict = _size_without_hold(context, current)
    if context.hold is None:
        return verdict
    size = held_size(context, context.hold, current, verdict.replicas)
    return verdict if size == verdict.replicas else SizeVerdict(size, context.builder.steps[-1].reason)


def _size_without_hold(context: Context, current: int) -> SizeVerdict:
    if 0 < current < context.spec.min_replicas:
        _defer_minimum(context, current)
    context.failover = failover_of(context.snapshot, context.fleet, current)
    # With direct propagation and no answer, the present size is unknown: it cannot be compared with bounds.
    if context.fleet.answered or not context.fleet.direct:
        verdict = _without_metrics(context, current)
        if verdict is not None:
            return verdict
    return _normalized(context, current, _after_policy(context, current, _proposed(context, current)))


def _defer_minimum(context: Context, current: int) -> None:
    """Let minReplicas wait while an expected cluster may run what is lacking to it."""
    unknown = context.fleet.unknown_shares
    if unknown:
        reason = f"minReplicas waits: nobody knows the replicas of {listed(unknown)}"
        context.builder.step("bounds", current, current, reason)
        context.spec = msgspec.structs.replace(context.spec, min_replicas=current)


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
        builder.condition(SCALING_ACTIVE, False, "ScalingDisabled", _DISABLED)
        return SizeVerdict(builder.step("metrics", 0, 0, _DISABLED), "")
    # Two owners of the same pods may have other bounds, and would take turns.
    check_ambiguity(context)
    # The user sets the bounds. They need no data, so partialMetrics does not apply.
    # Under a hold that keeps the size, the metrics go on making recommendations for the time after it.
    if current > spec.max_replicas and not (context.hold is not None and context.hold.stops_down):
        reason = "Current number of replicas above Spec.MaxReplicas"
        return SizeVerdict(builder.step("bounds", current, spec.max_replicas, reason), reason)
    if 0 < current < spec.min_replicas:
        size = builder.step("bounds", current, spec.min_replicas, _BELOW_MINIMUM)
        floored = min(_floored(context, size), spec.max_replicas)
        if floored == size or context.failover is None:
            return SizeVerdict(size, _BELOW_MINIMUM)
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
        if not (context.fleet.answered and policy_of(context.spec, context.coverage) == FALLBACK):
            builder.warn("FailedComputeMetricsReplicas", str(stop))
            # A move needs no metrics: a drain goes on at the size that was decided last.
            if not (context.fleet.answered and context.fleet.leaving):
                raise
        return SizeVerdict(builder.step("metrics", current, current, str(stop)), "")
    if context.fleet.moving and proposal <= context.fleet.running:
        # The proposal is about what runs, surge included, and is rounded up from there.
        proposal = max(min(proposal, current), fewest_replicas(context, current))
    reason = ""
    if proposal != current:
        reason = f"{name} above target" if proposal > current else "All metrics below target"
    return SizeVerdict(
        builder.step("metrics", current, proposal, reason or "usage calls for no other size"), reason
    )


def _after_policy(context: Context, current: int, proposed: SizeVerdict) -> SizeVerdict:
    context.policy_in_force = bool(context.coverage.missing)
    covered = apply_policy(context.builder, context.spec, context.coverage, current, proposed.replicas)
    reason = proposed.reason if covered == proposed.replicas else context.builder.steps[-1].reason
    return SizeVerdict(covered, reason)


def _normalized(context: Context, current: int, covered: SizeVerdict) -> SizeVerdict:
    spec, failover = context.spec, context.failover
    kept = policy_of(spec, context.coverage) == HOLD
    floored = _floored(context, covered.replicas)
    # While the policy keeps the size, only the recommendations of the normalisation are kept: an older
    # recommendation must not change the size. The steps go to a builder that is thrown away.
    builder = DecisionBuilder(context.stored.conditions, context.now) if kept else context.builder
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
    if kept and floored == current:
        return SizeVerdict(current, covered.reason)
    if failover is not None and floored > covered.replicas:
        if kept:
            allowed = min(floored, spec.max_replicas)
            context.builder.step("bounds", floored, allowed, failover.reason)
        return SizeVerdict(allowed, failover.reason)
    # An older recommendation changed a size that the policy kept: the policy's reason does not apply.
    overruled = bool(context.coverage.missing) and covered.replicas == current != allowed
    reason = "" if overruled else covered.reason
    if current == 0 and allowed < spec.min_replicas:
        allowed = builder.step("bounds", allowed, spec.min_replicas, _BELOW_MINIMUM)
        reason = reason or _BELOW_MINIMUM
    return SizeVerdict(allowed, reason)


def normalize(
    builder: DecisionBuilder,
    spec: ScalingSpec,
    settings: ControllerSettings,
    history: History,
    current: int,
    desired: int,
    floor: int | None = None,
) -> tuple[int, tuple[Recommendation, ...]]:
    """Returns the allowed size and the recommendations to keep; sets AbleToScale and ScalingLimited.

    `floor` is the size that lost clusters leave to the others (0 if their failover is prevented, None without
    lost clusters). Only maxReplicas applies to it.
    """
    stabilized, limited = _windows_and_limits(builder.now, spec, settings, history, current, desired)
    if floor is not None:
        # The recommendations were made when the lost clusters counted: no window brings their replicas back.
        ceiling = max(current, desired, floor)
        desired = max(desired, floor)
        stabilized, limited = _with_floor(stabilized, limited, floor, ceiling, spec.max_replicas)
    reason, message = "ReadyForNewScale", "recommended size matches current size"
    if stabilized.replicas != desired:
        up = spec.behavior is not None and desired >= current
        reason = "ScaleUpStabilized" if up else "ScaleDownStabilized"
        others, which = ("lower", "lowest") if up else ("higher", "highest")
        message = f"recent recommendations were {others} than current one, "
        message += f"applying the {which} recent recommendation"
    builder.condition(ABLE_TO_SCALE, True, reason, message)
    if stabilized.replicas > max(current, desired):
        message = _recommended_earlier(spec, history, stabilized.replicas, builder.now)
    builder.step("stabilization", desired, stabilized.replicas, message)

    builder.condition(
        SCALING_LIMITED, limited.replicas != stabilized.replicas, limited.reason, MESSAGES[limited.reason]
    )
    by_rate = limited.rate_limited - stabilized.replicas
    # The bounds may be narrower still. Then the reason of both limits is that of the bounds.
    rate_reason = UP_LIMIT if by_rate < 0 else DOWN_LIMIT if by_rate else WITHIN_RANGE
    builder.step("rateLimit", stabilized.replicas, limited.rate_limited, MESSAGES[rate_reason])
    by_bounds = limited.replicas != limited.rate_limited
    builder.step(
        "bounds",
        limited.rate_limited,
        limited.replicas,
        MESSAGES[limited.reason if by_bounds else WITHIN_RANGE],
    )
    return limited.replicas, stabilized.recommendations


def _recommended_earlier(spec: ScalingSpec, history: History, replicas: int, now: float) -> str:
    """Returns the reason of a size that no metric recommends any more.

    The history has no names of metrics, and policy Fallback recommends a size without any.
    """
    ago = now - max(one.time for one in history.recommendations or () if one.replicas == replicas)
    by = ""
    if len(spec.metrics) == 1 and spec.partial_policy != FALLBACK:
        by = f", by {spec.metrics[0].metric_type.display_name(spec.metrics[0])}"
    return f"recommended earlier: {replicas} replicas, {ago:.0f} s ago{by}"


def _windows_and_limits(
    now: float,
    spec: ScalingSpec,
    settings: ControllerSettings,
    history: History,
    current: int,
    desired: int,
) -> tuple[Stabilized, Limited]:
    recommendations = history.recommendations or ()
    bounds = Bounds(spec.min_replicas, spec.max_replicas)
    behavior = spec.behavior
    if behavior is None:
        stabilized = stabilize_legacy(desired, recommendations, now, settings.downscale_stabilization)
        limited = limit_legacy(
            current,
            stabilized.replicas,
            bounds,
            settings.scale_up_limit_factor,
            settings.scale_up_limit_minimum,
        )
        return stabilized, limited
    stabilized = stabilize(
        current,
        desired,
        recommendations,
        now,
        behavior.scale_up.stabilization_seconds or 0,
        _down_window(behavior.scale_down, settings),
    )
    limited = limit(
        current,
        stabilized.replicas,
        bounds,
        behavior.scale_up,
        behavior.scale_down,
        history.scale_ups,
        history.scale_downs,
        now,
    )
    return stabilized, limited


def _with_floor(
    stabilized: Stabilized, limited: Limited, floor: int, ceiling: int, maximum: int
) -> tuple[Stabilized, Limited]:
    """Returns the results of windows and limits, not below `floor` and not above `ceiling`."""
    size = min(max(stabilized.replicas, floor), ceiling)
    stable = msgspec.structs.replace(stabilized, replicas=size)
    by_rate = min(max(limited.rate_limited, floor), ceiling)
    allowed = min(max(limited.replicas, floor), ceiling, maximum)
    reason = limited.reason
    if allowed == size:
        reason = WITHIN_RANGE
    elif allowed == maximum < by_rate:
        reason = TOO_MANY
    return stable, Limited(allowed, by_rate, reason)


def _down_window(rules: ScalingRules, settings: ControllerSettings) -> float:
    if rules.stabilization_seconds is not None:
        return rules.stabilization_seconds
    # Kubernetes fills the field from its flag, and the field keeps whole seconds.
    return settings.downscale_stabilization // 1
