"""Mode Distributed on real planes: the member HPAs run by kube-controller-manager, on metrics-server."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from testbed.real.member import NODE_ALLOCATABLE
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.processes import CONTROLLER, Processes
from testbed.stage.waiting import gather
from tests.real.settling import settled
from tests.real.wellness import all_is_well
from tests.real.workloads import (
    BUSY,
    IDLE,
    SECONDS,
    deployment,
    federated_hpa,
    federated_hpa_path,
    namespace,
    replicas,
    replicas_settle,
    set_usage_everywhere,
)
from tests.support.nightly import only_at_night

NAME = "web"
# The hub distributes anew every 60 s, and metrics-server needs half a minute for a change of usage.
LONG = 420.0
LOST_SECONDS = 20
NODE_CPU = int(NODE_ALLOCATABLE["cpu"])

Bounds = tuple[int, int]


async def test_members_scale_on_while_the_controller_is_away(plane: Plane, processes: Processes) -> None:
    """The controller is stopped while the load falls."""
    await _scale_up_and_alone_down(
        plane,
        "alone",
        stop=lambda: processes.stop(CONTROLLER),
        start=lambda: processes.start_one(CONTROLLER),
    )


@only_at_night
async def test_members_scale_on_while_the_hub_is_away(plane: Plane, processes: Processes) -> None:
    """The hub's API server is killed while the load falls, and the controller runs on without it."""
    await _scale_up_and_alone_down(
        plane,
        "hub",
        stop=lambda: plane.hub.kill_component("kube-apiserver"),
        start=plane.hub.start_api_server,
    )
    await all_is_well(plane, processes)


async def _scale_up_and_alone_down(
    plane: Plane,
    purpose: str,
    stop: Callable[[], Awaitable[object]],
    start: Callable[[], Awaitable[object]],
) -> None:
    """Static weights 2:1. The member HPAs scale up to their shares, and down between `stop` and `start`.
    After that nothing is written. Deleting the object leaves the replicas as they are.
    """
    space = _space(purpose)
    await _run(plane, space)
    await set_usage_everywhere(plane, NAME, space, BUSY)
    async with plane.hub.api() as hub:
        wanted = _distributed(space, low=2, high=9, policy=_static({"member1": 2, "member2": 1}))
        # Else a member whose metrics come late lends its unused maximum to the other for good.
        wanted["spec"]["scaleAssist"] = False
        await hub.apply_all([wanted])
        bounds = await _bounds_settle(plane, space, {"member1": (2, 6), "member2": (1, 3)})
        up = await replicas_settle(plane, NAME, space, {"member1": 6, "member2": 3})
        await hub.wait(
            federated_hpa_path(NAME, space),
            lambda found: has_condition(found, kind="Assigned"),
            what="Assigned is True",
            seconds=SECONDS,
        )
        written = await _writes(plane, space)
        await stop()
        try:
            await set_usage_everywhere(plane, NAME, space, IDLE)
            down = await replicas_settle(plane, NAME, space, {"member1": 2, "member2": 1})
        finally:
            await start()
        await hub.wait(
            federated_hpa_path(NAME, space),
            lambda found: found["status"].get("currentReplicas") == 3,
            what="the controller shows three replicas",
            seconds=SECONDS,
        )
        after = await _writes(plane, space)
        await hub.delete(federated_hpa_path(NAME, space))
        gone = await settled(lambda: _bounds(plane, space), lambda found: found == {})
        left = await replicas(plane, NAME, space)

    assert bounds == {"member1": (2, 6), "member2": (1, 3)}
    assert up == {"member1": 6, "member2": 3}
    assert down == {"member1": 2, "member2": 1}
    assert after == written
    assert gone == {}
    assert left == {"member1": 2, "member2": 1}


@only_at_night
async def test_the_first_priority_is_filled_and_the_rest_goes_on(plane: Plane, processes: Processes) -> None:
    """Prioritized. The nodes of the first member have room for three pods. Both members are busy, so the
    first fills its nodes, and the second gets what has no room there.
    """
    space = _space("priority")
    # Four pods would need more than the node has, with the agent's pods besides.
    await _run(plane, space, cpu=f"{NODE_CPU * 1000 * 3 // 10}m")
    policy = _prioritized({"member1": 2, "member2": 1})
    async with plane.hub.api() as hub:
        # Three times the request, as in BUSY.
        await set_usage_everywhere(plane, NAME, space, f"{NODE_CPU * 1000 * 9 // 10}m")
        await hub.apply_all([_distributed(space, low=2, high=6, policy=policy)])

        async def ready() -> dict[str, int]:
            return await _ready(plane, space)

        placed = await settled(ready, lambda found: found == {"member1": 3, "member2": 3}, seconds=LONG)
        bounds = await _bounds(plane, space)
        await hub.delete(federated_hpa_path(NAME, space))

    assert placed == {"member1": 3, "member2": 3}
    assert bounds["member1"][1] == 3


@only_at_night
async def test_a_lost_members_share_goes_to_the_other_and_comes_back(
    plane: Plane, processes: Processes
) -> None:
    """The API server of member2 stops. Its share is held for the lost time-out. Then member1 gets it, and
    runs the whole workload. When member2 is back, the sum of both is brought below the maximum again.
    """
    space = _space("lost")
    await _run(plane, space)
    await set_usage_everywhere(plane, NAME, space, BUSY)
    member2 = plane.members["member2"]
    await processes.stop(CONTROLLER)
    try:
        await processes.start_one(CONTROLLER, f"--cluster-lost-timeout={LOST_SECONDS}s")
        async with plane.hub.api() as hub:
            await hub.apply_all([_distributed(space, low=2, high=6, policy=_static({}))])
            before = await replicas_settle(plane, NAME, space, {"member1": 3, "member2": 3})
            await member2.kill_component("kube-apiserver")
            try:
                alone = await settled(
                    lambda: _maximum(plane, space, "member1"), lambda found: found == 6, seconds=LONG
                )
                grown = await settled(
                    lambda: _replicas_of(plane, space, "member1"), lambda found: found == 6, seconds=LONG
                )
                shown = await hub.get(federated_hpa_path(NAME, space))
            finally:
                await member2.start_api_server()

            async def shared() -> int:
                return sum(maximum for _, maximum in (await _bounds(plane, space)).values())

            together = await settled(shared, lambda found: found <= 6, seconds=LONG)
            await hub.delete(federated_hpa_path(NAME, space))
    finally:
        await processes.stop(CONTROLLER)
        await processes.start_one(CONTROLLER)

    assert before == {"member1": 3, "member2": 3}
    assert (alone, grown) == (6, 6)
    entry = next(each for each in shown["status"]["clusters"] if each["name"] == "member2")
    assert (entry["state"], entry["lost"]) == ("Lost", True)
    assert together <= 6


def _space(purpose: str) -> str:
    """Returns a namespace that no earlier run of the test has used."""
    return f"distributed-{purpose}-{int(time.time())}"


def _static(weights: dict[str, int]) -> dict[str, Any]:
    return _policy("StaticWeighted", {name: {"staticWeight": each} for name, each in weights.items()})


def _prioritized(priorities: dict[str, int]) -> dict[str, Any]:
    return _policy("Prioritized", {name: {"priority": each} for name, each in priorities.items()})


def _policy(policy: str, preferences: dict[str, dict[str, int]]) -> dict[str, Any]:
    return {
        "federatedHPAAssignmentType": policy,
        "clusterAutoscalingPreference": [
            {"targetCluster": {"clusterNames": [name]}, **fields} for name, fields in preferences.items()
        ],
    }


def _distributed(space: str, *, low: int, high: int, policy: dict[str, Any]) -> dict[str, Any]:
    found = federated_hpa(NAME, space, low=low, high=high)
    found["spec"] |= {"mode": "Distributed", "federatedHPAAssignment": policy}
    return found


async def _run(plane: Plane, space: str, *, cpu: str = "500m") -> None:
    """Applies the Deployment with one replica in each member, and the namespace on the hub."""
    async with plane.hub.api() as api:
        await api.apply_all([namespace(space)])
    for member in plane.members.values():
        async with member.api() as api:
            await api.apply_all([namespace(space), deployment(NAME, space, replicas=1, cpu=cpu)])


async def _hpa(api: PlaneApi, space: str) -> Any | None:
    return await api.find(f"/apis/autoscaling/v2/namespaces/{space}/horizontalpodautoscalers/{NAME}")


async def _bounds(plane: Plane, space: str) -> dict[str, Bounds]:
    """Returns minReplicas and maxReplicas of each member's HPA. A member without one is left out."""

    async def of(member: str) -> Bounds | None:
        async with plane.members[member].api() as api:
            found = await _hpa(api, space)
        return found and (found["spec"]["minReplicas"], found["spec"]["maxReplicas"])

    found = await gather(*(of(member) for member in plane.members))
    return {name: bounds for name, bounds in zip(plane.members, found, strict=True) if bounds}


async def _bounds_settle(plane: Plane, space: str, wanted: dict[str, Bounds]) -> dict[str, Bounds]:
    return await settled(lambda: _bounds(plane, space), lambda found: found == wanted, seconds=LONG)


async def _maximum(plane: Plane, space: str, member: str) -> int:
    async with plane.members[member].api() as api:
        return int((await _hpa(api, space) or {"spec": {"maxReplicas": 0}})["spec"]["maxReplicas"])


async def _writes(plane: Plane, space: str) -> dict[str, Any]:
    """Returns who wrote each member's HPA but its status, and when."""

    async def of(member: str) -> Any:
        async with plane.members[member].api() as api:
            found = await _hpa(api, space)
        fields = (found or {}).get("metadata", {}).get("managedFields", [])
        return [(each["manager"], each["time"]) for each in fields if not each.get("subresource")]

    found = await gather(*(of(member) for member in plane.members))
    return dict(zip(plane.members, found, strict=True))


async def _replicas_of(plane: Plane, space: str, member: str) -> int:
    async with plane.members[member].api() as api:
        found = await api.get(f"/apis/apps/v1/namespaces/{space}/deployments/{NAME}")
        return int(found["spec"]["replicas"])


async def _ready(plane: Plane, space: str) -> dict[str, int]:
    """Returns how many pods are ready in each member."""

    async def of(member: str) -> int:
        async with plane.members[member].api() as api:
            found = await api.get(f"/apis/apps/v1/namespaces/{space}/deployments/{NAME}")
            return int((found.get("status") or {}).get("readyReplicas", 0))

    found = await gather(*(of(member) for member in plane.members))
    return dict(zip(plane.members, found, strict=True))
