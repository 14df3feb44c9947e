"""How often objects are looked at, and how many at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from controller.federatedhpa.reconciler import FederatedHPAReconciler
from fedhpa.api.errors import FedHPAError
from tests.support.controller_world import world

pytestmark = pytest.mark.looptime(noop_cycles=0)


class Looks:
    """Stands for looks of `seconds` each, and notes when they began and how many there were at once."""

    def __init__(self, seconds: float, error: FedHPAError | None = None) -> None:
        self.began: dict[str, list[float]] = {}
        self.late: list[float] = []
        self.most = self._now = 0
        self._seconds = seconds
        self._error = error

    async def __call__(
        self, key: tuple[str, str], raw: Mapping[str, Any], known: object = (), *, late: float = 0.0
    ) -> bool:
        self.late.append(late)
        self.began.setdefault(key[1], []).append(asyncio.get_running_loop().time())
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(self._seconds)
        self._now -= 1
        if self._error is not None:
            raise self._error
        return False

    def gaps(self, name: str) -> list[float]:
        """Seconds between the beginnings of an object's looks."""
        times = self.began[name]
        return [after - before for before, after in itertools.pairwise(times)]


@pytest.mark.parametrize("workers", [1, 3])
async def test_no_more_looks_at_once_than_asked_for(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """--concurrent-syncs is the number of looks at the same moment, and it is used."""
    looks = Looks(1.0)
    monkeypatch.setattr(
        FederatedHPAReconciler, "reconcile", lambda _, *arguments, **more: looks(*arguments, **more)
    )
    async with world(m1=1) as w:
        for number in range(9):
            w.scale(f"web-{number}")
        async with w.controller(concurrent_syncs=workers, sync_period=15.0):
            await asyncio.sleep(30)

    assert looks.most == workers
    assert len(looks.began) == 9


async def test_who_looks_late_is_told_how_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine objects that are due at once and take a second each are up to eight seconds late."""
    looks = Looks(1.0)
    monkeypatch.setattr(
        FederatedHPAReconciler, "reconcile", lambda _, *arguments, **more: looks(*arguments, **more)
    )
    async with world(m1=1) as w:
        for number in range(9):
            w.scale(f"web-{number}")
        async with w.controller(concurrent_syncs=1, sync_period=300.0):
            await asyncio.sleep(9.5)

    assert [round(late) for late in looks.late] == list(range(9))


@pytest.mark.parametrize("error", [None, FedHPAError("the hub is not well")])
async def test_each_object_keeps_its_period(
    error: FedHPAError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first look every one follows a period after the one before, also when each fails."""
    looks = Looks(0.1, error)
    monkeypatch.setattr(
        FederatedHPAReconciler, "reconcile", lambda _, *arguments, **more: looks(*arguments, **more)
    )
    async with world(m1=1) as w:
        w.scale("usual")
        w.scale("often", syncPeriodSeconds=4)
        async with w.controller(sync_period=15.0):
            await asyncio.sleep(120)

    first, *usual = looks.gaps("usual")
    assert first <= 15.0
    assert usual == pytest.approx([15.0] * len(usual))
    assert len(usual) >= 6
    assert looks.gaps("often")[1:] == pytest.approx([4.0] * (len(looks.began["often"]) - 2))
    assert len(looks.began["often"]) >= 29
