"""The fields of a FederatedHPA that place its replicas in clusters.

Source: docs/explanation/placement.md, docs/reference/federatedhpa.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

import msgspec

from fedhpa.api.affinity import Selection
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import (
    ClusterHPAPreference,
    ClusterPreference,
    FederatedHPAAssignment,
    FederatedHPASpec,
)
from fedhpa.api.known_cluster import KnownCluster

EXACT: Final = "Exact"
PREFERENCES: Final = "spec.federatedHPAAssignment.clusterAutoscalingPreference"


class PlacementPreference(msgspec.Struct, frozen=True):
    """The preference for the clusters that `selection` selects; None selects all."""

    selection: Selection | None = None
    weight: int | None = None
    priority: int | None = None
    low: int | None = None
    high: int | None = None


class PlacementSpec(msgspec.Struct, frozen=True):
    """The division of the replicas among the clusters.

    `policy` None gives equal weights. `exact` allows clusters without a replica. `delay` is how many seconds
    pods may stay pending; with `assist` they then move to other clusters. `caps` is the largest part of
    each cluster, 0 to 1, that the workload's requests may take. With `scaling_to_zero` single clusters may
    run no replica (mode Distributed only).
    """

    policy: str | None = None
    exact: bool = False
    preferences: tuple[PlacementPreference, ...] = ()
    delay: float = 0.0
    assist: bool = True
    caps: Mapping[str, Fraction] = {}
    scaling_to_zero: bool = False

    def preferred(self, clusters: Iterable[KnownCluster]) -> dict[str, PlacementPreference]:
        """Returns the first preference that selects each cluster. Clusters without one are left out."""
        left = {cluster.name: cluster for cluster in clusters}
        by_label: dict[tuple[str, str], list[str]] = {}
        for cluster in left.values():
            for pair in cluster.labels.items():
                by_label.setdefault(pair, []).append(cluster.name)
        found: dict[str, PlacementPreference] = {}
        for preference in self.preferences:
            if not left:
                break
            for name in _candidates(preference.selection, left, by_label):
                if preference.selection is None or preference.selection.selects(left[name]):
                    found[name] = preference
                    del left[name]
        return found


def _candidates(
    selection: Selection | None,
    left: Mapping[str, KnownCluster],
    by_label: Mapping[tuple[str, str], Sequence[str]],
) -> list[str]:
    """Returns the clusters among `left` that the selection can select, by its names or one of its labels.

    It keeps a thousand preferences from each being compared with a thousand clusters.
    """
    if selection is None:
        return list(left)
    if selection.named:
        return [name for name in selection.named if name in left]
    if selection.labelled is None:
        return list(left)
    label, values = selection.labelled
    return [name for value in values for name in by_label.get((label, value), ()) if name in left]


def placement_spec(spec: FederatedHPASpec) -> PlacementSpec:
    """Returns the placement of a spec. Raises InvalidObject naming the field."""
    assignment = spec.federated_hpa_assignment or FederatedHPAAssignment()
    return PlacementSpec(
        policy=assignment.federated_hpa_assignment_type,
        exact=assignment.minimum_policy == EXACT,
        preferences=tuple(
            [
                _preference(preference, f"{PREFERENCES}[{index}]")
                for index, preference in enumerate(assignment.cluster_autoscaling_preference)
            ]
        ),
        delay=float(spec.autoscale_multi_cluster_delay or 0),
        assist=spec.scale_assist is not False,
        caps=_caps(spec.cluster_hpa_preference),
        scaling_to_zero=spec.scaling_to_zero is True,
    )


def _caps(caps: Iterable[ClusterHPAPreference]) -> dict[str, Fraction]:
    """Returns the lowest cap of each named cluster."""
    found: dict[str, Fraction] = {}
    for cap in caps:
        if cap.max_resource_usage is not None:
            # Admission refuses values outside 0 to 1, so the nearest bound stands in. `str` keeps 0.29 exact.
            share = Fraction(str(min(max(cap.max_resource_usage, 0.0), 1.0)))
            found[cap.cluster_name] = min(share, found.get(cap.cluster_name, share))
    return found


def _preference(preference: ClusterPreference, path: str) -> PlacementPreference:
    selection = None
    if preference.target_cluster is not None:
        try:
            selection = Selection(preference.target_cluster)
        except InvalidObject as error:
            raise InvalidObject(f"{path}.targetCluster: {error}") from error
    # Admission refuses negative numbers: 0 stands in.
    low, high = preference.autoscaling_min_threshold, preference.autoscaling_max_threshold
    return PlacementPreference(
        selection,
        None if preference.static_weight is None else max(preference.static_weight, 0),
        preference.priority,
        None if low is None else max(low, 0),
        None if high is None else max(high, 0),
    )
