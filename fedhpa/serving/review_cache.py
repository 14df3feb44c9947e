"""Answers of the hub that are believed for some seconds: token reviews and access reviews."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_ENTRIES = 4096


class ReviewCache(Generic[K, V]):
    """Values by key, each for its own number of seconds; one question at a time for the same key.

    `lifetime` gives the seconds a value is believed. Errors are never kept.
    """

    def __init__(self, lifetime: Callable[[V], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asking: dict[K, tuple[asyncio.Lock, int]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The value of `key`, asked for if none is known that is fresh enough."""
        known = self._entries.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        lock, waiting = self._asking.get(key, (asyncio.Lock(), 0))
        self._asking[key] = (lock, waiting + 1)
        try:
            async with lock:
                known = self._entries.get(key)
                if known is not None and self._clock() < known[0]:
                    return known[1]
                value = await ask()
                self._keep(key, value)
                return value
        finally:
            lock, waiting = self._asking.pop(key)
            if waiting > 1:
                self._asking[key] = (lock, waiting - 1)

    def _keep(self, key: K, value: V) -> None:
        self._entries[key] = (self._clock() + self._lifetime(value), value)
        self._entries.move_to_end(key)
        if len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)
