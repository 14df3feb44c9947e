"""The cost of an object in a period if its pods are in a hundred members instead of ten.

The objects, and the pods of each, are the same in both fleets. Time is virtual, so that every list is read
once in a round, however slow the machine is.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from typing import Final

import structlog

from benchmarks.calls import counted
from benchmarks.controller.bodies import FleetSize
from benchmarks.controller.many_objects import memory_fleet
from benchmarks.world.loop import VirtualLoop

FEW: Final = FleetSize(objects=200, namespaces=10, clusters=10, pods=10)
MANY: Final = FleetSize(objects=200, namespaces=10, clusters=100, pods=1)
PERIOD_SECONDS: Final = 15.0
CHANGED: Final = 0.02
ROUNDS: Final = 4


async def _cost(size: FleetSize) -> tuple[float, float]:
    """The CPU milliseconds and the function calls an object of a round.

    In it 2 % of the pods change, and all usage is new.
    """
    async with memory_fleet(size) as fleet:
        fleet.warm()
        await fleet.list_pods()
        await fleet.round()
        rounds = []
        for _ in range(ROUNDS):
            changes = fleet.changes(CHANGED)
            fleet.pass_time(PERIOD_SECONDS)
            gc.collect()
            began = time.process_time()
            await fleet.apply(changes)
            await fleet.round()
            rounds.append(time.process_time() - began)
            # A watch that failed lists all pods again, and that is another cost.
            pods, places = fleet.caches.pods, {key[0] for key in size.keys}
            now, members = fleet.ahead[0] + asyncio.get_running_loop().time(), fleet.members.values()
            assert all(pods.of_available(each, place, now) for each in members for place in places)
        changes = fleet.changes(CHANGED)
        fleet.pass_time(PERIOD_SECONDS)
        with counted() as calls:
            await fleet.apply(changes)
            await fleet.round()
        return min(rounds) / size.objects * 1000, calls[0] / size.objects


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            (few, _), (many, calls) = runner.run(_cost(FEW)), runner.run(_cost(MANY))
    finally:
        structlog.reset_defaults()
    return {
        "a period of 100 pods over 10 members, CPU ms an object": few,
        "a period of 100 pods over 100 members, CPU ms an object": many,
        "a period of 100 pods over 100 members, function calls an object": calls,
        "100 members instead of 10, times the CPU": many / few,
    }
