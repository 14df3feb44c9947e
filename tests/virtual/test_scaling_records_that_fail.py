"""A ScalingRecord that is lost, unreadable or not writable stops no object of mode Centralized."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fedhpa.api.times import format_time
from testbed.embedded.api.types import StatusError
from testbed.embedded.objects.kinds import NAMESPACES
from tests.support.controller import EVENTS, HPAS, NAMESPACE, RECORDS, ControllerWorld, Plane, world
from tests.support.federation import until
from tests.support.federation.distributed import distributed
from tests.support.federation.planes import NAMESPACE as SHOP
from tests.support.federation.planes import Seen
from tests.support.nightly import NIGHTLY
from tests.support.plane_faults import Fault

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


# -- lost --------------------------------------------------------------------------------------------------
async def scaled(w: ControllerWorld) -> None:
    """Let a controller scale once, and stop it."""
    w.load(400)
    w.scale(behavior=BEHAVIOR)
    async with w.controller(sync_period=PERIOD):
        await asyncio.sleep(30)


async def test_a_record_deleted_while_running_is_made_anew() -> None:
    """The process knows the memory, so nothing is lost. The next write restores the record."""
    async with world(m1=2, m2=2) as w:
        w.load(400)
        w.scale(behavior=BEHAVIOR)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            w.hub.remove(RECORDS, NAME, NAMESPACE)
            w.load(600)
            await asyncio.sleep(60)

        assert sum(w.replicas.values()) == 12
        assert w.record()["state"]["size"] == 12
        assert "MemoryLost" not in w.events()


async def test_a_record_deleted_while_away_is_a_fresh_start_with_an_event() -> None:
    """The size holds for a window, as on the first day."""
    async with world(m1=2, m2=2) as w:
        await scaled(w)
        w.hub.remove(RECORDS, NAME, NAMESPACE)
        w.load(200)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(250)
            within = sum(w.replicas.values())
            await asyncio.sleep(120)

        assert (within, sum(w.replicas.values())) == (8, 4)
        assert "is gone; the history begins anew" in w.events("MemoryLost")[0]


GARBAGE = {
    "no version": {"state": {}},
    "another form": {"hello": "world"},
    "text as version": {"version": "1", "state": {}},
    "true as version": {"version": True, "state": {}},
    "a negative version": {"version": -1, "state": {}},
    "version null": {"version": None},
    "no object as state": {"version": 1, "time": 1.0, "state": []},
    "text as size": {"version": 1, "time": 1.0, "state": {"size": "many"}},
    "a negative size": {"version": 1, "time": 1.0, "state": {"size": -4}},
    "a huge size": {"version": 1, "time": 1.0, "state": {"size": 10**12}},
    "text as time": {"version": 1, "time": "yesterday", "state": {}},
    "a time without end": {"version": 1, "time": 1e300, "state": {}},
    "clusters in a list": {"version": 1, "time": 1.0, "state": {"clusters": ["m1"]}},
    "a clock without begin": {"version": 1, "time": 1.0, "state": {"absences": {"m1": {}}}},
    "odd history": {"version": 1, "time": 1.0, "state": {"history": {"recommendations": [4]}}},
    "a decision in a list": {"version": 1, "time": 1.0, "state": {}, "decision": []},
}


@pytest.mark.parametrize("content", list(GARBAGE.values()), ids=list(GARBAGE))
async def test_garbage_is_a_fresh_start_with_an_event(content: dict[str, object]) -> None:
    """The controller scales, says what was lost, and writes a readable record."""
    async with world(m1=2, m2=2) as w:
        await scaled(w)
        w.put_record(content)
        w.load(600)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(30)

        assert sum(w.replicas.values()) == 12
        assert "the history begins anew" in w.events("MemoryLost")[0]
        assert w.condition("Ready")[:2] == ("True", "Reconciled")
        assert w.record()["version"] == 1
        assert w.record()["state"]["size"] == 12


EXTREMES = {
    "the far future": {"version": 1, "time": 3.1e10, "state": {"size": 4}},
    "recommended in the far future": {
        "version": 1,
        "time": 1.0,
        "state": {"history": {"recommendations": [{"time": 3.1e10, "replicas": 5}]}},
    },
    "lost in the far future": {"version": 1, "time": 1.0, "state": {"absences": {"m1": {"since": 3.1e10}}}},
    "clusters that never were": {
        "version": 1,
        "time": 1.0,
        "state": {"clusters": {f"ghost{number}": {"replicas": 2**31 - 1} for number in range(300)}},
    },
    "a state of no name": {"version": 1, "time": 1.0, "state": {"clusters": {"m1": {"state": "Dancing"}}}},
    "a decision of no form": {"version": 1, "time": 1.0, "state": {}, "decision": {"time": 5}},
    "an unknown field": {"version": 1, "time": 1.0, "state": {"size": 8, "newer": {"field": 1}}},
}


@pytest.mark.parametrize("content", list(EXTREMES.values()), ids=list(EXTREMES))
async def test_odd_values_never_stop_an_object(content: dict[str, object]) -> None:
    async with world(m1=2, m2=2) as w:
        await scaled(w)
        w.put_record(content)
        w.load(600)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(120)

        assert sum(w.replicas.values()) == 12
        assert w.condition("Ready")[:2] == ("True", "Reconciled")


async def test_the_record_of_an_earlier_object_is_replaced() -> None:
    """Its memory is not that of the new object. It is deleted only as it was read."""
    async with world(m1=2, m2=2) as w:
        await scaled(w)
        found = w.hub.find(HPAS, "web", NAMESPACE)
        assert found is not None
        metadata = {**found["metadata"], "uid": "another"}
        w.hub.put(HPAS, {**found, "metadata": metadata, "status": {}})
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(30)
        record = w.hub.find(RECORDS, NAME, NAMESPACE)
        assert record is not None

        assert requests(w.hub, "DELETE") == ["DELETE"]
        assert [one["uid"] for one in record["metadata"]["ownerReferences"]] == ["another"]
        assert "MemoryLost" not in [event["reason"] for event in w.hub.all(EVENTS)]


async def test_an_earlier_record_that_cannot_be_deleted_stops_nothing() -> None:
    """The object scales, and says which permission is missing. Then the record is replaced."""
    async with world(m1=2, m2=2) as w:
        await scaled(w)
        w.put_record(w.record(), ownerReferences=[])
        w.hub.refused["DELETE", f"/{NAME}"] = 403
        w.load(600)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            refused, size = w.condition("Ready"), sum(w.replicas.values())
            w.hub.refused.clear()
            w.load(700)
            await asyncio.sleep(60)

        assert size == 12
        assert refused[:2] == ("False", "NoRecord")
        assert "delete" in refused[2]
        assert w.condition("Ready")[0] == "True"
        assert w.record()["state"]["size"] == 14


async def test_a_name_that_is_too_long_is_cut() -> None:
    """The names of two such objects differ, and both are remembered."""
    names = ["w" * 245 + "-1", "w" * 245 + "-2"]
    async with world(m1=2) as w:
        for name in names:
            w.scale(name, target="web")
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(30)
        records = [record["metadata"]["name"] for record in w.hub.all(RECORDS)]

        assert len(set(records)) == 2
        assert all(len(name) <= 253 for name in records)


# -- not writable ------------------------------------------------------------------------------------------
@pytest.mark.nightly
@pytest.mark.parametrize("code", (400, 403, 413, 422, 429, 500, 503, 504) if NIGHTLY else (403, 413, 503))
@pytest.mark.parametrize("request_", [("POST", "/scalingrecords"), ("PUT", STATUS)], ids=["create", "write"])
async def test_a_refused_record_stops_no_scale(code: int, request_: tuple[str, str]) -> None:
    """Ready shows the refusal, and nothing of it once the hub accepts the record."""
    async with world(m1=2, m2=2) as w:
        w.hub.refused[request_] = code
        w.load(400)
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            size, refused = sum(w.replicas.values()), w.condition("Ready")
            w.hub.refused.clear()
            await asyncio.sleep(60)

        assert size == 8
        assert refused[:2] == ("False", "NoRecord")
        assert f"ScalingRecord {NAMESPACE}/{NAME} cannot be written" in refused[2]
        assert w.condition("Ready")[:2] == ("True", "Reconciled")
        assert w.record()["state"]["size"] == 8


async def test_a_hub_without_the_kind_names_the_remedy() -> None:
    """The hub is asked for the record once a minute, and not at every reconcile."""
    async with world(m1=2, m2=2) as w:
        w.hub.refused["GET", f"/{NAME}"] = w.hub.refused["POST", "/scalingrecords"] = 404
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(300)

        assert "fedhpa crds --records" in w.condition("Ready")[2]
        assert 4 <= len(requests(w.hub, "POST")) <= 6


async def test_a_record_that_may_not_be_read_stops_no_scale() -> None:
    async with world(m1=2, m2=2) as w:
        w.hub.refused["GET", f"/{NAME}"] = w.hub.refused["POST", "/scalingrecords"] = 403
        w.load(400)
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)

        assert sum(w.replicas.values()) == 8
        assert w.condition("Ready")[:2] == ("False", "NoRecord")
        assert "scalingrecords.fedhpa.io" in w.condition("Ready")[2]


@pytest.mark.parametrize("code", [403, 404, 413, 500])
async def test_mode_distributed_does_not_begin_without_a_record(tmp_path: Path, code: int) -> None:
    """No member HPA is created until the hub stores the record."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        hub = d.f.hub
        refused = True

        async def refuse(seen: Seen) -> None:
            if refused and seen.method == "POST" and seen.path.endswith("/scalingrecords"):
                raise StatusError(code, "Refused", "not now")

        hub.before = refuse
        d.f.demand(300)
        async with d.f.controller(calm=True):
            d.scale(minReplicas=2, maxReplicas=12)
            await asyncio.sleep(300)
            held, written = d.f.condition("Ready"), d.writes()
            refused = False
            await until(lambda: d.f.condition("Assigned")[0] == "True", 300)

        assert held[0] == "False"
        assert "ScalingRecord" in held[2]
        assert written == []
        assert d.maximum == 12


async def test_a_leader_that_stops_waits_two_seconds_at_most() -> None:
    """A hub that does not answer the last records does not hold up the next leader."""
    async with world(m1=4, m2=4) as w:
        w.load(400)
        w.scale(behavior=BEHAVIOR)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(300)
            w.load(200)
            await asyncio.sleep(2 * PERIOD)
            w.load(150)
            await asyncio.sleep(2 * PERIOD)
            w.hub.held.add(("PUT", STATUS))
            began = w.clock.monotonic()
        took = w.clock.monotonic() - began

        assert 1.9 <= took <= 2.5


async def test_a_deletion_without_a_memory_waits_for_every_member(tmp_path: Path) -> None:
    """The record is lost, so any member may have an HPA. The one that does not answer at first has one."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        store = d.f.hub.server.store
        async with d.f.controller() as first:
            await d.begin()
            await first.stop()
        store.delete(ON_HUB, SHOP, NAME)
        await d.f.members["m2"].faults.set(Fault.REFUSE)
        d.delete()
        async with d.f.controller():
            await asyncio.sleep(120)
            waiting = d.object
            await d.f.members["m2"].faults.clear()
            await until(lambda: d.object is None, 300)

        assert waiting is not None
        assert set(d.bounds.values()) == {None}


async def test_no_rebalance_begins_without_a_record() -> None:
    """It begins as soon as the hub stores the record."""
    async with world(m1=6, m2=2) as w:
        w.load(400)
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            w.hub.refused["PUT", STATUS] = 403
            w.load(450)  # the next record is refused
            await asyncio.sleep(60)
            found = w.hub.find(HPAS, "web", NAMESPACE)
            assert found is not None
            asked = {"autoscaling.karmada.io/rebalance": format_time(w.clock.wall())}
            w.hub.put(HPAS, {**found, "metadata": {**found["metadata"], "annotations": asked}})
            await asyncio.sleep(60)
            before = w.replicas
            w.hub.refused.clear()
            await asyncio.sleep(300)

        assert before == {"m1": 6, "m2": 3}
        assert sorted(w.replicas.values()) == [4, 5]


async def test_an_object_in_a_namespace_that_is_deleted_is_served_to_the_end(tmp_path: Path) -> None:
    """The hub creates nothing there. The member HPAs still go."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        store = d.f.hub.server.store
        async with d.f.controller():
            await d.begin()
            store.delete(NAMESPACES, "", SHOP)
            await until(lambda: d.object is None, 300)

        assert set(d.bounds.values()) == {None}
        assert store.find(ON_HUB, SHOP, NAME) is None
