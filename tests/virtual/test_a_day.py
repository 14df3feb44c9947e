"""Over a day, the workload follows the load within its bounds, and shrinks only after the window."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import Federation, Rescale, federation
from tests.support.nightly import NIGHT, examples

pytestmark = [*NIGHT, pytest.mark.looptime(noop_cycles=0)]

# An hour lasts ten minutes, which is two windows, except in nightly runs.
HOUR = float(examples(600, 3600))
WINDOW, PERIOD = 300.0, 120
LEAST, MOST = 3, 20
MILLIS_PER_POD = 50
# The load from each of these hours on, in milli-cores, and the right number of pods. At 850 usage is within
# tolerance of the target.
CURVE = {0: (300, 6), 1: (590, 12), 3: (1600, MOST), 6: (800, 16), 8: (850, 16), 10: (240, 5), 12: (40, 3)}
DAY = 14 * HOUR  # from six in the morning to eight in the evening


async def live_through(f: Federation) -> None:
    """Let the load follow the curve until the evening."""
    for hour, (demand, _) in CURVE.items():
        await asyncio.sleep(hour * HOUR - f.now())
        f.demand(demand)
    await asyncio.sleep(DAY - f.now())


def sizes(rescales: list[Rescale], start: dict[str, int]) -> list[tuple[float, int]]:
    """(time, pods of all members) after each rescale."""
    present, found = dict(start), []
    for index, rescale in enumerate(rescales):
        present[rescale.member] = rescale.replicas
        if index + 1 == len(rescales) or rescales[index + 1].at - rescale.at > 1:
            found.append((rescale.at, sum(present.values())))
    return found


async def test_a_day_of_load(tmp_path: Path) -> None:
    """Each change of load leads to the right size: up at the next reconcile, down after five minutes."""
    async with federation(tmp_path, m1=3, m2=3) as f:
        f.scale(minReplicas=LEAST, maxReplicas=MOST, syncPeriodSeconds=PERIOD)
        async with f.controller(calm=True) as controller:
            await live_through(f)
            reconciles = controller.reconciles

        history = sizes(f.rescales, {"m1": 3, "m2": 3})
        assert f.now() == pytest.approx(DAY, abs=1)
        assert DAY / PERIOD - 1 <= reconciles < DAY / (PERIOD * 0.9) + 10
        assert all(LEAST <= size <= MOST for _, size in history)
        before = 6
        for hour, (_, size) in CURVE.items():
            changes = [entry for entry in history if 0 <= entry[0] - hour * HOUR < HOUR]
            if size == before:
                assert changes == []
                continue
            last, reached = changes[-1]
            assert reached == size
            if size < before:
                assert len(changes) == 1
                assert WINDOW - PERIOD <= last - hour * HOUR <= WINDOW + PERIOD + 5
            else:
                assert last - hour * HOUR <= 3 * PERIOD
            before = size
        # The members get equal parts.
        assert sorted(f.replicas.values()) == [1, 2]
