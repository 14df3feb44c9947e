"""The times at which targets are due, on the wall clock.

A sleep is at most five seconds long, and then the wall clock is read again. So a step of the clock and the
suspension of the machine are noticed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

LONGEST_SLEEP_SECONDS: Final = 5.0

K = TypeVar("K", bound=Hashable)


class Wakeups(Generic[K]):
    """Keys with the wall time (POSIX seconds) at which each is due. Each key has one time."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._changed = asyncio.Event()

    def set(self, key: K, at: float) -> None:
        """Makes a key due at `at`, in the place of its earlier time."""
        self._due[key] = at
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
        if self._heap[0][2] == key:
            self._changed.set()

    def discard(self, key: K) -> None:
        """Removes a key."""
        self._due.pop(key, None)

    async def wait(self) -> list[K]:
        """Waits until a key is due. Returns the due keys, the earliest first, and removes them."""
        while True:
            self._changed.clear()
            found = list(self._pop_due())
            if found:
                return found
            await self._sleep()

    def _pop_due(self) -> Iterator[K]:
        now = self._wall()
        while self._heap:
            at, _, key = self._heap[0]
            if self._due.get(key) != at:
                heapq.heappop(self._heap)
                continue
            if at > now:
                return
            heapq.heappop(self._heap)
            del self._due[key]
            yield key

    async def _sleep(self) -> None:
        wait = LONGEST_SLEEP_SECONDS
        if self._heap:
            wait = min(max(self._heap[0][0] - self._wall(), 0.0), LONGEST_SLEEP_SECONDS)
        try:
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            return
