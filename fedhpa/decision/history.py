"""The history of an autoscaler: its past recommendations and scale events."""

from __future__ import annotations

from typing import Final

import msgspec

from fedhpa.scaling import Recommendation, ScaleEvent

__all__ = ["History", "Recommendation", "ScaleEvent", "history_at"]

# The largest difference between the clocks of two leaders.
MAX_SKEW_SECONDS: Final = 60.0


class History(msgspec.Struct, frozen=True):
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
