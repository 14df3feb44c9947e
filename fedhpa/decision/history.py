"""The history of an autoscaler: its past recommendations and scale events."""

from __future__ import annotations

import msgspec

from fedhpa.scaling.history import Recommendation, ScaleEvent

__all__ = ["History", "Recommendation", "ScaleEvent"]


class History(msgspec.Struct, frozen=True):
    """The history of one autoscaler. `recommendations` None is a fresh start: the present size is the first.

    The order of the entries is part of the state: Kubernetes replaces outdated entries in place.
    """

    recommendations: tuple[Recommendation, ...] | None = None
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()
