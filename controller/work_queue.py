"""The work queue of a loop: each key is due at a time, and the longest due one is taken first.

A process that falls behind is late with every key, but works on all of them in turn. A key that was worked on
is due again in the future, so it comes after those that wait already.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# A wall clock that differs by more from a monotonic one since the last look was stepped.
STEP_SECONDS: Final = 60.0


class WorkQueue(Generic[K]):
    """Keys, each with the time on `clock` (seconds) at which it is due.

    A key is taken once at a time. It has one pending time, and the earlier of two requested times wins.
    The clock is read again after `longest_wait` seconds, because a wall clock may be stepped. Where `steady`,
    a monotonic clock, shows that it was, all keys are due at once, and `on_step` receives the seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        longest_wait: float | None = None,
        *,
        steady: Callable[[], float] | None = None,
        on_step: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._steady = steady or clock
        self._offset = clock() - self._steady()
        self._longest_wait = longest_wait
        self._on_step = on_step
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._taken: dict[K, float] = {}
        self._again: dict[K, float] = {}
        self._changed = asyncio.Event()

    def add(self, key: K, delay: float = 0.0) -> None:
        """Make `key` due in `delay` seconds unless it is due earlier; while it is taken, after `done`."""
        self._add_at(key, self._clock() + delay)

    async def get(self) -> K:
        """Wait for the earliest due key, and take it. One task at a time may wait."""
        while True:
            self._changed.clear()
            self._notice_step()
            key, wait = self._earliest()
            if key is not None:
                self._taken[key] = self._due.pop(key)
                return key
            await self._wait_change(wait)

    def lateness(self, key: K) -> float:
        """Seconds since a taken key was due; 0 for one that is not taken."""
        now = self._clock()
        return max(now - self._taken.get(key, now), 0.0)

    def done(self, key: K) -> None:
        """Give back a taken key. A time requested in between becomes its pending time."""
        self._taken.pop(key, None)
        due = self._again.pop(key, None)
        if due is not None:
            self._add_at(key, due)

    def _add_at(self, key: K, due: float) -> None:
        times = self._again if key in self._taken else self._due
        if due >= times.get(key, float("inf")):
            return
        times[key] = due
        if times is self._due:
            self._count += 1
            heapq.heappush(self._heap, (due, self._count, key))
            self._changed.set()

    def _notice_step(self) -> None:
        offset = self._clock() - self._steady()
        step, self._offset = offset - self._offset, offset
        if abs(step) <= STEP_SECONDS:
            return
        for key in (*self._due, *self._taken):
            # Times of the clock before the step mean nothing now.
            (self._again if key in self._taken else self._due).pop(key, None)
            self.add(key)
        self._on_step(step)

    def _earliest(self) -> tuple[K | None, float | None]:
        """A due key, or the seconds until the earliest one; (None, None) for an empty queue."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) != due:  # replaced by an earlier time, or taken
                heapq.heappop(self._heap)
                continue
            wait = due - self._clock()
            if wait > 0:
                return None, wait
            heapq.heappop(self._heap)
            return key, None
        return None, None

    async def _wait_change(self, seconds: float | None) -> None:
        if self._longest_wait is not None:
            seconds = self._longest_wait if seconds is None else min(seconds, self._longest_wait)
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
