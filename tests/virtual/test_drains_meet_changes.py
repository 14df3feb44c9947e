"""A cluster leaves while people change something else: the object, its target, or another taint."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from benchmarks.closed_loop.actions import changes, dies, reachable, tainted, unreachable
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.worlds import DRAIN, steps
from benchmarks.world.cluster import ClusterPlan
from fedhpa.decision.membership import NOBODY_STAYS
from tests.support.controller import DEPLOYMENTS, NAMESPACE, ControllerWorld, cluster_object, world
from tests.support.fakeapi import CLUSTERS, eventually
from tests.virtual.test_clusters_leave import NO_EXECUTE, NO_SCHEDULE, Watched, fleet

pytestmark = pytest.mark.looptime(noop_cycles=0)


def drain(w: ControllerWorld, name: str) -> None:
    """Taint the Cluster, as `fedhpa drain` does."""
    found = cluster_object(w, name)
    w.hub.put(CLUSTERS, {**found, "spec": {**found["spec"], "taints": [dict(DRAIN)]}})


async def test_another_target_is_no_part_of_the_move() -> None:
    """In the middle of a drain the object gets another target, which never gets the former one's size."""
    async with world(m1=4, m2=4, m3=4) as w:
        for member in w.members.values():
            member.deploy(1, "api", "api")
            member.use(36)
        w.scale(maxReplicas=12, behavior={})
        sizes: list[int] = []
        async with w.controller(sync_period=1):
            await eventually(lambda: w.status().get("desiredReplicas") == 12)
            for member in w.members.values():
                member.resized = lambda: sizes.append(sum(one.replicas("api") for one in w.members.values()))
            drain(w, "m2")
            await eventually(lambda: w.replicas["m2"] < 4)
            other = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}
            w.scale(maxReplicas=12, behavior={}, scaleTargetRef=other)
            await eventually(lambda: w.members["m2"].replicas("api") == 0, 60)
            await asyncio.sleep(30)

        assert max(sizes) <= 4
        assert sum(member.replicas("api") for member in w.members.values()) == 3


async def test_a_drain_does_not_inflate_the_size() -> None:
    """Each pod uses as much memory as its target, however many run: the surge of a move is no growth."""
    target = {"type": "AverageValue", "averageValue": "64Mi"}
    memory = {"type": "Resource", "resource": {"name": "memory", "target": target}}
    async with world(m1=2, m2=2, m3=2) as w:
        w.scale(maxReplicas=30, metrics=[memory])
        async with w.controller(sync_period=1):
            await eventually(lambda: w.status().get("desiredReplicas") == 6)
            drain(w, "m2")
            await eventually(lambda: w.replicas["m2"] == 0, 60)
            await asyncio.sleep(10)

        assert w.replicas == {"m1": 3, "m2": 0, "m3": 3}


def test_a_taint_that_stood_all_the_time_acts_at_once() -> None:
    """A cluster that was cordoned by others, then drained, is Cordoned again after `fedhpa uncordon`."""
    found = Watched(fleet((300, tainted("m2", NO_SCHEDULE, DRAIN)), (720, tainted("m2", NO_SCHEDULE))), 14)

    assert found.at(11.9) == (6, 0, 6)
    assert "ClusterMember" not in found.reasons()
    entry = found.status(12.5, "m2")
    assert entry is not None
    assert (entry["membership"], entry["waitsFor"]) == ("Cordoned", "taint maintenance:NoSchedule")


def unmeasured(run: Running) -> None:
    """No metrics-server has values any more."""
    for cluster in run.fleet.clusters.values():
        cluster.plan = replace(cluster.plan, metrics_lag=1e6)


def test_a_drain_needs_no_metrics() -> None:
    """It goes on at the size that was decided last, and the condition names the failure."""
    found = Watched(fleet((300, tainted("m2", DRAIN)), (400, unmeasured)), 16)

    found.assert_kind()
    assert found.at(15.9) == (6, 0, 6)
    conditions = {one["type"]: one["status"] for one in found.shown[-1]["conditions"]}
    assert (conditions["ScalingActive"], conditions["Ready"]) == ("False", "False")


async def test_a_drain_of_pods_with_two_owners_says_why_it_waits() -> None:
    """Nothing is decided while another autoscaler selects the same pods."""
    async with world(m1=4, m2=4, m3=4) as w:
        for member in w.members.values():
            member.deploy(4, "api", "web")
        w.scale()
        w.scale("api", scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"})
        async with w.controller(sync_period=1):
            await eventually(lambda: w.condition("ScalingActive")[1] == "AmbiguousSelector")
            drain(w, "m2")
            await eventually(lambda: any(one.get("membership") for one in w.status()["clusters"]))
            entry = next(one for one in w.status()["clusters"] if one["name"] == "m2")

        assert (
            entry["waitsFor"]
            == "taint fedhpa.io/drain:NoSchedule: nothing is decided now: see the conditions"
        )
        assert w.replicas["m2"] == 4


def test_a_leave_is_the_reason_while_it_lasts() -> None:
    """REPLICAS is above MAX then. The reason beside it is the leave also while a new pod gets ready."""
    found = Watched(fleet((300, tainted("m2", DRAIN))), 8)

    for minute in (5.5, 6.0, 6.5, 7.0):
        shown = found.shown[int(minute * 60)]
        assert shown["summary"]["reason"] == "m2 leaves"
        assert "reason: m2 leaves" in next(
            one["message"] for one in shown["conditions"] if one["type"] == "Ready"
        )


def test_a_leave_into_cordoned_clusters_waits() -> None:
    """No other cluster is a Member, and the reason says so."""
    events = ((300, tainted("m1", NO_SCHEDULE)), (300, tainted("m3", NO_SCHEDULE)))
    found = Watched(fleet(*events, (420, tainted("m2", DRAIN))), 9)

    assert found.at(8.9) == (4, 4, 4)
    entry = found.status(8.9, "m2")
    assert entry is not None
    assert entry["waitsFor"] == "taint fedhpa.io/drain:NoSchedule: no other cluster takes replicas"


def test_a_draining_cluster_serves_when_the_only_other_one_is_lost() -> None:
    """It grows again: overload is worse than a late maintenance."""
    clusters = (ClusterPlan("m1", 6), ClusterPlan("m2", 6))
    found = Watched(fleet((300, tainted("m2", DRAIN)), (360, dies("m1")), clusters=clusters), 20)

    assert found.at(19.9)[1] >= 11
    entry = found.status(19.9, "m2")
    assert entry is not None
    assert (entry["membership"], entry["waitsFor"]) == ("Cordoned", NOBODY_STAYS)


def test_a_wrong_name_in_the_affinity_stops_no_growth() -> None:
    """clusterNames has only a name that no Cluster has. All others stay, and grow with the load."""
    wrong = changes(clusterAffinity={"clusterNames": ["nosuch"]})
    found = Watched(fleet((300, wrong), load=steps((0, 5.8), (8, 9.8)), maximum=24), 14)

    assert found.at(7.9) == (4, 4, 4)
    assert sum(found.at(13.9)) >= 18


def test_uncordon_ends_a_drain_beside_a_tolerated_taint() -> None:
    """A taint NoExecute that is tolerated for an hour is not its reason, and does not continue it."""
    toleration = {
        "key": "maintenance",
        "effect": "NoExecute",
        "operator": "Exists",
        "tolerationSeconds": 3600,
    }
    spec = {"federatedHPAAssignment": {}, "clusterTolerations": [toleration]}
    events = (
        (250, tainted("m2", NO_EXECUTE)),
        (300, tainted("m2", NO_EXECUTE, DRAIN)),
        (420, tainted("m2", NO_EXECUTE)),
    )
    found = Watched(fleet(*events, spec=spec), 14)

    entry = found.status(6.5, "m2")
    assert entry is not None
    assert entry["waitsFor"].startswith("taint fedhpa.io/drain:NoSchedule: ")
    assert found.at(13.9)[1] == 3


def test_a_lost_cluster_is_not_drained_before_it_answers() -> None:
    """The others took its replicas, and it may run them still. So its entry stays, for `fedhpa drain`."""
    events = ((300, unreachable("m2")), (900, tainted("m2", DRAIN)), (1140, reachable("m2")))
    found = Watched(fleet(*events), 24)

    before, lost = found.status(14.9, "m2"), found.status(18.9, "m2")
    assert before is not None
    assert (before["state"], before["currentReplicas"]) == ("Lost", 0)
    assert lost is not None
    assert (lost["state"], lost["membership"]) == ("Lost", "Leaving")
    assert lost["waitsFor"].endswith(": it is lost, and may run replicas until it answers")
    assert found.at(23.9)[1] == 0
    assert found.status(23.9, "m2") is None


async def test_a_workload_that_is_gone_for_less_than_a_minute_changes_nothing() -> None:
    """Somebody deletes and applies the Deployment anew; after a minute it is no cluster of the object."""
    async with world(m1=4, m2=4, m3=4) as w:
        w.load(600)
        w.scale(maxReplicas=20, behavior={"scaleUp": {"stabilizationWindowSeconds": 0}})
        sizes = []
        async with w.controller(sync_period=5):
            await eventually(lambda: w.status().get("desiredReplicas") == 12)
            member = w.members["m2"]
            for away in (40, 90):
                member.resized = lambda: None
                member.remove(DEPLOYMENTS, "web", NAMESPACE)
                await asyncio.sleep(away)
                entries = [one["name"] for one in w.status()["clusters"]]
                sizes.append((w.members["m1"].replicas(), w.members["m3"].replicas(), "m2" in entries))
                member.deploy(4)
                await asyncio.sleep(30)

        assert sizes == [(4, 4, True), (4, 4, False)]
