"""When each object is looked at next: a queue of keys by due time.

A key is in the hands of at most one worker at a time, has one pending time, and an earlier wish wins:
what a Kubernetes workqueue guarantees. Each object has its own turn in its period, which stays the same as
long as the process lives, so that a thousand objects created together do not beat together.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import zlib
from collections.abc import Callable
from typing import Final

Key = tuple[str, str]

# Usage may be this much of a sync period old: one list serves all objects of a namespace, none is seen twice.
USAGE_AGE: Final = 0.5
# A long period is no reason to decide on old usage; this is half the default period.
MOST_USAGE_AGE_SECONDS: Final = 7.5
# What is late may use what was listed when it was due; else who falls behind lists more and falls further.
MOST_GRACE_SECONDS: Final = 15.0
# The turns of a namespace's objects lie within this much of what usage may be old, so that they share a list.
TOGETHER: Final = 0.9
# A turn that is nearer than this is the one that is being taken.
SAME_TURN_SECONDS: Final = 0.001


def usage_age(period: float, late: float = 0.0) -> float:
    """How many seconds old usage may be, by an object's sync period and how late it is looked at."""
    return min(period * USAGE_AGE, MOST_USAGE_AGE_SECONDS) + min(late, MOST_GRACE_SECONDS)


def until_turn(key: Key, period: float, now: float) -> float:
    """Seconds from `now` to the object's next turn: at most its period.

    Namespaces are spread over the whole period, the objects of each over the time that one list serves.
    """
    namespace, name = (zlib.crc32(part.encode()) / 2**32 for part in key)
    turn = namespace * period + name * usage_age(period) * TOGETHER
    delay = period - math.fmod(now - turn, period)
    if delay > period:  # the remainder has the sign of what is divided
        delay -= period
    return period if delay < SAME_TURN_SECONDS else delay


class DueQueue:
    """Keys (namespace, name) with the time, on `clock` in seconds, at which they are due."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._held: dict[Key, float] = {}
        self._again: dict[Key, float] = {}
        self._changed = asyncio.Condition()

    def __len__(self) -> int:
        return len(self._due) + len(self._held)

    async def add(self, key: Key, delay: float = 0.0) -> None:
        """Make `key` due in `delay` seconds, or keep its earlier time; held, it waits for `give_back`."""
        await self._add_at(key, self._clock() + delay)

    async def add_turn(self, key: Key, period: float) -> None:
        """Make `key` due at its next turn, after at most `period` seconds."""
        now = self._clock()
        await self._add_at(key, now + until_turn(key, period, now))

    async def discard(self, key: Key) -> None:
        """Forget a pending key; a held one is forgotten when it is given back."""
        async with self._changed:
            self._due.pop(key, None)
            self._again.pop(key, None)

    async def take(self) -> Key:
        """Wait for the earliest due key and hold it. The wait ends with the caller's cancellation."""
        async with self._changed:
            while True:
                key, wait = self._earliest()
                if key is not None:
                    self._held[key] = max(self._clock() - self._due.pop(key), 0.0)
                    return key
                await self._wait_change(wait)

    def late(self, key: Key) -> float:
        """How many seconds after it was due a held key was taken; 0 for one that is not held."""
        return self._held.get(key, 0.0)

    async def give_back(self, key: Key) -> None:
        """End the hold of a key; a time wished for meanwhile becomes its pending one."""
        self._held.pop(key, None)
        due = self._again.pop(key, None)
        if due is not None:
            await self._add_at(key, due)

    async def _add_at(self, key: Key, due: float) -> None:
        async with self._changed:
            times = self._again if key in self._held else self._due
            if due >= times.get(key, float("inf")):
                return
            times[key] = due
            if times is self._due:
                heapq.heappush(self._heap, (due, key))
                self._changed.notify()

    def _earliest(self) -> tuple[Key | None, float | None]:
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) != due:  # superseded by an earlier wish, taken, or discarded
                heapq.heappop(self._heap)
                continue
            wait = due - self._clock()
            if wait > 0:
                return None, wait
            heapq.heappop(self._heap)
            return key, None
        return None, None

    async def _wait_change(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
