"""The defaults that admission writes and that the controller applies.

Sources: Kubernetes HPA 1.36 (autoscaling/v2 defaults, kube-controller-manager flags) and Karmada v1.19
(FederatedHPA mutation). Durations are in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple


class ScalingPolicyDefault(NamedTuple):
    """One default HPAScalingPolicy."""

    type: str
    value: int
    period_seconds: int


MIN_REPLICAS: Final = 1

# Empty or missing metrics become one Resource metric.
METRIC_TYPE: Final = "Resource"
METRIC_RESOURCE_NAME: Final = "cpu"
METRIC_AVERAGE_UTILIZATION: Final = 80

SELECT_POLICY: Final = "Max"
SCALE_UP_STABILIZATION_SECONDS: Final = 0
SCALE_UP_POLICIES: Final = (
    ScalingPolicyDefault("Pods", 4, 15),
    ScalingPolicyDefault("Percent", 100, 15),
)
# The scale-down window stays unset in the object; the controller's flag applies.
SCALE_DOWN_POLICIES: Final = (ScalingPolicyDefault("Percent", 100, 15),)

# Fields that Karmada does not have. Admission never writes these defaults.
MODE: Final = "Centralized"
PARTIAL_METRICS_POLICY: Final = "ScaleUpOnly"
AGGREGATION: Final = "Sum"

# Flags: --horizontal-pod-autoscaler-*, --cluster-lost-timeout, --new-hosts, --member-deadline.
SYNC_PERIOD_SECONDS: Final = 15.0
TOLERANCE: Final = 0.1
DOWNSCALE_STABILIZATION_SECONDS: Final = 300.0
CPU_INITIALIZATION_PERIOD_SECONDS: Final = 300.0
INITIAL_READINESS_DELAY_SECONDS: Final = 30.0
CLUSTER_LOST_TIMEOUT_SECONDS: Final = 300.0
# Of a cluster that begins to host a workload.
GROW: Final = "grow"
CORDON: Final = "cordon"
NEW_HOSTS: Final = GROW
MEMBER_DEADLINE_SECONDS: Final = 3.0

# The scale-up limit where an object has no behavior: max(factor x current, minimum).
SCALE_UP_LIMIT_FACTOR: Final = 2.0
SCALE_UP_LIMIT_MINIMUM: Final = 4

# The window of a pod metric if the metrics adapter names none.
POD_METRIC_WINDOW_SECONDS: Final = 60.0


def default_metrics() -> list[dict[str, Any]]:
    """Returns the JSON list that replaces empty or missing metrics: 80 per cent of the CPU requests."""
    target = {"type": "Utilization", "averageUtilization": METRIC_AVERAGE_UTILIZATION}
    return [{"type": METRIC_TYPE, "resource": {"name": METRIC_RESOURCE_NAME, "target": target}}]


def default_scaling_rules() -> dict[str, dict[str, Any]]:
    """Returns, for each direction, the JSON defaults of the fields that a given `behavior` leaves out."""
    up, down = (_policies(each) for each in (SCALE_UP_POLICIES, SCALE_DOWN_POLICIES))
    window = {"stabilizationWindowSeconds": SCALE_UP_STABILIZATION_SECONDS}
    return {
        "scaleUp": {**window, "selectPolicy": SELECT_POLICY, "policies": up},
        "scaleDown": {"selectPolicy": SELECT_POLICY, "policies": down},
    }


def _policies(defaults: Iterable[ScalingPolicyDefault]) -> list[dict[str, Any]]:
    return [
        {"type": each.type, "value": each.value, "periodSeconds": each.period_seconds} for each in defaults
    ]
