"""Rate limits and bounds of one scale.

Source: Kubernetes HPA 1.36, normalisation 7.3 and 8.2-8.3, with the reasons and messages of the condition
ScalingLimited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fedhpa.scaling.history import ScaleEvent, add_entry
from fedhpa.scaling.rules import DISABLED, MIN, PODS, ScalingPolicy, ScalingRules

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
    """Returns the size without behavior: at most max(factor x current, minimum), then the bounds."""
    up_limit = legacy_up_limit(current, factor, minimum)
    ceiling = min(bounds.maximum, up_limit)
    if desired < bounds.minimum:
        return Limited(bounds.minimum, desired, TOO_FEW)
    if desired > ceiling:
        reason = TOO_MANY if bounds.maximum <= up_limit else UP_LIMIT
        return Limited(ceiling, min(desired, up_limit), reason)
    return Limited(desired, desired, WITHIN_RANGE)


def legacy_up_limit(current: int, factor: float, minimum: int) -> int:
    """Returns the largest size that one scale may reach without behavior."""
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
    """Returns the size with behavior: policies, then bounds. `ups` and `downs` are past scale events."""
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
    """Returns the largest size that the policies allow now; `current` if disabled or without a policy."""
    if rules.select_policy == DISABLED or not rules.policies:
        return current
    allowed = [
        start + policy.value if policy.type == PODS else math.ceil(start * (1 + policy.value / 100))
        for policy, start in _period_starts(current, rules, ups, downs, now)
    ]
    return min(allowed) if rules.select_policy == MIN else max(allowed)


def down_limit(
    current: int, rules: ScalingRules, ups: Sequence[ScaleEvent], downs: Sequence[ScaleEvent], now: float
) -> int:
    """Returns the smallest size that the policies allow now; `current` if disabled or without a policy."""
    if rules.select_policy == DISABLED or not rules.policies:
        return current
    allowed = [
        start - policy.value if policy.type == PODS else int(start * (1 - policy.value / 100))
        for policy, start in _period_starts(current, rules, ups, downs, now)
    ]
    # Max means the policy with the biggest change, which is the smallest size.
    return max(allowed) if rules.select_policy == MIN else min(allowed)


def change_within(events: Sequence[ScaleEvent], period: float, now: float) -> int:
    """Returns how many replicas the events of the last `period` seconds added or removed."""
    cutoff = now - period
    return sum(event.change for event in events if event.time > cutoff)


def _period_starts(
    current: int, rules: ScalingRules, ups: Sequence[ScaleEvent], downs: Sequence[ScaleEvent], now: float
) -> Iterator[tuple[ScalingPolicy, int]]:
    # Both histories count for either direction, as in Kubernetes; the start may be negative.
    for policy in rules.policies:
        period = policy.period_seconds
        yield policy, current - change_within(ups, period, now) + change_within(downs, period, now)


def store_event(
    events: Sequence[ScaleEvent], rules: ScalingRules, change: int, now: float
) -> tuple[ScaleEvent, ...]:
    """Returns the events of a direction with a scale of `change` replicas added."""
    longest = longest_period(rules)
    outdated = [index for index, event in enumerate(events) if event.time < now - longest]
    return add_entry(events, ScaleEvent(now, change), outdated)


def longest_period(rules: ScalingRules) -> int:
    """Returns the longest period of the policies in seconds; 0 without policies."""
    return max((policy.period_seconds for policy in rules.policies), default=0)
