"""Exponential backoff with jitter."""

from __future__ import annotations

import random


class Backoff:
    """Delays that double from `first` to `most` seconds, each shortened at random by up to half.

    The jitter spreads the clients of a server that comes back.
    """

    def __init__(self, first: float, most: float, *, rng: random.Random | None = None) -> None:
        self._first = first
        self._most = most
        self._rng = rng or random.Random()
        self._next = first

    def next(self) -> float:
        """Returns the seconds to wait now, and doubles the delay after it."""
        delay = self._next
        self._next = min(self._next * 2, self._most)
        return delay * (0.5 + self._rng.random() / 2)

    def reset(self) -> None:
        """Start again with the first delay, after a success."""
        self._next = self._first
