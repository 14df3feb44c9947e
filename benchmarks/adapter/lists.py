"""What the metrics adapter costs and how long its callers wait: 20,000 pods over 10 members.

Cold: each member is asked. Warm: the members' answers are young enough to be used again. Members compress
what is long, as API servers do; uncompressed is measured beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from benchmarks.adapter.backends import METRICS, Fleet
from benchmarks.adapter.process import AdapterWorld, adapter
from fedhpa.serving.process import quick_loop

FLEET = Fleet(members=10, pods=2_000)
PLAIN = Fleet(members=10, pods=2_000, gzip=False)
PODS = f"{METRICS}/pods"
# A machine is busy at times; the least of several is the adapter's own.
ROUNDS = 20
HUNG = 3
# In which nothing may be noticed of the hung member any more.
HUNG_SECONDS = 6.0
# A machine that is busy with something else is no member that hangs.
PATIENT = "--member-deadline=30s"
SCENARIO = f"LIST of {FLEET.total:,} pods over {FLEET.members} members"

Get = Callable[[], Awaitable[tuple[int, int]]]


@dataclass(frozen=True)
class Cost:
    """Of one request or of several at once: CPU seconds in all, and the seconds each took."""

    cpu: float
    waits: Sequence[float]


def run() -> dict[str, float]:
    """CPU microseconds a pod, waits in milliseconds, resident megabytes."""
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        return runner.run(_run())


async def _run() -> dict[str, float]:
    figures: dict[str, float] = {}
    async with adapter(FLEET, "--metrics-max-age=0s", PATIENT) as world:
        figures |= await _lists(world, "cold")
        figures[f"{SCENARIO}, resident, MB"] = world.process.resident
    async with adapter(FLEET, "--metrics-max-age=1h") as world:
        figures |= await _lists(world, "warm")
    async with adapter(PLAIN, "--metrics-max-age=0s", PATIENT) as world:
        figures |= await _lists(world, "cold, members do not compress")
    async with adapter(FLEET, "--metrics-max-age=0s") as world:
        figures |= await _hung(world)
    return figures


async def _lists(world: AdapterWorld, how: str) -> dict[str, float]:
    caller = await world.caller()
    costs = [await measure(world, [lambda: caller.get(PODS)]) for _ in range(ROUNDS + 2)][2:]
    return {
        f"{SCENARIO}, {how}, us/pod": min(cost.cpu for cost in costs) / FLEET.total * 1e6,
        f"{SCENARIO}, {how}, ms": min(cost.waits[0] for cost in costs) * 1000,
    }


async def _hung(world: AdapterWorld) -> dict[str, float]:
    """The first caller waits for the member's deadline; what the others wait after that."""
    caller = await world.caller()
    await measure(world, [lambda: caller.get(PODS)])
    await world.hang(HUNG)
    first = await measure(world, [lambda: caller.get(PODS)])
    waits: list[float] = []
    ends = time.perf_counter() + HUNG_SECONDS
    while time.perf_counter() < ends:
        waits += (await measure(world, [lambda: caller.get(PODS)])).waits
        await asyncio.sleep(0.1)
    return {
        "one hung member, the first LIST, s": first.waits[0],
        "one hung member, LISTs after that, p99 ms": p99(waits) * 1000,
    }


async def measure(world: AdapterWorld, gets: Sequence[Get]) -> Cost:
    """What requests made at the same moment cost; RuntimeError if one of them fails."""

    async def one(get: Get) -> float:
        began = time.perf_counter()
        status, size = await get()
        if status != 200 or size < 100:
            raise RuntimeError(f"the adapter answered {status} with {size} bytes")
        return time.perf_counter() - began

    spent = world.process.cpu
    waits = await asyncio.gather(*(one(get) for get in gets))
    return Cost(world.process.cpu - spent, waits)


def p99(waits: Sequence[float]) -> float:
    """What one of a hundred waits longer than."""
    return sorted(waits)[int(len(waits) * 0.99)]
