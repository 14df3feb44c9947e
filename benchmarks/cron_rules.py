"""CPU time of the rules of a thousand objects with five rules each: all due in one minute, and none due.

The hub is in memory, so only the network is left out. `python -m benchmarks cron-real` runs the same objects
on a real plane.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

import msgspec
import structlog
from multidict import CIMultiDict, CIMultiDictProxy
from prometheus_client import CollectorRegistry

from controller.cronfederatedhpa import (
    CronMetrics,
    CronReconciler,
    CronTargets,
    WorkloadOwners,
)
from fedhpa.api.errors import ApiError
from fedhpa.api.times import format_time
from fedhpa.kube import SYSTEM, ApiClient, ApiConfig, EventRecorder, Response

OBJECTS: Final = 1000
RULES: Final = 5
NAMESPACE: Final = "shop"
API_VERSION: Final = "autoscaling.karmada.io/v1alpha1"
FOLDER: Final = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}"
CRONS: Final = f"/apis/{API_VERSION}/cronfederatedhpas"
RECORDS: Final = "/apis/fedhpa.io/v1alpha1/scalingrecords"
NO_RECORDS: Final = b'{"kind":"ScalingRecordList","apiVersion":"fedhpa.io/v1alpha1","metadata":{},"items":[]}'
# 2026-03-16 is a Monday.
CREATED: Final = 1_773_655_200.0
IDLE_SECONDS: Final = 10.0
# The events of the first statuses come within this time.
SETTLING_SECONDS: Final = 2.0
_NO_HEADERS: Final = CIMultiDictProxy[str](CIMultiDict())


def calendar(name: str, schedule: str, *, namespace: str = NAMESPACE) -> dict[str, Any]:
    """Returns a CronFederatedHPA of five rules for the FederatedHPA of the same name."""
    return {
        "apiVersion": API_VERSION,
        "kind": "CronFederatedHPA",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": API_VERSION, "kind": "FederatedHPA", "name": name},
            "rules": [
                {"name": f"rule-{number}", "schedule": schedule, "targetMinReplicas": 2 + number}
                for number in range(RULES)
            ],
        },
    }


class Hub(ApiClient):
    """A hub in memory with CronFederatedHPAs, and a FederatedHPA of the same name for each to scale."""

    def __init__(self, crons: Iterable[dict[str, Any]]) -> None:
        super().__init__(ApiConfig(server="http://memory"))
        self.objects: dict[str, dict[str, Any]] = {}
        self.effects = 0
        self._version = 0
        self._events: asyncio.Queue[bytes] = asyncio.Queue()
        for cron in crons:
            name = cron["metadata"]["name"]
            cron["metadata"] |= {"uid": name, "generation": 1, "creationTimestamp": format_time(CREATED)}
            self._store(f"{FOLDER}/cronfederatedhpas/{name}", cron)
            bounds = {"minReplicas": 1, "maxReplicas": 100}
            target = {
                "apiVersion": API_VERSION,
                "kind": "FederatedHPA",
                "metadata": {"namespace": NAMESPACE, "name": name},
                "spec": bounds,
            }
            self._store(f"{FOLDER}/federatedhpas/{name}", target)

    def _store(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        self.objects[path] = stored
        return stored

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: object) -> Response:
        """The answer to one request."""
        if method == "POST":
            created = msgspec.json.decode(body or b"{}")
            stored = self._store(f"{path}/{created['metadata'].get('name', '')}", created)
            return Response(201, _NO_HEADERS, msgspec.json.encode(stored))
        if path == RECORDS:
            return Response(200, _NO_HEADERS, NO_RECORDS)
        if path == CRONS:
            items = [obj for place, obj in self.objects.items() if "/cronfederatedhpas/" in place]
            head = {"kind": "CronFederatedHPAList", "apiVersion": API_VERSION}
            listed = {**head, "metadata": {"resourceVersion": str(self._version)}, "items": items}
            return Response(200, _NO_HEADERS, msgspec.json.encode(listed))
        place = path.removesuffix("/status")
        if place not in self.objects:
            raise ApiError(f"{path} not found", status=404)
        found = self.objects[place]
        if method == "PUT":
            found = self._store(place, {**found, "status": msgspec.json.decode(body or b"{}")["status"]})
        elif method == "PATCH":
            patch = msgspec.json.decode(body or b"{}")
            part = "status" if place != path else "spec"
            self.effects += "spec" in patch
            merged = {**found, part: {**found.get(part, {}), **patch.get(part, {})}}
            merged["metadata"] = {**found["metadata"], **patch.get("metadata", {})}
            found = self._store(place, merged)
            if "/cronfederatedhpas/" in place:
                self._events.put_nowait(b'{"type":"MODIFIED","object":%s}' % msgspec.json.encode(found))
        return Response(200, _NO_HEADERS, msgspec.json.encode(found))

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[bytes, None]:
        """An event for each status that is written."""
        yield b""
        while True:
            yield await self._events.get()


class _Clock:
    """A wall clock that the benchmark sets."""

    def __init__(self, at: float) -> None:
        self._offset = at - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset

    def set(self, at: float) -> None:
        self._offset = at - time.monotonic()


async def _run(schedule: str, due: float | None) -> tuple[float, int]:
    """Returns the CPU seconds of the executions at `due`, or of IDLE_SECONDS without one, and the effects."""
    hub, clock = Hub(calendar(f"web-{number}", schedule) for number in range(OBJECTS)), _Clock(CREATED + 1)
    metrics = CronMetrics(CollectorRegistry())
    events = EventRecorder(hub, "cron", wall=clock)
    targets = CronTargets(hub, clock=SYSTEM)
    owners = WorkloadOwners(hub, clock=SYSTEM.monotonic)
    reconciler = CronReconciler(
        hub, targets, owners, events, metrics, paused=False, wall=clock, clock=SYSTEM.monotonic
    )
    tasks = [asyncio.create_task(reconciler.loop.run()), asyncio.create_task(events.run())]
    try:
        async with asyncio.timeout(60):
            while len(reconciler.objects) < OBJECTS or not _all_stored(hub):  # noqa: ASYNC110  # no event
                await asyncio.sleep(0.05)
        await asyncio.sleep(SETTLING_SECONDS)
        began = time.process_time()
        if due is None:
            await asyncio.sleep(IDLE_SECONDS)
            return time.process_time() - began, hub.effects
        clock.set(due + 0.01)
        async with asyncio.timeout(60):
            while hub.effects < OBJECTS or not _all_stored(hub, results=True):  # noqa: ASYNC110  # no event
                await asyncio.sleep(0.05)
        return time.process_time() - began, hub.effects
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _all_stored(hub: Hub, *, results: bool = False) -> bool:
    """True if each object has a status, and with `results` the result of an execution."""
    statuses = [obj.get("status") for place, obj in hub.objects.items() if "/cronfederatedhpas/" in place]
    if not results:
        return all(statuses)
    last = f"rule-{RULES - 1}"
    return all(
        any(
            history["ruleName"] == last and history.get("successfulExecutions")
            for history in (status or {}).get("executionHistories", ())
        )
        for status in statuses
    )


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        busy, effects = asyncio.run(_run("0 11 * * *", CREATED + 3600))
        idle, none = asyncio.run(_run("0 23 * * *", None))
    finally:
        structlog.reset_defaults()
    assert (effects, none) == (OBJECTS, 0)
    return {
        "5,000 executions of 1,000 objects in one minute, CPU ms an execution": busy
        / (OBJECTS * RULES)
        * 1000,
        "1,000 effects in one minute, CPU ms an effect": busy / OBJECTS * 1000,
        "5,000 rules of which none is due, CPU ms a second": idle / IDLE_SECONDS * 1000,
    }
