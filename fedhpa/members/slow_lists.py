"""Lists of servers that answer slowly are read before they are wanted, so that no caller waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from fedhpa.api.errors import FedHPAError
from fedhpa.cache import Fetched

# A caller with a next time waits no longer for a list that it has read before. Five callers that work at a
# time then pass two hundred lists of a member that has just become slow in ten seconds.
PATIENCE_SECONDS: Final = 0.25
# A list that is read in less is no longer read ahead. The gap keeps a list from changing sides all the time.
QUICK_SECONDS: Final = PATIENCE_SECONDS / 2
# A read begins this many times its expected duration ahead, because durations vary.
LEAD: Final = 1.5
# The expected duration is the longest one, and falls by a fifth with each quicker read.
DECAY: Final = 0.8
# A caller may be late. Without the list in this state it would wait, or miss the answer.
LINGER_SECONDS: Final = 30.0
# Wanted times within one such span are one.
SLOT_SECONDS: Final = 0.5


class Again(NamedTuple):
    """When a caller wants a list again: in `seconds`. A slow answer may then be `oldest` seconds old."""

    seconds: float
    oldest: float


class SlowList:
    """One list of a slow server, with the times at which callers want it. A read takes some `seconds`."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self.seconds = seconds
        self._clock = clock
        # By number of the slot: the age that the callers prefer, and the age that they accept.
        self._wanted: dict[int, Again] = {}
        self._until = clock() + LINGER_SECONDS
        self._added = asyncio.Event()

    def want(self, again: Again, max_age: float) -> None:
        """Note that a caller who accepts `max_age` seconds from a quick server comes back."""
        at = self._clock() + again.seconds
        self._until = max(self._until, at + LINGER_SECONDS)
        slot = int(at / SLOT_SECONDS)
        known = self._wanted.get(slot, Again(max_age, again.oldest))
        self._wanted[slot] = Again(min(known.seconds, max_age), min(known.oldest, again.oldest))
        self._added.set()

    async def run(
        self,
        read: Callable[[], Awaitable[None]],
        latest: Callable[[], Fetched[Any] | None],
        *,
        joins: bool,
    ) -> None:
        """Read the list before each wanted time, until nobody wants it or its server is quick again.

        `latest` is the last answer. With `joins` a read is under way, which shows how slow the server is. The
        callers get the errors of `read` from its cache.
        """
        if joins:
            await self._timed(read)
        while self._clock() < self._until and self.seconds >= QUICK_SECONDS:
            if not self._wanted:
                await self._wait(self._until - self._clock())
                continue
            slot = min(self._wanted)
            begin, end = self._due(slot, latest()), (slot + 1) * SLOT_SECONDS
            if self._clock() >= end:
                del self._wanted[slot]
            elif self._clock() < begin:
                await self._wait(begin - self._clock())
            else:
                await self._timed(read)
                self._wanted.pop(slot, None)  # one read for each wanted time, also if it failed

    def _due(self, slot: int, found: Fetched[Any] | None) -> float:
        """When to read for the callers of a slot; its end if what was `found` is young enough for them."""
        preferred, oldest = self._wanted[slot]
        at, end = slot * SLOT_SECONDS, (slot + 1) * SLOT_SECONDS
        lead = self.seconds * LEAD + SLOT_SECONDS
        # Of a slow server nothing younger can be had than what is read one lead before.
        serves = found is not None and end - found.fetched_at <= min(max(preferred, lead), oldest)
        return end if serves else at - lead

    async def _timed(self, read: Callable[[], Awaitable[None]]) -> None:
        began = self._clock()
        try:
            await read()
        except FedHPAError:
            return  # the cache keeps it for the callers, and it says nothing about the duration
        self.seconds = max(self._clock() - began, self.seconds * DECAY)

    async def _wait(self, seconds: float) -> None:
        self._added.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._added.wait()
        except TimeoutError:
            return
