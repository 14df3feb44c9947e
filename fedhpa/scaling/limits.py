"""Rate limits and bounds: how far one step may go.

Source: Kubernetes HPA 1.36, normalisation 7.3 and 8.2-8.3. Reasons and messages are those of the condition
ScalingLimited.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from fedhpa.scaling.history import ScaleEvent, remember
from fedhpa.scaling.rules import DISABLED, MIN, PODS, ScalingRules

WITHIN_RANGE: Final = "DesiredWithinRange"
TOO_MANY: Final = "TooManyReplicas"
TOO_FEW: Final = "TooFewReplicas"
UP_LIMIT: Final = "ScaleUpLimit"
DOWN_LIMIT: Final = "ScaleDownLimit"

MESSAGES: Final = {
    WITHIN_RANGE: "the desired count is within the acceptable range",
    TOO_MANY: "the desired replica count is more than the maximum replica count",
    TOO_FEW: "the desired replica count is less than the minimum replica count",
    UP_LIMIT: "the desired replica count is increasing faster than the maximum scale rate",
    DOWN_LIMIT: "the desired replica count is decreasing faster than the maximum scale rate",
}


class Limited(NamedTuple):
    """The size after the limits, the size between rate limit and bounds, and the reason."""

    replicas: int
    rate_limited: int
    reason: str


class Bounds(NamedTuple):
    """minReplicas and maxReplicas."""

    minimum: int
    maximum: int


def limit_legacy(current: int, desired: int, bounds: Bounds, factor: float, minimum: int) -> Limited:
    """Without behavior: at most max(factor x current, minimum) up, and the bounds."""
    up_limit = legacy_up_limit(current, factor, minimum)
    ceiling = min(bounds.maximum, up_limit)
    if desired < bounds.minimum:
        return Limited(bounds.minimum, desired, TOO_FEW)
    if desired > ceiling:
        reason = TOO_MANY if bounds.maximum <= up_limit else UP_LIMIT
        return Limited(ceiling, min(desired, up_limit), reason)
    return Limited(desired, desired, WITHIN_RANGE)


def legacy_up_limit(current: int, factor: float, minimum: int) -> int:
    """How far a workload without behavior may grow at once."""
    return int(max(factor * current, float(minimum)))


def limit(
    current: int,
    desired: int,
    bounds: Bounds,
    up: ScalingRules,
    down: ScalingRules,
    ups: Sequence[ScaleEvent],
    downs: Sequence[ScaleEvent],
    now: float,
) -> Limited:
    """With behavior: the policies of the direction, then the bounds. `ups`, `downs` are past scale events."""
    if desired > current:
        allowed = max(current, up_limit(current, up, ups, downs, now))
        ceiling, reason = (allowed, UP_LIMIT) if bounds.maximum > allowed else (bounds.maximum, TOO_MANY)
        if desired > ceiling:
            return Limited(ceiling, min(desired, allowed), reason)
    elif desired < current:
        allowed = min(current, down_limit(current, down, ups, downs, now))
        floor, reason = (allowed, DOWN_LIMIT) if bounds.minimum < allowed else (bounds.minimum, TOO_FEW)
        if desired < floor:
            return Limited(floor, max(desired, allowed), reason)
    return Limited(desired, desired, WITHIN_RANGE)


def up_limit(
    current: int, rules: ScalingRules, ups: Sequence[ScaleEvent], downs: Sequence[ScaleEvent], now: float
) -> int:
    """The largest size that the policies allow now; `current` if scaling up is disabled or has no policy."""
    if rules.select_policy == DISABLED or not rules.policies:
        return current
    allowed = []
    for policy in rules.policies:
        start = _period_start(current, policy.period_seconds, ups, downs, now)
        if policy.type == PODS:
            allowed.append(start + policy.value)
        else:
            allowed.append(math.ceil(start * (1 + policy.value / 100)))
    return min(allowed) if rules.select_policy == MIN else max(allowed)


def down_limit(
    current: int, rules: ScalingRules, ups: Sequence[ScaleEvent], downs: Sequence[ScaleEvent], now: float
) -> int:
    """The smallest size that the policies allow now; `current` if disabled or without a policy."""
    if rules.select_policy == DISABLED or not rules.policies:
        return current
    allowed = []
    for policy in rules.policies:
        start = _period_start(current, policy.period_seconds, ups, downs, now)
        if policy.type == PODS:
            allowed.append(start - policy.value)
        else:
            allowed.append(int(start * (1 - policy.value / 100)))
    # Max is the policy that allows the biggest change: the smallest size.
    return max(allowed) if rules.select_policy == MIN else min(allowed)


def change_within(events: Sequence[ScaleEvent], period: float, now: float) -> int:
    """How many replicas were added (or taken) within the last `period` seconds."""
    cutoff = now - period
    return sum(event.change for event in events if event.time > cutoff)


def _period_start(
    current: int, period: float, ups: Sequence[ScaleEvent], downs: Sequence[ScaleEvent], now: float
) -> int:
    # Both histories count for either direction, as in Kubernetes; the start may be negative.
    return current - change_within(ups, period, now) + change_within(downs, period, now)


def store_event(
    events: Sequence[ScaleEvent], rules: ScalingRules, change: int, now: float
) -> tuple[ScaleEvent, ...]:
    """Remembers a scale of `change` replicas in its direction's history."""
    longest = longest_period(rules)
    outdated = [index for index, event in enumerate(events) if event.time < now - longest]
    return remember(events, ScaleEvent(now, change), outdated)


def longest_period(rules: ScalingRules) -> int:
    """The longest period of the policies, in seconds; 0 without policies."""
    return max((policy.period_seconds for policy in rules.policies), default=0)
