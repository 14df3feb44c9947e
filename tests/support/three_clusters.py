"""An object with three clusters that answer, and how long `kubectl describe` of it may be."""

from __future__ import annotations

from typing import Any, Final

from tests.support.distributed_scenarios import METRIC, NOW, cluster, federated, hpa, replayed, scenario

CLUSTERS: Final = ("member1", "member2", "member3")
# Lines without events, and lines up to the type of Ready. Mode Distributed shows two bounds of each cluster.
MAX_LINES: Final = {"Centralized": (80, 40), "Distributed": (90, 46)}


def object_of(name: str, namespace: str) -> dict[str, Any]:
    """Returns the FederatedHPA of a Deployment of the same name, as a person writes it."""
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 2,
            "maxReplicas": 12,
            "metrics": [METRIC],
        },
    }


def quiet_status(mode: str) -> dict[str, Any]:
    """Returns the status of an object that was scaled a while ago, and whose clusters all answer."""
    distributed = mode == "Distributed"
    clusters = [_answering(name, hpa(1, 4, 3) if distributed else None) for name in CLUSTERS]
    obj = federated(2, 12)
    obj["spec"]["mode"] = mode
    obj["status"] = {"lastScaleTime": "2026-03-11T13:00:00Z"}
    found: dict[str, Any] = replayed(scenario(obj, *clusters))["status"]
    return found


def _answering(name: str, autoscaler: dict[str, Any] | None) -> dict[str, Any]:
    """Returns a cluster with three pods at their target."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-11T12:00:00Z"}
    metadata = [
        {"name": f"web-{number}", "namespace": "shop", "labels": {"app": "web"}} for number in range(3)
    ]
    container = {"name": "web", "resources": {"requests": {"cpu": "100m"}}}
    status = {"phase": "Running", "startTime": "2026-03-11T12:00:00Z", "conditions": [ready]}
    usage = {"timestamp": NOW, "window": "15s", "containers": [{"name": "web", "usage": {"cpu": "50m"}}]}
    pods = [{"metadata": one, "spec": {"containers": [container]}, "status": status} for one in metadata]
    return cluster(
        name, 3, autoscaler, pods=pods, podMetrics=[{"metadata": one, **usage} for one in metadata]
    )
