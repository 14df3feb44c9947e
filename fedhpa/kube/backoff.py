"""Waiting longer after each failure, never in step with others."""

from __future__ import annotations

import random


class Backoff:
    """Delays that double from `first` to `most` seconds, each shortened at random by up to half.

    The random half keeps a thousand clients of a server that came back from returning in the same instant.
    """

    def __init__(self, first: float, most: float, *, rng: random.Random | None = None) -> None:
        self._first = first
        self._most = most
        self._rng = rng or random.Random()
        self._next = first

    def next(self) -> float:
        """The seconds to wait now; the following delay will be twice as long."""
        delay = self._next
        self._next = min(self._next * 2, self._most)
        return delay * (0.5 + self._rng.random() / 2)

    def reset(self) -> None:
        """Begin again with the first delay, after a success."""
        self._next = self._first
