"""The static defaults of a FederatedHPA, in the two forms they are needed in.

Admission writes them into raw objects as a JSON patch that holds nothing else; the controller and `fedhpa
replay` apply them to the model, because an object may have been stored while no webhook ran.
Source: Karmada v1.19, FederatedHPA mutation (it follows the defaults of Kubernetes autoscaling/v2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpa.api import default_values
from fedhpa.api.autoscaling import Behavior, HPAScalingRules, MetricSpec
from fedhpa.api.federatedhpa import FederatedHPA

Patch = list[dict[str, Any]]

_ALIASES = ("federatedMinReplicas", "federatedMaxReplicas")


def default_metrics() -> list[dict[str, Any]]:
    """What empty or missing metrics become, as on the wire."""
    target = {"type": "Utilization", "averageUtilization": default_values.METRIC_AVERAGE_UTILIZATION}
    return [{"type": "Resource", "resource": {"name": default_values.METRIC_RESOURCE_NAME, "target": target}}]


def default_scaling_rules() -> dict[str, dict[str, Any]]:
    """What each direction of a present behavior has where the user gave nothing, as on the wire."""
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": default_values.SCALE_UP_STABILIZATION_SECONDS,
            "selectPolicy": default_values.SELECT_POLICY,
            "policies": _policies(default_values.SCALE_UP_POLICIES),
        },
        "scaleDown": {
            "selectPolicy": default_values.SELECT_POLICY,
            "policies": _policies(default_values.SCALE_DOWN_POLICIES),
        },
    }


def _policies(policies: tuple[default_values.ScalingPolicyDefault, ...]) -> list[dict[str, Any]]:
    return [
        {"type": policy.type, "value": policy.value, "periodSeconds": policy.period_seconds}
        for policy in policies
    ]


def default_patch(raw: Mapping[str, Any]) -> Patch:
    """The JSON patch (RFC 6902) that writes the defaults into a raw FederatedHPA whose JSON types fit.

    Empty when nothing is missing, so applying it twice changes nothing. Null counts as absent. Fields nobody
    here knows are not touched, nor are the defaults of fields of ours written.
    """
    spec = raw.get("spec")
    if spec is None:
        # Karmada's types have no absent spec: it is an empty one.
        value = {"minReplicas": default_values.MIN_REPLICAS, "metrics": default_metrics()}
        return [{"op": "add", "path": "/spec", "value": value}]
    patch: Patch = []
    if spec.get("minReplicas") is None and all(spec.get(alias) is None for alias in _ALIASES):
        patch.append({"op": "add", "path": "/spec/minReplicas", "value": default_values.MIN_REPLICAS})
    if not spec.get("metrics"):
        patch.append({"op": "add", "path": "/spec/metrics", "value": default_metrics()})
    if spec.get("behavior") is not None:
        patch += _behavior_patch(spec["behavior"])
    return patch


def _behavior_patch(behavior: Mapping[str, Any]) -> Patch:
    patch: Patch = []
    for direction, rules in default_scaling_rules().items():
        path = f"/spec/behavior/{direction}"
        given = behavior.get(direction)
        if given is None:
            patch.append({"op": "add", "path": path, "value": rules})
            continue
        patch += [
            {"op": "add", "path": f"{path}/{field}", "value": value}
            for field, value in rules.items()
            if given.get(field) is None
        ]
    return patch


def with_defaults(fhpa: FederatedHPA) -> FederatedHPA:
    """The object with the static defaults applied, and min and max read under either of their names.

    `min_replicas` is set in the result; `max_replicas` is, if either name of it was given. An object that
    gives two different numbers was refused by admission; here the plain names win.
    """
    spec = fhpa.spec
    min_replicas = spec.min_replicas if spec.min_replicas is not None else spec.federated_min_replicas
    max_replicas = spec.max_replicas if spec.max_replicas is not None else spec.federated_max_replicas
    changes: dict[str, Any] = {
        "min_replicas": default_values.MIN_REPLICAS if min_replicas is None else min_replicas,
        "max_replicas": max_replicas,
    }
    if not spec.metrics:
        changes["metrics"] = tuple(MetricSpec.model_validate(metric) for metric in default_metrics())
    if spec.behavior is not None:
        changes["behavior"] = _behavior_with_defaults(spec.behavior)
    return fhpa.model_copy(update={"spec": spec.model_copy(update=changes)})


def _behavior_with_defaults(behavior: Behavior) -> Behavior:
    defaults = Behavior.model_validate(default_scaling_rules())
    assert defaults.scale_up is not None
    assert defaults.scale_down is not None
    return behavior.model_copy(
        update={
            "scale_up": _rules_with_defaults(behavior.scale_up, defaults.scale_up),
            "scale_down": _rules_with_defaults(behavior.scale_down, defaults.scale_down),
        }
    )


def _rules_with_defaults(rules: HPAScalingRules | None, defaults: HPAScalingRules) -> HPAScalingRules:
    if rules is None:
        return defaults
    missing = {
        name: getattr(defaults, name)
        for name in ("stabilization_window_seconds", "select_policy", "policies")
        if getattr(rules, name) is None
    }
    return rules.model_copy(update=missing)
