"""Admission warnings about fields that Karmada does not have: no effect, contradictions, unknown clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fedhpa.admission.validation.extensions import DISTRIBUTED, FALLBACK, has_extensions
from fedhpa.api import default_values
from fedhpa.api.affinity import Selection
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import ClusterAffinity, FederatedHPAAssignment, FederatedHPASpec
from fedhpa.api.fielderror import quoted
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.model import MAX_CLUSTERS, MAX_NAME

_ASSIGNMENT: Final = "spec.federatedHPAAssignment"
_PREFERENCES: Final = f"{_ASSIGNMENT}.clusterAutoscalingPreference"
DUPLICATED: Final = "Duplicated"
_SHOWN_CLUSTERS: Final = 3
# Comparisons with labels and names of clusters, which take about 0.1 s. A warning is not worth more.
_MAX_COMPARISONS: Final = 1_000_000


def warn_extensions(spec: FederatedHPASpec) -> Iterator[str]:
    """Yields warnings about fields that have no effect or contradict another field."""
    if not has_extensions(spec):
        return
    yield from _fallback(spec)
    yield from _assistance(spec)
    assignment = spec.federated_hpa_assignment
    if assignment is not None:
        yield from _assignment(assignment)
        yield from _thresholds(assignment, spec)
        yield from _named_twice(assignment)
    yield from _copies(spec)
    for affinity, path in _affinities(spec):
        if affinity.cluster_names and set(affinity.cluster_names) <= set(affinity.exclude):
            yield f"{path}: excludes every cluster that it names"


def warn_unknown_clusters(spec: FederatedHPASpec, clusters: Sequence[KnownCluster]) -> Iterator[str]:
    """Warns about selections without a registered cluster, and about the pods that Duplicated may run.

    A selection without a cluster is no error: clusters may join later.
    """
    yield from _known_copies(spec, clusters)
    affinities = list(_affinities(spec))
    if not affinities and not spec.cluster_hpa_preference:
        return
    names = {cluster.name for cluster in clusters}
    left = _MAX_COMPARISONS
    for affinity, path in affinities:
        unknown = [
            index
            for index, name in enumerate(affinity.cluster_names[:MAX_CLUSTERS])
            if name and name not in names
        ]
        if names and unknown:
            others = f" (nor are {len(unknown) - 1} others)" if len(unknown) > 1 else ""
            at = f"{path}.clusterNames[{unknown[0]}]"
            yield f"{at}: {_unknown(affinity.cluster_names[unknown[0]])}{others}; {_listed(names)}"
            continue
        left -= _size(affinity) * len(clusters)
        if left >= 0 and not _selects_any(affinity, clusters):
            yield f"{path}: selects no known cluster; {_listed(names)}"
    for index, cap in enumerate(spec.cluster_hpa_preference[:MAX_CLUSTERS]):
        if cap.cluster_name and cap.cluster_name not in names:
            at = f"spec.clusterHPAPreference[{index}].clusterName"
            yield f"{at}: {_unknown(cap.cluster_name)}; {_listed(names)}"


def _selects_any(affinity: ClusterAffinity, clusters: Sequence[KnownCluster]) -> bool:
    try:
        selection = Selection(affinity)
    except InvalidObject:
        return True  # Validation refuses the affinity.
    return any(selection.selects(cluster) for cluster in clusters)


def _size(affinity: ClusterAffinity) -> int:
    """Returns the largest number of comparisons that the affinity takes for one cluster."""
    labels, fields = affinity.label_selector, affinity.field_selector
    expressions = (
        *(labels.match_expressions if labels else ()),
        *(fields.match_expressions if fields else ()),
    )
    values = sum(1 + len(expression.values) for expression in expressions)
    return 1 + values + (len(labels.match_labels) if labels else 0)


def _unknown(name: str) -> str:
    return f"{quoted(name[:MAX_NAME])} is not a known cluster"


def _listed(names: set[str]) -> str:
    if not names:
        return "no cluster is known yet"
    more = len(names) - _SHOWN_CLUSTERS
    shown = ", ".join(sorted(names)[:_SHOWN_CLUSTERS])
    return f"known: {shown}" + (f" and {more} more" if more > 0 else "")


def _affinities(spec: FederatedHPASpec) -> Iterator[tuple[ClusterAffinity, str]]:
    if spec.cluster_affinity is not None:
        yield spec.cluster_affinity, "spec.clusterAffinity"
    if spec.federated_hpa_assignment is not None:
        preferences = spec.federated_hpa_assignment.cluster_autoscaling_preference
        for index, preference in enumerate(preferences[:MAX_CLUSTERS]):
            if preference.target_cluster is not None:
                yield preference.target_cluster, f"{_PREFERENCES}[{index}].targetCluster"


def _fallback(spec: FederatedHPASpec) -> Iterator[str]:
    partial = spec.partial_metrics
    if partial is None or partial.fallback_replicas is None:
        return
    path, replicas = "spec.partialMetrics.fallbackReplicas", partial.fallback_replicas
    if partial.policy != FALLBACK:
        yield f"{path}: has no effect without policy: {FALLBACK}"
        return
    low, high = _limits(spec)
    # No error, because a cron rule that changes the limits would then be refused.
    if high is not None and not low <= replicas <= high:
        yield f"{path}: {replicas} is outside the limits {low} and {high}, which still apply"


def _limits(spec: FederatedHPASpec) -> tuple[int, int | None]:
    return default_values.MIN_REPLICAS if spec.minimum is None else spec.minimum, spec.maximum


def _assistance(spec: FederatedHPASpec) -> Iterator[str]:
    if spec.scaling_to_zero and spec.mode != DISTRIBUTED:
        yield "spec.scalingToZero: has no effect in mode Centralized; write minReplicas: 0 instead"
    elif spec.scaling_to_zero and spec.scale_assist is False:
        yield "spec.scalingToZero: has no effect, because scaleAssist is false"
    if spec.autoscale_multi_cluster_delay and spec.scale_assist is False:
        yield "spec.autoscaleMultiClusterDelay: has no effect, because scaleAssist is false"


def _assignment(assignment: FederatedHPAAssignment) -> Iterator[str]:
    """Warns about weights and priorities that the policy ignores, and about policies that lack them."""
    policy = assignment.federated_hpa_assignment_type
    preferences = assignment.cluster_autoscaling_preference[:MAX_CLUSTERS]
    for name, of, same, given in (
        ("staticWeight", "StaticWeighted", "weigh", [p.static_weight for p in preferences]),
        ("priority", "Prioritized", "rank", [p.priority for p in preferences]),
    ):
        places = [index for index, value in enumerate(given) if value is not None]
        if policy == of and not places:
            yield f"{_ASSIGNMENT}: no preference has a {name}, so all clusters {same} the same"
        elif policy not in (None, of) and places:
            yield f"{_PREFERENCES}[{places[0]}].{name}: has no effect under {policy}"


def _copies(spec: FederatedHPASpec) -> Iterator[str]:
    """Warns that Duplicated gives the whole size to every cluster, with the number of pods if it is known."""
    _, high = _limits(spec)
    if not _duplicates(spec) or high is None:
        return
    named = _named_clusters(spec)
    if named:
        yield _whole_size(spec, len(named), high)
    else:
        yield f"{_ASSIGNMENT}: {_duplicated(spec)}: up to {high} pods in each"


def _known_copies(spec: FederatedHPASpec, clusters: Sequence[KnownCluster]) -> Iterator[str]:
    _, high = _limits(spec)
    if not _duplicates(spec) or high is None or _named_clusters(spec):
        return
    affinity = spec.cluster_affinity
    selected: Sequence[KnownCluster] = clusters
    if affinity is not None and _size(affinity) * len(clusters) <= _MAX_COMPARISONS:
        try:
            selection = Selection(affinity)
        except InvalidObject:
            return  # Validation refuses the affinity.
        selected = [cluster for cluster in clusters if selection.selects(cluster)]
    if len(selected) > 1:
        yield _whole_size(spec, len(selected), high)


def _duplicates(spec: FederatedHPASpec) -> bool:
    policy = _policy(spec)
    return policy == DUPLICATED or (policy is None and spec.mode == DISTRIBUTED)


def _policy(spec: FederatedHPASpec) -> str | None:
    assignment = spec.federated_hpa_assignment
    return None if assignment is None else assignment.federated_hpa_assignment_type


def _duplicated(spec: FederatedHPASpec) -> str:
    where = "" if _policy(spec) else "without a policy here or in a PropagationPolicy, "
    return f"{where}Duplicated gives the whole size to every cluster"


def _named_clusters(spec: FederatedHPASpec) -> set[str]:
    """Returns the clusters that spec.clusterAffinity selects by name alone."""
    affinity = spec.cluster_affinity
    if affinity is None or affinity.label_selector is not None or affinity.field_selector is not None:
        return set()
    return set(affinity.cluster_names[:MAX_CLUSTERS]) - set(affinity.exclude[:MAX_CLUSTERS])


def _whole_size(spec: FederatedHPASpec, count: int, high: int) -> str:
    return f"{_ASSIGNMENT}: {_duplicated(spec)}: up to {count} x {high} = {count * high} pods may run"


def _thresholds(assignment: FederatedHPAAssignment, spec: FederatedHPASpec) -> Iterator[str]:
    _, high = _limits(spec)
    for index, preference in enumerate(assignment.cluster_autoscaling_preference[:MAX_CLUSTERS]):
        low = preference.autoscaling_min_threshold
        if low is not None and high is not None and low > high:
            path = f"{_PREFERENCES}[{index}].autoscalingMinThreshold"
            yield f"{path}: {low} is above the upper limit {high}"


def _named_twice(assignment: FederatedHPAAssignment) -> Iterator[str]:
    seen: dict[str, int] = {}
    for index, preference in enumerate(assignment.cluster_autoscaling_preference[:MAX_CLUSTERS]):
        target = preference.target_cluster
        for name in target.cluster_names[:MAX_CLUSTERS] if target is not None else ():
            first = seen.setdefault(name, index)
            if first != index:
                names = f"names {name[:MAX_NAME]}, as item {first} does"
                path = f"{_PREFERENCES}[{index}].targetCluster"
                yield f"{path}: {names}; name a cluster in one preference only"
                break
