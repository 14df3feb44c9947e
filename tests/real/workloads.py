"""Objects that several real tests apply, and how they look at members."""

from typing import Any

from testbed.real.plane import Plane
from testbed.stage.waiting import gather
from tests.real.settling import done, settled


def namespace(name: str) -> dict[str, Any]:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def deployment(name: str, namespace: str, *, replicas: int, cpu: str = "500m") -> dict[str, Any]:
    """A Deployment of pods with one container, named like it, that requests `cpu`."""
    container = {"name": name, "image": "registry.invalid/none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def federated_hpa(name: str, namespace: str, *, low: int, high: int, utilization: int = 50) -> dict[str, Any]:
    """A FederatedHPA of the Deployment of the same name, by CPU, without stabilisation, looked at every 2
    s."""
    at_once = {"stabilizationWindowSeconds": 0}
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": low,
            "maxReplicas": high,
            "syncPeriodSeconds": 2,
            "behavior": {"scaleUp": at_once, "scaleDown": at_once},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def federated_hpa_path(name: str, namespace: str) -> str:
    """Where the FederatedHPA lives on the hub."""
    return f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{namespace}/federatedhpas/{name}"


async def replicas(plane: Plane, name: str, namespace: str) -> dict[str, int]:
    """spec.replicas of the Deployment in each member, read from the members themselves."""

    async def of(member: str) -> int:
        async with plane.members[member].api() as api:
            found = await api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
            return int(found["spec"]["replicas"])

    return dict(zip(plane.members, await gather(*(of(member) for member in plane.members)), strict=True))


async def replicas_settle(plane: Plane, name: str, namespace: str, wanted: dict[str, int]) -> dict[str, int]:
    """spec.replicas in each member once they are these, else what they are in the end."""
    return await settled(lambda: replicas(plane, name, namespace), lambda found: found == wanted)


async def run_everywhere(plane: Plane, name: str, space: str, *, replicas: int) -> None:
    """The Deployment and its namespace in every member; the namespace on the hub too."""
    for one in (plane.hub, *plane.members.values()):
        async with one.api() as api:
            own = [] if one is plane.hub else [deployment(name, space, replicas=replicas)]
            await api.apply_all([namespace(space), *own])


async def set_usage_everywhere(plane: Plane, name: str, namespace: str, cpu: str) -> None:
    """From now on each container of that name uses so much CPU, in every member."""
    usage = {name: {"cpu": cpu, "memory": "64Mi"}}

    async def everywhere() -> None:
        await gather(*(member.set_usage(namespace, usage) for member in plane.members.values()))

    # A member's API server that has just started again does not know kwok's kind at once.
    await done(everywhere, f"usage of {name}")
