"""Admission of the fields that place replicas in clusters: affinities, preferences and caps.

Messages about label selectors: Kubernetes 1.36, validation of metav1.LabelSelector. Fields: Karmada's
policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fedhpa.admission.metadata import each_invalid, validate_labels
from fedhpa.api.affinity import Selection
from fedhpa.api.assignment_policies import PRIORITY, STATIC_WEIGHT
from fedhpa.api.cluster_affinity import ClusterAffinity, ClusterSelection
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import (
    ClusterHPAPreference,
    ClusterPreference,
    ClusterToleration,
    FederatedHPA,
    FederatedHPAAssignment,
    FederatedHPASpec,
)
from fedhpa.api.fielderror import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    quoted,
    required,
    unsupported,
)
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.meta import LabelSelector, LabelSelectorRequirement
from fedhpa.api.model import MAX_CLUSTERS, MAX_METRICS, MAX_NAME
from fedhpa.api.names import dns_subdomain, label_value, qualified_name
from fedhpa.api.placement_decisions import is_slice_name
from fedhpa.api.taints import EXISTS, NO_EXECUTE
from fedhpa.api.texts import listed

DISTRIBUTED: Final = "Distributed"
PUBLISH: Final = "spec.placement.publish"
_DECISION: Final = "spec.clusterAffinity.placementDecision"
_ASSIGNMENT: Final = "spec.federatedHPAAssignment"
_PREFERENCES: Final = f"{_ASSIGNMENT}.clusterAutoscalingPreference"
WHEN_QUIET: Final = "WhenQuiet"
_SHOWN_CLUSTERS: Final = 3
# Comparisons with labels and names of clusters, which take about 0.1 s. A warning is not worth more.
_MAX_COMPARISONS: Final = 1_000_000
CLUSTER_FIELDS: Final = ("provider", "region", "zone")
FIELD_OPERATORS: Final = ("In", "NotIn")

_NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_NEEDS_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def validate_placement(spec: FederatedHPASpec) -> Iterator[FieldError]:
    """Yields the errors of affinities, preferences and caps."""
    if spec.cluster_affinity is not None:
        yield from _affinity(spec.cluster_affinity, "spec.clusterAffinity")
        yield from _decision(spec.cluster_affinity)
    elif spec.publishes:
        yield required("spec.clusterAffinity", f"{PUBLISH} publishes the clusters that it selects")
    for index, toleration in enumerate(spec.cluster_tolerations[:MAX_METRICS]):
        yield from _toleration(toleration, f"spec.clusterTolerations[{index}]")
    assignment = spec.federated_hpa_assignment
    if assignment is not None:
        preferences = assignment.cluster_autoscaling_preference
        for index, preference in enumerate(preferences[:MAX_CLUSTERS]):
            yield from _preference(preference, f"{_PREFERENCES}[{index}]")
    yield from _caps(spec.cluster_hpa_preference[:MAX_CLUSTERS], "spec.clusterHPAPreference")


def warn_placement(spec: FederatedHPASpec) -> Iterator[str]:
    """Yields warnings about weights, thresholds and clusters that have no effect or contradict each other."""
    assignment = spec.federated_hpa_assignment
    if assignment is not None:
        yield from _assignment(assignment)
        yield from _returns(assignment, spec)
        yield from _thresholds(assignment, spec)
        yield from _named_twice(assignment)
    yield from _copies(spec)
    if spec.publishes and spec.dry_run:
        yield f"{PUBLISH}: has no effect while dryRun is true"
    for affinity, path in _affinities(spec):
        if affinity.cluster_names and set(affinity.cluster_names) <= set(affinity.exclude):
            yield f"{path}: excludes every cluster that it names"


def validate_publication(fhpa: FederatedHPA, *, karmada: bool) -> Iterator[FieldError]:
    """Yields the errors of an object that publishes its clusters; `karmada` is True on a hub of Karmada's."""
    affinity = fhpa.spec.cluster_affinity
    if affinity is not None and affinity.placement_decision is not None:
        name = affinity.placement_decision.name
        if is_slice_name(name, fhpa.metadata.name):
            yield invalid(f"{_DECISION}.name", name, "is published by this object itself: name another one")
    if karmada:
        detail = "is for --propagation=direct; on Karmada the PropagationPolicy says where the workload runs"
        yield forbidden(PUBLISH, detail)


def _decision(affinity: ClusterSelection) -> Iterator[FieldError]:
    if affinity.placement_decision is None:
        return
    path, name = f"{_DECISION}.name", affinity.placement_decision.name
    if not name:
        yield required(path, "must name a PlacementDecision in the namespace of this object")
    else:
        yield from each_invalid(path, name, dns_subdomain(name))


def _affinity(affinity: ClusterAffinity, path: str) -> Iterator[FieldError]:
    """Yields the errors of an affinity. An affinity that selects no cluster is valid."""
    yield from _names(affinity.cluster_names, f"{path}.clusterNames")
    yield from _names(affinity.exclude, f"{path}.exclude")
    if affinity.label_selector is not None:
        yield from _label_selector(affinity.label_selector, f"{path}.labelSelector")
    if affinity.field_selector is not None:
        for index, requirement in enumerate(affinity.field_selector.match_expressions):
            yield from _field_requirement(requirement, f"{path}.fieldSelector.matchExpressions[{index}]")


def _names(names: Sequence[str], path: str) -> Iterator[FieldError]:
    # A list above its bound is refused for its size alone.
    for index, name in enumerate(names[:MAX_CLUSTERS]):
        if not name:
            yield required(f"{path}[{index}]", "must be the name of a cluster")


def _label_selector(selector: LabelSelector, path: str) -> Iterator[FieldError]:
    yield from validate_labels(selector.match_labels, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.match_expressions):
        yield from _label_requirement(requirement, f"{path}.matchExpressions[{index}]")


def _label_requirement(requirement: LabelSelectorRequirement, path: str) -> Iterator[FieldError]:
    match requirement.operator:
        case "In" | "NotIn":
            if not requirement.values:
                yield required(f"{path}.values", _NEEDS_VALUES)
        case "Exists" | "DoesNotExist":
            if requirement.values:
                yield forbidden(f"{path}.values", _NEEDS_NO_VALUES)
        case _:
            yield invalid(f"{path}.operator", requirement.operator, "not a valid selector operator")
    yield from each_invalid(f"{path}.key", requirement.key, qualified_name(requirement.key))
    for index, value in enumerate(requirement.values):
        yield from each_invalid(f"{path}.values[{index}]", value, label_value(value))


def _field_requirement(requirement: LabelSelectorRequirement, path: str) -> Iterator[FieldError]:
    if requirement.key not in CLUSTER_FIELDS:
        yield unsupported(f"{path}.key", requirement.key, CLUSTER_FIELDS)
    if requirement.operator not in FIELD_OPERATORS:
        yield unsupported(f"{path}.operator", requirement.operator, FIELD_OPERATORS)
    elif not requirement.values:
        yield required(f"{path}.values", _NEEDS_VALUES)


def _toleration(toleration: ClusterToleration, path: str) -> Iterator[FieldError]:
    """Yields the errors of a toleration, in the words of Kubernetes' validation of pods."""
    if toleration.key:
        yield from each_invalid(f"{path}.key", toleration.key, qualified_name(toleration.key))
    elif toleration.operator != EXISTS:
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", toleration.operator or "", detail)
    if toleration.operator == EXISTS:
        if toleration.value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield invalid(f"{path}.operator", toleration.operator, detail)
    else:
        yield from each_invalid(f"{path}.operator", toleration.value, label_value(toleration.value))
    if toleration.toleration_seconds is not None and toleration.effect != NO_EXECUTE:
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{path}.effect", toleration.effect or "", detail)


def _preference(preference: ClusterPreference, path: str) -> Iterator[FieldError]:
    if preference.target_cluster is not None:
        yield from _affinity(preference.target_cluster, f"{path}.targetCluster")
    low, high = preference.autoscaling_min_threshold, preference.autoscaling_max_threshold
    if low is not None and high is not None and low > high:
        detail = f"must be less than or equal to autoscalingMaxThreshold, which is {high}"
        yield invalid(f"{path}.autoscalingMinThreshold", low, detail)


def _caps(caps: tuple[ClusterHPAPreference, ...], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, cap in enumerate(caps):
        name = cap.cluster_name
        if not name:
            yield required(f"{path}[{index}].clusterName", "must name the cluster")
        elif name in seen:
            yield duplicate(f"{path}[{index}].clusterName", name)
        seen.add(name)
        if cap.max_resource_usage is None:
            detail = "must say how much of the cluster may be used, above 0 and at most 1"
            yield required(f"{path}[{index}].maxResourceUsage", detail)


def warn_unknown_clusters(spec: FederatedHPASpec, clusters: Sequence[KnownCluster]) -> Iterator[str]:
    """Warns about selections without a registered cluster, and about the pods that Duplicated may run.

    A selection without a cluster is no error: clusters may join later.
    """
    yield from _copies(spec, clusters)
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
            yield f"{at}: {_unknown(affinity.cluster_names[unknown[0]])}{others}; {_known(names)}"
            continue
        left -= _size(affinity) * len(clusters)
        if left >= 0 and not _selected(affinity, clusters):
            yield f"{path}: selects no known cluster; {_known(names)}"
    for index, cap in enumerate(spec.cluster_hpa_preference[:MAX_CLUSTERS]):
        if cap.cluster_name and cap.cluster_name not in names:
            at = f"spec.clusterHPAPreference[{index}].clusterName"
            yield f"{at}: {_unknown(cap.cluster_name)}; {_known(names)}"


def _selected(affinity: ClusterAffinity, clusters: Sequence[KnownCluster]) -> Sequence[KnownCluster]:
    try:
        selection = Selection(affinity)
    except InvalidObject:
        return clusters  # Validation refuses the affinity.
    return [cluster for cluster in clusters if selection.selects(cluster)]


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


def _known(names: set[str]) -> str:
    if not names:
        return "no cluster is known yet"
    return f"known: {listed(sorted(names), _SHOWN_CLUSTERS)}"


def _affinities(spec: FederatedHPASpec) -> Iterator[tuple[ClusterAffinity, str]]:
    if spec.cluster_affinity is not None:
        yield spec.cluster_affinity, "spec.clusterAffinity"
    if spec.federated_hpa_assignment is not None:
        preferences = spec.federated_hpa_assignment.cluster_autoscaling_preference
        for index, preference in enumerate(preferences[:MAX_CLUSTERS]):
            if preference.target_cluster is not None:
                yield preference.target_cluster, f"{_PREFERENCES}[{index}].targetCluster"


def _assignment(assignment: FederatedHPAAssignment) -> Iterator[str]:
    """Warns about weights and priorities that the policy ignores, and about policies that lack them."""
    policy = assignment.policy
    preferences = assignment.cluster_autoscaling_preference[:MAX_CLUSTERS]
    for name, same, given in (
        (STATIC_WEIGHT, "weigh", [p.static_weight for p in preferences]),
        (PRIORITY, "rank", [p.priority for p in preferences]),
    ):
        places = [index for index, value in enumerate(given) if value is not None]
        if policy.preference == name and not places:
            yield f"{_ASSIGNMENT}: no preference has a {name}, so all clusters {same} the same"
        elif policy and policy.preference != name and places:
            yield f"{_PREFERENCES}[{places[0]}].{name}: has no effect under {policy}"


def _returns(assignment: FederatedHPAAssignment, spec: FederatedHPASpec) -> Iterator[str]:
    """Warns about a return where replicas are not divided, or not by the hub."""
    if assignment.rebalance != WHEN_QUIET:
        return
    if spec.mode == DISTRIBUTED and spec.scale_assist is False:
        yield f"{_ASSIGNMENT}.rebalance: has no effect, because scaleAssist: false leaves bounds as they are"
    elif assignment.policy.copies:
        yield f"{_ASSIGNMENT}.rebalance: has no effect, because Duplicated divides nothing"


def _copies(spec: FederatedHPASpec, clusters: Sequence[KnownCluster] | None = None) -> Iterator[str]:
    """Warns that Duplicated gives the whole size to every cluster, with the number of pods if it is known.

    With `clusters` only where their number is not known without them.
    """
    high, policy, affinity = spec.maximum, spec.policy, spec.cluster_affinity
    if high is None or not (policy.copies or (not policy and spec.mode == DISTRIBUTED)):
        return
    where = "" if policy else "without a policy here or in a PropagationPolicy, "
    text = f"{_ASSIGNMENT}: {where}Duplicated gives the whole size to every cluster"
    count = 0
    if affinity is not None and affinity.label_selector is None and affinity.field_selector is None:
        count = len(set(affinity.cluster_names[:MAX_CLUSTERS]) - set(affinity.exclude[:MAX_CLUSTERS]))
    if clusters is not None:
        if count:
            return
        few = affinity is not None and _size(affinity) * len(clusters) <= _MAX_COMPARISONS
        count = len(_selected(affinity, clusters) if affinity is not None and few else clusters)
        if count < 2:
            return
    pods = f"{count} x {high} = {count * high} pods may run" if count else f"{high} pods in each"
    yield f"{text}: up to {pods}"


def _thresholds(assignment: FederatedHPAAssignment, spec: FederatedHPASpec) -> Iterator[str]:
    high = spec.maximum
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
