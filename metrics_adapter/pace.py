"""Long work on the event loop, in pieces, so that no request holds up the others for more than 50 ms.

Requests take turns for it. A hundred that each pause after 10 ms would still hold up the loop for a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

R = TypeVar("R")

# The work between two chances for other tasks. The interpreter lock adds up to 5 ms for each thread at work.
PIECE_SECONDS = 0.01
# Items worked on between two looks at the clock.
SLICE = 128


class Turn(asyncio.Lock):
    """The turn of requests; `used` are the seconds of their work since the last pause."""

    used = 0.0


_on_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Turn] = WeakKeyDictionary()
_in_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def turn() -> Turn:
    """Returns the turn for work on the running event loop."""
    return _on_loop.setdefault(asyncio.get_running_loop(), Turn())


async def take(work: Callable[[], R]) -> R:
    """Returns `work()` when it is its turn, and pauses after every 10 ms of all requests' work."""
    own = turn()
    async with own:
        began = time.perf_counter()
        try:
            return work()
        finally:
            own.used += time.perf_counter() - began
            if own.used > PIECE_SECONDS:
                own.used = 0.0
                # Within the turn, so that no other request works in the same pass of the event loop.
                await asyncio.sleep(0)


async def in_slices(count: int, work: Callable[[slice], Iterable[R]]) -> list[R]:
    """Returns what `work` makes of `count` items, a slice at a time."""
    found: list[R] = []
    for start in range(0, count, SLICE):
        found += await take(partial(work, slice(start, start + SLICE)))
    return found


async def in_thread_above(limit: int, count: int, work: Callable[[], R]) -> R:
    """Returns `work()`, done in a thread if it is about more than `limit` items, one such thread at a time.

    Python's threads take turns every 5 ms, so work in a thread does not hold up the event loop.
    """
    if count <= limit:
        return await take(work)
    async with _in_threads.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        return await asyncio.to_thread(work)
