"""What the arithmetic remembers of earlier decisions: recommendations and scale events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Recommendation(msgspec.Struct, frozen=True, gc=False):
    """A size that was wanted at a time (POSIX seconds), before stabilization and limits."""

    time: float
    replicas: int


class ScaleEvent(msgspec.Struct, frozen=True, gc=False):
    """A scale that succeeded: at a time, by so many replicas (always positive)."""

    time: float
    change: int


def remember(entries: Sequence[T], entry: T, outdated: Sequence[int]) -> tuple[T, ...]:
    """Adds an entry: in the place of the last outdated one (`outdated` holds indices), else at the end."""
    kept = list(entries)
    if outdated:
        kept[outdated[-1]] = entry
    else:
        kept.append(entry)
    return tuple(kept)
