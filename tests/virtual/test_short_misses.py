"""A member that is away for less than a minute is represented by its last answer, and nothing flaps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.federation import federation, until
from tests.support.plane_faults import Fault

pytestmark = pytest.mark.looptime(noop_cycles=0)

NO_WINDOW = {"scaleDown": {"stabilizationWindowSeconds": 0}}


def entry(status: dict[str, Any], cluster: str) -> dict[str, Any]:
    """The entry of a cluster in status.clusters."""
    found: dict[str, Any] = next(one for one in status["clusters"] if one["name"] == cluster)
    return found


async def test_the_status_says_how_old_the_answer_is(tmp_path: Path) -> None:
    """With a minute since the last write, the status names the age and the reason."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(400)
        f.scale()
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        await asyncio.sleep(120)

        await f.members["m2"].faults.set(Fault.REFUSE)
        await until(lambda: "message" in entry(f.status(), "m2"), 60)

        message = entry(f.status(), "m2")["message"]
        assert message.startswith("represented by its answer of ")
        assert message.endswith("cannot connect: Connection refused")


async def test_the_load_of_a_silent_member_is_not_taken_for_gone(tmp_path: Path) -> None:
    """The answering member shrinks to its part, and the silent one, whose load grew, keeps its pods."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True) as controller:
        f.demand(400)
        f.scale(behavior=NO_WINDOW)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        f.demand(80)  # for two pods
        await f.members["m2"].faults.set(Fault.REFUSE)
        await controller.more_reconciles(3)

        assert f.replicas["m2"] == 4
        assert f.replicas["m1"] >= 1


async def test_a_member_that_comes_and_goes_changes_nothing(tmp_path: Path) -> None:
    """For some minutes it is away for 50 s of each: it is never missed, no size changes, no event comes."""
    async with federation(tmp_path, m1=4, m2=4, m3=4) as f, f.controller(calm=True) as controller:
        f.demand(600)
        f.scale(behavior=NO_WINDOW)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        await controller.more_reconciles(4)
        f.rescales.clear()

        states = set()
        for _ in range(5):
            await f.members["m3"].faults.set(Fault.REFUSE)
            await asyncio.sleep(50)
            states.add(f.state("m3"))
            await f.members["m3"].faults.clear()
            await asyncio.sleep(20)
            states.add(f.state("m3"))

        assert states == {"Answered"}
        assert f.rescales == []
        assert f.events("ClusterMissing") == []
        assert f.events("ClusterLost") == []


async def test_a_second_loss_is_failed_over_after_its_own_time(tmp_path: Path) -> None:
    """A member that was back for half a minute is lost at once, but its replicas wait."""
    async with federation(tmp_path, m1=4, m2=4, m3=4) as f, f.controller(calm=True) as controller:
        f.demand(600)
        f.scale(maxReplicas=12, minReplicas=12, partialMetrics={"lostAfterSeconds": 120})
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        await f.members["m3"].faults.set(Fault.REFUSE)
        await until(lambda: f.replicas["m1"] + f.replicas["m2"] == 12, 300)
        await f.members["m3"].faults.clear()
        await until(lambda: f.state("m3") == "Answered", 60)
        await controller.more_reconciles(2)
        failed_over = len(f.events("FailedOver"))

        await f.members["m3"].faults.set(Fault.REFUSE)
        began = f.now()
        await until(lambda: f.state("m3") == "Lost", 200)

        assert f.now() - began < 120
        assert len(f.events("FailedOver")) == failed_over
