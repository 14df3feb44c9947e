"""Stabilization, rate limits and bounds: from the proposed size to the allowed one, with their conditions.

Source: Kubernetes HPA 1.36, normalisation 7 (no behavior) and 8 (behavior).
"""

from __future__ import annotations

import msgspec

from fedhpa.decision.builder import DecisionBuilder
from fedhpa.decision.history import History, Recommendation, ScaleEvent
from fedhpa.decision.messages import (
    ABLE_TO_SCALE,
    HIGHER_RECOMMENDED,
    LOWER_RECOMMENDED,
    READY_FOR_NEW_SCALE,
    SCALING_LIMITED,
)
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.spec.federatedhpa import ScalingSpec
from fedhpa.scaling import (
    MESSAGES,
    TOO_MANY,
    WITHIN_RANGE,
    Bounds,
    Limited,
    ScalingRules,
    Stabilized,
    limit,
    limit_legacy,
    stabilize,
    stabilize_legacy,
    store_event,
)


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

    `floor` is the size that lost clusters leave to the others (0 if their failover is held, None without lost
    clusters). Only maxReplicas applies to it.
    """
    stabilized, limited = _apply(builder.now, spec, settings, history, current, desired)
    if floor is not None:
        # The recommendations were made when the lost clusters counted: no window brings their replicas back.
        ceiling = max(current, desired, floor)
        desired = max(desired, floor)
        stabilized, limited = _floored(stabilized, limited, floor, ceiling, spec.max_replicas)
    reason, message = "ReadyForNewScale", READY_FOR_NEW_SCALE
    if stabilized.replicas != desired:
        up = spec.behavior is not None and desired >= current
        reason = "ScaleUpStabilized" if up else "ScaleDownStabilized"
        message = LOWER_RECOMMENDED if up else HIGHER_RECOMMENDED
    builder.condition(ABLE_TO_SCALE, True, reason, message)
    builder.step("stabilization", desired, stabilized.replicas, message)

    builder.condition(
        SCALING_LIMITED, limited.replicas != stabilized.replicas, limited.reason, MESSAGES[limited.reason]
    )
    by_rate = limited.rate_limited != stabilized.replicas
    rate_reason = MESSAGES[limited.reason if limited.replicas == limited.rate_limited else WITHIN_RANGE]
    builder.step(
        "rateLimit",
        stabilized.replicas,
        limited.rate_limited,
        rate_reason if by_rate else MESSAGES[WITHIN_RANGE],
    )
    by_bounds = limited.replicas != limited.rate_limited
    builder.step(
        "bounds",
        limited.rate_limited,
        limited.replicas,
        MESSAGES[limited.reason if by_bounds else WITHIN_RANGE],
    )
    return limited.replicas, stabilized.recommendations


def _apply(
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


def _floored(
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
    # Kubernetes fills the field from its flag, and the field holds whole seconds.
    return settings.downscale_stabilization // 1


def history_after_scale(spec: ScalingSpec, history: History, change: int, now: float) -> History:
    """Returns the history after a scale by `change` replicas. Without behavior no scale event is kept."""
    if spec.behavior is None or change == 0:
        return history
    ups: tuple[ScaleEvent, ...] = history.scale_ups
    downs: tuple[ScaleEvent, ...] = history.scale_downs
    if change > 0:
        ups = store_event(ups, spec.behavior.scale_up, change, now)
    else:
        downs = store_event(downs, spec.behavior.scale_down, -change, now)
    return History(history.recommendations, ups, downs)
