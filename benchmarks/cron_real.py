"""Rules on a real plane: 100, 300 and 1,000 objects with five rules each, all due in one minute.

The hub calls the webhook for each effect. The controller, the webhook and the API server share this machine's
cores. It takes five minutes and needs the programs of `make real-plane`, so it runs only when named.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.cron_rules import API_VERSION, RULES, calendar
from benchmarks.process_stats import ProcessStats
from testbed.real.assets import find_assets
from testbed.real.plane import Plane
from testbed.stage import CONTROLLER, Processes, free_port, gather

SIZES: Final = (100, 300, 1000)
# Objects are created this long before their minute at least.
LEAD_SECONDS: Final = 10.0
DONE_SECONDS: Final = 60.0
AT_ONCE: Final = 20
# The bucket of all fires.
ALL: Final = float("inf")


def _target(name: str, namespace: str) -> dict[str, Any]:
    """Returns a FederatedHPA. No controller scales it; only its bounds matter here."""
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    return {
        "apiVersion": API_VERSION,
        "kind": "FederatedHPA",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": 100,
            "metrics": [{"type": "Resource", "resource": resource}],
        },
    }


class _Rules:
    """A real hub with a controller that runs rules, and the series of that controller."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self._port = free_port()

    async def start(self) -> None:
        processes = Processes(self.plane)
        await processes.start()
        await processes.stop(CONTROLLER)
        address = f"127.0.0.1:{self._port}"
        await processes.start_one(
            CONTROLLER, "--controllers=cronfederatedhpa", f"--metrics-bind-address={address}"
        )
        pid = (self.plane.run.folder / "pids" / CONTROLLER).read_text(encoding="utf-8").split()[0]
        self.stats = ProcessStats(int(pid))

    async def fire(self, size: int) -> tuple[float, float]:
        """Returns the lateness of the last effect (s, rounded up to a bucket) and the CPU time (s)."""
        namespace = f"rules-{size}"
        minute = await self._create(size, namespace)
        before = await self._lateness()
        await asyncio.sleep(max(minute - 8 - time.time(), 0))
        began = self.stats.cpu
        async with asyncio.timeout(DONE_SECONDS + 8):
            while (after := await self._lateness())[ALL] - before[ALL] < size:  # noqa: ASYNC110  # no event
                await asyncio.sleep(0.5)
        # The statuses and events of the last effects.
        await asyncio.sleep(5)
        spent = self.stats.cpu - began
        late = min(limit for limit, count in after.items() if count - before[limit] >= size)
        return late, spent

    async def _create(self, size: int, namespace: str) -> float:
        """Creates targets and objects, and returns the minute in which all rules are due."""
        async with self.plane.hub.api() as api:
            head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await api.apply(head)
            names = [f"web-{number}" for number in range(size)]
            await self._apply([_target(name, namespace) for name in names], api)
            # Creating takes about 5 ms an object.
            minute = (time.time() + LEAD_SECONDS + size * 0.03) // 60 * 60 + 60
            moment = datetime.fromtimestamp(minute, UTC)
            schedule = f"{moment.minute} {moment.hour} * * *"
            await self._apply([calendar(name, schedule, namespace=namespace) for name in names], api)
        assert time.time() < minute - 1, "creating the objects took too long"
        return minute

    async def _apply(self, manifests: list[dict[str, Any]], api: Any) -> None:
        for start in range(0, len(manifests), AT_ONCE):
            await gather(*(api.apply(manifest) for manifest in manifests[start : start + AT_ONCE]))

    async def _lateness(self) -> dict[float, float]:
        """Returns the buckets of the series of lateness."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self._port}/metrics") as response,
        ):
            text = await response.text()
        return {
            float(sample.labels["le"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "fedhpa_cron_lateness_seconds_bucket"
        }


async def _measure() -> dict[str, float]:
    assets = find_assets()
    assert assets is not None, "make real-plane builds the programs"
    plane = Plane(assets, members=())
    try:
        await plane.start()
        rules = _Rules(plane)
        await rules.start()
        figures: dict[str, float] = {}
        for size in SIZES:
            late, spent = await rules.fire(size)
            figures[f"{size:,} objects, the last effect, s"] = late
            figures[f"{size:,} objects, CPU ms a fire"] = spent / (size * RULES) * 1000
        return figures
    finally:
        plane.end()


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    return asyncio.run(_measure())
