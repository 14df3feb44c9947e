"""The marks of a FederatedHPA that has HPAs in members: its finalizer, and the record's list of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller.publish import FEDERATED_HPAS, FIELD_MANAGER
from fedhpa.api.member_hpas import FINALIZER
from fedhpa.decision import MemoryState
from fedhpa.kube import ApiClient, patch_finalizers

DISTRIBUTED: Final = "Distributed"
# The condition of member HPAs.
ASSIGNED: Final = "Assigned"
# The seeds' default would let each cluster run maxReplicas.
POLICY_IS_MISSING: Final = (
    "mode Distributed needs a policy, because without one each cluster would run up to maxReplicas: write "
    "spec.federatedHPAAssignment.federatedHPAAssignmentType, such as StaticWeighted for equal parts, or "
    "Duplicated for maxReplicas in each cluster"
)


def has_finalizer(raw: Mapping[str, Any]) -> bool:
    """True if a FederatedHPA has the finalizer."""
    return FINALIZER in (raw["metadata"].get("finalizers") or ())


def is_deleted(raw: Mapping[str, Any]) -> bool:
    """True if a FederatedHPA is being deleted."""
    return bool(raw["metadata"].get("deletionTimestamp"))


async def set_finalizer(hub: ApiClient, raw: Mapping[str, Any], deadline: float, *, wanted: bool) -> bool:
    """Add the finalizer to the object read as `raw`, or remove it. Other finalizers stay.

    Returns False if the object was deleted, or created again, in between; then nothing is written. Raises
    Conflict after five tries, and ApiError if the hub refuses. The deadline applies to each call.
    """
    metadata = raw["metadata"]
    path = FEDERATED_HPAS.path(metadata["namespace"], metadata["name"])

    def change(present: Sequence[str]) -> list[str]:
        others = [each for each in present if each != FINALIZER]
        if (FINALIZER in present) == wanted:
            return list(present)
        return [*others, FINALIZER] if wanted else others

    found = await patch_finalizers(hub, path, metadata, change, manager=FIELD_MANAGER, deadline=deadline)
    return found is not None and (FINALIZER in found) == wanted


def clusters_with_hpas(state: MemoryState) -> set[str]:
    """Returns the clusters that may have an HPA of ours."""
    return {name for name, one in state.clusters.items() if one.may_have_hpa}
