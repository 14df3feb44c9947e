"""Workloads of the real tests, their usage, and their replicas in the members."""

from typing import Any

from testbed.real.plane import Plane
from testbed.stage.waiting import eventually, gather
from tests.real.settling import done, settled

# Usage of a pod. A busy one uses three times its request, so that one reconcile scales two pods to six,
# before metrics-server has measured the new pods.
BUSY, IDLE = "1500m", "20m"
# Longer than metrics-server takes on a busy machine. It scrapes every 10 s, and a rate needs two scrapes.
SECONDS = 180.0


def namespace(name: str) -> dict[str, Any]:
    """Returns a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def deployment(name: str, namespace: str, *, replicas: int, cpu: str = "500m") -> dict[str, Any]:
    """Returns a Deployment whose pods have one container of the same name, which requests `cpu`."""
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
    """Returns a FederatedHPA of the Deployment of the same name, by CPU.

    It has no stabilization and is reconciled every 2 s.
    """
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
    """Returns the path of a FederatedHPA."""
    return f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{namespace}/federatedhpas/{name}"


async def replicas(plane: Plane, name: str, namespace: str) -> dict[str, int]:
    """Returns spec.replicas of the Deployment in each member, read from the members."""

    async def of(member: str) -> int:
        async with plane.members[member].api() as api:
            found = await api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
            return int(found["spec"]["replicas"])

    return dict(zip(plane.members, await gather(*(of(member) for member in plane.members)), strict=True))


async def replicas_settle(plane: Plane, name: str, namespace: str, wanted: dict[str, int]) -> dict[str, int]:
    """Returns spec.replicas in each member once they are `wanted`, or after the deadline."""
    return await settled(lambda: replicas(plane, name, namespace), lambda found: found == wanted)


async def run_everywhere(plane: Plane, name: str, space: str, *, replicas: int) -> None:
    """Applies the Deployment in every member, and its namespace in every member and on the hub."""
    for one in (plane.hub, *plane.members.values()):
        async with one.api() as api:
            own = [] if one is plane.hub else [deployment(name, space, replicas=replicas)]
            await api.apply_all([namespace(space), *own])


async def set_usage_everywhere(plane: Plane, name: str, namespace: str, cpu: str) -> None:
    """Sets the CPU usage of each container of that name, in every member."""
    usage = {name: {"cpu": cpu, "memory": "64Mi"}}

    async def everywhere() -> None:
        await gather(*(member.set_usage(namespace, usage) for member in plane.members.values()))

    # A restarted API server takes a moment to serve kwok's kind.
    await done(everywhere, f"usage of {name}")


async def until_total(plane: Plane, name: str, namespace: str, total: int) -> None:
    """Waits for this many replicas in all members together."""

    async def reached() -> bool:
        return sum((await replicas(plane, name, namespace)).values()) == total

    await eventually(reached, what=f"{total} replicas of {name} in {namespace}", seconds=SECONDS, every=0.5)


def utilization(found: Any) -> int:
    """Returns the CPU utilization in a FederatedHPA's status, or 1000 if it has none."""
    for metric in (found.get("status") or {}).get("currentMetrics") or []:
        value = metric.get("resource", {}).get("current", {}).get("averageUtilization")
        if value is not None:
            return int(value)
    return 1000


def message(found: Any, kind: str) -> str:
    """Returns the message of a condition."""
    return str(next(c["message"] for c in found["status"]["conditions"] if c["type"] == kind))
