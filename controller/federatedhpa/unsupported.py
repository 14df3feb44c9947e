"""Fields that admission accepts but this version cannot act on.

Nothing is scaled while one is set, and a condition names the field. Fields that this version does not even
know hold nothing; another condition names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedhpa.api.gate import Judgement
from fedhpa.api.texts import listed
from fedhpa.decision import Finding

# Reasons in conditions.
NOT_BUILT: Final = "NotBuilt"
UNKNOWN_FIELD: Final = "UnknownField"
PROPAGATED: Final = "Karmada's scheduler divides the replicas by the workload's PropagationPolicy"
# The API server holds the object to shorter names, unless its CRD is another one.
_MAX_SHOWN: Final = 64
_MAX_UNKNOWN: Final = 5

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
    "DynamicWeighted": _WEIGHTED % "dynamicWeight: AvailableReplicas",
    "StaticWeighted": _WEIGHTED % "staticWeightList: [{targetCluster: {clusterNames: [...]}, weight: ...}]",
}
_OF_KARMADA: Final = {
    "clusterHPAPreference": (
        "leave the field out, and limit the namespace in each cluster by the staticAssignments of a "
        "FederatedResourceQuota"
    ),
    "autoscaleMultiClusterDelay": (
        "leave the field out, and run karmada-descheduler, whose --unschedulable-threshold is that delay"
    ),
}

NO_BINDINGS: Final = (
    "spec.mode: Distributed with --propagation=karmada needs Karmada's ResourceBindings, which this hub does "
    "not serve: use --propagation=direct"
)


def unsupported_field(spec: Mapping[str, Any], *, direct: bool) -> str | None:
    """A message that names the first unsupported field of the spec; None if there is none.

    `direct` is true if this controller places the replicas (--propagation=direct).
    """
    if direct:
        return None
    if spec.get("mode") == "Distributed":
        return _unsupported_target(spec.get("scaleTargetRef"))
    assignment = (spec.get("federatedHPAAssignment") or {}).get("federatedHPAAssignmentType")
    if assignment is not None:
        field = f"spec.federatedHPAAssignment.federatedHPAAssignmentType: {str(assignment)[:_MAX_SHOWN]}"
        return _not_built(field, _remedy(str(assignment)))
    for name, remedy in _OF_KARMADA.items():
        if spec.get(name):
            return _not_built(f"spec.{name}", remedy)
    return None


def unknown_fields(judgement: Judgement) -> tuple[Finding, ...]:
    """The finding that names unknown fields of a spec, such as those of a newer release; () without any."""
    paths = judgement.unknown_fields
    if not paths:
        return ()
    what = f"this release does not know {listed(paths, _MAX_UNKNOWN)}, which has no effect"
    return (Finding(UNKNOWN_FIELD, f"{what}: run a release that does, or remove it"),)


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
    return (
        f"leave the field out, and write {_IN_POLICY[policy]} in the spec.placement of the PropagationPolicy"
    )


def _not_built(what: str, remedy: str) -> str:
    return f"{what} is not built for --propagation=karmada, where {PROPAGATED}: {remedy}"
