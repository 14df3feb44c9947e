"""A list of pods that does not fit the scale is no number, and is asked for anew."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import Federation, federation, until
from tests.support.federation.planes import NAMESPACE, Member

pytestmark = pytest.mark.looptime(noop_cycles=0)

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PERIOD = 15.0


def lists(member: Member) -> int:
    """The number of lists of the member's pods."""
    return sum(seen.path == PODS and "watch" not in seen.query for seen in member.seen)


async def settle(f: Federation, seconds: float) -> set[int]:
    """The sizes of the workload in so many seconds."""
    sizes = set()
    for _ in range(int(seconds / PERIOD)):
        await asyncio.sleep(PERIOD)
        sizes.add(f.total)
    return sizes


async def test_watch_that_delivers_nothing_is_replaced_by_a_list(tmp_path: Path) -> None:
    """A silent watch of one member does not change the size that the load asks for."""
    async with federation(tmp_path, m1=5, m2=5) as f:
        f.members["m1"].faults.silent = (PODS,)
        f.demand(2000)  # the right load for forty pods
        async with f.controller(calm=True):
            f.scale(maxReplicas=60)
            await until(lambda: f.total == 40, 600)
            f.demand(1000)
            await until(lambda: f.total == 20, 900)
            before = lists(f.members["m1"])
            quiet = await settle(f, 1800)
            after = lists(f.members["m1"])

        assert quiet == {20}
        # A list follows the scale-down. Watches that time out are no reason for more.
        assert after - before <= 1


async def test_half_of_the_pods_scale_nothing_down(tmp_path: Path) -> None:
    """A member that lists half of its pods is missing after half a minute, and listed anew at times."""
    async with federation(tmp_path, m1=10, m2=10) as f:
        f.members["m1"].faults.halved = PODS
        f.demand(850)  # the right load for seventeen pods
        f.scale(maxReplicas=40)
        await until(lambda: f.ready_pods == 20)
        async with f.controller(calm=True):
            await until(lambda: f.state("m1") == "MetricsMissing", 60)
            reason = f.condition("MetricsComplete")
            sizes = await settle(f, 240)
            listed = lists(f.members["m1"])
            f.members["m1"].faults.halved = ""
            sizes |= await settle(f, 180)
            await settle(f, 300)

        assert sizes == {20}
        assert reason[0] == "False"
        assert "its scale has 10 replicas, and 5 pods are listed" in reason[2]
        assert listed == 2
        assert f.state("m1") == "Answered"
        assert f.total == 17
