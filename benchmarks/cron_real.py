"""Rules on a real plane: 100, 300 and 1,000 objects with five rules each, all due in one minute.

The hub calls the webhook for each effect. The controller, the webhook and the API server share this machine's
cores. For comparison a plain client sends the same number of patches. It takes five minutes and needs the
programs of `make real-plane`, so it runs only when named.
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from benchmarks.cron_rules import API_VERSION, RULES, calendar
from benchmarks.process_stats import ProcessStats
from testbed.real.assets import find_assets
from testbed.real.plane import Plane
from testbed.stage import CONTROLLER, Processes, free_port, gather

SIZES: Final = (100, 300, 1000)
# Objects are created this long before their minute at least.
LEAD_SECONDS: Final = 12.0
DONE_SECONDS: Final = 60.0
AT_ONCE: Final = 20
# The controller writes this many effects at once.
CLIENTS: Final = 64
# The bucket of all executions.
ALL: Final = "+Inf"
# The kinds of the counted requests: an execution reads and patches a target, and stores a status.
RESOURCES: Final = ("federatedhpas", "cronfederatedhpas")
MERGE_PATCH: Final = "application/merge-patch+json"
LATE: Final = re.compile(r"\brule applied\b.*\blate=([0-9.]+)")


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
        self._log = processes.log(CONTROLLER)

    async def run_minute(self, size: int) -> dict[str, float]:
        """Returns the figures of one minute."""
        namespace = f"rules-{size}"
        names = [f"web-{number}" for number in range(size)]
        plain = await self._create_targets(names, namespace)
        minute = await self._create_rules(names, namespace)
        # The first statuses are stored before that, and targets are read later.
        await asyncio.sleep(max(minute - LEAD_SECONDS - time.time(), 0))
        fired, requests = await self._executions(), await self._requests()
        began = self.stats.cpu
        async with asyncio.timeout(DONE_SECONDS + LEAD_SECONDS):
            while await self._executions() - fired < size:  # noqa: ASYNC110  # no event
                await asyncio.sleep(0.5)
        # The statuses and events of the last effects.
        await asyncio.sleep(5)
        spent = self.stats.cpu - began
        requests = await self._requests() - requests
        return {
            f"{size:,} objects, the last effect, s": max(self._lateness(namespace)),
            f"{size:,} objects, CPU ms an execution": spent / (size * RULES) * 1000,
            f"{size:,} objects, requests an object": requests / size,
            f"{size:,} patches of a plain client, s": plain,
        }

    async def _create_targets(self, names: list[str], namespace: str) -> float:
        """Creates targets, and returns the seconds in which a plain client then patches all of them."""
        folder = f"/apis/{API_VERSION}/namespaces/{namespace}/federatedhpas"
        body = {"metadata": {"annotations": {"example.com/changed": "yes"}}, "spec": {"minReplicas": 3}}
        async with self.plane.hub.api() as api:
            head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await api.apply(head)
            await _at_once(
                AT_ONCE, (functools.partial(api.apply, _target(name, namespace)) for name in names)
            )
            began = time.monotonic()
            await _at_once(
                CLIENTS,
                (
                    functools.partial(
                        api.send, "PATCH", f"{folder}/{name}", body=body, content_type=MERGE_PATCH
                    )
                    for name in names
                ),
            )
            return time.monotonic() - began

    async def _create_rules(self, names: list[str], namespace: str) -> float:
        """Creates objects, and returns the minute in which all rules are due."""
        # Creating takes about 5 ms an object.
        minute = (time.time() + LEAD_SECONDS + len(names) * 0.02) // 60 * 60 + 60
        moment = datetime.fromtimestamp(minute, UTC)
        schedule = f"{moment.minute} {moment.hour} * * *"
        async with self.plane.hub.api() as api:
            await _at_once(
                AT_ONCE,
                (
                    functools.partial(api.apply, calendar(name, schedule, namespace=namespace))
                    for name in names
                ),
            )
        assert time.time() < minute - 1, "creating the objects took too long"
        return minute

    def _lateness(self, namespace: str) -> list[float]:
        """Returns how late each effect was, in seconds, as the controller logged it."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        found = [LATE.search(line) for line in lines if f"namespace={namespace} " in line]
        return [float(match[1]) for match in found if match is not None]

    async def _executions(self) -> float:
        """Returns the number of effects so far."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self._port}/metrics") as response,
        ):
            text = await response.text()
        return sum(
            sample.value
            for sample in _samples(text, "fedhpa_cron_lateness_seconds_bucket")
            if sample.labels["le"] == ALL
        )

    async def _requests(self) -> float:
        """Returns the number of requests about executions that the API server has answered."""
        async with self.plane.hub.api() as api:
            _, _, body = await api.request("GET", "/metrics")
        return sum(
            sample.value
            for sample in _samples(body.decode(), "apiserver_request_total")
            if sample.labels["resource"] in RESOURCES and sample.labels["verb"] in ("GET", "PATCH", "PUT")
        )


def _samples(text: str, name: str) -> list[Sample]:
    """Returns the samples of one series."""
    return [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


async def _at_once(count: int, calls: Iterable[Callable[[], Awaitable[Any]]]) -> None:
    """Makes all calls, `count` at a time."""
    free = asyncio.Semaphore(count)

    async def make(call: Callable[[], Awaitable[Any]]) -> None:
        async with free:
            await call()

    await gather(*map(make, calls))


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
            figures |= await rules.run_minute(size)
        return figures
    finally:
        plane.end()


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    return asyncio.run(_measure())
