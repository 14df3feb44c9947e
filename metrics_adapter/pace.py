"""Long work on the event loop, in pieces, so that no request holds up the others for more than 50 ms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

# The work between two chances for other tasks. The interpreter lock adds up to 5 ms for each thread at work.
PIECE_SECONDS = 0.01
# Items worked on between two looks at the clock.
SLICE = 128


async def in_slices(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """Yields all items in slices, and lets other tasks run between two slices every 10 ms."""
    clock = asyncio.get_running_loop().time
    began = clock()
    for start in range(0, len(items), SLICE):
        yield items[start : start + SLICE]
        if clock() - began > PIECE_SECONDS:
            await asyncio.sleep(0)
            began = clock()


async def in_thread_above(limit: int, count: int, work: Callable[[], R]) -> R:
    """Returns `work()`, done in a thread if it is about more than `limit` items.

    Python's threads take turns every 5 ms, so work in a thread does not hold up the event loop.
    """
    return work() if count <= limit else await asyncio.to_thread(work)
