"""A member or a hub that answers slowly, but within the deadline, delays no object."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.controller.bodies import FleetSize, Key
from benchmarks.controller.many_objects import HPAS, MemoryFleet, memory_fleet
from controller.federatedhpa import FederatedHPAReconciler
from controller.loop import Loop
from fedhpa.decision import Decision
from tests.support.timing import background, until

pytestmark = pytest.mark.looptime(noop_cycles=0)

PERIOD = 15.0
SLOW = "member-2"
# Below the deadline of 3 s, so nothing fails.
SLOW_SECONDS = 2.5
SIZE = FleetSize(objects=200, namespaces=200, clusters=3, pods=2)


class Timed(FederatedHPAReconciler):
    """Records when each object was reconciled, and how many decisions missed a cluster."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.began: dict[Key, list[float]] = {}
        self.missed = 0
        self.shown: set[Key] = set()

    def _show(self, key: Key, memory: Any, decision: Decision, *arguments: Any, **more: Any) -> None:
        super()._show(key, memory, decision, *arguments, **more)
        self.shown.add(key)
        self.missed += bool(decision.coverage.missing)

    async def reconcile(self, key: Key, raw: Mapping[str, Any], known: Any = (), **more: Any) -> bool:
        self.began.setdefault(key, []).append(asyncio.get_running_loop().time())
        return await super().reconcile(key, raw, known, **more)

    def longest_period(self) -> float:
        """The longest time between two reconciles of an object since the last call."""
        times, self.began = self.began, {key: began[-1:] for key, began in self.began.items()}
        return max(after - before for began in times.values() for before, after in pairwise(began))


@asynccontextmanager
async def running(size: FleetSize = SIZE) -> AsyncIterator[tuple[MemoryFleet, Timed]]:
    """A fleet whose controller has reconciled each object twice."""
    async with memory_fleet(size, reconciler=Timed) as fleet:
        reconciler = fleet.reconciler
        assert isinstance(reconciler, Timed)
        clock = asyncio.get_running_loop().time
        loop = Loop(fleet.hub, HPAS, reconciler, slots=fleet.settings.concurrent_syncs, clock=clock)
        async with background(loop.run()):
            await until(lambda: len(reconciler.began) == size.objects)
            # The first reconcile of an object comes at once, and the second in its slot.
            await asyncio.sleep(PERIOD)
            reconciler.began.clear()
            await asyncio.sleep(2 * PERIOD)
            yield fleet, reconciler


async def test_a_slow_member_delays_no_object() -> None:
    """With a member that answers in 2.5 s each of 200 objects is reconciled every period.

    The member counts as missing at most once, when it becomes slow. Its last answer before is too old then.
    """
    async with running() as (fleet, reconciler):
        before = reconciler.longest_period()
        fleet.api(SLOW).seconds = SLOW_SECONDS
        await asyncio.sleep(4 * PERIOD)
        at_first, missed_at_first = reconciler.longest_period(), reconciler.missed
        await asyncio.sleep(20 * PERIOD)
        after = reconciler.longest_period()
        missed = reconciler.missed - missed_at_first

    assert before <= PERIOD + 0.1
    assert at_first <= PERIOD + 1
    assert after <= PERIOD + 1
    assert missed_at_first <= SIZE.objects
    assert missed == 0


async def test_slow_writes_of_the_hub_delay_no_object() -> None:
    """With a hub whose writes take 2 s each of 200 objects is reconciled every period."""
    async with running() as (fleet, reconciler):
        fleet.hub.write_seconds = 2.0
        await asyncio.sleep(PERIOD)
        reconciler.longest_period()
        for _ in range(20):
            fleet.bodies.period += 1
            await asyncio.sleep(PERIOD)
        after = reconciler.longest_period()

    assert after <= PERIOD + 1


async def test_a_slow_hub_delays_no_first_reconcile() -> None:
    """With a hub whose writes take 2 s each of 200 new objects is recorded within a period."""
    async with memory_fleet(SIZE, reconciler=Timed) as fleet:
        reconciler = fleet.reconciler
        assert isinstance(reconciler, Timed)
        fleet.hub.write_seconds = 2.0
        clock = asyncio.get_running_loop().time
        loop = Loop(fleet.hub, HPAS, reconciler, slots=fleet.settings.concurrent_syncs, clock=clock)
        async with background(loop.run()):
            began = clock()
            await until(lambda: len(fleet.hub.records) == SIZE.objects)
            recorded = clock() - began
            await until(lambda: all("status" in one for one in fleet.hub.objects.values()))
            published = clock() - began

    assert recorded <= PERIOD
    assert published <= 4 * PERIOD
