"""CPU time of work on busy machines, and of its longest hold of the event loop: the least of some tries.

Each time is divided by how much longer a fixed piece of work takes at that moment (`benchmarks.calibration`).
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from unittest.mock import patch

from benchmarks import calibration
from tests.support.collector import collecting_as_processes

T = TypeVar("T")

TRIES = 5
slowdown = collecting_as_processes()(calibration.slowdown)


def quiet_seconds(seconds: float, enough: float) -> float:
    """Returns a measured CPU time in seconds of a quiet machine, or as it is if it is below `enough`."""
    return seconds if seconds < enough else seconds / slowdown()


def least_cpu_seconds(work: Callable[[], object], enough: float) -> float:
    """Returns the least CPU time of TRIES runs of `work` in this thread, in seconds of a quiet machine.

    Stops at the first run below `enough`. Some virtual machines count stolen CPU time as used.
    """
    # A property measures hundreds of examples, and to collect all garbage before each takes minutes.
    with collecting_as_processes(collected=False):
        least = _cpu_seconds(work)
    if least < enough:
        return least
    with collecting_as_processes():
        for _ in range(TRIES):
            least = min(least, quiet_seconds(_cpu_seconds(work), enough))
            if least < enough:
                break
    return least


def _cpu_seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


@contextmanager
def holds() -> Iterator[list[float]]:
    """Yields the CPU seconds for which each callback and each step of a task holds the event loop."""
    found: list[float] = []
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        found.append(time.thread_time() - began)

    with patch.object(asyncio.Handle, "_run", measured), collecting_as_processes():
        yield found


async def least_longest_hold(work: Callable[[], Awaitable[object]], enough: float) -> float:
    """Returns the longest hold of the event loop by `work`: the least of TRIES runs, in quiet CPU seconds."""
    least = float("inf")
    for _ in range(TRIES):
        with holds() as found:
            await work()
        least = min(least, quiet_seconds(max(found, default=0.0), enough))
        if least < enough:
            break
    return least


async def least_longest_pass(work: Callable[[], Awaitable[object]], enough: float) -> float:
    """As `least_longest_hold`, of all that runs in one pass of the event loop."""
    least = float("inf")
    with collecting_as_processes():
        for _ in range(TRIES):
            running, longest = asyncio.ensure_future(work()), 0.0
            while not running.done():
                began = time.thread_time()
                await asyncio.sleep(0)
                longest = max(longest, time.thread_time() - began)
            await running
            least = min(least, quiet_seconds(longest, enough))
            if least < enough:
                break
    return least


async def least_hold_by_thread(work: Callable[[], T], enough: float) -> tuple[T, float]:
    """Runs `work` in a thread. Returns its result and the loop's longest hold, as `least_longest_hold` does.

    A hold is the CPU time of all threads between two turns of the loop. What `work` raises is raised here.
    """
    least = float("inf")
    with collecting_as_processes():
        # The processes do the same after their start, so that the collector passes over what was loaded.
        gc.freeze()
        for _ in range(TRIES):
            result, longest = await _hold_by_thread(work)
            least = min(least, quiet_seconds(longest, enough))
            if least < enough:
                break
    return result, least


async def _hold_by_thread(work: Callable[[], T]) -> tuple[T, float]:
    running = asyncio.create_task(asyncio.to_thread(work))
    longest = 0.0
    while not running.done():
        began = time.process_time()
        await asyncio.sleep(0.001)
        longest = max(longest, time.process_time() - began)
    return await running, longest
