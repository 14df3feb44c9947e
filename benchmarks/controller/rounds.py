"""Rounds of the controller over a thousand objects, from the members' bytes to decisions and statuses.

A round is: the pods that changed (2 %) come by watch, usage is listed anew (one list per cluster and
namespace) and decoded, every object is looked at once, and what is worth it is written. What is left out is
the network itself. `python -m benchmarks controller-large` has a million pods, real time and a hung member.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from typing import Final

import structlog

from benchmarks.controller.fleet import Fleet, Hub, resident_bytes, world
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.decision import decode_object

FLEET: Final = Fleet()
# A world in which nothing happens for an hour, looked at every 15 s.
QUIET: Final = Fleet(objects=2, namespaces=1)
PERIOD_SECONDS: Final = 15.0
HOUR_SECONDS: Final = 3600.0
CHANGED: Final = 0.02
ROUNDS: Final = 2


async def _rounds() -> dict[str, float]:
    async with world(FLEET) as w:
        w.warm()
        gc.collect()
        empty = resident_bytes()
        await w.list_pods()
        gc.collect()
        pods = resident_bytes() - empty
        await w.round()
        gc.collect()
        everything = resident_bytes() - empty
        rounds = []
        for _ in range(ROUNDS):
            changes = w.changes(CHANGED)
            w.pass_time(PERIOD_SECONDS)
            began = time.process_time()
            await w.apply(changes)
            await w.round()
            rounds.append(time.process_time() - began)
        began = time.process_time()
        await w.round()
        looks = time.process_time() - began
        shown = {obj["status"]["currentReplicas"] for obj in w.hub.objects.values()}
        assert shown == {FLEET.clusters * FLEET.pods}
    return {
        "round, 1,000 objects x 100 pods over 10 clusters, CPU s": min(rounds),
        "look at 100 pods over 10 clusters, CPU ms": looks / FLEET.objects * 1000,
        "resident, bytes per cached pod": pods / FLEET.all_pods,
        "resident with usage and objects, bytes per pod": everything / FLEET.all_pods,
    }


async def _quiet_hour(*, moves: bool) -> float:
    async with world(QUIET) as w:
        await w.round()
        w.hub.writes = 0
        for _ in range(int(HOUR_SECONDS / PERIOD_SECONDS)):
            w.pass_time(PERIOD_SECONDS)
            if not moves:
                w.content.turn = 0
            await w.round()
        return w.hub.writes / QUIET.objects


def _placement() -> dict[str, float]:
    """A thousand preferences by label over a thousand clusters, as they are compared at each look."""
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
    """Figure -> measured value, in the unit that its name ends with."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        return {
            "writes of an hour in which nothing moves, per object": asyncio.run(_quiet_hour(moves=False)),
            "writes of an hour in which usage moves by 1 %, per object": asyncio.run(_quiet_hour(moves=True)),
            **_placement(),
            **asyncio.run(_rounds()),
        }
    finally:
        structlog.reset_defaults()
