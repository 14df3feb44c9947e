"""With --propagation=direct the controller places replicas by policy, and moves pods that stay pending."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.api.times import format_time
from tests.support.controller import LONG_AGO, ControllerWorld, Plane, cluster_object, world
from tests.support.fakeapi import CLUSTERS, PODS, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)


def full_at(w: ControllerWorld, member: str, room: int, since: str = LONG_AGO) -> None:
    """From now on the member's nodes take at most this many pods."""
    plane = w.members[member]
    spread = plane.resized

    def resized() -> None:
        refuse(plane, room, since)
        spread()

    plane.resized = resized
    resized()


def refuse(plane: Plane, room: int, since: str) -> None:
    """Make all pods beyond the capacity unschedulable."""
    waiting = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": since,
    }
    for pod in plane.all(PODS):
        if int(pod["metadata"]["name"].rpartition("-")[2]) >= room and pod["status"]["phase"] != "Pending":
            status = {"phase": "Pending", "conditions": [waiting]}
            plane.put(PODS, {**pod, "status": status})


def has_room(w: ControllerWorld, member: str, milli: int) -> None:
    """Set the member's resource summary on the hub."""
    cluster = cluster_object(w, member)
    summary = {
        "allocatable": {"cpu": f"{milli + 500}m", "pods": "110"},
        "allocated": {"cpu": "500m", "pods": "5"},
    }
    w.hub.put(CLUSTERS, {**cluster, "status": {**cluster.get("status", {}), "resourceSummary": summary}})


def assignment(kind: str, **priorities: int) -> dict[str, Any]:
    """An assignment with priorities by cluster."""
    preferences = [
        {"targetCluster": {"clusterNames": [name]}, "priority": priority}
        for name, priority in priorities.items()
    ]
    return {
        "federatedHPAAssignmentType": kind,
        "minimumPolicy": "Exact",
        "clusterAutoscalingPreference": preferences,
    }


async def test_pods_without_a_node_are_placed_elsewhere() -> None:
    """Three of five pods stay pending in m1: two move to m2 once, with an event, and the size stays."""
    async with world(m1=5, m2=2) as w:
        full_at(w, "m1", 2)
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: w.replicas == {"m1": 3, "m2": 5})
            await w.reconciles(controller, 5)

        assert w.events("ReplicasMoved") == ["m1 is stuck: m1 5 -> 3, m2 2 -> 5"]
        assert w.events("SuccessfulRescale") == []
        assert [plane.request_count("PUT", "/scale") for plane in w.members.values()] == [1, 1]
        assert w.replicas == {"m1": 3, "m2": 5}
        assert "lastScaleTime" not in w.status()
        assert {entry["name"]: entry["currentReplicas"] for entry in w.status()["clusters"]} == w.replicas


async def test_pods_may_wait_for_the_delay() -> None:
    """With autoscaleMultiClusterDelay pending pods move only after that time."""
    async with world(m1=4, m2=2) as w:
        full_at(w, "m1", 2, since=format_time(w.clock.wall()))
        began = w.clock.wall()
        w.scale(autoscaleMultiClusterDelay=30)
        async with w.controller(sync_period=1.0):
            await eventually(lambda: w.replicas == {"m1": 3, "m2": 4}, 60.0)

        assert 30 <= w.clock.wall() - began <= 33


async def test_pods_with_nowhere_to_go_stay() -> None:
    """If no other cluster has capacity, pending pods are not moved."""
    async with world(m1=4, m2=2) as w:
        has_room(w, "m1", 0)
        has_room(w, "m2", 50)
        full_at(w, "m1", 2)
        w.scale()
        async with w.controller() as controller:
            await w.reconciles(controller, 8)

        assert [plane.request_count("PUT", "/scale") for plane in w.members.values()] == [0, 0]
        assert w.events("ReplicasMoved") == []


async def test_the_highest_priority_is_filled_first() -> None:
    """A cluster gets only as many replicas as fit; the rest goes to the next priority."""
    async with world(m1=2, m2=2, m3=2) as w:
        for member, milli in (("m1", 250), ("m2", 10_000), ("m3", 10_000)):
            has_room(w, member, milli)
        w.load(600)
        w.scale(federatedHPAAssignment=assignment("Prioritized", m1=3, m2=2))
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 12)

        assert w.replicas == {"m1": 4, "m2": 6, "m3": 2}


async def test_clusters_are_preferred_by_their_labels() -> None:
    """A preference's targetCluster selects by the labels of the Cluster objects."""
    async with world(m1=1, m2=1) as w:
        cluster = cluster_object(w, "m2")
        w.hub.put(CLUSTERS, {**cluster, "metadata": {**cluster["metadata"], "labels": {"tier": "gold"}}})
        w.load(200)
        preference = {
            "targetCluster": {"labelSelector": {"matchLabels": {"tier": "gold"}}},
            "staticWeight": 3,
        }
        kind = {"federatedHPAAssignmentType": "StaticWeighted", "clusterAutoscalingPreference": [preference]}
        w.scale(federatedHPAAssignment=kind)
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 4)

        assert w.replicas == {"m1": 1, "m2": 3}


async def test_duplicated_gives_each_cluster_the_whole_number() -> None:
    """Clusters of different sizes become equal, and then scale together."""
    async with world(m1=2, m2=1) as w:
        w.scale(federatedHPAAssignment={"federatedHPAAssignmentType": "Duplicated"})
        async with w.controller():
            await eventually(lambda: w.replicas == {"m1": 2, "m2": 2})
            w.load(400)
            await eventually(lambda: w.replicas == {"m1": 4, "m2": 4})
            await eventually(lambda: w.status().get("currentReplicas") == 4)

        assert w.status()["desiredReplicas"] == 4
