"""The history of an autoscaler: its past recommendations and scale events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fedhpa.scaling import Recommendation, ScaleEvent

__all__ = ["History", "Recommendation", "ScaleEvent", "bounded_history", "history_at"]

# The most entries of each kind that are stored.
_MAX_ENTRIES: Final = 120
# The largest difference between the clocks of two leaders.
MAX_SKEW_SECONDS: Final = 60.0


class History(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The history of one autoscaler. `recommendations` None is a fresh start: the present size is the first.

    The order of the entries is part of the state: Kubernetes replaces outdated entries in place.
    """

    recommendations: tuple[Recommendation, ...] | None = None
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()


def history_at(history: History, now: float) -> History:
    """Returns the history as it counts at `now`: times from a leader whose clock was ahead count as now.

    A scale event more than a minute ahead is dropped: it would use up a policy that is not its own. A
    recommendation holds the size for one window at most, so it counts as now however far ahead it is.
    """
    recommendations = history.recommendations
    if recommendations and any(entry.time > now for entry in recommendations):
        recommendations = tuple(
            Recommendation(min(entry.time, now), entry.replicas) for entry in recommendations
        )
    ups, downs = _events_at(history.scale_ups, now), _events_at(history.scale_downs, now)
    return History(recommendations, ups, downs)


def _events_at(events: tuple[ScaleEvent, ...], now: float) -> tuple[ScaleEvent, ...]:
    if not any(event.time > now for event in events):
        return events
    return tuple(
        ScaleEvent(min(event.time, now), event.change)
        for event in events
        if event.time <= now + MAX_SKEW_SECONDS
    )


def bounded_history(history: History) -> History:
    """Returns the entries that can change a later decision: at most 120 of each kind.

    A recommendation counts only if every later one is lower, or every later one is higher. If too many
    remain, the newest are kept. Scale events above the limit are added to the oldest one that is kept: it
    then counts for longer, so the rate limit gets no looser.
    """
    return History(
        None if history.recommendations is None else _extremes(history.recommendations),
        _merged(history.scale_ups),
        _merged(history.scale_downs),
    )


def _extremes(entries: Sequence[Recommendation]) -> tuple[Recommendation, ...]:
    kept: list[Recommendation] = []
    highest: int | None = None
    lowest: int | None = None
    for entry in sorted(entries, key=lambda entry: entry.time, reverse=True):
        if highest is None or lowest is None or entry.replicas > highest or entry.replicas < lowest:
            kept.append(entry)
            highest = entry.replicas if highest is None else max(highest, entry.replicas)
            lowest = entry.replicas if lowest is None else min(lowest, entry.replicas)
    return tuple(reversed(kept[:_MAX_ENTRIES]))


def _merged(events: Sequence[ScaleEvent]) -> tuple[ScaleEvent, ...]:
    if len(events) <= _MAX_ENTRIES:
        return tuple(events)
    ordered = sorted(events, key=lambda event: event.time)
    cut = len(ordered) - _MAX_ENTRIES
    oldest = ScaleEvent(ordered[cut].time, sum(event.change for event in ordered[: cut + 1]))
    return (oldest, *ordered[cut + 1 :])
