"""Rounds of the controller over a thousand objects, from the members' bytes to decisions and statuses.

In a round 2 % of the pods change by watch, usage is listed and decoded again (one list a cluster and
namespace), every object is reconciled once, and statuses are written if worth it. Only the network is left
out. `python -m benchmarks controller-large` has a million pods, real time and a hanging member.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from typing import Final

import structlog

from benchmarks.controller.bodies import FleetSize
from benchmarks.controller.many_objects import Hub, memory_fleet, resident_bytes
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.decision import decode_object
from fedhpa.serving import Garbage

FLEET: Final = FleetSize()
# A fleet without changes for an hour, reconciled every 15 s.
QUIET: Final = FleetSize(objects=2, namespaces=1)
PERIOD_SECONDS: Final = 15.0
HOUR_SECONDS: Final = 3600.0
CHANGED: Final = 0.02
ROUNDS: Final = 2


async def _rounds() -> dict[str, float]:
    async with memory_fleet(FLEET) as fleet:
        fleet.warm()
        gc.collect()
        empty = resident_bytes()
        await fleet.list_pods()
        gc.collect()
        pods = resident_bytes() - empty
        await fleet.round()
        gc.collect()
        everything = resident_bytes() - empty
        rounds = []
        for _ in range(ROUNDS):
            changes = fleet.changes(CHANGED)
            fleet.pass_time(PERIOD_SECONDS)
            began = time.process_time()
            await fleet.apply(changes)
            await fleet.round()
            rounds.append(time.process_time() - began)
        began = time.process_time()
        await fleet.round()
        reconciles = time.process_time() - began
        sizes = {obj["status"]["currentReplicas"] for obj in fleet.hub.objects.values()}
        assert sizes == {FLEET.clusters * FLEET.pods}
    return {
        "round, 1,000 objects x 100 pods over 10 clusters, CPU s": min(rounds),
        "reconcile of 100 pods over 10 clusters, CPU ms": reconciles / FLEET.objects * 1000,
        "resident, bytes per cached pod": pods / FLEET.all_pods,
        "resident with usage and objects, bytes per pod": everything / FLEET.all_pods,
    }


async def _longest_collection() -> float:
    """The CPU milliseconds of the longest garbage collection while all objects come and are reconciled."""
    durations, began, garbage = [0.0], 0.0, Garbage(time.thread_time)

    def note(phase: str, _: object) -> None:
        nonlocal began
        if phase == "start":
            began = time.process_time()
        else:
            durations.append(time.process_time() - began)

    async with memory_fleet(FLEET) as fleet:
        fleet.warm()
        garbage.follow()
        gc.callbacks.append(note)
        try:
            await fleet.list_pods()
            for _ in range(ROUNDS):
                await fleet.round()
                await fleet.apply(fleet.changes(CHANGED))
                fleet.pass_time(PERIOD_SECONDS)
        finally:
            gc.callbacks.remove(note)
            garbage.unfollow()
    return max(durations) * 1000


async def _quiet_hour(*, usage_changes: bool) -> float:
    async with memory_fleet(QUIET) as fleet:
        await fleet.round()
        fleet.hub.writes = 0
        for _ in range(int(HOUR_SECONDS / PERIOD_SECONDS)):
            fleet.pass_time(PERIOD_SECONDS)
            if not usage_changes:
                fleet.bodies.period = 0
            await fleet.round()
        return fleet.hub.writes / QUIET.objects


def _placement() -> dict[str, float]:
    """A thousand preferences by label, compared with a thousand clusters as in each reconcile."""
    preferences = [
        {
            "targetCluster": {"labelSelector": {"matchLabels": {"cell": f"cell-{number}"}}},
            "staticWeight": number,
        }
        for number in range(1000)
    ]
    raw = Hub([("shop", "web")]).objects.popitem()[1]
    raw["spec"]["federatedHPAAssignment"] = {"clusterAutoscalingPreference": preferences}
    rules = decode_object(raw).spec.assignment
    clusters = [KnownCluster(f"member-{n}", {"cell": f"cell-{n}", "tier": "edge"}) for n in range(1000)]
    rules.preferred(clusters)
    began = time.process_time()
    for _ in range(10):
        found = rules.preferred(clusters)
    assert found["member-7"].weight == 7
    return {"1,000 preferences by label over 1,000 clusters, CPU ms": (time.process_time() - began) * 100}


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        return {
            "writes of an hour in which nothing moves, per object": asyncio.run(
                _quiet_hour(usage_changes=False)
            ),
            "writes of an hour in which usage moves by 1 %, per object": asyncio.run(
                _quiet_hour(usage_changes=True)
            ),
            **_placement(),
            **asyncio.run(_rounds()),
            "longest garbage collection with 1,000 objects, ms": asyncio.run(_longest_collection()),
        }
    finally:
        structlog.reset_defaults()
