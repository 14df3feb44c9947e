"""Mode Distributed over 200 FederatedHPAs x 200 members while nothing happens. Takes two minutes."""

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

FLEET: Final = FleetSize(objects=200, namespaces=20, clusters=200, pods=2)
PERIODS_A_MINUTE: Final = 4
BOUNDS: Final = {"minReplicas": 200, "maxReplicas": 600}


async def _measure() -> dict[str, float]:
    async with memory_fleet(FLEET, api=HpaMember, spec={**SPEC, **BOUNDS}) as fleet:
        await fleet.list_pods()
        for _ in range(2):  # the first assignment, and the state that it leaves
            await fleet.round()
            await asyncio.sleep(PERIOD_SECONDS)
        gc.collect()
        spent = 0.0
        for _ in range(PERIODS_A_MINUTE):
            began = time.process_time()
            await fleet.round()
            spent += time.process_time() - began
            await asyncio.sleep(PERIOD_SECONDS)
        with counted() as calls:
            await fleet.round()
        return {
            "200 objects x 200 members, quiet, CPU s a minute": spent,
            "200 objects x 200 members, quiet, function calls an object": calls[0] / FLEET.objects,
        }


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(_measure())
    finally:
        structlog.reset_defaults()
