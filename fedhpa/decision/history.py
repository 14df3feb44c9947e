"""What a decision remembers of earlier ones: recommendations and scale events."""

from __future__ import annotations

import msgspec


class Recommendation(msgspec.Struct, frozen=True, gc=False):
    """A size that was wanted at a time (POSIX seconds), before stabilization and limits."""

    time: float
    replicas: int


class ScaleEvent(msgspec.Struct, frozen=True, gc=False):
    """A scale that succeeded: at a time, by so many replicas (always positive)."""

    time: float
    change: int


class History(msgspec.Struct, frozen=True):
    """The memory of one autoscaler. `recommendations` None means a fresh start: the current size is seeded.

    The order of the entries is part of the state, since Kubernetes reuses outdated entries in place.
    """

    recommendations: tuple[Recommendation, ...] | None = None
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()
