"""A step of the wall clock changes neither windows nor the clocks of losses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fedhpa.kube import Clock
from tests.support.controller import ControllerWorld, world
from tests.support.nightly import NIGHTLY

pytestmark = pytest.mark.looptime(noop_cycles=0)

WINDOW, PERIOD = 300.0, 5.0
BEHAVIOR = {"scaleDown": {"stabilizationWindowSeconds": 300}}
LIMIT = {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 600}]}}


class SteppingClock:
    """The clock of a world, whose wall time a test can step."""

    def __init__(self, w: ControllerWorld) -> None:
        known = w.clock
        self.ahead = 0.0
        w.clock = Clock(known.monotonic, lambda: known.wall() + self.ahead, boot=known.boot)


async def until_smaller(w: ControllerWorld, size: int) -> float:
    """Seconds until the workload has fewer replicas."""
    now = w.clock.monotonic
    began = now()
    async with asyncio.timeout(2000):
        while sum(w.replicas.values()) >= size:  # noqa: ASYNC110  # another process's state has no event
            await asyncio.sleep(1)
    return now() - began


@pytest.mark.nightly
@pytest.mark.parametrize("step", [360.0, -360.0, 86_400.0, -86_400.0] if NIGHTLY else [86_400.0, -360.0])
async def test_step_leaves_the_stabilization_window(step: float) -> None:
    """The scale-down comes when the window ends by the monotonic clock, neither earlier nor later."""
    async with world(m1=4, m2=4) as w:
        clock = SteppingClock(w)
        w.load(400)
        w.scale(behavior=BEHAVIOR)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(WINDOW)
            w.load(100)
            await asyncio.sleep(60)
            clock.ahead = step
            waited = 60 + await until_smaller(w, 8)

        assert WINDOW - 2 * PERIOD <= waited <= WINDOW + 3 * PERIOD


@pytest.mark.parametrize("step", [700.0, -700.0])
async def test_step_leaves_the_rate_limit(step: float) -> None:
    """A policy's period ends by the monotonic clock."""
    async with world(m1=2, m2=2) as w:
        clock = SteppingClock(w)
        w.load(10_000)
        w.scale(maxReplicas=100, behavior=LIMIT)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(30)
            first = sum(w.replicas.values())
            clock.ahead = step
            await asyncio.sleep(500)
            second = sum(w.replicas.values())
            await asyncio.sleep(100)
            third = sum(w.replicas.values())

        assert (first, second) == (8, 8)
        assert third > 8


async def test_step_leaves_the_clock_of_a_loss() -> None:
    """A member is not lost because the clock stepped, and not expected for longer either."""
    async with world(m1=4, m2=4) as w:
        clock = SteppingClock(w)
        w.load(400)
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(30)
            await w.members["m2"].stop()
            await asyncio.sleep(60)
            clock.ahead = 3600.0
            await asyncio.sleep(60)
            states = [w.state("m2")]
            clock.ahead = -3600.0
            await asyncio.sleep(WINDOW - 120 + 4 * PERIOD)
            states.append(w.state("m2"))

        assert states == ["Missing", "Lost"]


async def test_step_is_logged_once(logs: list[Any]) -> None:
    """One log line reports the step, not one for each object."""
    async with world(m1=4) as w:
        clock = SteppingClock(w)
        w.scale()
        w.scale("other", target="other")
        async with w.controller(sync_period=PERIOD) as controller:
            await w.reconciles(controller, 2)
            clock.ahead = 360.0
            await asyncio.sleep(4 * PERIOD)

        (line,) = [entry for entry in logs if entry["event"].startswith("wall clock stepped")]
        assert line["seconds"] == 360.0
