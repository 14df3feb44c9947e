"""The metrics adapter as a process that measures how long work on its event loop holds it up.

`python -m benchmarks.adapter.held FILE FLAGS` runs the adapter with these flags. FILE has the longest hold in
seconds, as one double. Whoever started the process sets it back to 0 where a measurement begins.

A hold is the CPU time of the loop's thread between two ticks of a timer that is always due: that of one pass
over all that is ready. A busy machine and the other threads of the process add nothing to it.
"""

from __future__ import annotations

import asyncio
import importlib
import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Final
from unittest.mock import patch

from fedhpa.serving import quick_loop

LONGEST: Final = struct.Struct("d")
# Shorter passes are added up to this, so that the ticks themselves cost less than a hundredth.
TICK_SECONDS: Final = 0.001


class Holds:
    """The longest hold in seconds, in a file that two processes share."""

    def __init__(self, path: Path) -> None:
        """Creates the file if it does not exist."""
        with path.open("a+b") as file:
            file.truncate(LONGEST.size)
            self._shared = mmap.mmap(file.fileno(), LONGEST.size)

    @property
    def longest(self) -> float:
        """The longest hold since it was last set."""
        seconds: float = LONGEST.unpack_from(self._shared)[0]
        return seconds

    @longest.setter
    def longest(self, seconds: float) -> None:
        LONGEST.pack_into(self._shared, 0, seconds)

    def watched_loop(self) -> asyncio.AbstractEventLoop:
        """Returns a new event loop of the adapter's kind whose holds are measured."""
        loop = quick_loop()

        def tick(before: float) -> None:
            now = time.thread_time()
            self.longest = max(self.longest, now - before)
            loop.call_later(TICK_SECONDS, tick, now)

        loop.call_soon(lambda: tick(time.thread_time()))
        return loop


def main() -> None:
    """Runs the adapter on a watched loop."""
    holds = Holds(Path(sys.argv.pop(1)))
    adapter = importlib.import_module("metrics_adapter.process")
    with patch("fedhpa.serving.process.quick_loop", holds.watched_loop):
        adapter.main()


if __name__ == "__main__":
    main()
