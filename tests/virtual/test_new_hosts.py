"""A cluster that no clusterAffinity names begins to run the workload: it takes no replica from others."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from fedhpa.decision.settings import ControllerSettings
from tests.support.controller import DEPLOYMENTS, NAMESPACE, ControllerWorld, cluster_object, world
from tests.support.fakeapi import CLUSTERS, PODS, eventually
from tests.virtual.test_drains_meet_changes import drain

pytestmark = pytest.mark.looptime(noop_cycles=0)

# No window delays a scale-down.
AT_ONCE: Final = {"scaleDown": {"stabilizationWindowSeconds": 0}}


def without_workload(w: ControllerWorld) -> None:
    """The Deployment of m3 goes, with its pods."""
    plane = w.members["m3"]
    for pod in plane.all(PODS):
        plane.remove(PODS, pod["metadata"]["name"], NAMESPACE)
    plane.remove(DEPLOYMENTS, "web", NAMESPACE)


def boasts(w: ControllerWorld, name: str) -> None:
    """Its only node says that it has more room than all others together."""
    amounts = {"cpu": "4000", "memory": "9Ti", "pods": "9000"}
    found = cluster_object(w, name)
    summary = {"allocatable": amounts, "allocated": {}}
    w.hub.put(CLUSTERS, {**found, "status": {**found.get("status", {}), "resourceSummary": summary}})


@pytest.mark.parametrize("policy", ["", "Aggregated", "LoadWeighted"])
async def test_idle_pods_of_a_new_host_take_nothing_from_others(policy: str) -> None:
    """Their mean usage falls, so the size does: the idle replicas go, and no other."""
    assignment: Any = {"federatedHPAAssignment": {"federatedHPAAssignmentType": policy}} if policy else {}
    async with world(m1=10, m2=10, m3=1) as w:
        without_workload(w)
        boasts(w, "m3")
        w.scale(maxReplicas=40, behavior=AT_ONCE, **assignment)
        async with w.controller(sync_period=5):
            await eventually(lambda: w.status().get("desiredReplicas") == 20)
            w.members["m3"].usage = 0
            w.members["m3"].deploy(7)
            await eventually(lambda: w.replicas["m3"] < 7, 60)
            await asyncio.sleep(900)

            assert w.replicas == {"m1": 10, "m2": 10, "m3": 0}
            assert len(w.events("ClusterBeganHosting")) == 1
            assert w.events("ClusterMember") == []


async def test_pods_that_serve_make_it_a_member() -> None:
    """After ten minutes of usage like that of the others a scale-down takes from it as from them."""
    async with world(m1=6, m2=6, m3=1) as w:
        without_workload(w)
        w.scale(maxReplicas=40, behavior=AT_ONCE)
        async with w.controller(sync_period=5):
            await eventually(lambda: w.status().get("desiredReplicas") == 12)
            w.members["m3"].deploy(6)
            await eventually(lambda: bool(w.events("ClusterBeganHosting")), 60)
            await asyncio.sleep(590)
            assert w.events("ClusterMember") == []
            await eventually(lambda: bool(w.events("ClusterMember")), 60)
            w.load(9 * 50)
            await eventually(lambda: sum(w.replicas.values()) == 9, 60)

        assert w.replicas == {"m1": 3, "m2": 3, "m3": 3}


async def test_it_takes_part_in_growth() -> None:
    """More load is served there, too."""
    async with world(m1=3, m2=3, m3=1) as w:
        without_workload(w)
        w.scale(maxReplicas=40, behavior=AT_ONCE)
        async with w.controller(sync_period=5):
            await eventually(lambda: w.status().get("desiredReplicas") == 6)
            w.members["m3"].deploy(1)
            await eventually(lambda: bool(w.events("ClusterBeganHosting")), 60)
            w.load(12 * 50)
            await eventually(lambda: sum(w.replicas.values()) == 12, 60)

        assert w.replicas == {"m1": 4, "m2": 4, "m3": 4}


async def test_new_hosts_can_be_cordoned() -> None:
    """With --new-hosts=cordon it gets nothing more until clusterAffinity selects it."""
    async with world(m1=3, m2=3, m3=1) as w:
        without_workload(w)
        w.scale(maxReplicas=40, behavior=AT_ONCE)
        async with w.controller(sync_period=5, decision=ControllerSettings(new_hosts="cordon")):
            await eventually(lambda: w.status().get("desiredReplicas") == 6)
            w.members["m3"].deploy(1)
            await eventually(lambda: bool(w.events("ClusterBeganHosting")), 60)
            w.load(12 * 50)
            await eventually(lambda: sum(w.replicas.values()) == 12, 60)
            assert w.replicas["m3"] == 1
            entry = next(one for one in w.status()["clusters"] if one["name"] == "m3")
            assert entry["membership"] == "Cordoned"
            assert "spec.clusterAffinity" in entry["waitsFor"]
            w.scale(maxReplicas=40, behavior=AT_ONCE, clusterAffinity={"clusterNames": ["m1", "m2", "m3"]})
            await asyncio.sleep(70)
            w.load(24 * 50)
            await eventually(lambda: sum(w.replicas.values()) == 24, 60)

        assert w.replicas["m3"] > 1


async def test_a_cluster_that_serves_is_no_worse_off() -> None:
    """It is joined with busy pods: a scale-down takes from it as from the others, not all of it."""
    async with world(m1=6, m2=6, m3=1) as w:
        without_workload(w)
        w.scale(maxReplicas=40, behavior=AT_ONCE)
        async with w.controller(sync_period=5):
            await eventually(lambda: w.status().get("desiredReplicas") == 12)
            w.members["m3"].deploy(6)
            await eventually(lambda: bool(w.events("ClusterBeganHosting")), 60)
            await asyncio.sleep(10)
            w.load(15 * 50)
            await eventually(lambda: sum(w.replicas.values()) == 15, 60)

        assert w.replicas == {"m1": 5, "m2": 5, "m3": 5}


async def test_a_cluster_that_returns_is_no_new_host() -> None:
    """It was drained to 0 and uncordoned: --new-hosts=cordon does not keep it out."""
    async with world(m1=3, m2=3, m3=3) as w:
        w.scale(maxReplicas=40, behavior=AT_ONCE)
        async with w.controller(sync_period=5, decision=ControllerSettings(new_hosts="cordon")):
            await eventually(lambda: w.status().get("desiredReplicas") == 9)
            before = cluster_object(w, "m3")
            drain(w, "m3")
            await eventually(lambda: w.replicas["m3"] == 0, 600)
            w.hub.put(CLUSTERS, before)
            await asyncio.sleep(120)
            w.load(24 * 50)
            await eventually(lambda: sum(w.replicas.values()) == 24, 60)

            assert w.replicas["m3"] > 0
            assert w.events("ClusterBeganHosting") == []
