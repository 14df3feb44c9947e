"""What a decision remembers of earlier ones: recommendations and scale events."""

from __future__ import annotations

import msgspec

from fedhpa.scaling.history import Recommendation, ScaleEvent

__all__ = ["History", "Recommendation", "ScaleEvent"]


class History(msgspec.Struct, frozen=True):
    """The memory of one autoscaler. `recommendations` None means a fresh start: the current size is seeded.

    The order of the entries is part of the state, since Kubernetes reuses outdated entries in place.
    """

    recommendations: tuple[Recommendation, ...] | None = None
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()
