"""A restart neither shortens nor extends the five minutes of a recommendation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import Federation, federation, until

pytestmark = pytest.mark.looptime(noop_cycles=0)

WINDOW, PERIOD = 300.0, 15.0
HIGH, LOW = 400, 100  # the right loads for 8 pods and for 2
# One reconcile, and the time until a Lease expires.
SLACK = PERIOD + 5.0


async def settled_high(f: Federation) -> None:
    """Let the workload need 8 pods for longer than the window."""
    f.demand(HIGH)
    f.scale()
    await until(lambda: f.total == 8)
    await asyncio.sleep(WINDOW + 2 * PERIOD)


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_restart_in_the_window_scales_down_when_the_window_ends(tmp_path: Path, end: str) -> None:
    """After a restart the scale-down comes when the window ends, neither earlier nor later."""
    async with federation(tmp_path, m1=4, m2=4) as f:
        async with f.controller(calm=end == "stop") as first:
            await settled_high(f)
            dropped = f.now()
            f.demand(LOW)
            await asyncio.sleep(WINDOW / 2)
            await (first.stop() if end == "stop" else first.kill())
        async with f.controller(calm=end == "stop") as second:
            await until(lambda: second.leads)
            led = f.now()
            await until(lambda: f.total < 8, WINDOW * 2)
            down = f.now()

        assert f.total == 2
        assert WINDOW - PERIOD <= down - dropped <= WINDOW + SLACK
        assert down - led < WINDOW
        # The killed leader's Lease must expire first.
        assert led - dropped - WINDOW / 2 < (5 if end == "stop" else 30)


async def test_many_restarts_in_one_window(tmp_path: Path) -> None:
    """Many changes of leader neither shrink nor extend the window."""
    async with federation(tmp_path, m1=4, m2=4) as f:
        async with f.controller(calm=True) as controller:
            await settled_high(f)
            await controller.stop()
        dropped = f.now()
        f.demand(LOW)
        leaders = 0
        while f.total == 8:
            async with f.controller(calm=True) as controller:
                leaders += 1
                await controller.more_reconciles(4)
                await controller.stop()

        assert leaders >= 5
        assert WINDOW - PERIOD <= f.rescales[-1].at - dropped <= WINDOW + SLACK
        assert f.total == 2


async def test_a_long_absence_forgets_the_window(tmp_path: Path) -> None:
    """A recommendation that is older than five minutes delays no scale-down."""
    async with federation(tmp_path, m1=4, m2=4) as f:
        async with f.controller(calm=True) as controller:
            await settled_high(f)
            await controller.stop()
        f.demand(LOW)
        await asyncio.sleep(3600)
        began = f.now()
        async with f.controller(calm=True):
            await until(lambda: f.total < 8)

        assert f.total == 2
        assert f.now() - began < 2 * PERIOD
