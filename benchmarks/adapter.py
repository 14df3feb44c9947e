"""What the metrics adapter costs and how long its callers wait: 20,000 pods over 10 members.

Cold: each member is asked. Warm: the members' answers are young enough to be used again. Members compress
what is long, as API servers do; uncompressed is measured beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from benchmarks.adapter_peers import CUSTOM, EXTERNAL, METRICS, Fleet
from benchmarks.adapter_world import AdapterWorld, Caller, adapter
from fedhpa.serving.loops import quick_loop

FLEET = Fleet(members=10, pods=2_000)
PLAIN = Fleet(members=10, pods=2_000, gzip=False)
PODS = f"{METRICS}/pods"
# A machine is busy at times; the least of several is the adapter's own.
ROUNDS = 10
HUNG = 3
# In which nothing may be noticed of the hung member any more.
HUNG_SECONDS = 6.0
AUTOSCALERS = 1_000
SOME = 100
# Long enough for a thousand answers to be shared, and short enough to be waited for.
MAX_AGE = 3.0
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
    for how, age in (("cold", MAX_AGE), ("warm", 3600.0)):
        async with adapter(FLEET, f"--metrics-max-age={age:g}s", PATIENT) as world:
            figures |= await _autoscalers(world, how, age)
    return figures


async def _lists(world: AdapterWorld, how: str) -> dict[str, float]:
    caller = await world.caller()
    costs = [await _measure(world, [lambda: caller.get(PODS)]) for _ in range(ROUNDS + 2)][2:]
    return {
        f"{SCENARIO}, {how}, us/pod": min(cost.cpu for cost in costs) / FLEET.total * 1e6,
        f"{SCENARIO}, {how}, ms": min(cost.waits[0] for cost in costs) * 1000,
    }


async def _hung(world: AdapterWorld) -> dict[str, float]:
    """The first caller waits for the member's deadline; what the others wait after that."""
    caller = await world.caller()
    await _measure(world, [lambda: caller.get(PODS)])
    await world.hang(HUNG)
    first = await _measure(world, [lambda: caller.get(PODS)])
    waits: list[float] = []
    ends = time.perf_counter() + HUNG_SECONDS
    while time.perf_counter() < ends:
        waits += (await _measure(world, [lambda: caller.get(PODS)])).waits
        await asyncio.sleep(0.1)
    return {
        "one hung member, the first LIST, s": first.waits[0],
        "one hung member, LISTs after that, p99 ms": p99(waits) * 1000,
    }


async def _autoscalers(world: AdapterWorld, how: str, age: float) -> dict[str, float]:
    """One request of each of a thousand HPAs, all at once, each over a connection of its own.

    One in ten has custom metrics and one in ten external ones; what these alone cost is measured apart.
    """
    callers: list[Caller] = []
    while len(callers) < AUTOSCALERS:
        callers += await asyncio.gather(*(_connected(world) for _ in range(SOME)))
    paths = [_paths(number)[{0: 1, 1: 2}.get(number % 10, 0)] for number in range(AUTOSCALERS)]
    gets = [_get(caller, path) for caller, path in zip(callers, paths, strict=True)]
    costs = await _rounds(world, gets, age)
    name = f"{AUTOSCALERS:,} HPAs at once, {how}"
    figures = {
        f"{name}, p99 ms": min(p99(cost.waits) for cost in costs) * 1000,
        f"{name}, CPU ms/request": min(cost.cpu for cost in costs) / AUTOSCALERS * 1000,
    }
    for index, kind in enumerate(("pod", "custom", "external")):
        some = [_get(caller, _paths(number)[index]) for number, caller in enumerate(callers[:SOME])]
        costs = await _rounds(world, some, age)
        figures[f"{kind} metrics of {SOME} HPAs, {how}, CPU ms/request"] = (
            min(cost.cpu for cost in costs) / SOME * 1000
        )
    return figures


async def _connected(world: AdapterWorld) -> Caller:
    # A connection on which nothing was asked yet is closed after some seconds.
    caller = await world.caller()
    await caller.get("/livez")
    return caller


async def _rounds(world: AdapterWorld, gets: Sequence[Get], age: float) -> Sequence[Cost]:
    """Rounds after a first one; each when the answers of the one before are old, if they get old."""
    costs = []
    for _ in range(2 if age == MAX_AGE else ROUNDS // 2):
        costs.append(await _measure(world, gets))
        if age == MAX_AGE:
            await asyncio.sleep(age)
    return costs[1:]


async def _measure(world: AdapterWorld, gets: Sequence[Get]) -> Cost:
    async def one(get: Get) -> float:
        began = time.perf_counter()
        status, size = await get()
        if status != 200 or size < 100:
            raise RuntimeError(f"the adapter answered {status} with {size} bytes")
        return time.perf_counter() - began

    spent = world.process.cpu
    waits = await asyncio.gather(*(one(get) for get in gets))
    return Cost(world.process.cpu - spent, waits)


def _get(caller: Caller, path: str) -> Get:
    return lambda: caller.get(path)


def _paths(number: int) -> tuple[str, str, str]:
    """What an HPA asks for: metrics of its pods, a custom metric of them, an external metric."""
    namespace = f"namespaces/shop-{number % FLEET.namespaces}"
    app = number // FLEET.namespaces % FLEET.apps
    selector = "labelSelector=" + quote(f"app=web-{app}", safe="")
    return (
        f"{METRICS}/{namespace}/pods?{selector}",
        f"{CUSTOM}/v1beta2/{namespace}/pods/*/requests?{selector}",
        f"{EXTERNAL}/{namespace}/depth?{selector}",
    )


def p99(waits: Sequence[float]) -> float:
    """What one of a hundred waits longer than."""
    return sorted(waits)[int(len(waits) * 0.99)]
