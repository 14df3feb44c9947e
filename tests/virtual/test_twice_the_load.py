"""A controller with twice the work that it has time for is late with every object, and starves none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import pairwise

import pytest
from prometheus_client import CollectorRegistry

from benchmarks.controller.many_objects import HPAS, Hub
from controller.decision_series import ControllerMetrics
from controller.federatedhpa.snapshot import until_slot
from controller.loop import Foreign, Loop, Object, Objects, Slot
from fedhpa.kube import Key
from tests.support.timing import background

pytestmark = pytest.mark.looptime(noop_cycles=0)

PERIOD, SLOTS = 15.0, 5
# Each takes a slot for a second, so the slots are enough for 75 objects a period.
WORK_SECONDS = 1.0
TWICE = 150
HOT = ("team-0", "web-0")


class SlowWorker:
    """Notes when the work on each object began, and shows how late that was."""

    def __init__(self, metrics: ControllerMetrics) -> None:
        self.began: dict[Key, list[float]] = {}
        self.late: list[float] = []
        self._metrics = metrics

    def keeps(self, raw: Object) -> bool:
        return bool(raw)

    def foreign(self, raw: Object) -> Foreign | None:
        raise AssertionError(raw)

    def foreign_changed(self, key: Key, known: Foreign | None) -> None:
        assert known is None, key

    async def begin(self) -> Iterable[Key]:
        return ()

    def changed(self, key: Key, old: Object | None, new: Object | None) -> Iterable[Key]:
        return (key,)

    def taken(self, key: Key) -> None:
        """Nothing waits for it."""

    async def work(self, key: Key, objects: Objects, *, late: float, slot: Slot) -> float | None:
        now = asyncio.get_running_loop().time()
        self.began.setdefault(key, []).append(now)
        self.late.append(late)
        self._metrics.set_bounds(*key, 1, 2, late=late)
        await asyncio.sleep(WORK_SECONDS)
        return until_slot(key, PERIOD, asyncio.get_running_loop().time())

    async def failed(self, key: Key, objects: Objects, reason: str, message: str) -> float:
        raise AssertionError((key, reason, message))

    def retry(self, key: Key) -> float:
        raise AssertionError(key)

    def unreadable(self, key: Key, uid: str, message: str) -> None:
        raise AssertionError((key, message))

    async def end(self, objects: Objects) -> None:
        """Nothing is left."""


@pytest.mark.parametrize("hot", [False, True])
async def test_all_are_later_and_nobody_starves(hot: bool) -> None:
    """Each object begins at least every third period, also if one object is made due all the time. The
    series of lateness shows it."""
    registry = CollectorRegistry()
    clock = asyncio.get_running_loop().time
    worker = SlowWorker(ControllerMetrics(registry, clock=clock))
    hub = Hub([(f"team-{number % 10}", f"web-{number}") for number in range(TWICE)])
    loop: Loop[Key] = Loop(hub, HPAS, worker, slots=SLOTS, clock=clock)

    async def heat() -> None:
        while True:
            await asyncio.sleep(0.1)
            if hot:
                loop.wake(HOT)

    async with background(loop.run()), background(heat()):
        await asyncio.sleep(5 * PERIOD)
        worker.began.clear()
        worker.late.clear()
        await asyncio.sleep(20 * PERIOD)

    counts = [len(times) for key, times in worker.began.items() if key != HOT or not hot]
    longest = max(after - before for times in worker.began.values() for before, after in pairwise(times))
    half = sorted(worker.late)[len(worker.late) // 2]
    count = registry.get_sample_value("fedhpa_controller_reconcile_lateness_seconds_count") or 0.0
    below = registry.get_sample_value("fedhpa_controller_reconcile_lateness_seconds_bucket", {"le": "1.0"})
    assert len(worker.began) == TWICE
    # Half of the twenty periods, for each object.
    assert 8 <= min(counts) <= max(counts) <= 12
    assert longest <= 3 * PERIOD
    assert PERIOD / 4 <= half <= 2 * PERIOD
    assert count - (below or 0.0) > count / 2
