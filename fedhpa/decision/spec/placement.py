"""What a FederatedHPA says about where its replicas go.

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


class Preference(msgspec.Struct, frozen=True):
    """What holds for the clusters that `selection` selects; None selects all."""

    selection: Selection | None = None
    weight: int | None = None
    priority: int | None = None
    low: int | None = None
    high: int | None = None


class Placement(msgspec.Struct, frozen=True):
    """How the clusters share. `policy` None gives them equal weights; `delay` is in seconds.

    `caps` is the largest share of a cluster, 0 to 1, that the workload's requests may take. `exact` says
    that clusters may be left without a replica. `assist` is whether pods that no node has room for are placed
    in other clusters.
    """

    policy: str | None = None
    exact: bool = False
    preferences: tuple[Preference, ...] = ()
    delay: float = 0.0
    assist: bool = True
    caps: Mapping[str, Fraction] = {}

    def preferred(self, clusters: Iterable[KnownCluster]) -> dict[str, Preference]:
        """The first preference that selects each cluster; none for those that none selects."""
        left = {cluster.name: cluster for cluster in clusters}
        by_label: dict[tuple[str, str], list[str]] = {}
        for cluster in left.values():
            for pair in cluster.labels.items():
                by_label.setdefault(pair, []).append(cluster.name)
        found: dict[str, Preference] = {}
        for preference in self.preferences:
            if not left:
                break
            for name in _narrowed(preference.selection, left, by_label):
                if preference.selection is None or preference.selection.selects(left[name]):
                    found[name] = preference
                    del left[name]
        return found


def _narrowed(
    selection: Selection | None,
    left: Mapping[str, KnownCluster],
    by_label: Mapping[tuple[str, str], Sequence[str]],
) -> list[str]:
    """Those of the clusters left that may be selected: by their names or one of their labels, if it says so.

    A thousand preferences must not look at a thousand clusters each.
    """
    if selection is None:
        return list(left)
    if selection.named:
        return [name for name in selection.named if name in left]
    if selection.labelled is None:
        return list(left)
    label, values = selection.labelled
    return [name for value in values for name in by_label.get((label, value), ()) if name in left]


def placement(spec: RawSpec, path: str) -> Placement:
    """Reads the part of a spec; `path` is the assignment's. Raises InvalidObject naming the field."""
    raw = spec.federatedHPAAssignment or RawAssignment()
    return Placement(
        policy=raw.federatedHPAAssignmentType,
        exact=raw.minimumPolicy == EXACT,
        preferences=tuple(
            _preference(preference, f"{path}.clusterAutoscalingPreference[{index}]")
            for index, preference in enumerate(raw.clusterAutoscalingPreference or ())
        ),
        delay=spec.autoscaleMultiClusterDelay or 0.0,
        assist=spec.scaleAssist is not False,
        caps=_caps(spec.clusterHPAPreference),
    )


def _caps(raw: RawCap | list[RawCap] | None) -> dict[str, Fraction]:
    """The lowest cap of each cluster that is named."""
    found: dict[str, Fraction] = {}
    for cap in [raw] if isinstance(raw, RawCap) else raw or ():
        if cap.maxResourceUsage is not None:
            # What admission would have refused is read as the nearest that it allows; 0.29 of 100 is 29.
            share = Fraction(str(min(max(cap.maxResourceUsage, 0.0), 1.0)))
            found[cap.clusterName] = min(share, found.get(cap.clusterName, share))
    return found


def _preference(raw: RawPreference, path: str) -> Preference:
    selection = None
    if raw.targetCluster is not None:
        try:
            selection = Selection(decode(ClusterAffinity, raw.targetCluster))
        except InvalidObject as error:
            raise InvalidObject(f"{path}.targetCluster: {error}") from error
    # What admission would have refused is read as the nearest that it allows.
    return Preference(
        selection,
        None if raw.staticWeight is None else max(raw.staticWeight, 0),
        raw.priority,
        None if raw.autoscalingMinThreshold is None else max(raw.autoscalingMinThreshold, 0),
        None if raw.autoscalingMaxThreshold is None else max(raw.autoscalingMaxThreshold, 0),
    )
