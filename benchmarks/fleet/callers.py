"""The callers of the adapters: a list of everything, of each namespace, and the values for each HPA."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from benchmarks.adapter.process import AdapterClient
from benchmarks.fleet.box import Box

PATH: Final = "/apis/metrics.k8s.io/v1beta1"
# Connections of the callers to each adapter.
CONNECTIONS: Final = 4
OK: Final = 200


@dataclass
class Answers:
    """The number of answers of each kind of request, the failures, and the seconds of the slowest answer."""

    count: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)

    def note(self, kind: str, seconds: float, *, ok: bool) -> None:
        """Count an answer."""
        counts = self.count if ok else self.failed
        counts[kind] = counts.get(kind, 0) + 1
        self.longest[kind] = max(self.longest.get(kind, 0.0), seconds)


@asynccontextmanager
async def callers(box: Box) -> AsyncIterator[Answers]:
    """Asks all adapters in turn while the block runs: each period everything once, spread over the period."""
    answers = Answers()
    async with asyncio.TaskGroup() as group:
        shares = [(port, share) for port in box.adapters.values() for share in range(CONNECTIONS)]
        tasks = [group.create_task(_everything(box, answers))]
        for index, (port, _) in enumerate(shares):
            tasks.append(group.create_task(_each(box, answers, port, index, len(shares))))
        try:
            yield answers
        finally:
            for task in tasks:
                task.cancel()


async def _everything(box: Box, answers: Answers) -> None:
    """Lists all pods once a period, from the first adapter."""
    port = next(iter(box.adapters.values()))
    while True:
        await _ask(box, answers, port, "all pods", [f"{PATH}/pods"], box.size.period)


async def _each(box: Box, answers: Answers, port: int, index: int, count: int) -> None:
    """Asks for a share of the namespaces and HPAs."""
    namespaces = list(box.size.workloads)[index::count]
    values = [
        f"{PATH}/namespaces/{namespace}/pods?labelSelector=app%3D{name}"
        for namespace, names in box.size.workloads.items()
        for name in names
    ][index::count]
    lists = [f"{PATH}/namespaces/{namespace}/pods" for namespace in namespaces]
    while True:
        await _ask(box, answers, port, "one namespace", lists, box.size.period / 4)
        await _ask(box, answers, port, "one HPA", values, box.size.period * 3 / 4)


async def _ask(box: Box, answers: Answers, port: int, kind: str, paths: list[str], seconds: float) -> None:
    """Asks for all paths, evenly over some seconds, or as fast as they are answered."""
    began, client = time.monotonic(), None
    for number, path in enumerate(paths):
        await asyncio.sleep(max(began + number * seconds / len(paths) - time.monotonic(), 0.0))
        asked, ok = time.monotonic(), False
        try:
            if client is None:
                make = partial(AdapterClient)
                loop = asyncio.get_running_loop()
                _, client = await loop.create_connection(make, "127.0.0.1", port, ssl=box.adapter_context())
            ok = (await client.get(path))[0] == OK
        except (OSError, TimeoutError):
            if client is not None:
                client.close()
            client = None
        answers.note(kind, time.monotonic() - asked, ok=ok)
    if client is not None:
        client.close()
    await asyncio.sleep(max(began + seconds - time.monotonic(), 0.05))
