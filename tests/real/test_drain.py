"""`fedhpa drain` on real planes: the replicas of one of three members move, and no ready pod is missed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fedhpa.api.rights import hub_rights
from testbed.real.member import Member
from testbed.real.plane import Plane
from testbed.stage import gather, ready_pods
from testbed.stage.processes import Processes
from tests.real.settling import done, settled
from tests.real.workloads import (
    BUSY,
    SECONDS,
    deployment,
    federated_hpa,
    federated_hpa_path,
    namespace,
    replicas,
    set_usage_everywhere,
)
from tests.support.commands import Ran
from tests.support.nightly import AT_NIGHT
from tests.support.timing import background

NAME, SPACE, PERSON = "web", "drained", "ann"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
MEMBERS = ("member1", "member2", "member3")
# Each replica that moves costs a minute here. Larger moves follow the same rules in tests/virtual.
EACH, MOST, STEP = 1, 3, 1
EQUAL = {"federatedHPAAssignmentType": "StaticWeighted"}
SLOW, AT_ONCE = ({"testbed.fedhpa.io/ready-after": after} for after in ("60s", "1s"))


class State(NamedTuple):
    """spec.replicas of each member, and the ready pods of all."""

    replicas: tuple[int, ...]
    ready: int


class Watched:
    """The states of the members while it watched."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self.states: list[State] = []

    async def follow(self) -> None:
        """Reads all members about three times a second, until it is cancelled.

        Members are not read at the same instant, so only what two readings in a row agree on counts.
        """
        before = None
        while True:
            now = await state(self._plane)
            if now == before and now not in self.states[-1:]:
                self.states.append(now)
            before = now
            await asyncio.sleep(0.3)


async def state(plane: Plane) -> State:
    """Returns the present state of all members."""

    async def of(member: Member) -> tuple[int, int]:
        async with member.api() as api:
            found, ready = await gather(
                api.get(f"/apis/apps/v1/namespaces/{SPACE}/deployments/{NAME}"), ready_pods(api, SPACE, NAME)
            )
        return int(found["spec"]["replicas"]), len(ready)

    found = await gather(*(of(member) for member in plane.members.values()))
    return State(tuple(count for count, _ in found), sum(ready for _, ready in found))


@asynccontextmanager
async def third_member(plane: Plane) -> AsyncIterator[None]:
    """The plane has a third member until the end."""
    member = Member(plane.run, plane.assets, MEMBERS[2])
    try:
        await member.start()
        await plane.hub.register(member)
        plane.members[member.name] = member
        yield
    finally:
        plane.members.pop(member.name, None)
        async with plane.hub.api() as hub:
            await hub.delete(f"{CLUSTERS}/{member.name}")
        await member.end()


async def run_slowly(plane: Plane) -> None:
    """Applies the Deployment with slow pods in every member, and its namespace there and on the hub.

    The first pods get ready at once.
    """
    slow = deployment(NAME, SPACE, replicas=EACH)
    slow["spec"]["template"]["metadata"]["annotations"] = SLOW
    async with plane.hub.api() as hub:
        await hub.apply(namespace(SPACE))
    for one in plane.members.values():
        async with one.api() as api:
            await api.apply_all([namespace(SPACE), slow])
            pods = f"/api/v1/namespaces/{SPACE}/pods"
            found = await api.wait(
                pods, lambda listed: len(listed["items"]) == EACH, what="the first pods", seconds=SECONDS
            )
            for pod in found["items"]:
                path = f"{pods}/{pod['metadata']['name']}"
                await api.patch(path, {"metadata": {"annotations": AT_ONCE}})


def operator(user: str) -> list[dict[str, Any]]:
    """Returns the role fedhpa:operator and its binding to a user."""
    (role,) = hub_rights(components=("operator",))
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "maintenance"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    return [role, binding]


async def fedhpa(plane: Plane, *arguments: str) -> Ran:
    """Runs the installed command as a process of a person with the role."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("fedhpa")),
        *arguments,
        f"--kubeconfig={plane.hub.user_kubeconfig(PERSON)}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ran(process.returncode, out.decode(), err.decode())


def leaves(found: Any) -> bool:
    """True while a cluster leaves, and its status says what it waits for."""
    return any(
        entry.get("membership") == "Leaving" and "ready in member" in entry.get("waitsFor", "")
        for entry in found["status"]["clusters"]
    )


def takes_part(found: Any) -> bool:
    """True once every cluster is a Member."""
    return not any(entry.get("membership") for entry in found["status"]["clusters"])


def is_scaled(found: Any) -> bool:
    """True once metrics of all three members count."""
    status = found.get("status") or {}
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    return bool(
        conditions.get("ScalingActive") == conditions.get("MetricsComplete") == "True"
        and len(status.get("clusters") or ()) == len(MEMBERS)
    )


@pytest.mark.parametrize("mode", ["Centralized", pytest.param("Distributed", marks=AT_NIGHT)])
async def test_a_member_is_drained_under_load_and_used_again(
    plane: Plane, processes: Processes, mode: str
) -> None:
    """The load wants more than maxReplicas allows, and pods get ready slowly.

    The command ends with 0 when member2 runs nothing. In between at most one step more than maxReplicas runs,
    and no ready pod goes before another one is ready. After `fedhpa uncordon` the next growth goes to member2
    again.
    """
    path = federated_hpa_path(NAME, SPACE)
    async with plane.hub.api() as hub, third_member(plane):
        await hub.apply_all(operator(PERSON))
        await run_slowly(plane)
        await set_usage_everywhere(plane, NAME, SPACE, BUSY)
        autoscaler = federated_hpa(NAME, SPACE, low=EACH, high=MOST)
        autoscaler["spec"] |= {"mode": mode, "syncPeriodSeconds": 1, "federatedHPAAssignment": EQUAL}
        await hub.apply_all([autoscaler])
        await hub.wait(path, is_scaled, what="all members' metrics count", seconds=SECONDS)
        begin = await settled(lambda: state(plane), lambda found: found == State((EACH,) * 3, MOST))
        watched = Watched(plane)
        async with background(watched.follow()):
            since = asyncio.get_running_loop().time()
            drain = asyncio.create_task(fedhpa(plane, "drain", "member2", "--timeout=3m"))
            try:
                shown = await hub.wait(path, leaves, what="member2 leaves", seconds=SECONDS)
                explained = await fedhpa(plane, "explain", f"fhpa/{NAME}", "-n", SPACE)
                drained = await drain
                waited = asyncio.get_running_loop().time() - since
            finally:
                drain.cancel()
            async with plane.members["member2"].api() as api:
                left = await settled(lambda: ready_pods(api, SPACE, NAME), lambda found: not found)
            emptied = await replicas(plane, NAME, SPACE)
            undone = await fedhpa(plane, "uncordon", "member2")
            await hub.wait(path, takes_part, what="all members take part", seconds=SECONDS)
        await done(
            lambda: hub.patch(path, {"spec": {"maxReplicas": MOST + EACH}}), "maxReplicas of the object"
        )
        grown = await settled(
            lambda: replicas(plane, NAME, SPACE), lambda found: sum(found.values()) == MOST + EACH
        )
        await hub.delete(path)

    assert begin == State((EACH,) * 3, MOST)
    assert (drained.code, undone.code) == (0, 0), drained.out + drained.err + undone.err
    assert f"member2 is drained: {EACH} replica moved." in drained.out
    assert left == []
    assert emptied["member2"] == 0
    assert sum(emptied.values()) == MOST
    assert max(sum(one.replicas) for one in watched.states) == MOST + STEP
    assert min(one.ready for one in watched.states) >= MOST
    assert waited >= 60
    entry = next(one for one in shown["status"]["clusters"] if one["name"] == "member2")
    assert shown["status"]["currentReplicas"] == MOST + STEP
    # In mode Distributed the HPAs of the members want what runs.
    assert shown["status"]["desiredReplicas"] == (MOST if mode == "Centralized" else MOST + STEP)
    assert "member2 leaves" in explained.out, explained.out
    assert entry["currentReplicas"] == EACH
    # In mode Distributed the HPAs at their maximum come first, and they need all of it.
    assert mode == "Distributed" or grown["member2"] == EACH
