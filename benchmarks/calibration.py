"""The factor by which this machine is slower now than a quiet one, by a fixed piece of work.

A shared processor does less in a CPU second than a quiet one, because others take its caches and its cycles.
"""

from __future__ import annotations

import json
import time
from typing import Final

FIXED_WORK: Final = json.dumps(
    [{"metadata": {"name": f"web-{number}"}, "n": number} for number in range(30_000)]
)
# The CPU time of FIXED_WORK on a quiet machine.
QUIET_SECONDS: Final = 0.0165
# A slower machine than this must not excuse everything.
MAX_SLOWDOWN: Final = 3.0


def slowdown() -> float:
    """Returns how many times longer FIXED_WORK takes now than on a quiet machine, 1 to MAX_SLOWDOWN."""
    began = time.thread_time()
    json.loads(FIXED_WORK)
    return min(max(1.0, (time.thread_time() - began) / QUIET_SECONDS), MAX_SLOWDOWN)
