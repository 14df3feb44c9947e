"""A member that stays away is given up after lostAfterSeconds, not before, and is taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from playground.faults import Fault
from tests.virtual.federation import federation, until

pytestmark = pytest.mark.looptime(noop_cycles=0)

LOST_AFTER = 300.0
# Two periods, and the probe that notices.
SLACK = 40.0


async def test_a_member_that_hangs_is_lost_after_five_minutes(tmp_path: Path) -> None:
    """Until then nothing is scaled down; from then on the rest is sized by itself, and told of once."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller():
        f.demand(400)
        f.scale(minReplicas=2)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        f.demand(60)  # right for two pods
        await f.members["m2"].faults.set(Fault.HANG)
        began = f.now()
        await until(lambda: f.state("m2") == "Missing")
        noticed = f.now() - began
        await until(lambda: f.state("m2") == "Lost", 600)
        lost = f.now() - began
        await until(lambda: f.replicas["m1"] < 4, 600)
        down = f.now() - began
        await asyncio.sleep(900)

        assert noticed <= SLACK
        assert LOST_AFTER <= lost <= LOST_AFTER + SLACK
        assert down >= LOST_AFTER
        assert f.replicas["m2"] == 4
        assert f.condition("MetricsComplete")[0] == "True"
        (event,) = f.events("ClusterLost")
        assert event["message"].startswith("cluster m2 has not answered for 3")
        assert event["message"].endswith(" s and is no longer expected")
        assert event["count"] == 1

        await f.members["m2"].faults.clear()
        await until(lambda: f.state("m2") == "Answered")
        await until(lambda: f.status()["currentReplicas"] == 2)
        assert f.total == 2


async def test_the_clock_of_a_loss_survives_a_restart(tmp_path: Path) -> None:
    """Four minutes before the restart and one after it are five minutes."""
    async with federation(tmp_path, m1=4, m2=4) as f:
        f.demand(400)
        f.scale()
        async with f.controller() as first:
            await until(lambda: f.condition("MetricsComplete")[0] == "True")
            await f.members["m2"].faults.set(Fault.REFUSE)
            began = f.now()
            await asyncio.sleep(240)
            missing = f.state("m2")
            await first.stop()
        async with f.controller():
            await until(lambda: f.state("m2") == "Lost", 600)

        assert missing == "Missing"
        assert LOST_AFTER - SLACK <= f.now() - began <= LOST_AFTER + SLACK


async def test_a_member_that_flaps_is_missing_and_never_lost(tmp_path: Path) -> None:
    """Four minutes away, one minute back, again and again: each answer starts the clock anew."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller():
        f.demand(400)
        f.scale()
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        states = set()
        for _ in range(5):
            await f.members["m2"].faults.set(Fault.REFUSE)
            await asyncio.sleep(240)
            states.add(f.state("m2"))
            await f.members["m2"].faults.clear()
            await asyncio.sleep(60)
            states.add(f.state("m2"))

        assert states == {"Missing", "Answered"}
        assert f.events("ClusterLost") == []
        assert f.rescales == []
