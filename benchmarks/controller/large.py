"""The controller's reconcile loop over periods: its lag with up to 1,000,000 pods, and with a hanging member.

`python -m benchmarks controller-large` uses two minutes of CPU. Time is measured as on a core of its own: CPU
time plus skipped waiting. Other work on the machine thus changes little, and one of two shards is enough.
Members are in memory (`benchmarks.controller.many_objects`); a fiftieth of all pods changes in each period.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from benchmarks.controller.bodies import FleetSize, Key
from benchmarks.controller.many_objects import HPAS, MemoryFleet, memory_fleet, resident_bytes
from controller.federatedhpa import FederatedHPAReconciler
from controller.loop import Loop
from controller.shards import BY_NAMESPACE, Division, Shard

PERIOD_SECONDS: Final = 15.0
PERIODS: Final = 3
CHANGED: Final = 0.02
HANGING: Final = "member-3"
FLEET: Final = FleetSize()
MILLION: Final = FleetSize(namespaces=100, pods=100)


@dataclass(frozen=True)
class Measured:
    """The figures of one process. `lags` are (start of a reconcile, how late it was), in seconds."""

    cpu_a_period: float
    resident: int
    lags: list[tuple[float, float]]
    hung_at: float


class _TimedReconciler(FederatedHPAReconciler):
    """Records how much more than a period lies between two reconciles of an object."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.began: dict[Key, float] = {}
        self.lags: list[tuple[float, float]] = []

    async def reconcile(self, key: Key, raw: Mapping[str, Any], known: Any = (), **more: Any) -> bool:
        now = asyncio.get_running_loop().time()
        if key in self.began:
            self.lags.append((now, now - self.began[key] - PERIOD_SECONDS))
        self.began[key] = now
        return await super().reconcile(key, raw, known, **more)


class OwnCoreLoop(asyncio.SelectorEventLoop):
    """An event loop as if on a core of its own: its time is CPU time, and it skips all waiting."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]  # the base class's own
        select = selector.select

        def skip(timeout: float | None = None) -> Any:
            ready = select(0)
            if not ready and timeout:
                self._skipped += timeout
            return ready

        selector.select = skip

    def time(self) -> float:
        """CPU seconds plus skipped seconds."""
        return time.process_time() + getattr(self, "_skipped", 0.0)


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    small = _measure(FLEET, Shard())
    hanging = _measure(FLEET, Shard(), hang=True)
    # The larger of the two shards.
    large = _measure(MILLION, Shard(1, Division(2, BY_NAMESPACE)))
    during = [lag for at, lag in hanging.lags if at < hanging.hung_at + PERIOD_SECONDS]
    after = [lag for at, lag in hanging.lags if at >= hanging.hung_at + PERIOD_SECONDS]
    return {
        "100,000 pods, one process, CPU s a period": small.cpu_a_period,
        "100,000 pods, one process, lag p99, s": _p99([lag for _, lag in small.lags]),
        "100,000 pods, one hung member, most lag while it is found out, s": max(during),
        "100,000 pods, one hung member, lag p99 after that, s": _p99(after),
        "1,000,000 pods, one of two shards, CPU s a period": large.cpu_a_period,
        "1,000,000 pods, one of two shards, lag p99, s": _p99([lag for _, lag in large.lags]),
        "1,000,000 pods, one of two shards, resident GB": large.resident / 2**30,
    }


def _p99(lags: list[float]) -> float:
    return sorted(lags)[int(len(lags) * 0.99)]


def _measure(size: FleetSize, shard: Shard, *, hang: bool = False) -> Measured:
    """Measure in a separate process, so that its memory counts alone."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_process, (size, shard, hang))


def _process(size: FleetSize, shard: Shard, hang: bool) -> Measured:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with asyncio.Runner(loop_factory=OwnCoreLoop) as runner:
        return runner.run(_loop(size, shard, hang))


async def _loop(size: FleetSize, shard: Shard, hang: bool) -> Measured:
    def keep(key: Key) -> bool:
        return shard.owns((*key, ""))

    async with memory_fleet(size, keep=keep, reconciler=_TimedReconciler) as fleet:
        reconciler = fleet.reconciler
        assert isinstance(reconciler, _TimedReconciler)
        fleet.warm()
        changes = [fleet.changes(CHANGED, ready=ready) for ready in (False, True)]
        clock = asyncio.get_running_loop().time
        loop = Loop(fleet.hub, HPAS, reconciler, slots=fleet.settings.concurrent_syncs, clock=clock)
        running = asyncio.create_task(loop.run())
        try:
            while len(reconciler.began) < len(fleet.keys):  # noqa: ASYNC110  # the first reconcile of each
                await asyncio.sleep(0.1)
            await _pass(fleet, changes[0])  # and one period in which each has its slot
            reconciler.lags.clear()
            began, hung_at = time.process_time(), asyncio.get_running_loop().time()
            if hang:
                fleet.api(HANGING).hangs = True
            for number in range(PERIODS):
                await _pass(fleet, changes[(number + 1) % 2], without=HANGING if hang else "")
            cpu = (time.process_time() - began) / PERIODS
        finally:
            running.cancel()
            await asyncio.wait([running])
        return Measured(cpu, resident_bytes(), reconciler.lags, hung_at)


async def _pass(fleet: MemoryFleet, changes: list[tuple[Any, str, bytes]], without: str = "") -> None:
    """Let a period pass, in which the changes of pods arrive evenly spread."""
    fleet.bodies.period += 1
    steps = int(PERIOD_SECONDS * 10)
    clock = asyncio.get_running_loop().time
    began = clock()
    for step in range(steps):
        for api, path, line in changes[step::steps]:
            if not without or api is not fleet.api(without):
                api.push(path, line)
        await asyncio.sleep(max(began + (step + 1) * 0.1 - clock(), 0.0))
