"""A thousand Kubernetes HPAs that ask the metrics adapter at the same moment, each over its own connection.

`python -m benchmarks adapter-callers`, two minutes. Eight in ten ask for pods' metrics, one in ten for a
custom and one for an external metric. Hub, members and callers share the two cores with the adapter: CPU
seconds are its own, waits are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from benchmarks.adapter.backends import CUSTOM, EXTERNAL, METRICS
from benchmarks.adapter.lists import FLEET, PATIENT, Cost, Get, measure, p99
from benchmarks.adapter.process import AdapterWorld, Caller, adapter
from fedhpa.serving.process import quick_loop

AUTOSCALERS: Final = 1_000
SOME: Final = 100
# Long enough for a thousand answers to be shared, and short enough to be waited for.
MAX_AGE: Final = 3.0
WARM_ROUNDS: Final = 5


def run() -> dict[str, float]:
    """CPU milliseconds a request, and waits in milliseconds."""
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        return runner.run(_run())


async def _run() -> dict[str, float]:
    figures: dict[str, float] = {}
    for how, age in (("cold", MAX_AGE), ("warm", 3600.0)):
        async with adapter(FLEET, f"--metrics-max-age={age:g}s", PATIENT) as world:
            figures |= await _autoscalers(world, how, age)
    return figures


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
    for _ in range(2 if age == MAX_AGE else WARM_ROUNDS):
        costs.append(await measure(world, gets))
        if age == MAX_AGE:
            await asyncio.sleep(age)
    return costs[1:]


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
