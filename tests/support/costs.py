"""What work costs, on machines that do other things: what they take away shows in one try, not in each."""

from __future__ import annotations

import time
from collections.abc import Callable

TRIES = 5


def least_cpu_seconds(work: Callable[[], object], enough: float) -> float:
    """The CPU time of the cheapest of a few tries of `work` in this thread; the first that costs less than
    `enough` will do. A host that takes the CPU away is charged for by some virtual machines.
    """
    least = float("inf")
    for _ in range(TRIES):
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
        if least < enough:
            break
    return least
