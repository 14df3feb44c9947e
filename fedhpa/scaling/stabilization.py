"""Stabilization windows: recent recommendations limit a change of size.

Source: Kubernetes HPA 1.36, normalisation 7 (without behavior) and 8.1 (with it). As in Kubernetes, an entry
at the cut-off counts without behavior, and does not count with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fedhpa.scaling.history import Recommendation, add_entry


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
