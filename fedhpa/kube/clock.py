"""The clocks of a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime


@dataclass(frozen=True)
class Clock:
    """`monotonic` and `boot` measure durations, `wall` gives timestamps; all in seconds.

    `boot` also counts the time in which the machine was suspended. `virtual` means that the clock follows a
    simulation, so that the delay of a timer says nothing about the process.
    """

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    boot: Callable[[], float]
    virtual: bool = False

    def date(self) -> datetime:
        """Returns the present date and time in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def counting_suspension(self) -> Clock:
        """Returns this clock with `boot` in the place of `monotonic`."""
        return replace(self, monotonic=self.boot)


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# Only Linux has a clock that counts suspended time.
SYSTEM = Clock(
    time.monotonic, time.time, _boot_seconds if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
