"""Mode Distributed: the hub keeps the bounds of the members' HPAs right, and writes little."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from testbed.embedded.cluster.autoscalers import HPAS
from tests.support.federation import until
from tests.support.federation.controller import Controller
from tests.support.federation.distributed import Distributed, distributed
from tests.support.federation.planes import NAME, NAMESPACE, Seen
from tests.support.nightly import QUIET_SECONDS

pytestmark = pytest.mark.looptime(noop_cycles=0)

# Usage is at half of the requested CPU, the target, with this much load a pod.
PER_POD = 50


def assigned(d: Distributed) -> bool:
    return d.f.condition("Assigned")[0] == "True"


def shown_replicas(controller: Controller) -> dict[str, tuple[float | None, ...]]:
    """The series of ready and desired replicas by cluster."""
    about = {"namespace": NAMESPACE, "name": NAME}
    return {
        cluster: tuple(
            controller.series.get_sample_value(
                "fedhpa_cluster_replicas", {**about, "cluster": cluster, "state": state}
            )
            for state in ("ready", "desired")
        )
        for cluster in ("m1", "m2")
    }


async def test_a_running_workload_gets_bounds_around_what_runs(tmp_path: Path) -> None:
    """The first assignment creates one HPA a member, changes no replica, and is shown in the status."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True) as controller:
        d.f.demand(6 * PER_POD)
        d.scale(minReplicas=2, maxReplicas=12)
        await until(lambda: assigned(d))
        await asyncio.sleep(120)

        assert d.f.rescales == []
        assert d.maximum == 12
        assert all(bounds is not None and bounds[0] >= 1 for bounds in d.bounds.values())
        assert [seen.method for seen in d.writes()] == ["POST", "POST"]
        clusters = {entry["name"]: entry for entry in d.f.status()["clusters"]}
        assert {name: entry["maxReplicas"] for name, entry in clusters.items()} == {
            name: bounds[1] for name, bounds in d.bounds.items() if bounds is not None
        }
        assert d.object is not None
        assert d.object["metadata"]["finalizers"] == ["autoscaling.karmada.io/member-hpas"]
        assert shown_replicas(controller) == {"m1": (4, 4), "m2": (2, 2)}


async def test_an_empty_workload_is_started_with_its_minima(tmp_path: Path) -> None:
    """A member HPA rests at zero, so the hub writes the first replicas."""
    async with distributed(tmp_path, m1=0, m2=0) as d, d.f.controller(calm=True):
        d.f.demand(100)
        d.scale(minReplicas=4, maxReplicas=10)
        await until(lambda: d.f.total == 4)

        assert d.f.replicas == {"m1": 2, "m2": 2}
        assert d.maximum == 10


@pytest.mark.nightly
async def test_members_scale_themselves_and_quiet_time_writes_nothing(tmp_path: Path) -> None:
    """The members follow the load. Then, in quiet time, no request changes anything in a member."""
    async with distributed(tmp_path, m1=2, m2=2) as d, d.f.controller(calm=True) as controller:
        d.scale(minReplicas=2, maxReplicas=12)
        d.f.demand(8 * PER_POD)
        await until(lambda: d.f.total == 8, 600)
        await asyncio.sleep(900)
        began, before = d.f.now(), controller.reconciles
        await asyncio.sleep(QUIET_SECONDS)

        assert d.writes(began) == []
        assert d.f.total == 8
        assert controller.reconciles - before >= QUIET_SECONDS / 15 - 5
        written = [seen for seen in d.f.hub.writes() if seen.at > began and "/leases/" not in seen.path]
        assert len(written) <= 60


async def test_a_restart_and_another_leader_write_nothing(tmp_path: Path) -> None:
    """The next process goes on from the status and the members alone."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        d.f.demand(6 * PER_POD)
        d.scale(minReplicas=2, maxReplicas=12)
        async with d.f.controller(calm=True):
            await until(lambda: assigned(d))
            await asyncio.sleep(300)
        began = d.f.now()
        async with d.f.controller() as second:
            await until(lambda: second.leads, 1200)
            await second.more_reconciles(8)
            await second.stop()
        async with d.f.controller() as third:
            await third.more_reconciles(8)

        assert d.writes(began) == []
        assert d.f.rescales == []


async def test_a_hub_that_is_away_for_ten_minutes_changes_nothing(tmp_path: Path) -> None:
    """The members scale on meanwhile. Back, the hub takes over without a write."""
    async with distributed(tmp_path, m1=3, m2=3) as d, d.f.controller() as controller:
        d.scale(minReplicas=2, maxReplicas=12)
        d.f.demand(6 * PER_POD)
        await until(lambda: assigned(d))
        await asyncio.sleep(300)
        began = d.f.now()
        await d.f.hub.listener.stop()
        d.f.demand(9 * PER_POD)
        await asyncio.sleep(600)
        away = d.f.total
        await d.f.hub.listener.start()
        await until(lambda: controller.leads, 600)
        await asyncio.sleep(300)

        assert away >= 9
        assert d.writes(began) == []


async def test_an_hpa_of_a_tenant_is_never_touched(tmp_path: Path) -> None:
    """The condition names it and what to do. The other clusters get their bounds."""
    async with distributed(tmp_path, m1=2, m2=2) as d:
        spec: dict[str, Any] = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": 1,
            "maxReplicas": 3,
        }
        head = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
        own = {**head, "metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": spec}
        d.f.members["m1"].server.store.create(HPAS, own)
        before = d.hpa("m1")
        async with d.f.controller(calm=True):
            d.f.demand(4 * PER_POD)
            d.scale(minReplicas=2, maxReplicas=12)
            await until(lambda: d.bounds["m2"] is not None)
            await until(lambda: d.f.condition("Assigned")[1] == "NotOwned")
            await asyncio.sleep(600)
            after = d.hpa("m1")

        assert before is not None
        assert after is not None
        assert after["spec"] == before["spec"]
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert [seen for seen in d.f.members["m1"].writes() if "horizontal" in seen.path] == []
        assert "m1" in d.f.condition("Assigned")[2]


async def test_an_edited_member_hpa_is_repaired_and_reported(tmp_path: Path) -> None:
    """Bounds and other fields come back within a minute, and an event names the cluster."""
    async with distributed(tmp_path, m1=2, m2=2) as d, d.f.controller(calm=True):
        d.f.demand(4 * PER_POD)
        d.scale(minReplicas=2, maxReplicas=12)
        await until(lambda: assigned(d))
        await asyncio.sleep(120)
        right = d.hpa("m1")
        assert right is not None
        began = d.f.now()
        d.edit("m1", maxReplicas=100, behavior={"scaleDown": {"stabilizationWindowSeconds": 1}})
        await asyncio.sleep(90)
        repaired = d.hpa("m1")

        assert repaired is not None
        assert repaired["spec"] == right["spec"]
        assert {seen.path.rpartition("/")[2] for seen in d.writes(began)} == {NAME}
        (event,) = d.f.events("MemberHPARepaired")
        assert event["message"].startswith("m1: behavior, bounds differed from the assignment")


async def test_a_change_of_the_object_reaches_the_members(tmp_path: Path) -> None:
    """Metrics and bounds of the FederatedHPA are copied, which nobody reports as an edit."""
    async with distributed(tmp_path, m1=2, m2=2) as d, d.f.controller(calm=True):
        d.f.demand(4 * PER_POD)
        d.scale(minReplicas=2, maxReplicas=12)
        await until(lambda: assigned(d))
        await asyncio.sleep(120)
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 55}}
        d.change(maxReplicas=16, metrics=[{"type": "Resource", "resource": cpu}])
        await asyncio.sleep(60)

        assert d.maximum == 16
        for name in d.f.members:
            found = d.hpa(name)
            assert found is not None
            assert found["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 55
        assert d.f.events("MemberHPARepaired") == []


async def test_a_leader_that_dies_before_its_status_is_followed_without_a_write(tmp_path: Path) -> None:
    """The next one finds the HPAs in the members and computes the same bounds."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        d.f.demand(6 * PER_POD)

        async def refuse(seen: Seen) -> None:
            if seen.method == "PUT" and seen.path.endswith("/web/status"):
                raise web.HTTPServiceUnavailable

        async def nothing(_: Seen) -> None:
            return

        d.f.hub.before = refuse
        d.scale(minReplicas=2, maxReplicas=12)
        async with d.f.controller():
            await until(lambda: None not in d.bounds.values())
            await asyncio.sleep(20)
        d.f.hub.before = nothing
        began, before = d.f.now(), d.bounds
        async with d.f.controller() as second:
            await second.more_reconciles(8)

        assert d.bounds == before
        assert d.writes(began) == []


async def test_two_owners_of_the_same_pods_write_nothing(tmp_path: Path) -> None:
    """Also where one of them is of mode Centralized."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller() as controller:
        d.f.demand(6 * PER_POD)
        d.scale(minReplicas=2, maxReplicas=12)
        d.f.scale("other", minReplicas=2, maxReplicas=12)
        await controller.more_reconciles(12)

        assert d.writes() == []
        assert d.f.condition("ScalingActive")[:2] == ("False", "AmbiguousSelector")


async def test_second_owners_are_found_by_the_watch(tmp_path: Path) -> None:
    """Our member HPAs are none. An HPA of a tenant is, and no list of the member is needed to find it."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        d.f.demand(6 * PER_POD)
        d.scale(minReplicas=2, maxReplicas=12)
        await until(lambda: assigned(d))
        await asyncio.sleep(60)
        began = len(d.f.members["m1"].seen)
        await asyncio.sleep(200)
        alone = d.f.condition("SoleOwner")[0]
        ours = d.hpa("m1")
        assert ours is not None
        theirs = {"name": "theirs", "namespace": NAMESPACE}
        d.f.members["m1"].server.store.create(HPAS, {**ours, "metadata": theirs})
        await until(lambda: d.f.condition("SoleOwner")[0] == "False", 80)
        lists = [seen for seen in d.f.members["m1"].seen[began:] if seen.path.endswith(f"/{HPAS[1]}")]

        assert alone in ("", "True")
        assert f"{NAMESPACE}/theirs in m1" in d.f.condition("SoleOwner")[2]
        assert [seen for seen in lists if seen.method == "GET" and "watch" not in seen.query] == []
