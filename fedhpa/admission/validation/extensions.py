"""Validation of the fields that Karmada does not have; `validation.bounds` checks their bounds.

In mode Distributed each member gets its own HPA, so this module refuses what a member's API server would
refuse, or its HPA controller could not do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.validation.affinity import validate_affinity
from fedhpa.admission.validation.metrics import sources_of
from fedhpa.api.autoscaling import MetricSpec
from fedhpa.api.federatedhpa import ClusterHPAPreference, ClusterPreference, FederatedHPASpec
from fedhpa.api.fielderror import FieldError, duplicate, forbidden, invalid, required
from fedhpa.api.metrics.parts import CrossVersionObjectReference
from fedhpa.api.model import MAX_CLUSTERS, MAX_METRICS

DISTRIBUTED: Final = "Distributed"
FALLBACK: Final = "Fallback"

_KARMADA_FIELDS: Final = frozenset(
    ("scale_target_ref", "min_replicas", "max_replicas", "metrics", "behavior")
)
_ASSIGNMENT: Final = "spec.federatedHPAAssignment"
_NOT_AGGREGATED: Final = (
    "mode is Distributed: each cluster's HPA reads the metric in its own cluster, "
    "nothing is aggregated over clusters"
)


def has_extensions(spec: FederatedHPASpec) -> bool:
    """True if the spec has a field that Karmada does not have. Most specs have none."""
    return not spec.model_fields_set <= _KARMADA_FIELDS


def validate_extensions(spec: FederatedHPASpec) -> Iterator[FieldError]:
    """Yields errors of the fields that Karmada does not have, and contradictions between fields."""
    if not has_extensions(spec):
        return
    yield from _aliases(spec)
    partial = spec.partial_metrics
    if partial is not None and partial.policy == FALLBACK and partial.fallback_replicas is None:
        yield required(
            "spec.partialMetrics.fallbackReplicas", "policy Fallback needs the number to fall back to"
        )
    if spec.cluster_affinity is not None:
        yield from validate_affinity(spec.cluster_affinity, "spec.clusterAffinity")
    assignment = spec.federated_hpa_assignment
    if assignment is not None:
        preferences = assignment.cluster_autoscaling_preference
        for index, preference in enumerate(preferences[:MAX_CLUSTERS]):
            yield from _preference(preference, f"{_ASSIGNMENT}.clusterAutoscalingPreference[{index}]")
    yield from _caps(spec.cluster_hpa_preference[:MAX_CLUSTERS], "spec.clusterHPAPreference")
    if spec.mode == DISTRIBUTED:
        yield from _distributed(spec)


def _aliases(spec: FederatedHPASpec) -> Iterator[FieldError]:
    for name, plain, alias in (
        ("minReplicas", spec.min_replicas, spec.federated_min_replicas),
        ("maxReplicas", spec.max_replicas, spec.federated_max_replicas),
    ):
        if plain is not None and alias is not None and plain != alias:
            path = f"spec.federated{name[0].upper()}{name[1:]}"
            yield invalid(path, alias, f"is another name of {name}, which is {plain}: give one of them")


def _preference(preference: ClusterPreference, path: str) -> Iterator[FieldError]:
    if preference.target_cluster is not None:
        yield from validate_affinity(preference.target_cluster, f"{path}.targetCluster")
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


def _distributed(spec: FederatedHPASpec) -> Iterator[FieldError]:
    """Yields what members would refuse or ignore, in the words of Kubernetes HPA 1.36."""
    target = spec.scale_target_ref
    yield from _api_version(target, "spec.scaleTargetRef.apiVersion", needs_group=True)
    for index, metric in enumerate(spec.metrics[:MAX_METRICS]):
        yield from _metric_of_member(metric, f"spec.metrics[{index}]")
    assignment = spec.federated_hpa_assignment
    if assignment is not None and assignment.federated_hpa_assignment_type == "LoadWeighted":
        detail = "LoadWeighted divides replicas, not bounds; write DynamicWeighted, or mode Centralized"
        path = f"{_ASSIGNMENT}.federatedHPAAssignmentType"
        yield invalid(path, "LoadWeighted", f"mode is Distributed: {detail}")


def _metric_of_member(metric: MetricSpec, path: str) -> Iterator[FieldError]:
    sources = sources_of(metric)
    for row, source in sources:
        if row.describes_object:
            described = f"{path}.{row.field}.describedObject.apiVersion"
            yield from _api_version(source.described_object, described, needs_group=False)
    for row, source in sources:
        if not row.per_pod and source.aggregation is not None:
            yield forbidden(f"{path}.{row.field}.aggregation", _NOT_AGGREGATED)


def _api_version(
    reference: CrossVersionObjectReference, path: str, *, needs_group: bool
) -> Iterator[FieldError]:
    version = reference.api_version
    if version.count("/") > 1:
        yield invalid(path, version, f"unexpected GroupVersion string: {version[:512]}")
    elif needs_group and not version.rpartition("/")[0] and reference.kind != "ReplicationController":
        yield invalid(path, version, "apiVersion must specify API group")
