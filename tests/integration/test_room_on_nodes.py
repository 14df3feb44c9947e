"""On a plain hub the room of members is read off their nodes, where a policy needs it."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.test_controller_places import assignment
from tests.support.controller_world import World, world
from tests.support.fakeapi import Collection, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

NODES: Collection = ("v1", "nodes")


def has_node(w: World, member: str, milli: int) -> None:
    """The member has a node that offers so much CPU; pods of the fakes are on none, so all of it is free."""
    status = {
        "allocatable": {"cpu": f"{milli}m", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    w.members[member].put(NODES, {"metadata": {"name": "node-1"}, "spec": {}, "status": status})


def listed(w: World) -> list[int]:
    """How often each member was asked for its nodes."""
    return [member.asked("GET", "/api/v1/nodes") for member in w.members.values()]


async def test_replicas_go_where_nodes_have_room() -> None:
    """Room for 300m and 900m is room for 3 and 9 pods of 100m: four more go to m2 under Aggregated."""
    async with world(m1=2, m2=2) as w:
        has_node(w, "m1", 300)
        has_node(w, "m2", 900)
        w.load(400)
        w.scale(federatedHPAAssignment=assignment("Aggregated"))
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 8)

    assert w.replicas == {"m1": 2, "m2": 6}


async def test_nodes_are_listed_seldom_and_not_without_need() -> None:
    """Every thirty seconds where a policy looks at the room, and not at all where none does."""
    async with world(m1=2, m2=2) as w:
        has_node(w, "m1", 300)
        has_node(w, "m2", 900)
        w.scale()
        async with w.controller() as controller:
            await w.looks(controller, 5)
            unneeded = listed(w)
            w.scale(federatedHPAAssignment=assignment("DynamicWeighted"))
            await asyncio.sleep(100)
            found = listed(w)

    assert unneeded == [0, 0]
    assert all(3 <= count <= 4 for count in found)


async def test_a_member_that_shows_no_nodes_is_scaled_all_the_same() -> None:
    """Without the right to list them its room is unknown, not none."""
    async with world(m1=2, m2=2) as w:
        has_node(w, "m1", 300)
        w.members["m2"].refused["GET", "/api/v1/nodes"] = 403
        w.load(400)
        w.scale(federatedHPAAssignment=assignment("Prioritized", m2=2, m1=1))
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 8)

    assert w.replicas == {"m1": 2, "m2": 6}


async def test_nodes_that_hang_are_waited_for_once() -> None:
    """Who asks first waits for a deadline; later looks go on without, while the list is tried again."""
    async with world(m1=2, m2=2) as w:
        w.members["m2"].held.add(("GET", "/api/v1/nodes"))
        w.load(400)
        w.scale(federatedHPAAssignment=assignment("StaticWeighted"))
        async with w.controller() as controller:
            await eventually(lambda: sum(w.replicas.values()) == 8)
            w.scale(federatedHPAAssignment=assignment("DynamicWeighted"))
            await asyncio.sleep(5)
            began = w.clock.monotonic()
            await w.looks(controller, 10)
            took = w.clock.monotonic() - began

    assert took < 3.0


async def test_a_cap_is_a_share_of_what_nodes_offer() -> None:
    """Half of 800m is room for four pods of 100m in m1; m2 takes the others."""
    async with world(m1=2, m2=2) as w:
        has_node(w, "m1", 800)
        w.load(600)
        w.scale(clusterHPAPreference={"clusterName": "m1", "maxResourceUsage": 0.5})
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 12, 60.0)

    assert w.replicas == {"m1": 4, "m2": 8}


async def test_a_cap_that_cannot_be_reckoned_is_no_leave_to_grow() -> None:
    """Without the right to list nodes m1 keeps what it has."""
    async with world(m1=2, m2=2) as w:
        w.members["m1"].refused["GET", "/api/v1/nodes"] = 403
        w.load(400)
        w.scale(clusterHPAPreference=[{"clusterName": "m1", "maxResourceUsage": 0.5}])
        async with w.controller():
            await eventually(lambda: sum(w.replicas.values()) == 8)

    assert w.replicas == {"m1": 2, "m2": 6}
