"""ScalingRecords that a process of another release wrote."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.controller import ControllerWorld, Plane, world
from tests.support.federation.distributed import distributed
from tests.support.federation.planes import NAMESPACE as SHOP

pytestmark = pytest.mark.looptime(noop_cycles=0)

PERIOD, NAME = 5.0, "federatedhpa.web"
STATUS = f"/{NAME}/status"
ON_HUB = ("fedhpa.io", "scalingrecords")
BEHAVIOR = {"scaleDown": {"stabilizationWindowSeconds": 300}}


def requests(hub: Plane, method: str = "") -> list[str]:
    """The requests to records, by method."""
    return [
        seen.method for seen in hub.seen if "/scalingrecords" in seen.path and method in ("", seen.method)
    ]


async def scaled(w: ControllerWorld) -> None:
    """Let a controller scale once, and stop it."""
    w.load(400)
    w.scale(behavior=BEHAVIOR)
    async with w.controller(sync_period=PERIOD):
        await asyncio.sleep(60)


async def test_a_record_of_another_release_stays_as_it_is() -> None:
    """Mode Centralized scales and says which version there is."""
    async with world(m1=2, m2=2) as w:
        await scaled(w)
        newer = {"version": 2, "something": ["else"]}
        w.put_record(newer)
        w.load(600)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)

        assert w.record() == newer
        assert sum(w.replicas.values()) == 12
        assert w.condition("Ready")[:2] == ("False", "NoRecord")
        assert "version 2" in w.condition("Ready")[2]


async def test_mode_distributed_waits_for_a_version_that_it_knows(tmp_path: Path) -> None:
    """Nothing is written to a member, until the record can be read again."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        store = d.f.hub.server.store
        async with d.f.controller(calm=True) as first:
            await d.begin()
            await first.stop()
        record = store.get(ON_HUB, SHOP, NAME)
        store.update(ON_HUB, {**record, "status": {"version": 2}})
        began = d.f.now()
        d.change(maxReplicas=20)
        async with d.f.controller(calm=True) as second:
            await asyncio.sleep(300)
            held, written = d.f.condition("Ready"), d.writes(began)
            assert store.get(ON_HUB, SHOP, NAME)["status"] == {"version": 2}
            await second.stop()
        found = store.get(ON_HUB, SHOP, NAME)
        store.update(ON_HUB, {**found, "status": record["status"]})
        async with d.f.controller(calm=True):
            await asyncio.sleep(300)

        assert held[:2] == ("False", "NoRecord")
        assert written == []
        assert d.maximum == 20


async def test_a_process_that_does_not_know_a_field_reads_the_others() -> None:
    """Fields that are only added keep the version, so an older process goes on with what it knows."""
    async with world(m1=2, m2=2) as w:
        await scaled(w)
        record = w.record()
        state = {**record["state"], "newerField": {"of": "a later release"}}
        w.put_record({**record, "state": state, "another": 1})
        w.load(200)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(200)
            within = sum(w.replicas.values())
            await asyncio.sleep(120)

        assert (within, sum(w.replicas.values())) == (8, 4)
        assert w.events("MemoryLost") == []
        assert w.condition("Ready")[:2] == ("True", "Reconciled")
