"""Fields of a FederatedHPA that --propagation=karmada cannot act on, each with the remedy.

Nothing is scaled while one of them is set. Fields that this version does not even know hold nothing; another
condition names them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

PROPAGATED: Final = "Karmada's scheduler divides the replicas by the workload's PropagationPolicy"
# The API server holds the object to shorter names, unless its CRD is another one.
_MAX_SHOWN: Final = 64
_MAX_JSON: Final = 200

_WEIGHTED: Final = (
    "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, "
    "weightPreference: {%s}}"
)
# The policies that a PropagationPolicy has, too (docs/decisions/0017).
_IN_POLICY: Final = {
    "Duplicated": "replicaScheduling: {replicaSchedulingType: Duplicated}",
    "Aggregated": (
        "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}"
    ),
    # Overflow needs a division by free capacity.
    "Prioritized": (
        "clusterAffinities: [{affinityName: first, clusterNames: [...], overflowAffinities: "
        "[{affinityName: next, ...}]}] and replicaScheduling: {replicaSchedulingType: Divided, "
        "replicaDivisionPreference: Aggregated} (since Karmada v1.18)"
    ),
    "DynamicWeighted": _WEIGHTED % "dynamicWeight: AvailableReplicas",
    "StaticWeighted": _WEIGHTED % "staticWeightList: [{targetCluster: {clusterNames: [...]}, weight: ...}]",
}
WHEN_QUIET: Final = "WhenQuiet"
_REBALANCER: Final = (
    "leave the field out, and create a WorkloadRebalancer (apps.karmada.io/v1alpha1) that names the workload "
    "whenever it is to be placed anew"
)
_OF_KARMADA: Final = {
    "clusterHPAPreference": (
        "leave the field out, and limit the namespace in each cluster by the staticAssignments of a "
        "FederatedResourceQuota"
    ),
    "autoscaleMultiClusterDelay": (
        "leave the field out, and run karmada-descheduler, whose --unschedulable-threshold is that delay"
    ),
}


def unsupported_field(spec: Mapping[str, Any]) -> str | None:
    """A message that names the first unsupported field of the spec; None if there is none."""
    if (spec.get("clusterAffinity") or {}).get("placementDecision"):
        return _not_built("spec.clusterAffinity.placementDecision", "name the clusters in its spec.placement")
    if spec.get("mode") == "Distributed":
        return _unsupported_target(spec.get("scaleTargetRef"))
    given = spec.get("federatedHPAAssignment") or {}
    assignment = given.get("federatedHPAAssignmentType")
    if assignment is not None:
        field = f"spec.federatedHPAAssignment.federatedHPAAssignmentType: {str(assignment)[:_MAX_SHOWN]}"
        return _not_built(field, _remedy(str(assignment)))
    if given.get("rebalance") == WHEN_QUIET:
        return _not_built("spec.federatedHPAAssignment.rebalance: WhenQuiet", _REBALANCER)
    for name, remedy in _OF_KARMADA.items():
        if spec.get(name):
            return _not_built(f"spec.{name}", remedy)
    affinity = spec.get("clusterAffinity")
    if affinity:
        # JSON is YAML too, and a placement has the same fields.
        return _not_built("spec.clusterAffinity", _in_placement(f"clusterAffinity: {_short_json(affinity)}"))
    return None


def _unsupported_target(reference: object) -> str | None:
    found = reference if isinstance(reference, Mapping) else {}
    version, kind = (str(found.get(name))[:_MAX_SHOWN] for name in ("apiVersion", "kind"))
    if (version, kind) == ("apps/v1", "Deployment"):
        return None
    return (
        f"spec.scaleTargetRef: {version} {kind}: with --propagation=karmada mode Distributed is built only "
        "for apps/v1 Deployment, because Karmada undoes what member HPAs set on other kinds: use mode "
        "Centralized, or --propagation=direct"
    )


def _remedy(policy: str) -> str:
    if policy not in _IN_POLICY:
        return "Karmada has no such policy, so leave the field out, or use --propagation=direct"
    return _in_placement(_IN_POLICY[policy])


def _in_placement(fields: str) -> str:
    return f"leave the field out, and write {fields} in the spec.placement of the PropagationPolicy"


def _short_json(value: object) -> str:
    """The value as JSON; {...} for one that is too long for a condition."""
    text = json.dumps(value)
    return text if len(text) <= _MAX_JSON else "{...}"


def _not_built(what: str, remedy: str) -> str:
    return f"{what} is not built for --propagation=karmada, where {PROPAGATED}: {remedy}"
