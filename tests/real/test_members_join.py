"""`fedhpa join` and `fedhpa unjoin` on real planes: join two members, scale, unjoin one, nothing dangles."""

from __future__ import annotations

import subprocess
import sys
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fedhpa.api.rights import ADAPTER, CONTROLLER
from testbed.real.controlplane import ControlPlane
from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from testbed.stage.registrations import member_rights
from testbed.stage.waiting import eventually
from tests.real.workloads import (
    BUSY,
    SECONDS,
    federated_hpa,
    federated_hpa_path,
    run_everywhere,
    set_usage_everywhere,
    until_total,
)

NAME, SPACE = "joined", "joined"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
KINDS = (
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    f"{RBAC}/roles",
    f"{RBAC}/rolebindings",
    f"{RBAC}/clusterroles",
    f"{RBAC}/clusterrolebindings",
)


async def command(plane: Plane, verb: str, member: str, *options: str) -> str:
    """Runs `fedhpa join` or `fedhpa unjoin` as administrator of both sides; returns its output."""
    ran = await to_thread(
        subprocess.run,
        [
            str(Path(sys.executable).with_name("fedhpa")),
            verb,
            member,
            f"--kubeconfig={plane.hub.kubeconfig}",
            f"--cluster-kubeconfig={plane.members[member].kubeconfig}",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return ran.stdout


async def labelled(plane: ControlPlane, label: str) -> list[str]:
    """The kinds and names of all objects with a label."""
    found = []
    async with plane.api() as api:
        for path in KINDS:
            listed = await api.get(path, labelSelector=label)
            found += [f"{path.rpartition('/')[2]}/{item['metadata']['name']}" for item in listed["items"]]
    return sorted(found)


@asynccontextmanager
async def alone(plane: Plane) -> AsyncIterator[None]:
    """A hub without Clusters; afterwards the members are registered as before."""
    async with plane.hub.api() as hub:
        for name in plane.members:
            await hub.delete(f"{CLUSTERS}/{name}")
    try:
        yield
    finally:
        for name, member in plane.members.items():
            async with member.api() as api:
                await api.apply_all(member_rights())
            async with plane.hub.api() as hub:
                if await hub.find(f"{CLUSTERS}/{name}") is not None:
                    await command(plane, "unjoin", name)
                    async with member.api() as api:
                        await api.apply_all(member_rights())
            await plane.hub.register(member)


async def test_members_join_scale_and_leave(plane: Plane, processes: Processes) -> None:
    """The running processes use the joined members at once, and the second unjoin finds nothing."""
    assert processes.ports
    users = (f"--controller-user={CONTROLLER}", f"--adapter-user={ADAPTER}")
    path = federated_hpa_path(NAME, SPACE)
    await set_usage_everywhere(plane, NAME, SPACE, BUSY)
    await run_everywhere(plane, NAME, SPACE, replicas=1)
    async with alone(plane), plane.hub.api() as hub:
        for name in plane.members:
            said = await command(plane, "join", name, *users)
            assert said.startswith(f"{name} has joined.")

        async def ready() -> bool:
            listed = (await hub.get(CLUSTERS))["items"]
            found = [one["status"]["conditions"][0]["status"] for one in listed if one.get("status")]
            return found == ["True", "True"]

        await eventually(ready, what="both Clusters are ready", seconds=SECONDS)
        await hub.apply_all([federated_hpa(NAME, SPACE, low=2, high=6)])
        try:
            await until_total(plane, NAME, SPACE, 6)
        finally:
            await hub.delete(path)
        left = await command(plane, "unjoin", "member2")
        again = await command(plane, "unjoin", "member2", "--force")

        assert "The hub has forgotten member2." in left
        assert "member2 has forgotten the hub." in left
        assert again.splitlines() == [
            "The hub has nothing of member2 in namespace fedhpa-system.",
            "member2 has nothing of the hub in namespace fedhpa-system.",
        ]
        assert await labelled(plane.hub, "fedhpa.io/cluster=member2") == []
        # Another test may have applied the ClusterRole for readers of metrics alone.
        assert set(await labelled(plane.members["member2"], "app.kubernetes.io/part-of=fedhpa")) <= {
            "clusterroles/fedhpa:member-metrics"
        }
        assert await labelled(plane.hub, "fedhpa.io/cluster=member1") == [
            "rolebindings/fedhpa:member-metrics-secret:member1",
            "rolebindings/fedhpa:member-secret:member1",
            "rolebindings/fedhpa:member-token:member1",
            "roles/fedhpa:member-metrics-secret:member1",
            "roles/fedhpa:member-secret:member1",
            "roles/fedhpa:member-token:member1",
            "secrets/fedhpa-member-member1",
            "secrets/fedhpa-member-member1-metrics",
        ]
        assert [one["metadata"]["name"] for one in (await hub.get(CLUSTERS))["items"]] == ["member1"]
