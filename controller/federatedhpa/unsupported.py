"""What is admitted but not built in this version: the object is held, and a condition names the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PROPAGATED: Final = "with --propagation=karmada the workload's PropagationPolicy places the replicas"


def unbuilt_field(spec: Mapping[str, Any], *, direct: bool) -> str | None:
    """Why this version cannot act on the spec, naming the field; None if it can.

    `direct` says that the replicas are placed by this controller (--propagation=direct).
    """
    if spec.get("mode") == "Distributed":
        return "spec.mode: Distributed is not built in this version of the controller: use Centralized"
    assignment = (spec.get("federatedHPAAssignment") or {}).get("federatedHPAAssignmentType")
    if assignment is not None and not direct:
        return (
            f"spec.federatedHPAAssignment.federatedHPAAssignmentType: {assignment} is not built in this "
            f"version of the controller: leave it out, {PROPAGATED}"
        )
    if spec.get("clusterHPAPreference") and not direct:
        return (
            "spec.clusterHPAPreference is not built in this version of the controller: leave it out, "
            f"{PROPAGATED}"
        )
    if spec.get("autoscaleMultiClusterDelay") and not direct:
        return (
            "spec.autoscaleMultiClusterDelay is not built in this version of the controller: leave it out, "
            f"{PROPAGATED}"
        )
    return None
