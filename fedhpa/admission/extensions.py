"""Admission of the fields that Karmada does not have; `bounds` checks their bounds.

In mode Distributed each member gets its own HPA, so this module refuses what a member's API server would
refuse, or its HPA controller could not do. It warns about settings that each cluster's HPA applies alone
(docs/explanation/distributed.md), and about fields without effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.metrics import sources_of
from fedhpa.admission.placement import DISTRIBUTED, validate_placement, warn_placement
from fedhpa.api import default_values
from fedhpa.api.autoscaling import (
    POLICY_TYPES,
    CrossVersionObjectReference,
    HPAScalingPolicy,
    HPAScalingRules,
)
from fedhpa.api.federatedhpa import FederatedHPASpec
from fedhpa.api.fielderror import FieldError, forbidden, invalid, required
from fedhpa.api.model import MAX_METRICS
from fedhpa.metric_types.entries import MetricSpec

_DISABLED: Final = "Disabled"
_PERCENT, _PODS = POLICY_TYPES
# A mutating webhook has written the defaults, so they may not be the user's own.
_DEFAULTS: Final = frozenset((*default_values.SCALE_UP_POLICIES, *default_values.SCALE_DOWN_POLICIES))
FALLBACK: Final = "Fallback"

_KARMADA_FIELDS: Final = frozenset(
    ("scale_target_ref", "min_replicas", "max_replicas", "metrics", "behavior")
)
# The seeds' default would let each cluster run maxReplicas.
_POLICY_IS_MISSING: Final = (
    "mode Distributed needs a policy, because without one each cluster would run up to maxReplicas: write "
    "StaticWeighted for equal parts, for example, or Duplicated for maxReplicas in each cluster"
)
_NOT_AGGREGATED: Final = (
    "mode is Distributed: each cluster's HPA reads the metric in its own cluster, "
    "nothing is aggregated over clusters"
)


def has_extensions(spec: FederatedHPASpec) -> bool:
    """True if the spec has a field that Karmada does not have. Most specs have none."""
    return not spec.model_fields_set <= _KARMADA_FIELDS


def validate_extensions(spec: FederatedHPASpec, *, karmada: bool = False) -> Iterator[FieldError]:
    """Yields errors of the fields that Karmada does not have, and contradictions between fields.

    With `karmada` a PropagationPolicy may give what the spec lacks.
    """
    if not has_extensions(spec):
        return
    yield from _aliases(spec)
    partial = spec.partial_metrics
    if partial is not None and partial.policy == FALLBACK and partial.fallback_replicas is None:
        yield required(
            "spec.partialMetrics.fallbackReplicas", "policy Fallback needs the number to fall back to"
        )
    yield from validate_placement(spec)
    if spec.mode == DISTRIBUTED:
        yield from _distributed(spec, karmada=karmada)


def _aliases(spec: FederatedHPASpec) -> Iterator[FieldError]:
    for name, plain, alias in (
        ("minReplicas", spec.min_replicas, spec.federated_min_replicas),
        ("maxReplicas", spec.max_replicas, spec.federated_max_replicas),
    ):
        if plain is not None and alias is not None and plain != alias:
            path = f"spec.federated{name[0].upper()}{name[1:]}"
            yield invalid(path, alias, f"is another name of {name}, which is {plain}: give one of them")


def _distributed(spec: FederatedHPASpec, *, karmada: bool) -> Iterator[FieldError]:
    """Yields what members would refuse or ignore, in the words of Kubernetes HPA 1.36."""
    target = spec.scale_target_ref
    yield from _api_version(target, "spec.scaleTargetRef.apiVersion", needs_group=True)
    for index, metric in enumerate(spec.metrics[:MAX_METRICS]):
        yield from _metric_of_member(metric, f"spec.metrics[{index}]")
    policy = spec.policy
    if not policy and not karmada:
        yield required("spec.federatedHPAAssignment.federatedHPAAssignmentType", _POLICY_IS_MISSING)
    if policy.by_load:
        detail = f"{policy} divides replicas, not bounds; write DynamicWeighted, or mode Centralized"
        path = "spec.federatedHPAAssignment.federatedHPAAssignmentType"
        yield invalid(path, policy, f"mode is Distributed: {detail}")


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


def warn_extensions(spec: FederatedHPASpec) -> Iterator[str]:
    """Yields warnings about fields that have no effect or contradict another field."""
    if not has_extensions(spec):
        return
    yield from _fallback(spec)
    yield from _assistance(spec)
    yield from warn_placement(spec)


def _fallback(spec: FederatedHPASpec) -> Iterator[str]:
    partial = spec.partial_metrics
    if partial is None or partial.fallback_replicas is None:
        return
    path, replicas = "spec.partialMetrics.fallbackReplicas", partial.fallback_replicas
    if partial.policy != FALLBACK:
        yield f"{path}: has no effect without policy: {FALLBACK}"
        return
    low = default_values.MIN_REPLICAS if spec.minimum is None else spec.minimum
    high = spec.maximum
    # No error, because a cron rule that changes the limits would then be refused.
    if high is not None and not low <= replicas <= high:
        yield f"{path}: {replicas} is outside the limits {low} and {high}, which still apply"


def _assistance(spec: FederatedHPASpec) -> Iterator[str]:
    if spec.scaling_to_zero and spec.mode != DISTRIBUTED:
        yield "spec.scalingToZero: has no effect in mode Centralized; write minReplicas: 0 instead"
    elif spec.scaling_to_zero and spec.scale_assist is False:
        yield "spec.scalingToZero: has no effect, because scaleAssist is false"
    if spec.autoscale_multi_cluster_delay and spec.scale_assist is False:
        yield "spec.autoscaleMultiClusterDelay: has no effect, because scaleAssist is false"


def warn_distributed(spec: FederatedHPASpec) -> Iterator[str]:
    """Yields warnings about an object of mode Distributed; none in mode Centralized."""
    if spec.mode != DISTRIBUTED:
        return
    if spec.dry_run:
        effect = "the HPAs that members already have go on scaling within their bounds"
        yield f"spec.dryRun: mode is Distributed: {effect}; nothing else is written to members"
    yield from _whole_values(spec)
    yield from _minimum(spec)
    behavior = spec.behavior
    if behavior is not None:
        yield from _pods_in_each(behavior.scale_up, "spec.behavior.scaleUp", "add")
        yield from _pods_in_each(behavior.scale_down, "spec.behavior.scaleDown", "remove")
    if spec.partial_metrics is not None and spec.partial_metrics.policy is not None:
        effect = "has no effect in mode Distributed, because each cluster's HPA reads its own cluster only"
        yield f"spec.partialMetrics.policy: {effect}"


def _whole_values(spec: FederatedHPASpec) -> Iterator[str]:
    """Warns about metrics that are not of pods: N clusters that read a queue ask for N times its replicas."""
    found = [
        f"spec.metrics[{index}].{row.field}"
        for index, metric in enumerate(spec.metrics[:MAX_METRICS])
        for row, _ in sources_of(metric)
        if not row.per_pod
    ]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        meaning = "each cluster's HPA asks for the replicas of the whole value"
        instead = "use a metric of each cluster's own share, or mode Centralized"
        yield f"{found[0]}{more}: mode is Distributed: {meaning}; {instead}"


def _minimum(spec: FederatedHPASpec) -> Iterator[str]:
    """Warns about a minimum of 0 that no cluster's HPA can have."""
    if spec.minimum == 0 and not spec.scaling_to_zero:
        name = "minReplicas" if spec.min_replicas == 0 else "federatedMinReplicas"
        effect = "0 has no effect in mode Distributed without scalingToZero"
        reason = "because the HPA of each cluster keeps at least 1"
        yield f"spec.{name}: {effect}, {reason}; write scalingToZero: true, or 1"


def _pods_in_each(rules: HPAScalingRules | None, path: str, verb: str) -> Iterator[str]:
    """Warns about a policy of type Pods: N clusters may together add or remove N times as many pods."""
    if rules is None or rules.select_policy == _DISABLED:
        return
    for index, policy in enumerate(rules.policies or ()):
        if policy.type == _PODS and not _is_default(policy):
            pods = "1 pod" if policy.value == 1 else f"{policy.value} pods"
            limit = f"each cluster may {verb} {pods} in {policy.period_seconds} s"
            instead = f"write the number for one cluster, or type {_PERCENT}"
            yield f"{path}.policies[{index}]: mode is Distributed: {limit}; {instead}"
            return


def _is_default(policy: HPAScalingPolicy) -> bool:
    return (policy.type, policy.value, policy.period_seconds) in _DEFAULTS
