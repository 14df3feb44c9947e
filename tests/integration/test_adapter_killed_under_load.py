"""An adapter killed under load: waiting callers get errors, never corrupt data, and a restart recovers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from testbed.embedded.plane import Plane
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.processes import Processes
from testbed.stage.registrations import ADAPTER
from tests.support.embedded_plane import run_web, started_adapter, until_ready

API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"
# An answer of this many pods is larger than the buffers of a connection.
PODS_EACH = 100
CALLERS = 8
SECONDS = 120.0
# The longest wait for each of several events, one after the other.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """Starts two members with a workload each."""
    plane = Plane(ready_after=0.0)
    await plane.start()
    try:
        for name in plane.members:
            await run_web(plane, name, PODS_EACH, cpu="10m")
            await until_ready(plane, name, PODS_EACH)
        yield plane
    finally:
        await plane.end()


@pytest.fixture
async def processes(plane: Plane) -> Processes:
    """Starts the adapter's processes, registered on the hub and available."""
    return await started_adapter(plane)


async def outcome(hub: PlaneApi) -> str:
    """Returns the outcome of one list through the hub: "complete", "error", or a description."""
    try:
        status, headers, body = await hub.request("GET", PODS)
    except (aiohttp.ClientError, OSError):
        return "error"  # The connection was cut in the middle of an answer.
    if status >= 500:
        return "error"
    try:
        clusters = Counter(
            item["metadata"]["annotations"]["resource.karmada.io/query-from-cluster"]
            for item in json.loads(body)["items"]
        )
    except (ValueError, KeyError):
        return f"{status} {body[:200]!r}"
    whole = status == 200 and clusters == {"member1": PODS_EACH, "member2": PODS_EACH}
    return "complete" if whole and "Warning" not in headers else f"{status} {dict(clusters)}"


class Load:
    """Callers that send requests through the hub without pause."""

    def __init__(self, hub: PlaneApi) -> None:
        self.outcomes: list[str] = []
        self._hub = hub
        self._asked = asyncio.Event()

    async def call(self) -> None:
        while True:
            found = await outcome(self._hub)
            self.outcomes.append(found)
            self._asked.set()
            if found == "error":
                await asyncio.sleep(0.05)  # else thousands of refusals would slow down the start

    async def answered(self, wanted: str, count: int) -> None:
        """Waits for this many more outcomes of a kind."""
        async with asyncio.timeout(SECONDS):
            goal = self.outcomes.count(wanted) + count
            while self.outcomes.count(wanted) < goal:
                self._asked.clear()
                await self._asked.wait()


async def availability(hub: PlaneApi, status: str) -> Any:
    """Waits until the Available condition has this status."""
    service = await hub.wait(
        API_SERVICE,
        lambda found: has_condition(found, kind="Available", status=status),
        what=f"metrics.k8s.io is Available: {status}",
        seconds=SECONDS,
    )
    return service["status"]["conditions"][0]


async def test_a_killed_adapter_gives_errors_and_no_garbage(plane: Plane, processes: Processes) -> None:
    """Callers get whole lists or errors. The hub marks the API unavailable, and a restart serves again."""
    async with plane.hub.api() as hub:
        load = Load(hub)
        callers = [asyncio.create_task(load.call()) for _ in range(CALLERS)]
        try:
            await load.answered("complete", CALLERS)
            await processes.kill(ADAPTER)
            await load.answered("error", CALLERS)
            down = await availability(hub, "False")
            served_elsewhere = await hub.get("/apis/cluster.karmada.io/v1alpha1/clusters")
            await processes.start_one(ADAPTER)
            await availability(hub, "True")
            await load.answered("complete", CALLERS)
        finally:
            for caller in callers:
                caller.cancel()
            for caller in callers:
                with suppress(asyncio.CancelledError):
                    await caller

    assert set(load.outcomes) == {"complete", "error"}
    assert down["reason"] == "FailedDiscoveryCheck"
    assert len(served_elsewhere["items"]) == 2
