"""Short garbage collections in processes with millions of objects.

A full collection looks at every object that can be in a cycle, and holds the event loop meanwhile: for 0.2 s
with 1,000 autoscalers in memory, each time that a quarter more objects have come. Nearly all of them live as
long as the process, and an object in no cycle is freed without a collection.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import Any, Final

OLDEST: Final = 2
# The survivors of a longer collection are not looked at again. This is CPU time: while other processes are
# busy, each collection takes long, and nearly everything would be taken out.
SHORT_SECONDS: Final = 0.025
CHECK_SECONDS: Final = 60.0
# The blocks of memory in use may grow by so much, times and in all, before everything is looked at again.
# The resident memory would not do: what a collection frees stays with the process, so that each time more
# garbage fitted in before it grew.
GROWTH: Final = 1.1
LEAST_GROWTH: Final = 100_000


class Garbage:
    """Takes the survivors of each long collection out of the later ones, until the process has grown.

    An object that was taken out is freed as before, unless it is part of a cycle. Such cycles are found when
    everything is looked at again: each time that the `blocks` in use have grown by GROWTH and LEAST_GROWTH.
    `clock` gives the CPU seconds of the thread.
    """

    def __init__(
        self, clock: Callable[[], float], blocks: Callable[[], int] = sys.getallocatedblocks
    ) -> None:
        self._clock = clock
        self._blocks = blocks
        self._began = 0.0
        self._size = 0

    def follow(self) -> None:
        """Take the loaded modules, which are never garbage, out of all collections, and follow these."""
        self._look_at_all()
        gc.callbacks.append(self._collected)

    def unfollow(self) -> None:
        """Leave the collections as Python does them."""
        gc.callbacks.remove(self._collected)
        gc.unfreeze()

    async def run(self) -> None:
        """Look at everything again when the process has grown, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()

    def check(self) -> bool:
        """Look at everything again if the process has grown; True if it had."""
        if self._blocks() < max(self._size * GROWTH, self._size + LEAST_GROWTH):
            return False
        gc.unfreeze()
        self._look_at_all()
        return True

    def _look_at_all(self) -> None:
        gc.collect()
        gc.freeze()
        self._size = self._blocks()

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != OLDEST:
            return
        if phase == "start":
            self._began = self._clock()
        elif self._clock() - self._began > SHORT_SECONDS:
            gc.freeze()
