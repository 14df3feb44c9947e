"""The next leader knows the last recommendation of a leader that stopped or crashed."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import karmada_crds
from tests.support.controller import ControllerWorld, world

pytestmark = pytest.mark.looptime(noop_cycles=0)

WINDOW, PERIOD = 300.0, 5.0
BEHAVIOR = {"scaleDown": {"stabilizationWindowSeconds": 300}}
HIGH, PEAK, LOW = 1000, 800, 250  # the right loads for 20, 16 and 5 pods


async def peak_at_the_end_of_the_window(w: ControllerWorld, *, crash: bool) -> None:
    """Run a leader until the window of 20 pods is about to end, with a short peak just before."""
    w.load(HIGH)
    w.scale(behavior=BEHAVIOR)
    async with w.controller(sync_period=PERIOD):
        await asyncio.sleep(WINDOW / 5)
        w.load(LOW)
        await asyncio.sleep(WINDOW - 50)
        w.load(LOW + 10)  # this is written, and the next change of usage would have to wait for a minute
        await asyncio.sleep(20)
        w.load(PEAK)
        await asyncio.sleep(PERIOD)
        w.load(LOW)
        await asyncio.sleep(2 * PERIOD)
        if crash:
            w.hub.refused["PUT", "/federatedhpa.web/status"] = 503
    w.hub.refused.clear()


@pytest.mark.parametrize("drops_fields", [False, True], ids=["our CRDs", "Karmada's CRDs"])
@pytest.mark.parametrize("crash", [True, False])
async def test_peak_just_before_the_end_is_remembered(crash: bool, drops_fields: bool) -> None:
    """The peak of 16 pods within the window holds the size after a restart, too."""
    async with world(m1=10, m2=10) as w:
        if drops_fields:
            karmada_crds.install(w.hub)
        await peak_at_the_end_of_the_window(w, crash=crash)
        async with w.controller(sync_period=4 * PERIOD):
            await asyncio.sleep(60)
            after = sum(w.replicas.values())
            await asyncio.sleep(WINDOW)

        assert ("clusters" in w.status()) != drops_fields
        assert after == 16
        assert sum(w.replicas.values()) == 5


async def let_the_load_fall_twice(w: ControllerWorld) -> None:
    """A full window at 8 pods, and then two lower loads within less than a minute."""
    w.load(400)
    w.scale(behavior=BEHAVIOR)
    await asyncio.sleep(WINDOW)
    w.load(200)
    await asyncio.sleep(2 * PERIOD)
    w.load(150)
    await asyncio.sleep(2 * PERIOD)


async def test_leader_that_stops_leaves_its_newest_recommendation() -> None:
    """A stop writes what changed since the last record."""
    async with world(m1=4, m2=4) as w:
        async with w.controller(sync_period=PERIOD):
            await let_the_load_fall_twice(w)
        assert w.record()["state"]["history"]["recommendations"][-1]["replicas"] == 3


async def test_stop_does_not_overwrite_the_next_leaders_record() -> None:
    """A leader that ends late keeps the record that the next leader wrote."""
    async with world(m1=4, m2=4) as w:
        async with w.controller(sync_period=PERIOD):
            await let_the_load_fall_twice(w)
            newer = {**w.record(), "time": 1.0}
            w.put_record(newer)

        assert w.record() == newer
