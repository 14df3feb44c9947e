"""Stabilization: recent recommendations hold back a change of mind.

Source: Kubernetes HPA 1.36, normalisation 7 (without behavior) and 8.1 (with it). Comparisons are as there:
at or after the cut-off without behavior, strictly after it with.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fedhpa.scaling.history import Recommendation, remember


class Stabilized(msgspec.Struct, frozen=True):
    """The stabilized size, and the recommendations to remember (their order is part of the state)."""

    replicas: int
    recommendations: tuple[Recommendation, ...]


def stabilize_legacy(
    desired: int, recommendations: Sequence[Recommendation], now: float, window: float
) -> Stabilized:
    """The highest of `desired` and the recommendations of the last `window` seconds."""
    cutoff = now - window
    highest = max([desired, *(entry.replicas for entry in recommendations if entry.time >= cutoff)])
    outdated = [index for index, entry in enumerate(recommendations) if entry.time < cutoff]
    return Stabilized(highest, remember(recommendations, Recommendation(now, desired), outdated))


def stabilize(
    current: int,
    desired: int,
    recommendations: Sequence[Recommendation],
    now: float,
    up_window: float,
    down_window: float,
) -> Stabilized:
    """The present size, moved no further than every recommendation of each direction's window agrees to."""
    up_cutoff, down_cutoff = now - up_window, now - down_window
    up = min([desired, *(entry.replicas for entry in recommendations if entry.time > up_cutoff)])
    down = max([desired, *(entry.replicas for entry in recommendations if entry.time > down_cutoff)])
    outdated = [
        index
        for index, entry in enumerate(recommendations)
        if entry.time < up_cutoff and entry.time < down_cutoff
    ]
    return Stabilized(
        min(max(current, up), down), remember(recommendations, Recommendation(now, desired), outdated)
    )
