"""Mode Distributed over 500 FederatedHPAs x 20 members: assigned, quiet, and after a cluster is lost.

Each object is reconciled once a period. Members are in memory; they store the HPAs that the controller writes
and send them by watch. Time passes without waiting, and only CPU time is measured.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from typing import Any, Final

import msgspec
import structlog

from benchmarks.controller.bodies import FleetSize, MemberBodies
from benchmarks.controller.large import OwnCoreLoop
from benchmarks.controller.many_objects import EPOCH, NO_HEADERS, MemberApi, MemoryFleet, memory_fleet
from fedhpa.api.errors import ApiError, Conflict
from fedhpa.api.member_hpas import PLURAL
from fedhpa.api.times import format_time
from fedhpa.kube import Response
from fedhpa.kube.transport import Params
from fedhpa.members import Member

FLEET: Final = FleetSize(objects=500, namespaces=20, clusters=20, pods=2)
PERIOD_SECONDS: Final = 15.0
QUIET_PERIODS: Final = 4
# Shorter than the default of 300 s, because each period costs seconds of CPU.
LOST_SECONDS: Final = 60
LOST_PERIODS: Final = 8
LOST: Final = "member-3"
MOST: Final = 60
SPEC: Final = {
    "mode": "Distributed",
    "minReplicas": 20,
    "maxReplicas": MOST,
    "federatedHPAAssignment": {"federatedHPAAssignmentType": "StaticWeighted"},
    "partialMetrics": {"lostAfterSeconds": LOST_SECONDS},
}
_COLLECTION: Final = f"/apis/autoscaling/v2/{PLURAL}"


class HpaMember(MemberApi):
    """A member that stores HPAs. `writes` counts the requests that change something."""

    def __init__(self, member: Member, bodies: MemberBodies) -> None:
        super().__init__(member, bodies)
        self.hpas: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self._version = 1

    async def _attempts(self, method: str, path: str, params: Params, body: Any = None, *_: Any) -> Response:
        if self.hangs:
            await asyncio.Event().wait()
        if PLURAL not in path and not path.startswith("/apis/autoscaling"):
            return await super()._attempts(method, path, params)
        return Response(200, NO_HEADERS, self._served(method, path, body))

    def _served(self, method: str, path: str, body: Any) -> bytes:
        if path == "/apis/autoscaling":
            return b'{"kind":"APIGroup","apiVersion":"v1","versions":[{"groupVersion":"autoscaling/v2"}]}'
        if path == _COLLECTION:
            head = {"kind": "HorizontalPodAutoscalerList", "apiVersion": "autoscaling/v2"}
            metadata = {"resourceVersion": str(self._version)}
            return msgspec.json.encode({**head, "metadata": metadata, "items": list(self.hpas.values())})
        if method == "GET":
            if path not in self.hpas:
                raise ApiError("not found", status=404)
            return msgspec.json.encode(self.hpas[path])
        self.writes += 1
        sent = msgspec.json.decode(body)
        if method == "POST":
            path = f"{path}/{sent['metadata']['name']}"
        elif sent["metadata"]["resourceVersion"] != self.hpas[path]["metadata"]["resourceVersion"]:
            raise Conflict("modified", status=409)
        return self._stored(path, sent, "ADDED" if method == "POST" else "MODIFIED")

    def _stored(self, path: str, sent: dict[str, Any], event: str) -> bytes:
        self._version += 1
        metadata = {**sent["metadata"], "uid": path, "resourceVersion": str(self._version)}
        stored = self.hpas[path] = {**sent, "metadata": metadata, "status": _status()}
        self.push(_COLLECTION, b'{"type":"%s","object":%s}' % (event.encode(), msgspec.json.encode(stored)))
        return msgspec.json.encode(stored)

    def report(self) -> None:
        """Let each HPA report its status once more, as its controller does in each sync."""
        for path, found in list(self.hpas.items()):
            self._stored(path, found, "MODIFIED")


def _status() -> dict[str, Any]:
    current = {"averageUtilization": 50, "averageValue": "125m"}
    since = format_time(EPOCH)
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": since}
        for kind, status, reason in (
            ("AbleToScale", "True", "ReadyForNewScale"),
            ("ScalingActive", "True", "ValidMetricFound"),
            ("ScalingLimited", "False", "DesiredWithinRange"),
        )
    ]
    return {
        "currentReplicas": FLEET.pods,
        "desiredReplicas": FLEET.pods,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": current}}],
        "conditions": conditions,
    }


def _members(fleet: MemoryFleet) -> list[HpaMember]:
    return [client for name in fleet.members if isinstance(client := fleet.api(name), HpaMember)]


def _writes(fleet: MemoryFleet) -> int:
    return sum(member.writes for member in _members(fleet))


async def _period(fleet: MemoryFleet) -> float:
    """Let a period pass and reconcile each object. Returns the CPU seconds of the reconciles."""
    await asyncio.sleep(PERIOD_SECONDS)
    began = time.process_time()
    await fleet.round()
    return time.process_time() - began


def _sum_of_maxima(fleet: MemoryFleet, *, without: str = "") -> set[int]:
    """The sums of maxReplicas of the objects."""
    sums: dict[str, int] = {}
    for name in fleet.members:
        api = fleet.api(name)
        assert isinstance(api, HpaMember)
        for path, found in api.hpas.items() if name != without else ():
            sums[path] = sums.get(path, 0) + found["spec"]["maxReplicas"]
    return set(sums.values())


async def _measure() -> dict[str, float]:
    async with memory_fleet(FLEET, api=HpaMember, spec=SPEC) as fleet:
        await fleet.list_pods()
        began = time.process_time()
        await fleet.round()
        first = time.process_time() - began
        created = _writes(fleet)
        assert created == FLEET.objects * FLEET.clusters
        assert _sum_of_maxima(fleet) == {MOST}
        await _period(fleet)
        before = _writes(fleet)
        gc.collect()
        quiet = []
        for _ in range(QUIET_PERIODS):
            began = time.process_time()
            for member in _members(fleet):
                member.report()
            await asyncio.sleep(PERIOD_SECONDS)
            watched = time.process_time() - began
            quiet.append((await _period(fleet), watched))
        in_quiet = _writes(fleet) - before
        fleet.api(LOST).hangs = True
        busiest, rounds = 0.0, 0
        before = _writes(fleet)
        while _writes(fleet) == before:
            busiest = await _period(fleet)
            rounds += 1
            assert rounds <= LOST_PERIODS
        # One pass re-assigns all objects.
        assert _sum_of_maxima(fleet, without=LOST) == {MOST}
        return {
            "first assignment, 500 objects x 20 members, CPU s": first,
            "a quiet period, CPU ms per object": min(each for each, _ in quiet) / FLEET.objects * 1000,
            "statuses of 10,000 HPAs by watch, CPU s": min(watched for _, watched in quiet),
            "writes to members while nothing happens": in_quiet,
            "500 objects re-assigned after a cluster is lost, CPU s": busiest,
        }


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        with asyncio.Runner(loop_factory=OwnCoreLoop) as runner:
            return runner.run(_measure())
    finally:
        structlog.reset_defaults()
