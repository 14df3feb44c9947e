"""The fields of a FederatedHPA that place its replicas in clusters.

Source: docs/explanation/placement.md, docs/reference/federatedhpa.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from fedhpa.api.affinity import Selection
from fedhpa.api.decode import decode
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import ClusterAffinity
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.decision.spec.wire import RawAssignment, RawCap, RawPreference, RawSpec

EXACT = "Exact"


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


def placement_spec(spec: RawSpec, path: str) -> PlacementSpec:
    """Returns the placement of a spec. Raises InvalidObject; `path` is that of federatedHPAAssignment."""
    raw = spec.federatedHPAAssignment or RawAssignment()
    return PlacementSpec(
        policy=raw.federatedHPAAssignmentType,
        exact=raw.minimumPolicy == EXACT,
        preferences=tuple(
            _preference(preference, f"{path}.clusterAutoscalingPreference[{index}]")
            for index, preference in enumerate(raw.clusterAutoscalingPreference or ())
        ),
        delay=spec.autoscaleMultiClusterDelay or 0.0,
        assist=spec.scaleAssist is not False,
        caps=_caps(spec.clusterHPAPreference),
        scaling_to_zero=spec.scalingToZero is True,
    )


def _caps(raw: RawCap | list[RawCap] | None) -> dict[str, Fraction]:
    """Returns the lowest cap of each named cluster."""
    found: dict[str, Fraction] = {}
    for cap in [raw] if isinstance(raw, RawCap) else raw or ():
        if cap.maxResourceUsage is not None:
            # Admission refuses values outside 0 to 1, so the nearest bound stands in. `str` keeps 0.29 exact.
            share = Fraction(str(min(max(cap.maxResourceUsage, 0.0), 1.0)))
            found[cap.clusterName] = min(share, found.get(cap.clusterName, share))
    return found


def _preference(raw: RawPreference, path: str) -> PlacementPreference:
    selection = None
    if raw.targetCluster is not None:
        try:
            selection = Selection(decode(ClusterAffinity, raw.targetCluster))
        except InvalidObject as error:
            raise InvalidObject(f"{path}.targetCluster: {error}") from error
    # Admission refuses negative numbers: 0 stands in.
    return PlacementPreference(
        selection,
        None if raw.staticWeight is None else max(raw.staticWeight, 0),
        raw.priority,
        None if raw.autoscalingMinThreshold is None else max(raw.autoscalingMinThreshold, 0),
        None if raw.autoscalingMaxThreshold is None else max(raw.autoscalingMaxThreshold, 0),
    )
