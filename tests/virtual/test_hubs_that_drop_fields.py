"""On a hub with Karmada's CRDs, which drop our fields, writes are as few, and the decision is explained.

That nothing is forgotten there: test_crashes_forget_nothing.py.
"""

from __future__ import annotations

import asyncio

import pytest

from fedhpa.cli.explain import explanation_of, render
from fedhpa.kube import ApiClient
from tests.support import karmada_crds
from tests.support.controller import HPAS, NAMESPACE, world

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_a_quiet_hour_costs_a_few_writes() -> None:
    """The status is written every ten minutes, as on other hubs, and the record not at all."""
    async with world(m1=2, m2=2) as w:
        karmada_crds.install(w.hub)
        w.load(200)
        w.scale()
        async with w.controller(sync_period=60):
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
        async with w.controller(sync_period=5):
            await asyncio.sleep(60)
        obj = w.hub.find(HPAS, "web", NAMESPACE)
        assert obj is not None
        async with ApiClient(w.hub.config()) as hub:
            found = await explanation_of(hub, obj, w.clock)

        assert found.note == ""
        assert "8 replicas" in render(found, w.clock.wall())
