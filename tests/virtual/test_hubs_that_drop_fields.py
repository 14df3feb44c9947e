"""On a hub with Karmada's CRDs, which drop our fields, a restart of the controller forgets nothing."""

from __future__ import annotations

import asyncio

import pytest

from fedhpa.cli.explain import explanation_of, render
from fedhpa.kube import ApiClient
from tests.support import karmada_crds
from tests.support.controller import HPAS, NAMESPACE, world
from tests.virtual.test_crashes_forget_nothing import (
    BEHAVIOR,
    HIGH,
    LOW,
    PERIOD,
    WINDOW,
    peak_at_the_end_of_the_window,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)


@pytest.mark.parametrize("crash", [True, False])
async def test_peak_just_before_the_end_is_remembered(crash: bool) -> None:
    """The peak of 16 pods within the window holds the size after a restart, too."""
    async with world(m1=10, m2=10) as w:
        karmada_crds.install(w.hub)
        await peak_at_the_end_of_the_window(w, crash=crash)
        async with w.controller(sync_period=4 * PERIOD):
            await asyncio.sleep(60)
            after = sum(w.replicas.values())
            await asyncio.sleep(WINDOW)

        assert "clusters" not in w.status()
        assert after == 16
        assert sum(w.replicas.values()) == 5


async def test_window_holds_over_a_restart() -> None:
    """The 20 pods of the window stay after a restart, and 5 follow when the window is over."""
    async with world(m1=10, m2=10) as w:
        karmada_crds.install(w.hub)
        w.load(HIGH)
        w.scale(behavior=BEHAVIOR)
        async with w.controller(sync_period=2 * PERIOD):
            await asyncio.sleep(WINDOW / 5)
            w.load(LOW)
            await asyncio.sleep(WINDOW / 2)
        async with w.controller(sync_period=2 * PERIOD):
            await asyncio.sleep(WINDOW / 3)
            within = sum(w.replicas.values())
            await asyncio.sleep(WINDOW / 2)

        assert within == 20
        assert sum(w.replicas.values()) == 5


async def test_a_quiet_hour_costs_a_few_writes() -> None:
    """The status is written every ten minutes, as on other hubs, and the record not at all."""
    async with world(m1=2, m2=2) as w:
        karmada_crds.install(w.hub)
        w.load(200)
        w.scale()
        async with w.controller(sync_period=12 * PERIOD):
            await asyncio.sleep(600)
            before = w.hub.request_count("PUT", "/federatedhpa.web/status"), w.status_writes
            await asyncio.sleep(3600)
            records = w.hub.request_count("PUT", "/federatedhpa.web/status") - before[0]
            statuses = w.status_writes - before[1]

        assert (records, statuses) == (0, 6)


async def test_explain_shows_the_decision() -> None:
    """It is in the record, which the hub keeps."""
    async with world(m1=2, m2=2) as w:
        karmada_crds.install(w.hub)
        w.load(400)
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
        obj = w.hub.find(HPAS, "web", NAMESPACE)
        assert obj is not None
        async with ApiClient(w.hub.config()) as hub:
            found = await explanation_of(hub, obj, w.clock)

        assert found.note == ""
        assert "8 replicas" in render(found, w.clock.wall())
