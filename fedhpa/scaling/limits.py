"""The limits of one scale: stabilization windows, rate limits and bounds.

Source: Kubernetes HPA 1.36, normalisation 7 (without behavior) and 8 (with it), with the reasons and messages
of the condition ScalingLimited. As in Kubernetes, an entry at the cut-off of a window counts without
behavior, and does not count with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from fedhpa.api.times import Seconds

T = TypeVar("T")


class Recommendation(msgspec.Struct, frozen=True, gc=False):
    """A proposed size before stabilization and limits, with its time in POSIX seconds."""

    time: Seconds
    replicas: int


class ScaleEvent(msgspec.Struct, frozen=True, gc=False):
    """A scale that succeeded, with its time in POSIX seconds; `change` is a positive number of replicas."""

    time: Seconds
    change: int


def add_entry(entries: Sequence[T], entry: T, outdated: Sequence[int]) -> tuple[T, ...]:
    """Returns the entries with a new one in place of the last outdated one (by index), else at the end."""
    kept = list(entries)
    if outdated:
        kept[outdated[-1]] = entry
    else:
        kept.append(entry)
    return tuple(kept)


MAX: Final = "Max"
MIN: Final = "Min"
DISABLED: Final = "Disabled"
PODS: Final = "Pods"


class ScalingPolicy(msgspec.Struct, frozen=True):
    """At most `value` pods, or per cent of the present size, within `period_seconds`."""

    type: str
    value: int
    period_seconds: int


class ScalingRules(msgspec.Struct, frozen=True):
    """One direction of spec.behavior. `stabilization_seconds` None means the controller's flag."""

    policies: tuple[ScalingPolicy, ...]
    select_policy: str = MAX
    stabilization_seconds: float | None = None
    tolerance: float | None = None


class Stabilized(msgspec.Struct, frozen=True):
    """The stabilized size, and the recommendations to keep (their order is part of the state)."""

    replicas: int
    recommendations: tuple[Recommendation, ...]


def stabilize_legacy(
    desired: int, recommendations: Sequence[Recommendation], now: float, window: float
) -> Stabilized:
    """Returns the highest of `desired` and the recommendations of the last `window` seconds."""
    cutoff = now - window
    highest = max([desired, *(entry.replicas for entry in recommendations if entry.time >= cutoff)])
    outdated = [index for index, entry in enumerate(recommendations) if entry.time < cutoff]
    return Stabilized(highest, add_entry(recommendations, Recommendation(now, desired), outdated))


def stabilize(
    current: int,
    desired: int,
    recommendations: Sequence[Recommendation],
    now: float,
    up_window: float,
    down_window: float,
) -> Stabilized:
    """Returns the size nearest to `desired` that all recommendations of the direction's window allow."""
    up_cutoff, down_cutoff = now - up_window, now - down_window
    up = min([desired, *(entry.replicas for entry in recommendations if entry.time > up_cutoff)])
    down = max([desired, *(entry.replicas for entry in recommendations if entry.time > down_cutoff)])
    outdated = [
        index
        for index, entry in enumerate(recommendations)
        if entry.time < up_cutoff and entry.time < down_cutoff
    ]
    return Stabilized(
        min(max(current, up), down), add_entry(recommendations, Recommendation(now, desired), outdated)
    )


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
