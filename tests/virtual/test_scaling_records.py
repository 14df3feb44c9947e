"""The ScalingRecord of a FederatedHPA: when it is read and written, and in which order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from controller.shards import CRON
from testbed.embedded.storage.store import Change
from tests.support.controller import NAMESPACE, Plane, world
from tests.support.federation import federation
from tests.support.federation.distributed import distributed
from tests.support.federation.planes import NAMESPACE as SHOP
from tests.support.federation.planes import Object, Seen

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


# -- when --------------------------------------------------------------------------------------------------
async def test_the_record_is_read_once_and_never_watched() -> None:
    """One GET at the first reconcile is the only read of an hour."""
    async with world(m1=2, m2=2) as w:
        w.scale()
        async with w.controller(sync_period=12 * PERIOD):
            await asyncio.sleep(3600)

        assert requests(w.hub, "GET") == ["GET"]
        assert [seen for seen in w.hub.seen if seen.path.endswith("/scalingrecords")][1:] == []


async def test_a_quiet_hour_writes_no_record() -> None:
    async with world(m1=2, m2=2) as w:
        w.load(200)
        w.scale()
        async with w.controller(sync_period=12 * PERIOD):
            await asyncio.sleep(600)
            before = len(requests(w.hub))
            await asyncio.sleep(3600)

            assert len(requests(w.hub)) == before


async def test_a_scale_is_recorded_before_the_status() -> None:
    """The write of the record is answered before the status is sent."""
    async with world(m1=2, m2=2) as w:
        w.load(200)
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            w.hub.seen.clear()
            w.load(400)
            await asyncio.sleep(2 * PERIOD)
        writes = [path.rpartition(NAMESPACE)[2] for path in w.hub.writes if "/status" in path]

        assert w.replicas == {"m1": 4, "m2": 4}
        assert writes[:2] == ["/scalingrecords" + STATUS, "/federatedhpas/web/status"]


async def test_an_unanswered_record_does_not_hold_up_the_scale() -> None:
    """A hub that never answers the write delays the status, for at most one deadline."""
    async with world(m1=2, m2=2) as w:
        w.load(400)
        w.hub.held.add(("PUT", STATUS))
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(90)

            assert w.replicas == {"m1": 4, "m2": 4}
            assert w.condition("Ready")[:2] == ("False", "NoRecord")
            w.hub.held.clear()
            await asyncio.sleep(60)

            assert w.condition("Ready")[:2] == ("True", "Reconciled")
            assert w.record()["state"]["size"] == 8


async def test_the_clusters_of_member_hpas_are_recorded_first(tmp_path: Path) -> None:
    """When the first HPA is created, the record says of both clusters that they are about to hold one."""
    found: list[object] = []
    async with distributed(tmp_path, m1=4, m2=2) as d:
        store = d.f.hub.server.store

        async def look(seen: Seen) -> None:
            if seen.method == "POST" and seen.path.endswith("/horizontalpodautoscalers"):
                record = store.find(ON_HUB, SHOP, NAME) or {}
                clusters = record["status"]["state"]["clusters"]
                found.append({name: one.get("holdsHpa") for name, one in clusters.items()})

        for member in d.f.members.values():
            member.before = look
        async with d.f.controller(calm=True):
            await d.begin()
        clusters = store.get(ON_HUB, SHOP, NAME)["status"]["state"]["clusters"]

        assert found[0] == {"m1": True, "m2": True}
        assert [one.get("holdsHpa") for one in clusters.values()] == [None, None]


# -- beside Karmada ----------------------------------------------------------------------------------------
def specification(record: Object) -> Object:
    """A record without what Karmada's detector ignores (pkg/util/eventfilter, SpecificationChanged)."""
    ignored = {"managedFields", "resourceVersion"}
    metadata = {key: value for key, value in record["metadata"].items() if key not in ignored}
    return {**{key: value for key, value in record.items() if key != "status"}, "metadata": metadata}


async def test_karmadas_detector_sees_only_new_records(tmp_path: Path) -> None:
    """It ignores changes of a status, and scales, rules and windows change nothing else."""
    created: list[str] = []
    written: list[str] = []
    changed: list[tuple[Object, Object]] = []

    def look(change: Change) -> None:
        if change.collection == ON_HUB and change.type == "ADDED":
            created.append(change.name)
        elif change.collection == ON_HUB and change.type == "MODIFIED" and change.old is not None:
            written.append(change.name)
            before, after = specification(change.old), specification(change.object)
            if before != after:
                changed.append((before, after))

    window = {"name": "day", "schedule": "*/10 * * * *", "targetMinReplicas": 6, "duration": "4m"}
    target = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}
    rules = {
        "apiVersion": target["apiVersion"],
        "kind": "CronFederatedHPA",
        "metadata": {"namespace": SHOP, "name": "office"},
        "spec": {"scaleTargetRef": target, "rules": [window]},
    }
    async with federation(tmp_path, m1=2, m2=2) as f:
        store = f.hub.server.store
        store.subscribe(look)
        f.scale(behavior=BEHAVIOR)
        store.create(("autoscaling.karmada.io", "cronfederatedhpas"), rules)
        async with f.controller(calm=True), f.controller(calm=True, kind=CRON):
            for demand in (200, 500, 200):
                f.demand(demand)
                await asyncio.sleep(720)

    kinds = {name.partition(".")[0] for name in created}
    assert kinds == {"federatedhpa", "cronfederatedhpa", "cron-target"}
    assert {name: written.count(name) >= 2 for name in created} == dict.fromkeys(created, True)
    assert changed == []


# -- two processes -----------------------------------------------------------------------------------------
async def test_two_leaders_overwrite_nothing() -> None:
    """Both act for two minutes. Each write follows from the one before, and sizes stay right."""
    async with world(m1=2, m2=2) as w:
        w.load(200)
        w.scale(behavior=BEHAVIOR)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            async with w.controller(sync_period=PERIOD, concurrent_syncs=1):
                for load in (400, 300, 500, 200):
                    w.load(load)
                    await asyncio.sleep(30)
                sizes = sum(w.replicas.values())
            w.load(500)
            await asyncio.sleep(60)

        assert sizes == 10
        assert sum(w.replicas.values()) == 10
        assert w.record()["state"]["size"] == 10


async def test_a_conflict_drops_the_memory() -> None:
    """The record that another process wrote is read and decided on, and stays as the base."""
    async with world(m1=2, m2=2) as w:
        w.load(200)
        w.scale(behavior=BEHAVIOR)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            record = w.record()
            high = {"time": w.clock.wall(), "replicas": 12}
            recommendations = [*record["state"]["history"]["recommendations"], high]
            state = {
                **record["state"],
                "history": {**record["state"]["history"], "recommendations": recommendations},
            }
            w.put_record({**record, "state": state})
            w.load(250)
            await asyncio.sleep(60)
            kept = [one["replicas"] for one in w.record()["state"]["history"]["recommendations"]]

        assert requests(w.hub, "GET") == ["GET"] * 3
        assert 12 in kept


async def test_a_label_on_the_record_is_no_write_of_another_process() -> None:
    """Karmada labels what it watches. The memory stays, the next write succeeds, and nothing is logged."""
    async with world(m1=2, m2=2) as w:
        w.load(200)
        w.scale(behavior=BEHAVIOR)
        with capture_logs() as lines:
            async with w.controller(sync_period=PERIOD):
                await asyncio.sleep(60)
                w.put_record(w.record(), labels={"resourcetemplate.karmada.io/managed": "no"})
                w.load(500)
                await asyncio.sleep(60)
                size = w.record()["state"]["size"]

        assert size == 10
        assert requests(w.hub, "GET") == ["GET", "GET"]
        assert [line["event"] for line in lines if "another process" in line["event"]] == []


async def test_a_conflict_of_an_intent_drops_the_memory(tmp_path: Path) -> None:
    """Mode Distributed reads the record again, and then creates the HPA of a cluster that joins."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        store = d.f.hub.server.store
        d.f.part("m2")
        async with d.f.controller(calm=True):
            await d.begin()
            await asyncio.sleep(60)
            record = store.get(ON_HUB, SHOP, NAME)
            store.update(ON_HUB, {**record, "metadata": {**record["metadata"], "labels": {"by": "another"}}})
            d.f.join("m2")
            await asyncio.sleep(600)

            assert d.hpa("m2") is not None
            assert store.get(ON_HUB, SHOP, NAME)["metadata"]["labels"] == {"by": "another"}
