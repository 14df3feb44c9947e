"""A hundred clients of one ordinary user request everything at once: memory, CPU, and how long others wait.

`python -m benchmarks adapter-crowd` takes half a minute; the clients take most of the CPU.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Final

from benchmarks.adapter.lists import FLEET, PODS, measure
from benchmarks.adapter.process import AdapterClient, running_adapter
from fedhpa.serving import quick_loop

CLIENTS: Final = 100
USER: Final = "jane"
FORMS: Final = {
    "LIST": "application/json",
    "Table": "application/json;as=Table;v=v1;g=meta.k8s.io",
}
# The members' lists are cached, and no body of them is.
OTHER: Final = f"{PODS}?fieldSelector=metadata.name!=x"
PROBE_SECONDS: Final = 0.02


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        return runner.run(_run())


async def _run() -> dict[str, float]:
    figures: dict[str, float] = {}
    for form, accept in FORMS.items():
        async with running_adapter(FLEET, "--metrics-max-age=1h", "--member-deadline=30s") as adapter:
            first = await adapter.connect()
            await first.get(OTHER)
            clients = [await adapter.connect(USER, accept) for _ in range(CLIENTS)]
            waits: list[float] = []
            probing = asyncio.create_task(_probe(await adapter.connect(), waits))
            cost = await measure(adapter, [partial(client.get, PODS) for client in clients])
            probing.cancel()
            await asyncio.wait([probing])
            name = f"{CLIENTS} times at once: {form} of {FLEET.total:,} pods over {FLEET.members} members"
            figures |= {
                f"{name}, CPU s": cost.cpu,
                f"{name}, most resident, MB": adapter.process.most_resident,
                f"{name}, others wait at most, ms": max(waits) * 1000,
            }
    return figures


async def _probe(client: AdapterClient, waits: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await client.get("/livez")
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(PROBE_SECONDS)
