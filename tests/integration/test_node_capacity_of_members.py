"""On a plain hub the capacity of members is read from their nodes, if a policy needs it."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.test_controller_places import assignment
from tests.support.controller import ControllerWorld, world
from tests.support.fakeapi import Collection, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

NODES: Collection = ("v1", "nodes")


def has_node(w: ControllerWorld, member: str, milli: int) -> None:
    """Give the member a node with this much CPU. All of it is free, because the fakes' pods have no node."""
    status = {
        "allocatable": {"cpu": f"{milli}m", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    w.members[member].put(NODES, {"metadata": {"name": "node-1"}, "spec": {}, "status": status})


def listed(w: ControllerWorld) -> list[int]:
    """The number of lists of nodes by member."""
    return [member.request_count("GET", "/api/v1/nodes") for member in w.members.values()]


async def test_replicas_go_where_nodes_have_room() -> None:
    """300m and 900m have capacity for 3 and 9 pods of 100m, so Aggregated puts four more into m2."""
    async with world(m1=2, m2=2) as w:
        has_node(w, "m1", 300)
        has_node(w, "m2", 900)
        w.load(400)
        w.scale(federatedHPAAssignment=assignment("Aggregated"))
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 8)

    assert w.replicas == {"m1": 2, "m2": 6}


async def test_nodes_are_listed_seldom_and_not_without_need() -> None:
    """Nodes are listed every thirty seconds if a policy needs capacity, otherwise never."""
    async with world(m1=2, m2=2) as w:
        has_node(w, "m1", 300)
        has_node(w, "m2", 900)
        w.scale()
        async with w.controller(sync_period=1.0) as controller:
            await w.reconciles(controller, 5)
            unneeded = listed(w)
            w.scale(federatedHPAAssignment=assignment("DynamicWeighted"))
            await asyncio.sleep(100)
            found = listed(w)

    assert unneeded == [0, 0]
    assert all(3 <= count <= 4 for count in found)


async def test_a_member_that_shows_no_nodes_is_scaled_all_the_same() -> None:
    """Without permission to list nodes the capacity is unknown, not zero."""
    async with world(m1=2, m2=2) as w:
        has_node(w, "m1", 300)
        w.members["m2"].refused["GET", "/api/v1/nodes"] = 403
        w.load(400)
        w.scale(federatedHPAAssignment=assignment("Prioritized", m2=2, m1=1))
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 8)

    assert w.replicas == {"m1": 2, "m2": 6}


async def test_nodes_that_hang_are_waited_for_once() -> None:
    """Only the first reconcile waits for a hanging list of nodes; later ones continue without."""
    async with world(m1=2, m2=2) as w:
        w.members["m2"].held.add(("GET", "/api/v1/nodes"))
        w.load(400)
        w.scale(federatedHPAAssignment=assignment("StaticWeighted"))
        async with w.controller() as controller:
            await eventually(lambda: sum(w.replicas.values()) == 8)
            w.scale(federatedHPAAssignment=assignment("DynamicWeighted"))
            await asyncio.sleep(5)
            began = w.clock.monotonic()
            await w.reconciles(controller, 10)
            took = w.clock.monotonic() - began

    assert took < 3.0


async def test_a_cap_is_a_share_of_what_nodes_offer() -> None:
    """A cap of half of 800m allows four pods of 100m in m1; m2 gets the others."""
    async with world(m1=2, m2=2) as w:
        has_node(w, "m1", 800)
        w.load(600)
        w.scale(clusterHPAPreference={"clusterName": "m1", "maxResourceUsage": 0.5})
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 12, 60.0)

    assert w.replicas == {"m1": 4, "m2": 8}


async def test_an_unknown_cap_means_no_growth() -> None:
    """Without permission to list nodes a capped cluster keeps its replicas."""
    async with world(m1=2, m2=2) as w:
        w.members["m1"].refused["GET", "/api/v1/nodes"] = 403
        w.load(400)
        w.scale(clusterHPAPreference=[{"clusterName": "m1", "maxResourceUsage": 0.5}])
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 8)

    assert w.replicas == {"m1": 2, "m2": 6}
