"""A cluster that no clusterAffinity names begins to run the workload: it takes no replica from others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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


@asynccontextmanager
async def joined(each: int, pods: int, **settings: Any) -> AsyncIterator[ControllerWorld]:
    """Two clusters with `each` replicas, and m3 has just begun to run `pods` that serve."""
    async with world(m1=each, m2=each, m3=1) as w:
        without_workload(w)
        w.scale(maxReplicas=40, behavior=AT_ONCE)
        async with w.controller(sync_period=5, decision=ControllerSettings(**settings)):
            await eventually(lambda: w.status().get("desiredReplicas") == 2 * each)
            w.members["m3"].deploy(pods)
            await eventually(lambda: bool(w.events("ClusterBeganHosting")), 60)
            yield w


async def serves(w: ControllerWorld, pods: int) -> dict[str, int]:
    """The replicas of all clusters once they have the size for a load."""
    w.load(pods * 50)
    await eventually(lambda: sum(w.replicas.values()) == pods, 60)
    return w.replicas


async def test_pods_that_serve_make_it_a_member() -> None:
    """After ten minutes of usage like that of the others a scale-down takes from it as from them."""
    async with joined(each=6, pods=6) as w:
        await asyncio.sleep(590)
        assert w.events("ClusterMember") == []
        await eventually(lambda: bool(w.events("ClusterMember")), 60)

        assert await serves(w, 9) == {"m1": 3, "m2": 3, "m3": 3}


@pytest.mark.parametrize(("each", "pods", "load", "part"), [(3, 1, 12, 4), (6, 6, 15, 5)], ids=["up", "down"])
async def test_it_takes_part_at_once(each: int, pods: int, load: int, part: int) -> None:
    """More load is served there, too. With busy pods a scale-down takes from it as from the others."""
    async with joined(each, pods) as w:
        await asyncio.sleep(10)

        assert await serves(w, load) == {"m1": part, "m2": part, "m3": part}


async def test_new_hosts_can_be_cordoned() -> None:
    """With --new-hosts=cordon it gets nothing more until clusterAffinity selects it."""
    async with joined(each=3, pods=1, new_hosts="cordon") as w:
        assert (await serves(w, 12))["m3"] == 1
        entry = next(one for one in w.status()["clusters"] if one["name"] == "m3")
        assert entry["membership"] == "Cordoned"
        assert "spec.clusterAffinity" in entry["waitsFor"]
        w.scale(maxReplicas=40, behavior=AT_ONCE, clusterAffinity={"clusterNames": ["m1", "m2", "m3"]})
        await asyncio.sleep(70)

        assert (await serves(w, 24))["m3"] > 1


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

            assert (await serves(w, 24))["m3"] > 0
            assert w.events("ClusterBeganHosting") == []
