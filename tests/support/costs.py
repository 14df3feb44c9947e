"""CPU time of work on busy machines, and of its longest hold of the event loop: the least of some tries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

TRIES = 5


def least_cpu_seconds(work: Callable[[], object], enough: float) -> float:
    """Returns the least CPU time of TRIES runs of `work` in this thread, in seconds.

    Stops at the first run below `enough`. Some virtual machines count stolen CPU time as used.
    """
    least = float("inf")
    for _ in range(TRIES):
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
        if least < enough:
            break
    return least


@contextmanager
def holds() -> Iterator[list[float]]:
    """Yields the CPU seconds for which each callback and each step of a task holds the event loop."""
    found: list[float] = []
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        found.append(time.thread_time() - began)

    with patch.object(asyncio.Handle, "_run", measured):
        yield found


async def least_longest_hold(work: Callable[[], Awaitable[object]], enough: float) -> float:
    """Returns the longest hold of the event loop by `work`: the least of TRIES runs, in CPU seconds."""
    least = float("inf")
    for _ in range(TRIES):
        with holds() as found:
            await work()
        least = min(least, max(found, default=0.0))
        if least < enough:
            break
    return least
