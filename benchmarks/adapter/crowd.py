"""A hundred clients of one ordinary user request everything at once: memory, CPU, and how long others wait.

A hold is the CPU time for which the adapter's event loop serves nobody else (`benchmarks.adapter.held`).

`python -m benchmarks adapter-crowd` takes a minute; the clients take most of the CPU.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from benchmarks.adapter.lists import FLEET, PODS
from benchmarks.adapter.process import AdapterClient, running_adapter
from fedhpa.serving import quick_loop

CLIENTS: Final = 100
# Connections whose peers are not known yet share 96 places.
CONNECTING: Final = 50
USER: Final = "jane"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Path, Accept and Accept-Encoding. Clients in Go accept gzip.
FORMS: Final = {
    "LIST": (PODS, "application/json", ""),
    "Table": (PODS, TABLE, ""),
    "LIST with gzip": (PODS, "application/json", "gzip"),
    "LIST by labels": (f"{PODS}?labelSelector=app!=none", "application/json", ""),
    "LIST by fields": (f"{PODS}?fieldSelector=metadata.name!=x", "application/json", ""),
}
# The members' lists are cached, and no body of them is.
OTHER: Final = f"{PODS}?fieldSelector=metadata.name!=x"
# Selected lists are not shared, and a user gets few different large ones at a time.
REFUSED: Final = 429
PROBE_SECONDS: Final = 0.02


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        return runner.run(_run())


async def _run() -> dict[str, float]:
    figures: dict[str, float] = {}
    for form, (path, *accepted) in FORMS.items():
        async with running_adapter(FLEET, "--metrics-max-age=1h", "--member-deadline=30s") as adapter:
            first = await adapter.connect()
            await first.get(OTHER)
            name = f"{CLIENTS} times at once: {form} of {FLEET.total:,} pods over {FLEET.members} members"
            adapter.holds.longest = 0
            clients: list[AdapterClient] = []
            while len(clients) < CLIENTS:
                connecting = (adapter.connect(USER, *accepted) for _ in range(CONNECTING))
                clients += await asyncio.gather(*connecting)
            waits: list[float] = []
            probing = asyncio.create_task(_probe(await adapter.connect(), waits))
            spent = adapter.process.cpu
            answers = await asyncio.gather(*(client.get(path) for client in clients))
            if {status for status, _ in answers} - {200, REFUSED}:
                raise RuntimeError(f"the adapter answered {answers}")
            probing.cancel()
            await asyncio.wait([probing])
            figures |= {
                f"{name}, CPU s": adapter.process.cpu - spent,
                f"{name}, most resident, MB": adapter.process.most_resident,
                f"{name}, longest hold, ms": adapter.holds.longest * 1000,
                f"{name}, others wait at most, ms": max(waits) * 1000,
            }
    return figures


async def _probe(client: AdapterClient, waits: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await client.get("/livez")
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(PROBE_SECONDS)
