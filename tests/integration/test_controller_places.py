"""With --propagation=direct the controller places replicas by policy, and moves pods that stay pending."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.controller import ControllerWorld, cluster_object, world
from tests.support.fakeapi import CLUSTERS, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)


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
