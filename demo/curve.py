"""The load curve: the demand on the workload over time."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """The lowest and highest demand, in milli-CPU, and the seconds of a rise and a fall.

    maxReplicas pods cannot serve `peak` at the target, so it scales the workload to maxReplicas.
    """

    quiet: int
    peak: int
    rise_seconds: float
    fall_seconds: float


class Curve:
    """A demand in milli-CPU that moves along a cosine; times in seconds."""

    def __init__(self, demand: int) -> None:
        self._old = self._new = demand
        self._begin = 0.0
        self._seconds = 0.0

    def move(self, demand: int, *, now: float, seconds: float) -> None:
        """Starts to move to `demand`, which it reaches after `seconds`."""
        self._old, self._new = self.at(now), demand
        self._begin, self._seconds = now, seconds

    def at(self, now: float) -> int:
        """Returns the demand at a time after the last `move`."""
        part = 1.0 if self._seconds <= 0 else min(1.0, (now - self._begin) / self._seconds)
        return round(self._old + (self._new - self._old) * (1 - math.cos(math.pi * part)) / 2)
