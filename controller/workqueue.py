"""A queue of object keys by due time, as a Kubernetes workqueue guarantees it.

At most one worker holds a key. A key has one pending time, and the earlier of two requested times wins.
Each object has a fixed slot in its period for as long as the process lives, so that a thousand objects
created together are not reconciled together.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import zlib
from collections.abc import Callable
from typing import Final

from fedhpa.kube import Key

# The age that usage may have, as a share of the sync period: one list serves all objects of a namespace, and
# no object decides twice on the same list.
USAGE_AGE: Final = 0.5
# A long period must not lead to decisions on old usage. This is half of the default period.
MAX_USAGE_AGE_SECONDS: Final = 7.5
# A late reconcile may use the list from when it was due. Otherwise a slow controller would list more often.
MAX_LATENESS_SECONDS: Final = 15.0
# The slots of a namespace's objects lie within this share of the usage age, so that they use one list.
SLOT_SPREAD: Final = 0.9
# A slot that is nearer than this is the present one.
SAME_SLOT_SECONDS: Final = 0.001


def max_usage_age(period: float, lateness: float = 0.0) -> float:
    """The age in seconds that usage may have, for an object's sync period and how late its reconcile is."""
    return min(period * USAGE_AGE, MAX_USAGE_AGE_SECONDS) + min(lateness, MAX_LATENESS_SECONDS)


def until_slot(key: Key, period: float, now: float) -> float:
    """Seconds from `now` to the object's next slot: more than 0, at most its period.

    Namespaces are spread over the whole period; the objects of one namespace over the age of one list.
    """
    namespace, name = (zlib.crc32(part.encode()) / 2**32 for part in key)
    slot = namespace * period + name * max_usage_age(period) * SLOT_SPREAD
    delay = period - math.fmod(now - slot, period)
    if delay > period:  # fmod keeps the sign of its first argument
        delay -= period
    return period if delay < SAME_SLOT_SECONDS else delay


class WorkQueue:
    """Keys (namespace, name), each with the time on `clock` (seconds) at which it is due."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._processing: dict[Key, float] = {}
        self._again: dict[Key, float] = {}
        self._changed = asyncio.Condition()

    async def add(self, key: Key, delay: float = 0.0) -> None:
        """Make `key` due in `delay` seconds unless it is due earlier; during processing, after `done`."""
        await self._add_at(key, self._clock() + delay)

    async def add_periodic(self, key: Key, period: float) -> None:
        """Make `key` due at its next slot, after at most `period` seconds."""
        now = self._clock()
        await self._add_at(key, now + until_slot(key, period, now))

    async def discard(self, key: Key) -> None:
        """Remove a pending key. A key that is being processed is not queued again by `done`."""
        async with self._changed:
            self._due.pop(key, None)
            self._again.pop(key, None)

    async def get(self) -> Key:
        """Wait for the earliest due key and start processing it."""
        async with self._changed:
            while True:
                key, wait = self._earliest()
                if key is not None:
                    self._processing[key] = max(self._clock() - self._due.pop(key), 0.0)
                    return key
                await self._wait_change(wait)

    def lateness(self, key: Key) -> float:
        """Seconds between a key's due time and its `get`; 0 for a key that is not being processed."""
        return self._processing.get(key, 0.0)

    async def done(self, key: Key) -> None:
        """End the processing of a key. A time requested in between becomes its pending time."""
        self._processing.pop(key, None)
        due = self._again.pop(key, None)
        if due is not None:
            await self._add_at(key, due)

    async def _add_at(self, key: Key, due: float) -> None:
        async with self._changed:
            times = self._again if key in self._processing else self._due
            if due >= times.get(key, float("inf")):
                return
            times[key] = due
            if times is self._due:
                heapq.heappush(self._heap, (due, key))
                self._changed.notify()

    def _earliest(self) -> tuple[Key | None, float | None]:
        """A due key, or the seconds until the earliest one; (None, None) for an empty queue."""
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) != due:  # replaced by an earlier time, taken, or discarded
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
