"""Objects are reconciled once a period, and at most --concurrent-syncs at a time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from controller.federatedhpa.reconciler import FederatedHPAReconciler
from fedhpa.api.errors import FedHPAError
from tests.support.controller import world

pytestmark = pytest.mark.looptime(noop_cycles=0)


class Reconciles:
    """Replaces reconciles by waits of `seconds`, and records their starts and concurrency."""

    def __init__(self, seconds: float, error: FedHPAError | None = None) -> None:
        self.began: dict[str, list[float]] = {}
        self.late: list[float] = []
        self.max_concurrent = self._running = 0
        self._seconds = seconds
        self._error = error

    async def __call__(
        self,
        key: tuple[str, str],
        raw: Mapping[str, Any],
        known: object = (),
        *,
        late: float = 0.0,
        **_: object,
    ) -> bool:
        self.late.append(late)
        self.began.setdefault(key[1], []).append(asyncio.get_running_loop().time())
        self._running += 1
        self.max_concurrent = max(self.max_concurrent, self._running)
        await asyncio.sleep(self._seconds)
        self._running -= 1
        if self._error is not None:
            raise self._error
        return False

    def gaps(self, name: str) -> list[float]:
        """Seconds between the starts of an object's reconciles."""
        times = self.began[name]
        return [after - before for before, after in itertools.pairwise(times)]


@pytest.mark.parametrize("workers", [1, 3])
async def test_concurrent_reconciles_are_limited(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """--concurrent-syncs is the number of concurrent reconciles."""
    reconciles = Reconciles(1.0)
    monkeypatch.setattr(
        FederatedHPAReconciler, "reconcile", lambda _, *arguments, **more: reconciles(*arguments, **more)
    )
    async with world(m1=1) as w:
        for number in range(9):
            w.scale(f"web-{number}")
        async with w.controller(concurrent_syncs=workers, sync_period=15.0):
            await asyncio.sleep(30)

    assert reconciles.max_concurrent == workers
    assert len(reconciles.began) == 9


async def test_a_late_reconcile_knows_its_lateness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine objects due at the same time that take a second each are up to eight seconds late."""
    reconciles = Reconciles(1.0)
    monkeypatch.setattr(
        FederatedHPAReconciler, "reconcile", lambda _, *arguments, **more: reconciles(*arguments, **more)
    )
    async with world(m1=1) as w:
        for number in range(9):
            w.scale(f"web-{number}")
        async with w.controller(concurrent_syncs=1, sync_period=300.0):
            await asyncio.sleep(9.5)

    assert [round(late) for late in reconciles.late] == list(range(9))


@pytest.mark.parametrize("error", [None, FedHPAError("the hub is not well")])
async def test_each_object_keeps_its_period(
    error: FedHPAError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first reconcile each follows a period after the one before, also if each fails."""
    reconciles = Reconciles(0.1, error)
    monkeypatch.setattr(
        FederatedHPAReconciler, "reconcile", lambda _, *arguments, **more: reconciles(*arguments, **more)
    )
    async with world(m1=1) as w:
        w.scale("usual")
        w.scale("often", syncPeriodSeconds=4)
        async with w.controller(sync_period=15.0):
            await asyncio.sleep(120)

    first, *usual = reconciles.gaps("usual")
    assert first <= 15.0
    assert usual == pytest.approx([15.0] * len(usual))
    assert len(usual) >= 6
    assert reconciles.gaps("often")[1:] == pytest.approx([4.0] * (len(reconciles.began["often"]) - 2))
    assert len(reconciles.began["often"]) >= 29
