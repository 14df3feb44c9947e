"""Failures of the hub, of members and of single objects show in series, and in few lines of the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.hub_check import CRD_PATH
from controller.shards import Shard, ShardElection
from fedhpa.kube.client import ApiClient
from tests.support.controller import HPAS, LEASES, ControllerWorld, federated_hpa, world
from tests.support.fakeapi import eventually
from tests.support.timing import background

pytestmark = pytest.mark.looptime(noop_cycles=0)

PERIOD = 5.0
COUNT = 10


def many(w: ControllerWorld) -> None:
    """Put several autoscalers on the hub, each with a workload."""
    for number in range(COUNT):
        name = f"web-{number}"
        w.members["m1"].deploy(2, name=name, app=name)
        w.hub.put(HPAS, federated_hpa(name, target=name))


def lines(logs: list[Any], *events: str) -> list[Any]:
    return [entry for entry in logs if entry["event"] in events and entry["log_level"] != "debug"]


async def test_hub_that_goes_and_returns_is_two_lines(logs: list[Any]) -> None:
    """A hub that stores no status is one line for all objects and reconciles, and its return another."""
    async with world(m1=2) as w:
        many(w)
        async with w.controller(sync_period=PERIOD) as controller:
            await asyncio.sleep(60)
            w.hub.refused["PUT", "/status"] = 503
            for milli in (60, 70, 80, 90, 60, 70, 80):
                w.members["m1"].use(milli)
                await asyncio.sleep(60)
            failed = controller.total("fedhpa_controller_status_write_failures_total")
            age = controller.value("fedhpa_controller_seconds_since_success", "web-1")
            w.hub.refused.clear()
            await asyncio.sleep(60)
            fresh = controller.value("fedhpa_controller_seconds_since_success", "web-1")

        (gone,) = lines(logs, "the hub stores no status")
        (back,) = lines(logs, "the hub stores statuses again")
        assert lines(logs, "status not written") == []
        assert gone["log_level"] == "warning"
        assert back["failed_writes"] == failed > COUNT
        assert age is not None
        assert age > 60
        assert fresh is not None
        assert fresh <= 2 * PERIOD


async def test_refused_status_of_one_object_is_one_line(logs: list[Any]) -> None:
    """A refusal that concerns one object names it, once."""
    async with world(m1=2) as w:
        w.hub.refused["PUT", "/web/status"] = 403
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(20 * PERIOD)

        (line,) = lines(logs, "status not written")
        assert (line["namespace"], line["name"]) == ("shop", "web")


async def test_newest_reason_of_a_member_is_logged(logs: list[Any]) -> None:
    """A member that is missing for another reason than first is logged again, with that reason."""
    async with world(m1=2, m2=2) as w:
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(30)
            w.members["m2"].faults.status["/apis/metrics.k8s.io"] = 500
            await asyncio.sleep(30)
            await w.members["m2"].stop()
            await asyncio.sleep(120)

        first, *others = lines(logs, "cluster missing", "cluster still missing")
        assert first["event"] == "cluster missing"
        assert 1 <= len(others) <= 2
        assert "cannot connect" in others[-1]["reason"]


async def test_failed_writes_of_scales_are_counted_by_cluster() -> None:
    """The series names the cluster that refuses."""
    async with world(m1=2, m2=2) as w:
        w.load(1000)
        w.members["m2"].refused["PUT", "/scale"] = 403
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with w.controller() as controller:
            await eventually(lambda: w.events("FailedRescale"))
            series = "fedhpa_controller_scale_write_failures_total"
            found = controller.series.get_sample_value(series, {"cluster": "m2"})
            other = controller.series.get_sample_value(series, {"cluster": "m1"})

        assert found
        assert other is None


async def test_object_shows_its_bounds_lateness_and_age() -> None:
    """Bounds, lateness and the time since the last success exist while the object does."""
    async with world(m1=2) as w:
        w.scale(minReplicas=2, maxReplicas=7)
        async with w.controller(sync_period=PERIOD) as controller:
            await asyncio.sleep(4 * PERIOD)
            shown = [
                controller.value(f"fedhpa_controller_{name}")
                for name in ("min_replicas", "max_replicas", "current_replicas")
            ]
            age = controller.value("fedhpa_controller_seconds_since_success")
            lateness = controller.total("fedhpa_controller_reconcile_lateness_seconds_count")
            w.hub.remove(HPAS, "web", "shop")
            await asyncio.sleep(1)
            gone = controller.value("fedhpa_controller_seconds_since_success")

        assert shown == [2, 7, 2]
        assert age is not None
        assert 0 <= age <= PERIOD
        assert lateness >= 3
        assert gone is None


async def test_age_of_an_object_that_cannot_be_decided_grows() -> None:
    """The age of an object without any decision grows."""
    async with world(m1=2) as w:
        w.scale(target="absent", clusterAffinity={"clusterNames": ["m1"]})
        async with w.controller(sync_period=PERIOD) as controller:
            await asyncio.sleep(100)

            age = controller.value("fedhpa_controller_seconds_since_success")
        assert age is not None
        assert age > 90


async def test_dropped_events_are_counted() -> None:
    """Events that the hub refuses are counted."""
    async with world(m1=2) as w:
        w.load(1000)
        w.hub.refused["POST", "/events"] = 403
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: controller.total("fedhpa_controller_events_dropped_total") > 0)


async def test_probes_of_members_are_timed() -> None:
    """The duration of each member's last probe is shown."""
    async with world(m1=2) as w, w.controller() as controller:
        await asyncio.sleep(10)
        name = "fedhpa_controller_member_probe_duration_seconds"
        seconds = controller.series.get_sample_value(name, {"cluster": "m1"})

        assert seconds is not None
        assert 0 < seconds < 1


@pytest.mark.parametrize(
    "definition",
    [{"spec": ["odd"]}, {"spec": {"versions": {"v1": 1}}}, {"spec": {"versions": ["v1"]}}, {"spec": 7}],
    ids=str,
)
async def test_odd_definition_on_the_hub_fails_no_reconcile(definition: Any, logs: list[Any]) -> None:
    """A CustomResourceDefinition of an unexpected shape fails no reconcile and is reported nowhere."""
    async with world(m1=2) as w:
        w.hub.answers[CRD_PATH] = lambda: definition
        w.scale()
        async with w.controller() as controller:
            await w.reconciles(controller, 3)

            assert controller.total("fedhpa_controller_reconcile_failures_total") == 0
        assert [entry["task"] for entry in lines(logs, "task failed")] in ([], ["hub-check"])


@pytest.mark.parametrize(
    "spec", [["odd"], {"leaseDurationSeconds": "soon", "holderIdentity": "x"}, {"holderIdentity": 7}, "odd"]
)
async def test_odd_lease_ends_no_process(spec: Any) -> None:
    """A Lease that somebody spoiled makes the election retry, and a mended one is taken."""
    async with world(m1=2) as w:
        metadata = {"namespace": "kube-system", "name": "fedhpa-controller-0-of-1"}
        w.hub.put(LEASES, {"metadata": metadata, "spec": spec})
        led: list[Shard] = []

        async def work(shard: Shard) -> None:
            led.append(shard)
            await asyncio.Event().wait()

        async with ApiClient(w.hub.config()) as hub:
            election = ShardElection(hub, "kube-system", "me", 1, clock=w.clock)
            async with background(election.run(work)) as task:
                await asyncio.sleep(30)
                w.hub.put(LEASES, {"metadata": metadata, "spec": {}})
                await eventually(lambda: led, 90)

                assert not task.done()


async def test_work_that_raises_is_begun_again() -> None:
    """An exception of a shard's work releases the Lease, and the shard is taken again."""
    async with world(m1=2) as w:
        begun: list[tuple[Shard, bool]] = []
        shown: list[bool] = []

        async def work(shard: Shard) -> None:
            begun.append((shard, True))
            if len(begun) < 3:
                raise KeyError("odd")
            await asyncio.Event().wait()

        async with ApiClient(w.hub.config()) as hub:
            election = ShardElection(
                hub, "kube-system", "me", 1, clock=w.clock, on_lead=lambda _, leads: shown.append(leads)
            )
            async with background(election.run(work)) as task:
                await eventually(lambda: len(begun) == 3, 120)

                assert not task.done()
        assert shown[:5] == [True, False, True, False, True]
