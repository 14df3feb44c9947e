"""Long work on the event loop, in pieces, so that no request holds up the others for more than 50 ms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

R = TypeVar("R")

# The work between two chances for other tasks. The interpreter lock adds up to 5 ms for each thread at work.
PIECE_SECONDS = 0.01
# Items worked on between two looks at the clock.
SLICE = 128


class Turn(asyncio.Lock):
    """What requests take in turn for long work on the event loop.

    A hundred requests that pause after 10 ms each would still hold up the loop for a second.
    """

    def __init__(self) -> None:
        super().__init__()
        # Seconds of work since the last pause.
        self.used = 0.0


async def in_slices(count: int, work: Callable[[slice], Iterable[R]], turn: Turn) -> list[R]:
    """Returns what `work` makes of `count` items, a slice at a time, and pauses after every 10 ms of work."""
    found: list[R] = []
    for start in range(0, count, SLICE):
        async with turn:
            began = time.perf_counter()
            found += work(slice(start, start + SLICE))
            turn.used += time.perf_counter() - began
            if turn.used > PIECE_SECONDS:
                turn.used = 0.0
                # Within the turn, so that no other request works in the same pass of the event loop.
                await asyncio.sleep(0)
    return found


async def in_thread_above(limit: int, count: int, work: Callable[[], R]) -> R:
    """Returns `work()`, done in a thread if it is about more than `limit` items.

    Python's threads take turns every 5 ms, so work in a thread does not hold up the event loop.
    """
    return work() if count <= limit else await asyncio.to_thread(work)
