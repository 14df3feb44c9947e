"""The load curve: what the world demands at a moment."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """How much the world demands, in milli-CPU, in quiet and busy times, and how long it rises and falls.

    `peak` is more than the most pods can serve at target, so that there will be as many as allowed.
    """

    quiet: int
    peak: int
    rise_seconds: float
    fall_seconds: float


class Curve:
    """A demand in milli-CPU that stays or is on its way to another, slowly at both ends; times in seconds."""

    def __init__(self, demand: int) -> None:
        self._old = self._new = demand
        self._begin = 0.0
        self._seconds = 0.0

    def move(self, demand: int, *, now: float, seconds: float) -> None:
        """Be there after so many seconds, on the way from where it is now."""
        self._old, self._new = self.at(now), demand
        self._begin, self._seconds = now, seconds

    def at(self, now: float) -> int:
        """The demand at a moment not before the last `move`."""
        part = 1.0 if self._seconds <= 0 else min(1.0, (now - self._begin) / self._seconds)
        return round(self._old + (self._new - self._old) * (1 - math.cos(math.pi * part)) / 2)
