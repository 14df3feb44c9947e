"""The cost of an hour of the closed loop, which is used only while it is cheap."""

from __future__ import annotations

import time
from typing import Final

from benchmarks.closed_loop.ways import CENTRALIZED, DISTRIBUTED, simulate
from benchmarks.closed_loop.worlds import ALL

RUNS: Final = {
    "an hour of 5 clusters and 60 pods, CPU s": ("sixty", CENTRALIZED),
    "an hour of mode Distributed with 200 pods, CPU s": ("two-hundred", DISTRIBUTED),
    "an hour of mode Distributed over 10 clusters, CPU s": ("ten", DISTRIBUTED),
}


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    found = {}
    for figure, (world, way) in RUNS.items():
        began = time.process_time()
        simulate(ALL[world], way, 1.0)
        found[figure] = time.process_time() - began
    return found
