"""Fields that admission accepts but this version cannot act on.

Nothing is scaled while one is set, and a condition names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# The reason in conditions.
NOT_BUILT: Final = "NotBuilt"
PROPAGATED: Final = "with --propagation=karmada the workload's PropagationPolicy places the replicas"


def unsupported_field(spec: Mapping[str, Any], *, direct: bool) -> str | None:
    """A message that names the first unsupported field of the spec; None if there is none.

    `direct` is true if this controller places the replicas (--propagation=direct).
    """
    if direct:
        return None
    if spec.get("mode") == "Distributed":
        return (
            "spec.mode: Distributed with --propagation=karmada is not built in this version of the "
            "controller: use Centralized, or --propagation=direct"
        )
    assignment = (spec.get("federatedHPAAssignment") or {}).get("federatedHPAAssignmentType")
    if assignment is not None:
        return _not_built(f"spec.federatedHPAAssignment.federatedHPAAssignmentType: {assignment}")
    for field in ("clusterHPAPreference", "autoscaleMultiClusterDelay"):
        if spec.get(field):
            return _not_built(f"spec.{field}")
    return None


def _not_built(what: str) -> str:
    return f"{what} is not built in this version of the controller: leave it out, {PROPAGATED}"
