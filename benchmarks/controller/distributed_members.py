"""Mode Distributed over 200 members while nothing happens. 20 objects show what each of 200 costs."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from typing import Final

import structlog

from benchmarks.calls import counted
from benchmarks.controller.bodies import FleetSize
from benchmarks.controller.distributed import PERIOD_SECONDS, SPEC, HpaMember
from benchmarks.controller.many_objects import memory_fleet
from benchmarks.world.loop import VirtualLoop

FLEET: Final = FleetSize(objects=20, namespaces=2, clusters=200, pods=2)
BOUNDS: Final = {"minReplicas": 200, "maxReplicas": 600}
PERIODS: Final = 4
# The reconciles of 200 objects in a minute.
RECONCILES: Final = 200 * 60 / PERIOD_SECONDS


async def _measure() -> dict[str, float]:
    async with memory_fleet(FLEET, api=HpaMember, spec={**SPEC, **BOUNDS}) as fleet:
        await fleet.list_pods()
        for _ in range(2):  # the first assignment, and a pass over what it left
            await fleet.round()
            await asyncio.sleep(PERIOD_SECONDS)
        gc.collect()
        spent = []
        for _ in range(PERIODS):
            began = time.process_time()
            await fleet.round()
            spent.append(time.process_time() - began)
            await asyncio.sleep(PERIOD_SECONDS)
        with counted() as calls:
            await fleet.round()
        return {
            "200 objects x 200 members, quiet, CPU s a minute": min(spent) / FLEET.objects * RECONCILES,
            "a quiet period over 200 members, function calls an object": calls[0] / FLEET.objects,
        }


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(_measure())
    finally:
        structlog.reset_defaults()
