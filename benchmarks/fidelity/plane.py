"""Records shapes on one real plane: a workload for each shape and mode, side by side."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from benchmarks.fidelity.shapes import (
    AT_TARGET,
    AWAY,
    AWAY_MINUTES,
    LIMIT,
    MODES,
    NAME,
    REQUEST,
    STEP_SECONDS,
    Shape,
    deployment,
    federated_hpa,
)
from benchmarks.fidelity.times import Moments, Times
from fedhpa.api.errors import ApiError
from fedhpa.backtest import ClusterSeries, Recording, recorded_spec
from testbed.real.plane import Plane
from testbed.stage import PlaneApi, Processes, gather, say

# The workloads run so long before the recording begins. By then metrics-server has measured their pods, and
# the controllers have decided on the first load.
SETTLE_SECONDS: Final = 240
NODES: Final = 4
READ_SECONDS: Final = 4.0
IDLE: Final = 'Quantity("1m")'
NO_ANSWER: Final = (ApiError, aiohttp.ClientError, OSError)
# The default of kube-controller-manager.
HPA_SYNC: Final = "15s"


class Workload:
    """One shape in one mode: what is known of it in each member, and its recording so far."""

    def __init__(self, shape: Shape, mode: str, members: Sequence[str]) -> None:
        self.shape, self.mode = shape, mode
        self.namespace = f"{shape.name}-{mode.lower()}"
        self.hpa = federated_hpa(shape, mode, self.namespace)
        # Replicas and ready pods. A member that is away serves on with what it had.
        self.pods = dict.fromkeys(members, (0, 0))
        self.series = {name: ClusterSeries(name, [], [], {"cpu": []}) for name in members}

    def deployments(self) -> dict[str, dict[str, Any]]:
        """Returns the workload in each member, in the size that the first load needs."""
        each, more = divmod(round(self.shape.demand(0) / AT_TARGET), len(self.pods))
        return {
            name: deployment(self.shape, self.namespace, each + (index < more))
            for index, name in enumerate(self.pods)
        }

    def usage(self, now: float) -> int:
        """Returns what a ready pod uses, in milli-CPU: the same in all members, at most its limit."""
        ready = sum(ready for _, ready in self.pods.values())
        return min(round(self.shape.demand(now) / ready), LIMIT) if ready else 0

    def record(self, now: float, here: Mapping[str, bool]) -> None:
        """Adds a step."""
        usage = self.usage(now)
        for name, series in self.series.items():
            replicas, ready = self.pods[name] if here[name] else (None, None)
            series.replicas.append(replicas)
            series.ready.append(ready)
            series.demand["cpu"].append(None if ready is None else usage * ready)

    def recording(self, start: float) -> Recording:
        """Returns the recording, whose first step is at `start`."""

        def with_pods(one: ClusterSeries) -> ClusterSeries:
            def of_pod(amount: int) -> dict[str, list[int | None]]:
                return {"cpu": [None if ready is None else amount for ready in one.ready]}

            return ClusterSeries(
                one.name, one.replicas, one.ready, one.demand, of_pod(REQUEST), of_pod(LIMIT)
            )

        return Recording(
            version=1,
            namespace=self.namespace,
            name=NAME,
            start=start,
            step=STEP_SECONDS,
            clusters=[with_pods(one) for one in self.series.values()],
            spec=recorded_spec(self.hpa["spec"]),
        )


class Recorded(NamedTuple):
    """One run: what a store would have of it, and when things were decided."""

    recording: Recording
    moments: Moments


class Stage:
    """A plane on which workloads run. Once a second pods are counted, and once a step usage is written."""

    def __init__(self, plane: Plane, shapes: Sequence[Shape], processes: Processes) -> None:
        self._plane = plane
        self._processes = processes
        self.workloads = [Workload(shape, mode, list(plane.members)) for shape in shapes for mode in MODES]
        self._here = dict.fromkeys(plane.members, False)
        self._written: dict[tuple[str, str], int] = {}
        self._apis: dict[str, PlaneApi] = {}

    async def record(self, minutes: float, settle: float) -> list[Recorded]:
        """Runs the workloads for `minutes`, and returns what was recorded of each."""
        async with contextlib.AsyncExitStack() as stack:
            for name, member in self._plane.members.items():
                self._apis[name] = await stack.enter_async_context(member.api())
            await self._deploy()
            times = Times(self._plane, self._processes, self._apis)
            began = time.time() + settle
            await self._follow(began, began)
            say("the recording begins")
            async with asyncio.TaskGroup() as group:
                looks = group.create_task(times.follow())
                await self._follow(began, began + minutes * 60, record=True)
                looks.cancel()
        return [Recorded(one.recording(began), times.moments(one.namespace, began)) for one in self.workloads]

    async def _deploy(self) -> None:
        spaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one.namespace}}
            for one in self.workloads
        ]
        for name, api in self._apis.items():
            await api.apply_all([*spaces, *(one.deployments()[name] for one in self.workloads)])
        async with self._plane.hub.api() as hub:
            await hub.apply_all([*spaces, *(one.hpa for one in self.workloads)])

    async def _follow(self, began: float, until: float, *, record: bool = False) -> None:
        """Lets the demand follow the shapes until a time; before `began` it is that of the beginning."""
        moves = asyncio.create_task(self._lose_one(began)) if record else None
        step = time.time() if not record else began
        while step < until:
            for second in range(STEP_SECONDS):
                await asyncio.sleep(max(step + second - time.time(), 0.0))
                await gather(*(self._count(name) for name in self._apis))
                now = max(time.time() - began, 0.0)
                if second == 0 and record:
                    for one in self.workloads:
                        one.record(now, self._here)
                await gather(*(self._write(name, now) for name in self._apis))
            step += STEP_SECONDS
        if moves is not None:
            await moves

    async def _lose_one(self, began: float) -> None:
        if not any(one.shape.alone for one in self.workloads):
            return
        away, back = (began + 60 * minute for minute in AWAY_MINUTES)
        await asyncio.sleep(away - time.time())
        say(f"{AWAY} is lost")
        await self._plane.lose(AWAY)
        await asyncio.sleep(back - time.time())
        say(f"{AWAY} comes back")
        await self._plane.bring_back(AWAY)

    async def _count(self, member: str) -> None:
        """Counts replicas and ready pods. A member without an answer is away."""
        found = None
        with contextlib.suppress(*NO_ANSWER, TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                found = await self._apis[member].get("/apis/apps/v1/deployments")
        self._here[member] = found is not None
        for one in self.workloads:
            for item in (found or {}).get("items", ()):
                if item["metadata"]["namespace"] == one.namespace:
                    ready = item.get("status", {}).get("readyReplicas", 0)
                    one.pods[member] = (item["spec"]["replicas"], ready)

    async def _write(self, member: str, now: float) -> None:
        """Writes the usage of pods that has changed. A failed write is repeated a second later."""
        for one in self.workloads:
            usage = one.usage(now)
            key = (member, one.namespace)
            if not self._here[member] or self._written.get(key) == usage:
                continue
            with contextlib.suppress(*NO_ANSWER, TimeoutError):
                async with asyncio.timeout(READ_SECONDS):
                    await self._apis[member].apply(_usage(one, usage))
                self._written[key] = usage


def _usage(workload: Workload, milli: int) -> dict[str, Any]:
    """Returns the usage of all pods of a workload in a member. A pod that is starting uses nothing."""
    cpu = f'Quantity("{milli}m")'
    if workload.shape.pod_start:
        cpu = f"pod.SinceSecond() > {workload.shape.pod_start:.1f} ? {cpu} : {IDLE}"
    usage = {"cpu": {"expression": cpu}, "memory": {"value": "40Mi"}}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterResourceUsage",
        "metadata": {"name": workload.namespace},
        "spec": {"selector": {"matchNamespaces": [workload.namespace]}, "usages": [{"usage": usage}]},
    }


async def record(
    assets: Path, shapes: Sequence[Shape], *, minutes: float, settle: float = SETTLE_SECONDS
) -> list[Recorded]:
    """Starts a plane, records the shapes in both modes side by side, and ends the plane."""
    members = ["member1", "member2"] + [AWAY] * any(shape.alone for shape in shapes)
    plane = Plane(assets, members=members, nodes=NODES, hpa_sync=HPA_SYNC)
    try:
        say(f"starting a hub and {len(members)} members")
        await plane.start()
        processes = Processes(plane)
        await gather(plane.metrics_work(), processes.start())
        return await Stage(plane, shapes, processes).record(minutes, settle)
    finally:
        plane.end()
