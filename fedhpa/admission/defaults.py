"""The defaults that /mutate writes into a FederatedHPA, as a JSON patch.

An object may be stored while no webhook runs. So the CRD has the same defaults (`fedhpa.admission.crd`), and
a decision applies them to objects without them (`fedhpa.decision.spec`).
Source: Karmada v1.19, FederatedHPA mutation (it follows the defaults of Kubernetes autoscaling/v2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpa.api import default_values

Patch = list[dict[str, Any]]

_ALIASES = ("federatedMinReplicas", "federatedMaxReplicas")


def default_patch(raw: Mapping[str, Any]) -> Patch:
    """Returns the JSON patch (RFC 6902) that adds the defaults to a raw FederatedHPA with valid JSON types.

    The patch is empty if nothing is missing, so applying it twice changes nothing. Null counts as absent.
    Only Karmada's fields have defaults; all other fields stay unchanged.
    """
    spec = raw.get("spec")
    if spec is None:
        # Karmada decodes an absent spec as an empty one.
        value = {"minReplicas": default_values.MIN_REPLICAS, "metrics": default_values.default_metrics()}
        return [{"op": "add", "path": "/spec", "value": value}]
    patch: Patch = []
    if spec.get("minReplicas") is None and all(spec.get(alias) is None for alias in _ALIASES):
        patch.append({"op": "add", "path": "/spec/minReplicas", "value": default_values.MIN_REPLICAS})
    if not spec.get("metrics"):
        patch.append({"op": "add", "path": "/spec/metrics", "value": default_values.default_metrics()})
    if spec.get("behavior") is not None:
        patch += _behavior_patch(spec["behavior"])
    return patch


def _behavior_patch(behavior: Mapping[str, Any]) -> Patch:
    patch: Patch = []
    for direction, rules in default_values.default_scaling_rules().items():
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
