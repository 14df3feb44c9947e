"""Entries of an autoscaler's history: recommendations and scale events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Recommendation(msgspec.Struct, frozen=True, gc=False):
    """A proposed size before stabilization and limits, with its time in POSIX seconds."""

    time: float
    replicas: int


class ScaleEvent(msgspec.Struct, frozen=True, gc=False):
    """A scale that succeeded, with its time in POSIX seconds; `change` is a positive number of replicas."""

    time: float
    change: int


def add_entry(entries: Sequence[T], entry: T, outdated: Sequence[int]) -> tuple[T, ...]:
    """Returns the entries with a new one in place of the last outdated one (by index), else at the end."""
    kept = list(entries)
    if outdated:
        kept[outdated[-1]] = entry
    else:
        kept.append(entry)
    return tuple(kept)
