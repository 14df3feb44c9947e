"""A thousand Kubernetes HPAs that query the metrics adapter at the same time, each over its own connection.

`python -m benchmarks adapter-callers` takes two minutes. Eight in ten query pod metrics, one in ten a custom
metric and one in ten an external metric. The CPU time is the adapter's alone. The waits are not, because hub,
members and clients share the two cores with the adapter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from benchmarks.adapter.backends import CUSTOM, EXTERNAL, METRICS
from benchmarks.adapter.lists import FLEET, PATIENT, Cost, Get, measure, p99
from benchmarks.adapter.process import AdapterClient, AdapterProcess, running_adapter
from fedhpa.serving import quick_loop

AUTOSCALERS: Final = 1_000
SOME: Final = 100
# Long enough to share a thousand answers, and short enough to wait until they are old.
MAX_AGE: Final = 3.0
WARM_ROUNDS: Final = 5


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        return runner.run(_run())


async def _run() -> dict[str, float]:
    figures: dict[str, float] = {}
    for how, age in (("cold", MAX_AGE), ("warm", 3600.0)):
        async with running_adapter(FLEET, f"--metrics-max-age={age:g}s", PATIENT) as adapter:
            figures |= await _autoscalers(adapter, how, age)
    return figures


async def _autoscalers(adapter: AdapterProcess, how: str, age: float) -> dict[str, float]:
    """One request of each of a thousand HPAs at once, then of a hundred HPAs for each kind of metric."""
    clients: list[AdapterClient] = []
    while len(clients) < AUTOSCALERS:
        clients += await asyncio.gather(*(_connected(adapter) for _ in range(SOME)))
    paths = [_paths(number)[{0: 1, 1: 2}.get(number % 10, 0)] for number in range(AUTOSCALERS)]
    gets = [_get(client, path) for client, path in zip(clients, paths, strict=True)]
    costs = await _rounds(adapter, gets, age)
    name = f"{AUTOSCALERS:,} HPAs at once, {how}"
    figures = {
        f"{name}, p99 ms": min(p99(cost.waits) for cost in costs) * 1000,
        f"{name}, CPU ms/request": min(cost.cpu for cost in costs) / AUTOSCALERS * 1000,
    }
    for index, kind in enumerate(("pod", "custom", "external")):
        some = [_get(client, _paths(number)[index]) for number, client in enumerate(clients[:SOME])]
        costs = await _rounds(adapter, some, age)
        figures[f"{kind} metrics of {SOME} HPAs, {how}, CPU ms/request"] = (
            min(cost.cpu for cost in costs) / SOME * 1000
        )
    return figures


async def _connected(adapter: AdapterProcess) -> AdapterClient:
    # The adapter closes a connection without a request after some seconds.
    client = await adapter.connect()
    await client.get("/livez")
    return client


async def _rounds(adapter: AdapterProcess, gets: Sequence[Get], age: float) -> Sequence[Cost]:
    """Measured rounds, after one that is not. Cold rounds start when the cached answers are old."""
    costs = []
    for _ in range(2 if age == MAX_AGE else WARM_ROUNDS):
        costs.append(await measure(adapter, gets))
        if age == MAX_AGE:
            await asyncio.sleep(age)
    return costs[1:]


def _get(client: AdapterClient, path: str) -> Get:
    return lambda: client.get(path)


def _paths(number: int) -> tuple[str, str, str]:
    """The paths that an HPA queries: pod metrics, a custom metric of its pods, an external metric."""
    namespace = f"namespaces/shop-{number % FLEET.namespaces}"
    app = number // FLEET.namespaces % FLEET.apps
    selector = "labelSelector=" + quote(f"app=web-{app}", safe="")
    return (
        f"{METRICS}/{namespace}/pods?{selector}",
        f"{CUSTOM}/v1beta2/{namespace}/pods/*/requests?{selector}",
        f"{EXTERNAL}/{namespace}/depth?{selector}",
    )
