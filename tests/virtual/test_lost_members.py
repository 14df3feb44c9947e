"""A member is lost after lostAfterSeconds of absence, and expected again when it returns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import Federation, federation, until
from tests.support.plane_faults import Fault

pytestmark = pytest.mark.looptime(noop_cycles=0)

LOST_AFTER = 300.0
# So long the last answer stands for missed ones.
BRIDGE = 60.0
# The stabilization window applies to what a member brings back.
WINDOW = 300.0 - 20.0
# Two periods, and the probe that finds the loss.
SLACK = 40.0


async def test_a_member_that_hangs_is_lost_after_five_minutes(tmp_path: Path) -> None:
    """Nothing is scaled down before the loss. After it the others are sized alone, with one event."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(400)
        f.scale(minReplicas=2)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        f.demand(60)  # the right load for two pods
        await f.members["m2"].faults.set(Fault.HANG)
        began = f.now()
        await until(lambda: f.state("m2") == "Missing")
        noticed = f.now() - began
        await until(lambda: f.state("m2") == "Lost", 600)
        lost = f.now() - began
        await until(lambda: f.replicas["m1"] < 4, 600)
        down = f.now() - began
        await asyncio.sleep(2 * LOST_AFTER)

        assert BRIDGE <= noticed <= BRIDGE + SLACK
        assert LOST_AFTER <= lost <= LOST_AFTER + SLACK
        assert down >= LOST_AFTER
        assert f.replicas["m2"] == 4
        assert f.condition("MetricsComplete")[0] == "True"
        (event,) = f.events("ClusterLost")
        assert event["message"].startswith("cluster m2 went missing 3")
        assert " s ago and is no longer expected: " in event["message"]
        assert event["count"] == 1

        await f.members["m2"].faults.clear()
        await until(lambda: f.state("m2") == "Answered")
        returned = f.now()
        await until(lambda: f.status()["currentReplicas"] == 2, 600)
        assert f.total == 2
        assert f.now() - returned >= WINDOW


async def test_the_clock_of_a_loss_survives_a_restart(tmp_path: Path) -> None:
    """The absence before a restart counts after it too."""
    async with federation(tmp_path, m1=4, m2=4) as f:
        f.demand(400)
        f.scale()
        async with f.controller(calm=True) as first:
            await until(lambda: f.condition("MetricsComplete")[0] == "True")
            await f.members["m2"].faults.set(Fault.REFUSE)
            began = f.now()
            await asyncio.sleep(240)
            missing = f.state("m2")
            await first.stop()
        async with f.controller(calm=True):
            await until(lambda: f.state("m2") == "Lost", 600)

        assert missing == "Missing"
        assert LOST_AFTER - SLACK <= f.now() - began <= LOST_AFTER + SLACK


async def away_and_back(f: Federation, seconds: float) -> tuple[str, str]:
    """Make m2 unavailable for four minutes, then available for so long; its state at the end of each."""
    await f.members["m2"].faults.set(Fault.REFUSE)
    await asyncio.sleep(240)
    away = f.state("m2")
    await f.members["m2"].faults.clear()
    await asyncio.sleep(seconds)
    return away, f.state("m2")


async def test_a_member_that_flaps_is_lost_all_the_same(tmp_path: Path) -> None:
    """A return of one minute does not reset the clock of the loss."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(400)
        f.scale()
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        states: list[str] = []
        for _ in range(3):
            states += await away_and_back(f, 60)

        assert states == ["Missing", "Answered", "Lost", "Answered", "Lost", "Answered"]
        assert len(f.events("ClusterLost")) == 2


async def test_the_clock_of_a_flapping_member_survives_a_restart(tmp_path: Path) -> None:
    """A restart does not reset the clock of a loss, which runs only while the member is missing."""
    async with federation(tmp_path, m1=4, m2=4) as f:
        f.demand(400)
        f.scale()
        async with f.controller(calm=True) as first:
            await until(lambda: f.condition("MetricsComplete")[0] == "True")
            await f.members["m2"].faults.set(Fault.REFUSE)
            await asyncio.sleep(240)
            await f.members["m2"].faults.clear()
            await until(lambda: f.state("m2") == "Answered")
            await first.stop()
        async with f.controller():
            await asyncio.sleep(60)
            await f.members["m2"].faults.set(Fault.REFUSE)
            began = f.now()
            await until(lambda: f.state("m2") == "Lost", 600)
        remaining = LOST_AFTER - 240

        assert remaining - SLACK <= f.now() - began <= remaining + SLACK


async def test_metrics_that_stay_away_block_scale_down_only_so_long(tmp_path: Path) -> None:
    """A member without metrics is lost after the same time, but its replicas still count."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(400)
        f.scale(minReplicas=2)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        f.demand(60)
        await f.members["m2"].faults.set(Fault.SERVER_ERROR, ["/apis/metrics.k8s.io"])
        began = f.now()
        await until(lambda: f.state("m2") == "MetricsMissing")
        await until(lambda: f.state("m2") == "MetricsLost", 600)
        lost = f.now() - began
        before = f.total
        await until(lambda: f.total < 8, 900)
        entries = {entry["name"]: entry for entry in f.status()["clusters"]}

        assert LOST_AFTER <= lost <= LOST_AFTER + SLACK
        assert before == 8
        assert len(f.events("ClusterLost")) == 1
        assert entries["m2"]["currentReplicas"] > 0
        assert entries["m2"]["message"]

        await f.members["m2"].faults.clear()
        await until(lambda: f.state("m2") == "Answered")
        await until(lambda: f.total == 2, 900)


async def test_metrics_that_fail_everywhere_are_waited_for(tmp_path: Path) -> None:
    """If no cluster has metrics, none is lost for that, because no data would remain."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(60)
        f.scale()
        for member in f.members.values():
            await member.faults.set(Fault.SERVER_ERROR, ["/apis/metrics.k8s.io"])
        await asyncio.sleep(2 * LOST_AFTER)

        assert {f.state("m1"), f.state("m2")} == {"MetricsMissing"}
        assert f.condition("MetricsComplete")[0] == "False"
        assert f.rescales == []


async def test_min_replicas_waits_for_a_member_that_nobody_has_seen(tmp_path: Path) -> None:
    """An object made while one of three members is away leaves the others alone until that one is lost."""
    async with federation(tmp_path, m1=4, m2=4, m3=4) as f:
        f.demand(600)  # 50 % of 12 pods
        await f.members["m3"].faults.set(Fault.REFUSE)
        async with f.controller(calm=True):
            f.scale(minReplicas=12, maxReplicas=12)
            await until(lambda: f.state("m3") == "Missing")
            await asyncio.sleep(LOST_AFTER / 2)
            waited = f.replicas
            await f.members["m3"].faults.clear()
            await until(lambda: f.state("m3") == "Answered")
            await asyncio.sleep(60)

        assert waited == {"m1": 4, "m2": 4, "m3": 4}
        assert f.replicas == waited
        assert f.rescales == []
