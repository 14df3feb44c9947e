"""The way from the proposed to the written size: stabilisation, then rate limits and bounds.

Source: Kubernetes' HPA 1.36 (horizontal.go). The controller takes one path with behavior, another without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple, Protocol, TypeVar

from benchmarks.world.hpa.behavior import Policy, Rules

_MAX_INT32: Final = 2**31 - 1
_MIN_INT32: Final = -(2**31)

MESSAGES: Final = {
    "DesiredWithinRange": "the desired count is within the acceptable range",
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
    "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
    "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
    "ReadyForNewScale": "recommended size matches current size",
    "ScaleUpStabilized": "recent recommendations were lower than current one, "
    "applying the lowest recent recommendation",
    "ScaleDownStabilized": "recent recommendations were higher than current one, "
    "applying the highest recent recommendation",
}


class Recommendation(NamedTuple):
    """A size that the metrics proposed, before stabilisation and limits."""

    time: float
    replicas: int


class ScaleEvent(NamedTuple):
    """Replicas that one scale added or removed; never negative."""

    time: float
    change: int


class _Timed(Protocol):
    @property
    def time(self) -> float: ...


_Entry = TypeVar("_Entry", bound=_Timed)


def remember(past: list[_Entry], entry: _Entry, cutoff: float) -> None:
    """Puts an entry in the place of the last one older than the cut-off, else at the end."""
    for index in range(len(past) - 1, -1, -1):
        if past[index].time < cutoff:
            past[index] = entry
            return
    past.append(entry)


def stabilise_legacy(desired: int, past: Sequence[Recommendation], cutoff: float) -> int:
    """Returns the highest of `desired` and the recommendations since the cut-off."""
    return max([desired, *(entry.replicas for entry in past if entry.time >= cutoff)])


def stabilise(
    current: int, desired: int, past: Sequence[Recommendation], up_cutoff: float, down_cutoff: float
) -> tuple[int, str]:
    """Returns the size nearest to `current` that all recommendations after the cut-offs allow.

    The second value is the reason in case that this size is not the desired one.
    """
    lowest = highest = desired
    for time, replicas in past:
        if time > up_cutoff and replicas < lowest:
            lowest = replicas
        if time > down_cutoff and replicas > highest:
            highest = replicas
    reason = "ScaleUpStabilized" if desired >= current else "ScaleDownStabilized"
    return min(max(current, lowest), highest), reason


def limit_legacy(
    current: int, desired: int, minimum: int, maximum: int, *, factor: float = 2.0, floor: float = 4.0
) -> tuple[int, str]:
    """Returns the size and its reason without behavior: at most max(factor x current, floor)."""
    allowed = int(max(factor * current, floor))
    if desired < minimum:
        return minimum, "TooFewReplicas"
    if desired > min(maximum, allowed):
        return (allowed, "ScaleUpLimit") if maximum > allowed else (maximum, "TooManyReplicas")
    return desired, "DesiredWithinRange"


def limit(
    current: int,
    desired: int,
    minimum: int,
    maximum: int,
    rules: tuple[Rules, Rules],
    events: tuple[Sequence[ScaleEvent], Sequence[ScaleEvent]],
    now: float,
) -> tuple[int, str]:
    """Returns the size and its reason with behavior; rules and events are those up, then those down."""
    if desired > current:
        allowed = max(current, scale_up_limit(current, rules[0], events, now))
        if desired > min(maximum, allowed):
            return (allowed, "ScaleUpLimit") if maximum > allowed else (maximum, "TooManyReplicas")
    elif desired < current:
        allowed = min(current, scale_down_limit(current, rules[1], events, now))
        if desired < max(minimum, allowed):
            return (allowed, "ScaleDownLimit") if minimum < allowed else (minimum, "TooFewReplicas")
    return desired, "DesiredWithinRange"


def scale_up_limit(
    current: int, rules: Rules, events: tuple[Sequence[ScaleEvent], Sequence[ScaleEvent]], now: float
) -> int:
    """Returns the largest size that the policies allow now."""
    if rules.select == "Disabled":
        return current
    choose: Callable[[int, int], int]
    chosen, choose = (_MAX_INT32, min) if rules.select == "Min" else (_MIN_INT32, max)
    for policy, start in _starts(current, rules, events, now):
        pods = policy.type == "Pods"
        chosen = choose(chosen, start + policy.value if pods else ceil(start * (1 + policy.value / 100)))
    return chosen


def scale_down_limit(
    current: int, rules: Rules, events: tuple[Sequence[ScaleEvent], Sequence[ScaleEvent]], now: float
) -> int:
    """Returns the smallest size that the policies allow now."""
    if rules.select == "Disabled":
        return current
    choose: Callable[[int, int], int]
    # The biggest change down is the smallest size.
    chosen, choose = (_MIN_INT32, max) if rules.select == "Min" else (_MAX_INT32, min)
    for policy, start in _starts(current, rules, events, now):
        pods = policy.type == "Pods"
        chosen = choose(chosen, start - policy.value if pods else int(start * (1 - policy.value / 100)))
    return chosen


def _starts(
    current: int, rules: Rules, events: tuple[Sequence[ScaleEvent], Sequence[ScaleEvent]], now: float
) -> Iterator[tuple[Policy, int]]:
    """Yields each policy with the replicas at the start of its period; they may be negative."""
    ups, downs = events
    for policy in rules.policies:
        yield policy, current - changed(ups, policy.period, now) + changed(downs, policy.period, now)


def changed(events: Sequence[ScaleEvent], period: float, now: float) -> int:
    """Returns the replicas that the events of the last `period` seconds changed."""
    cutoff = now - period
    return sum(change for time, change in events if time > cutoff)
