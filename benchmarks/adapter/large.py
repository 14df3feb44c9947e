"""The metrics adapter with a million pods: 100 members of 10,000 pods each, listed every 15 s.

`python -m benchmarks adapter-large` takes a minute and a half. The adapter reads members only on demand, so
one client lists everything every 15 s. Another requests /livez ten times a second; its waits show how long
the event loop delays other requests. CPU time and memory are the adapter's alone. The waits are not, because
hub, members and clients share the two cores with the adapter.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from benchmarks.adapter.backends import METRICS, FleetSize
from benchmarks.adapter.lists import p99
from benchmarks.adapter.process import AdapterProcess, running_adapter
from fedhpa.serving import quick_loop

FLEET: Final = FleetSize(members=100, pods=10_000, namespaces=100)
PERIOD_SECONDS: Final = 15.0
# The first period fills connections and memory and is not counted.
PERIODS: Final = 4
PROBE_SECONDS: Final = 0.1
DEADLINE: Final = 60.0
SCENARIO: Final = f"{FLEET.total:,} pods over {FLEET.members} members"


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        return runner.run(_run())


async def _run() -> dict[str, float]:
    costs: list[float] = []
    lasted: list[float] = []
    lags: list[float] = []
    async with running_adapter(FLEET) as adapter:
        client = await adapter.connect()
        for _ in range(PERIODS):
            began, spent = time.monotonic(), adapter.process.cpu
            probing = asyncio.create_task(_probe(adapter, lags))
            async with asyncio.timeout(DEADLINE):
                status, size = await client.get(f"{METRICS}/pods")
            lasted.append(time.monotonic() - began)
            if status != 200 or client.warned:
                raise RuntimeError(f"the adapter answered {status} with {size} bytes, or members are missing")
            await asyncio.sleep(max(began + PERIOD_SECONDS - time.monotonic(), 0.0))
            costs.append(adapter.process.cpu - spent)
            probing.cancel()
            await asyncio.wait([probing])
        resident = adapter.process.resident
    return {
        f"{SCENARIO}, CPU s a period": sorted(costs[1:])[len(costs[1:]) // 2],
        f"{SCENARIO}, a LIST, s": min(lasted[1:]),
        f"{SCENARIO}, others wait, p99 ms": p99(lags) * 1000,
        f"{SCENARIO}, others wait at most, ms": max(lags) * 1000,
        f"{SCENARIO}, resident MB": resident,
    }


async def _probe(adapter: AdapterProcess, lags: list[float]) -> None:
    client = await adapter.connect()
    try:
        while True:
            began = time.monotonic()
            await client.get("/livez")
            lags.append(time.monotonic() - began)
            await asyncio.sleep(PROBE_SECONDS)
    finally:
        client.close()
