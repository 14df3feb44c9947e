"""The controller's loop over periods: how late looks are, with 100,000 and 1,000,000 pods, and a hung member.

`python -m benchmarks controller-large`, two minutes of CPU. Time is what a core of its own would show: the
CPU time that was used, and the waiting, which is skipped; so what else the machine does changes little, and
of two shards one is enough. Members are in memory (`benchmarks.controller.fleet`); a fiftieth of all pods
changes in each period.
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

from benchmarks.controller.fleet import HPAS, Fleet, Key, World, resident_bytes, world
from controller.federatedhpa.reconciler import FederatedHPAReconciler
from controller.loop import ReconcileLoop
from controller.shards import Shard

PERIOD_SECONDS: Final = 15.0
PERIODS: Final = 3
CHANGED: Final = 0.02
HUNG: Final = "member-3"
FLEET: Final = Fleet()
MILLION: Final = Fleet(namespaces=100, pods=100)


@dataclass(frozen=True)
class Measured:
    """What one process measured; `lags` are (when a look began, how late that was), in seconds."""

    cpu_a_period: float
    resident: int
    lags: list[tuple[float, float]]
    hung_at: float


class _Timed(FederatedHPAReconciler):
    """Notes how much later than a period after the one before each look begins."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.began: dict[Key, float] = {}
        self.lags: list[tuple[float, float]] = []

    async def reconcile(
        self, key: Key, raw: Mapping[str, Any], known: Any = (), *, late: float = 0.0
    ) -> bool:
        now = asyncio.get_running_loop().time()
        if key in self.began:
            self.lags.append((now, now - self.began[key] - PERIOD_SECONDS))
        self.began[key] = now
        return await super().reconcile(key, raw, known, late=late)


class _OwnCore(asyncio.SelectorEventLoop):
    """A loop on a core of its own: time is CPU time, and passes at once where there is nothing to do."""

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
        """Seconds."""
        return time.process_time() + getattr(self, "_skipped", 0.0)


def run() -> dict[str, float]:
    """Figure -> measured value, in the unit that its name ends with."""
    small = _measure(FLEET, Shard())
    hung = _measure(FLEET, Shard(), hang=True)
    # The larger one.
    large = _measure(MILLION, Shard(1, 2))
    found_out = [lag for at, lag in hung.lags if at < hung.hung_at + PERIOD_SECONDS]
    after = [lag for at, lag in hung.lags if at >= hung.hung_at + PERIOD_SECONDS]
    return {
        "100,000 pods, one process, CPU s a period": small.cpu_a_period,
        "100,000 pods, one process, lag p99, s": _p99([lag for _, lag in small.lags]),
        "100,000 pods, one hung member, most lag while it is found out, s": max(found_out),
        "100,000 pods, one hung member, lag p99 after that, s": _p99(after),
        "1,000,000 pods, one of two shards, CPU s a period": large.cpu_a_period,
        "1,000,000 pods, one of two shards, lag p99, s": _p99([lag for _, lag in large.lags]),
        "1,000,000 pods, one of two shards, resident GB": large.resident / 2**30,
    }


def _p99(lags: list[float]) -> float:
    return sorted(lags)[int(len(lags) * 0.99)]


def _measure(fleet: Fleet, shard: Shard, *, hang: bool = False) -> Measured:
    """In a process of its own, whose memory is nothing else's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_process, (fleet, shard, hang))


def _process(fleet: Fleet, shard: Shard, hang: bool) -> Measured:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with asyncio.Runner(loop_factory=_OwnCore) as runner:
        return runner.run(_loop(fleet, shard, hang))


async def _loop(fleet: Fleet, shard: Shard, hang: bool) -> Measured:
    async with world(fleet, keep=shard.owns, reconciler=_Timed) as w:
        looks = w.reconciler
        assert isinstance(looks, _Timed)
        w.warm()
        changes = [w.changes(CHANGED, ready=ready) for ready in (False, True)]
        clock = asyncio.get_running_loop().time
        loop = ReconcileLoop(w.hub, HPAS, looks, workers=w.settings.concurrent_syncs, clock=clock)
        running = asyncio.create_task(loop.run())
        try:
            while len(looks.began) < len(w.keys):  # noqa: ASYNC110  # the first look at each
                await asyncio.sleep(0.1)
            await _pass(w, changes[0])  # and one period at its own turn
            looks.lags.clear()
            began, hung_at = time.process_time(), asyncio.get_running_loop().time()
            if hang:
                w.api(HUNG).hangs = True
            for number in range(PERIODS):
                await _pass(w, changes[(number + 1) % 2], without=HUNG if hang else "")
            cpu = (time.process_time() - began) / PERIODS
        finally:
            running.cancel()
            await asyncio.wait([running])
        return Measured(cpu, resident_bytes(), looks.lags, hung_at)


async def _pass(w: World, changes: list[tuple[Any, str, bytes]], without: str = "") -> None:
    """Let a period pass, in which the pods change little by little."""
    w.content.turn += 1
    steps = int(PERIOD_SECONDS * 10)
    clock = asyncio.get_running_loop().time
    began = clock()
    for step in range(steps):
        for api, path, line in changes[step::steps]:
            if not without or api is not w.api(without):
                api.push(path, line)
        await asyncio.sleep(max(began + (step + 1) * 0.1 - clock(), 0.0))
