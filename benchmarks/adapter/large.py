"""The metrics adapter with a million pods: 100 members of 10,000 pods each, listed every 15 s.

`python -m benchmarks adapter-large`, a minute and a half. Only callers keep the adapter's data fresh, so one
lists everything every 15 s. Another asks for /livez ten times a second: what it waits is what the event loop
makes others wait. Hub, members and callers share the two cores with the adapter: CPU seconds and
memory are its own, waits are not.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from benchmarks.adapter.backends import METRICS, Fleet
from benchmarks.adapter.lists import p99
from benchmarks.adapter.process import AdapterWorld, adapter
from fedhpa.serving.process import quick_loop

FLEET: Final = Fleet(members=100, pods=10_000, namespaces=100)
PERIOD_SECONDS: Final = 15.0
# The first fills connections and memory, and is not counted.
PERIODS: Final = 4
PROBE_SECONDS: Final = 0.1
DEADLINE: Final = 60.0
SCENARIO: Final = f"{FLEET.total:,} pods over {FLEET.members} members"


def run() -> dict[str, float]:
    """Figure -> measured value, in the unit that its name ends with."""
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        return runner.run(_run())


async def _run() -> dict[str, float]:
    costs: list[float] = []
    lasted: list[float] = []
    lags: list[float] = []
    async with adapter(FLEET) as world:
        caller = await world.caller()
        for _ in range(PERIODS):
            began, spent = time.monotonic(), world.process.cpu
            probing = asyncio.create_task(_probe(world, lags))
            async with asyncio.timeout(DEADLINE):
                status, size = await caller.get(f"{METRICS}/pods")
            lasted.append(time.monotonic() - began)
            if status != 200 or caller.warned:
                raise RuntimeError(f"the adapter answered {status} with {size} bytes, or members are missing")
            await asyncio.sleep(max(began + PERIOD_SECONDS - time.monotonic(), 0.0))
            costs.append(world.process.cpu - spent)
            probing.cancel()
            await asyncio.wait([probing])
        resident = world.process.resident
    return {
        f"{SCENARIO}, CPU s a period": sorted(costs[1:])[len(costs[1:]) // 2],
        f"{SCENARIO}, a LIST, s": min(lasted[1:]),
        f"{SCENARIO}, others wait, p99 ms": p99(lags) * 1000,
        f"{SCENARIO}, others wait at most, ms": max(lags) * 1000,
        f"{SCENARIO}, resident MB": resident,
    }


async def _probe(world: AdapterWorld, lags: list[float]) -> None:
    caller = await world.caller()
    try:
        while True:
            began = time.monotonic()
            await caller.get("/livez")
            lags.append(time.monotonic() - began)
            await asyncio.sleep(PROBE_SECONDS)
    finally:
        caller.close()
