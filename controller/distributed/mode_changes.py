"""The names of mode Distributed, and the clusters that may have HPAs of ours."""

from __future__ import annotations

from typing import Final

from fedhpa.decision import MemoryState

DISTRIBUTED: Final = "Distributed"
# The condition of member HPAs.
ASSIGNED: Final = "Assigned"
# The seeds' default would let each cluster run maxReplicas.
POLICY_IS_MISSING: Final = (
    "mode Distributed needs a policy, because without one each cluster would run up to maxReplicas: write "
    "spec.federatedHPAAssignment.federatedHPAAssignmentType, such as StaticWeighted for equal parts, or "
    "Duplicated for maxReplicas in each cluster"
)


def clusters_with_hpas(state: MemoryState) -> set[str]:
    """Returns the clusters that may have an HPA of ours."""
    return {name for name, one in state.clusters.items() if one.may_have_hpa}
