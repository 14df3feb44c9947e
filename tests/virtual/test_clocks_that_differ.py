"""A clock that is wrong changes no size: that of a member, or that of the next leader."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import federation, until

pytestmark = pytest.mark.looptime(noop_cycles=0)

AHEAD = 600.0
PERIOD = 15.0
DELAY = 180.0
LIMIT = {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 900}]}}


@pytest.mark.parametrize("ahead", [AHEAD, -AHEAD])
async def test_pods_wait_for_nodes_by_the_clock_of_their_member(tmp_path: Path, ahead: float) -> None:
    """A full member is Stuck after the delay, although its clock is ten minutes off."""
    async with federation(tmp_path, ahead={"m2": ahead}, cpu={"m2": "0.2"}, m1=2, m2=2) as f:
        f.demand(200)
        f.scale(maxReplicas=20)
        async with f.controller(calm=True):
            await until(lambda: f.condition("Ready")[0] == "True")
            f.demand(400)
            await until(lambda: f.replicas["m2"] > 2)
            began = f.now()
            await until(lambda: f.events("ClusterStuck"), 2000)
            waited = f.now() - began

    assert DELAY <= waited <= DELAY + 3 * PERIOD


@pytest.mark.parametrize("ahead", [AHEAD, -AHEAD])
async def test_next_leader_keeps_the_window_by_the_clock_of_the_hub(tmp_path: Path, ahead: float) -> None:
    """The scale-down comes after the window, whatever clock the next leader has."""
    async with federation(tmp_path, m1=4, m2=4) as f:
        f.demand(400)
        f.scale()
        async with f.controller(calm=True) as first:
            await until(lambda: f.condition("Ready")[0] == "True")
            await asyncio.sleep(120)
            f.demand(100)
            began = f.now()
            await asyncio.sleep(60)
            await first.stop()
        async with f.controller(calm=True, ahead=ahead):
            await until(lambda: f.total < 8, 2000)
            waited = f.now() - began

    assert 300 - 2 * PERIOD <= waited <= 300 + 4 * PERIOD


@pytest.mark.parametrize("ahead", [AHEAD, -AHEAD])
async def test_next_leader_uses_no_rate_twice(tmp_path: Path, ahead: float) -> None:
    """The replicas that a policy allowed the former leader are not allowed again within its period."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        f.demand(5000)
        f.scale(maxReplicas=60, behavior=LIMIT)
        async with f.controller(calm=True) as first:
            await until(lambda: f.total == 8)
            began = f.now()
            await asyncio.sleep(60)
            await first.stop()
        async with f.controller(calm=True, ahead=ahead):
            await until(lambda: f.total > 8, 2000)
            waited = f.now() - began

    assert 900 - PERIOD <= waited <= 900 + 4 * PERIOD
