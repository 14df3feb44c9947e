"""The placement of a Karmada policy, as a ResourceBinding carries it, as a FederatedHPA's assignment.

Source: pkg/apis/policy/v1alpha1/propagation_types.go of Karmada v1.19.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.assignment_policies import AssignmentPolicy
from fedhpa.api.taints import Toleration

# The values of replicaSchedulingType in a placement.
DIVIDED: Final = "Divided"
DUPLICATED: Final = "Duplicated"
_AVAILABLE: Final = "AvailableReplicas"


class StaticWeight(msgspec.Struct, frozen=True):
    """StaticClusterWeight: the weight of the clusters that a ClusterAffinity selects."""

    targetCluster: dict[str, Any] = {}
    weight: int = 0


class WeightPreference(msgspec.Struct, frozen=True):
    """ClusterPreferences: static weights, or what the scheduler computes weights from."""

    staticWeightList: list[StaticWeight] | None = None
    dynamicWeight: str | None = None


class ReplicaScheduling(msgspec.Struct, frozen=True):
    """ReplicaSchedulingStrategy: how the scheduler gives the replicas of a workload to clusters."""

    replicaSchedulingType: str | None = None
    replicaDivisionPreference: str | None = None
    weightPreference: WeightPreference | None = None


class Placement(msgspec.Struct, frozen=True):
    """Placement: the fields that say which clusters get replicas, and how many.

    `clusterAffinities` are groups of clusters, of which one is in use at a time. Each has an affinity inline,
    and `overflowAffinities` for replicas that do not fit (since Karmada v1.18).
    """

    clusterAffinity: dict[str, Any] | None = None
    clusterAffinities: list[dict[str, Any]] | None = None
    clusterTolerations: list[Toleration] | None = None
    spreadConstraints: list[dict[str, Any]] | None = None
    replicaScheduling: ReplicaScheduling | None = None

    def groups(self, observed: str) -> list[list[Mapping[str, Any]]]:
        """Returns the groups of clusters from the `observed` one on, else from the first.

        Each is a list of affinities: its own, and then those of its overflow.
        """
        if self.clusterAffinity is not None or not self.clusterAffinities:
            return [[self.clusterAffinity or {}]]
        names = [group.get("affinityName") for group in self.clusterAffinities]
        first = names.index(observed) if observed in names else 0
        return [[group, *(group.get("overflowAffinities") or ())] for group in self.clusterAffinities[first:]]

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """The tolerations of taints of Clusters."""
        return tuple(self.clusterTolerations or ())

    @property
    def scheduling(self) -> str:
        """As Karmada reads it: what is not Divided is Duplicated."""
        how = self.replicaScheduling
        return DIVIDED if how is not None and how.replicaSchedulingType == DIVIDED else DUPLICATED


def assignment_of(placement: Placement | None) -> dict[str, Any]:
    """Returns spec.federatedHPAAssignment of a FederatedHPA that divides as the placement does.

    Of several static weights of a cluster the largest counts, as in Karmada. A cluster without one gets 0.
    """
    how = None if placement is None else placement.replicaScheduling
    if placement is None or how is None or placement.scheduling == DUPLICATED:
        return _assignment(AssignmentPolicy.DUPLICATED)
    if how.replicaDivisionPreference == AssignmentPolicy.AGGREGATED:
        return _assignment(AssignmentPolicy.AGGREGATED)
    weights = how.weightPreference or WeightPreference()
    if weights.dynamicWeight == _AVAILABLE:
        return _assignment(AssignmentPolicy.DYNAMIC_WEIGHTED)
    static = sorted(weights.staticWeightList or (), key=lambda each: -each.weight)
    if not static:
        return _assignment(AssignmentPolicy.STATIC_WEIGHTED)  # equal weights, as in Karmada
    # The first preference that selects a cluster counts.
    preferences = [{"targetCluster": one.targetCluster, "staticWeight": max(one.weight, 0)} for one in static]
    return {
        **_assignment(AssignmentPolicy.STATIC_WEIGHTED),
        "clusterAutoscalingPreference": [*preferences, {"staticWeight": 0}],
    }


def with_assignment(spec: dict[str, Any], placement: Placement | None) -> dict[str, Any]:
    """Returns a FederatedHPA's spec with the placement's assignment where it has no type.

    The preferences of the FederatedHPA come first.
    """
    own = spec.get("federatedHPAAssignment") or {}
    if own.get("federatedHPAAssignmentType"):
        return spec
    found = assignment_of(placement)
    preferences = [
        *(own.get("clusterAutoscalingPreference") or ()),
        *(found.get("clusterAutoscalingPreference") or ()),
    ]
    merged = {**own, **found}
    if preferences:
        merged["clusterAutoscalingPreference"] = preferences
    return {**spec, "federatedHPAAssignment": merged}


def _assignment(policy: AssignmentPolicy) -> dict[str, Any]:
    return {"federatedHPAAssignmentType": str(policy)}
