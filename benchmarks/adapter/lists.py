"""Cost and latency of LISTs of 20,000 pods over 10 members through the metrics adapter.

Cold: the adapter queries each member. Warm: it answers from cached lists. Members compress long bodies, as
API servers do. One scenario has members without compression, and one has members whose answers do not change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from benchmarks.adapter.backends import METRICS, FleetSize
from benchmarks.adapter.process import AdapterProcess, running_adapter
from fedhpa.serving import quick_loop

FLEET = FleetSize(members=10, pods=2_000)
PLAIN = FleetSize(members=10, pods=2_000, gzip=False)
UNCHANGED = FleetSize(members=10, pods=2_000, changes=False)
PODS = f"{METRICS}/pods"
# Other work on the machine adds time, so the best of several rounds counts.
ROUNDS = 20
HUNG = 3
# Seconds for which LISTs are measured after the hanging member was detected.
HUNG_SECONDS = 6.0
# A busy machine must not make a member look as if it hangs.
PATIENT = "--member-deadline=30s"
SCENARIO = f"LIST of {FLEET.total:,} pods over {FLEET.members} members"

Get = Callable[[], Awaitable[tuple[int, int]]]


@dataclass(frozen=True)
class Cost:
    """The adapter's CPU seconds for concurrent requests, and the seconds that each took."""

    cpu: float
    waits: Sequence[float]


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        return runner.run(_run())


async def _run() -> dict[str, float]:
    figures: dict[str, float] = {}
    async with running_adapter(FLEET, "--metrics-max-age=0s", PATIENT) as adapter:
        figures |= await _lists(adapter, "cold")
        figures[f"{SCENARIO}, resident, MB"] = adapter.process.resident
    async with running_adapter(FLEET, "--metrics-max-age=1h") as adapter:
        figures |= await _lists(adapter, "warm")
    async with running_adapter(PLAIN, "--metrics-max-age=0s", PATIENT) as adapter:
        figures |= await _lists(adapter, "cold, members do not compress")
    async with running_adapter(UNCHANGED, "--metrics-max-age=0s", PATIENT) as adapter:
        figures |= await _lists(adapter, "cold, unchanged answers")
    async with running_adapter(FLEET, "--metrics-max-age=0s") as adapter:
        figures |= await _hung(adapter)
    return figures


async def _lists(adapter: AdapterProcess, how: str) -> dict[str, float]:
    client = await adapter.connect()
    costs = [await measure(adapter, [lambda: client.get(PODS)]) for _ in range(ROUNDS + 2)][2:]
    return {
        f"{SCENARIO}, {how}, us/pod": min(cost.cpu for cost in costs) / FLEET.total * 1e6,
        f"{SCENARIO}, {how}, ms": min(cost.waits[0] for cost in costs) * 1000,
    }


async def _hung(adapter: AdapterProcess) -> dict[str, float]:
    """The first LIST waits for the member's deadline; later ones must not."""
    client = await adapter.connect()
    await measure(adapter, [lambda: client.get(PODS)])
    await adapter.hang(HUNG)
    first = await measure(adapter, [lambda: client.get(PODS)])
    waits: list[float] = []
    ends = time.perf_counter() + HUNG_SECONDS
    while time.perf_counter() < ends:
        waits += (await measure(adapter, [lambda: client.get(PODS)])).waits
        await asyncio.sleep(0.1)
    return {
        "one hung member, the first LIST, s": first.waits[0],
        "one hung member, LISTs after that, p99 ms": p99(waits) * 1000,
    }


async def measure(adapter: AdapterProcess, gets: Sequence[Get]) -> Cost:
    """Send requests at the same time and return their cost. Raises RuntimeError if one fails."""

    async def one(get: Get) -> float:
        began = time.perf_counter()
        status, size = await get()
        if status != 200 or size < 100:
            raise RuntimeError(f"the adapter answered {status} with {size} bytes")
        return time.perf_counter() - began

    spent = adapter.process.cpu
    waits = await asyncio.gather(*(one(get) for get in gets))
    return Cost(adapter.process.cpu - spent, waits)


def p99(waits: Sequence[float]) -> float:
    """The 99th percentile of the waits."""
    return sorted(waits)[int(len(waits) * 0.99)]
