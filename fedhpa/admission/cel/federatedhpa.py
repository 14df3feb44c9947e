"""The CEL rules of a FederatedHPA's spec: limits, target, and the fields that Karmada does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.admission.cel.rule import FORBIDDEN, REQUIRED, Cel, given, reference
from fedhpa.api.federatedhpa import ClusterAffinity, ClusterPreference, FederatedHPASpec, PartialMetrics
from fedhpa.api.metric_types import METRIC_TYPES
from fedhpa.api.model import ApiModel


def _bounds_of_replicas() -> tuple[Cel, ...]:
    """Returns Karmada's rules for the limits. An error names the field that the user wrote, alias or not."""
    types = [row.name for row in METRIC_TYPES.values() if row.scales_from_zero]
    some = " || ".join(f"m.type == '{name}'" for name in types)
    zero = f"has(self.metrics) && self.metrics.exists(m, {some})"
    rules: list[Cel] = []
    for name in ("minReplicas", "federatedMinReplicas"):
        low = f"self.{name}"
        rules.append(
            Cel(
                f"!{given(name)} || {low} >= 1 || ({low} == 0 && {zero})",
                f"must be greater than or equal to 1; 0 needs an {' or '.join(types)} metric",
                f".{name}",
            )
        )
    for name, absent in (("maxReplicas", ""), ("federatedMaxReplicas", f"{given('maxReplicas')} || ")):
        high = f"self.{name}"
        rules += [
            Cel(f"!{given(name)} || {high} >= 1", "must be greater than 0", f".{name}"),
            Cel(
                f"{absent}!{given(name)} || (has(self.minReplicas) ? self.minReplicas <= {high}"
                f" : !has(self.federatedMinReplicas) || self.federatedMinReplicas <= {high})",
                "must be greater than or equal to `minReplicas`",
                f".{name}",
            ),
        ]
    return tuple(rules)


def _alias(plain: str, alias: str) -> Cel:
    return Cel(
        f"!{given(plain)} || !{given(alias)} || self.{plain} == self.{alias}",
        f"is another name of {plain}: give one of them",
        f".{alias}",
    )


_DISTRIBUTED: Final = "!has(self.mode) || self.mode != 'Distributed'"
_NOT_AGGREGATED: Final = (
    "mode is Distributed: each cluster's HPA reads the metric in its own cluster, "
    "nothing is aggregated over clusters; leave aggregation out"
)

_PLAIN: Final = " && ".join(
    f"!(has(m.{row.field}) && has(m.{row.field}.aggregation))"
    for row in METRIC_TYPES.values()
    if not row.per_pod
)

_FEDERATED_HPA: Final = (
    Cel(
        "has(self.maxReplicas) || has(self.federatedMaxReplicas)",
        "maxReplicas, or its other name federatedMaxReplicas, must be given",
        ".maxReplicas",
        REQUIRED,
    ),
    *_bounds_of_replicas(),
    _alias("minReplicas", "federatedMinReplicas"),
    _alias("maxReplicas", "federatedMaxReplicas"),
    *reference("scaleTargetRef"),
    Cel(
        f"{_DISTRIBUTED} || self.scaleTargetRef.kind == 'ReplicationController'"
        " || (has(self.scaleTargetRef.apiVersion)"
        " && self.scaleTargetRef.apiVersion.matches('^[^/]+/[^/]*$'))",
        "mode is Distributed: apiVersion must specify API group and version, such as apps/v1",
        ".scaleTargetRef.apiVersion",
    ),
    Cel(
        f"{_DISTRIBUTED} || !has(self.metrics) || self.metrics.all(m, {_PLAIN})",
        _NOT_AGGREGATED,
        ".metrics",
        FORBIDDEN,
    ),
    *(
        Cel(
            f"{_DISTRIBUTED} || !has(self.metrics) || self.metrics.all(m, !has(m.{row.field})"
            f" || !has(m.{row.field}.describedObject.apiVersion)"
            f" || !m.{row.field}.describedObject.apiVersion.matches('/.*/'))",
            "mode is Distributed: the apiVersion of a describedObject has at most one /",
            ".metrics",
        )
        for row in METRIC_TYPES.values()
        if row.describes_object
    ),
    Cel(
        f"{_DISTRIBUTED} || !has(self.federatedHPAAssignment)"
        " || !has(self.federatedHPAAssignment.federatedHPAAssignmentType)"
        " || self.federatedHPAAssignment.federatedHPAAssignmentType != 'LoadWeighted'",
        "mode is Distributed: LoadWeighted divides replicas, not bounds; "
        "write DynamicWeighted, or mode Centralized",
        ".federatedHPAAssignment.federatedHPAAssignmentType",
    ),
)

_PARTIAL_METRICS: Final = (
    Cel(
        "!has(self.policy) || self.policy != 'Fallback' || has(self.fallbackReplicas)",
        "policy Fallback needs the number to fall back to",
        ".fallbackReplicas",
        REQUIRED,
    ),
)

_EXPRESSIONS: Final = "labelSelector.matchExpressions"
_FIELDS: Final = "fieldSelector.matchExpressions"


def _requirements(path: str, condition: str, message: str) -> Cel:
    """Returns a rule about each requirement `e` of a selector. It holds if the selector is absent."""
    selector = path.partition(".")[0]
    absent = f"!has(self.{selector}) || !has(self.{path})"
    return Cel(f"{absent} || self.{path}.all(e, {condition})", message, f".{path}")


_AFFINITY: Final = (
    _requirements(
        _EXPRESSIONS,
        "has(e.values) && e.values.size() > 0 ? e.operator in ['In', 'NotIn']"
        " : e.operator in ['Exists', 'DoesNotExist']",
        "operator must be In or NotIn, with values, or Exists or DoesNotExist, without",
    ),
    _requirements(
        _FIELDS,
        "e.key in ['provider', 'region', 'zone'] && e.operator in ['In', 'NotIn']"
        " && has(e.values) && e.values.size() > 0",
        "key must be provider, region or zone, and operator In or NotIn, with values",
    ),
)

_PREFERENCE: Final = (
    Cel(
        "!has(self.autoscalingMinThreshold) || !has(self.autoscalingMaxThreshold)"
        " || self.autoscalingMinThreshold <= self.autoscalingMaxThreshold",
        "must be less than or equal to autoscalingMaxThreshold",
        ".autoscalingMinThreshold",
    ),
)

SPEC_RULES: Final[Mapping[type[ApiModel], tuple[Cel, ...]]] = {
    FederatedHPASpec: _FEDERATED_HPA,
    PartialMetrics: _PARTIAL_METRICS,
    ClusterAffinity: _AFFINITY,
    ClusterPreference: _PREFERENCE,
}
