"""The shapes whose runs are recorded: a load, and what happens to the pods. Loads are in pods at target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from benchmarks.closed_loop.worlds import noisy, steps, wave

MINUTES: Final = 30
STEP_SECONDS: Final = 5
NAME: Final = "web"
MODES: Final = ("Centralized", "Distributed")
# Milli-CPU of a pod.
REQUEST: Final = 500
LIMIT: Final = 1000
TARGET: Final = 60  # %
AT_TARGET: Final = REQUEST * TARGET // 100


class Shape(NamedTuple):
    """A load by seconds. `pod_start` is in seconds; the plane of an `alone` shape has no other shape."""

    name: str
    load: Callable[[float], Any]
    pod_start: int = 0
    most: int = 40
    alone: bool = False

    def demand(self, now: float) -> int:
        """Returns the demand on the workload in milli-CPU."""
        return round(float(self.load(now)) * AT_TARGET)


SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape("steps", steps((0, 8), (5, 16), (14, 9), (22, 20))),
        Shape("short-wave", wave(14, 7, minutes=10)),
        Shape("long-wave", wave(14, 9, minutes=20)),
        Shape("noise", noisy(wave(14, 6, minutes=30), 0.15)),
        Shape("spike", steps((0, 8), (10, 24), (12, 8))),
        Shape("slow-pods", wave(14, 8, minutes=15), pod_start=60),
        # The demand exceeds what the largest size serves, so a part of it is hidden.
        Shape("capped", steps((0, 8), (8, 44), (20, 8)), most=12),
        Shape("away", wave(14, 8, minutes=20), alone=True),
    )
}
WAVES: Final = ("short-wave", "long-wave")
# The member of that name is away in the shape `away`, from one minute to another.
AWAY: Final = "member3"
AWAY_MINUTES: Final = (8, 16)


def federated_hpa(shape: Shape, mode: str, namespace: str) -> dict[str, Any]:
    """Returns the object whose run is recorded."""
    target = {"type": "Utilization", "averageUtilization": TARGET}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "mode": mode,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": 3,
            "maxReplicas": shape.most,
            "federatedHPAAssignment": {"federatedHPAAssignmentType": "StaticWeighted"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def deployment(shape: Shape, namespace: str, replicas: int) -> dict[str, Any]:
    """Returns the workload in one member."""
    resources = {"requests": {"cpu": f"{REQUEST}m"}, "limits": {"cpu": f"{LIMIT}m"}}
    labels = {"app": NAME}
    slow = {"testbed.fedhpa.io/ready-after": f"{shape.pod_start}s"} if shape.pod_start else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": slow},
                "spec": {"containers": [{"name": NAME, "image": NAME, "resources": resources}]},
            },
        },
    }
