"""The clusters that a ClusterAffinity selects. All of its parts must hold. Source: Karmada v1.19."""

from __future__ import annotations

from fedhpa.api.cluster_affinity import ClusterAffinity, FieldSelector
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.meta import LabelSelectorRequirement
from fedhpa.api.selectors import EQUALS, IN, selector_of
from fedhpa.api.shape import stored_json


class Selection:
    """A parsed affinity. Raises InvalidObject if its label selector is invalid."""

    def __init__(self, affinity: ClusterAffinity) -> None:
        self._named = frozenset(affinity.cluster_names)
        self._excluded = frozenset(affinity.exclude)
        labels = affinity.label_selector
        self._labels = None if labels is None else selector_of(stored_json(labels))
        self._fields = affinity.field_selector

    @property
    def named(self) -> frozenset[str]:
        """The clusters in clusterNames; no other cluster is selected. Empty if the affinity names none."""
        return self._named

    @property
    def labelled(self) -> tuple[str, tuple[str, ...]] | None:
        """A label key, and values: each selected cluster has one of them. None without such a requirement."""
        for requirement in self._labels.requirements if self._labels is not None else ():
            if requirement.operator in (EQUALS, IN):
                return requirement.key, requirement.values
        return None

    def selects(self, cluster: KnownCluster) -> bool:
        """True if the affinity selects the cluster."""
        if cluster.name in self._excluded or (self._named and cluster.name not in self._named):
            return False
        if self._labels is not None and not self._labels.matches(cluster.labels):
            return False
        return self._fields is None or _has_fields(cluster, self._fields)


def _has_fields(cluster: KnownCluster, selector: FieldSelector) -> bool:
    return all(_has_field(cluster, requirement) for requirement in selector.match_expressions)


def _has_field(cluster: KnownCluster, requirement: LabelSelectorRequirement) -> bool:
    fields = {"provider": (cluster.provider,), "region": (cluster.region,), "zone": cluster.zones}
    found = any(value in requirement.values for value in fields.get(requirement.key, ()))
    return found if requirement.operator == "In" else not found
