"""The clocks of a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """`monotonic` measures durations, `wall` gives timestamps; both in seconds."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


SYSTEM = Clock()


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# Also counts the time in which the machine was suspended. Only Linux has it.
BOOT = Clock(monotonic=_boot_seconds if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic)
