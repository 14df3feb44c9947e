"""Admission of a FederatedHPA: an ordered list of field errors, and warnings.

The order of the checks and the messages of Karmada's rules are Karmada v1.19's, which are Kubernetes 1.27's.
External metrics and `tolerance` are checked as Kubernetes HPA 1.36 does. Rules about fields that Karmada does
not have come last. A verdict depends on the object alone, and on --propagation.

A refusal keeps Karmada's message byte for byte, so its remedy is a separate warning. The API server passes
warnings on with every answer, also where its own schema refuses the object. Remedies ignore defaults that
admission has not written yet. Other warnings are about admitted settings that look wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.bounds import check_bounds
from fedhpa.admission.extensions import validate_extensions, warn_distributed, warn_extensions
from fedhpa.admission.metadata import each_invalid, validate_metadata, warn_hold
from fedhpa.admission.metrics import metric_remedies, validate_metric, warn_metrics
from fedhpa.admission.placement import DISTRIBUTED, validate_publication
from fedhpa.api.autoscaling import (
    MAX_PERIOD_SECONDS,
    MAX_STABILIZATION_WINDOW_SECONDS,
    POLICY_TYPES,
    SELECT_POLICIES,
    Behavior,
    CrossVersionObjectReference,
    HPAScalingPolicy,
    HPAScalingRules,
)
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import FederatedHPA, FederatedHPASpec
from fedhpa.api.fielderror import FieldError, TypedText, invalid, quoted, required, unsupported
from fedhpa.api.model import MAX_METRICS, MAX_TEXT
from fedhpa.api.names import path_segment
from fedhpa.api.quantity import Quantity
from fedhpa.api.rebalance import REBALANCE_ANNOTATION, rebalance_time

# Kinds by their names, for warnings about a name that is written otherwise. Others may exist.
SCALABLE: Final = ("Deployment", "FederatedHPA", "ReplicaSet", "ReplicationController", "StatefulSet")
UNSCALABLE: Final = ("CronJob", "DaemonSet", "Job", "Pod")
_KINDS: Final = {kind.lower(): kind for kind in (*SCALABLE, *UNSCALABLE)}


def validate_federatedhpa(fhpa: FederatedHPA, *, karmada: bool = False) -> list[FieldError]:
    """Returns all errors of the object, in the order in which Karmada's webhook reports them.

    With `karmada` the controllers run with --propagation=karmada.
    """
    spec = fhpa.spec
    errors = [*validate_metadata(fhpa.metadata), *_bounds_of_replicas(spec)]
    errors += validate_reference(spec.scale_target_ref, "spec.scaleTargetRef")
    # A list above its bound is refused for its size alone, so that long lists stay cheap.
    if len(spec.metrics) <= MAX_METRICS:
        for index, metric in enumerate(spec.metrics):
            errors += validate_metric(metric, f"spec.metrics[{index}]")
    if spec.behavior is not None:
        errors += _behavior(spec.behavior, "spec.behavior")
    for name, replicas in (
        ("currentReplicas", fhpa.status.current_replicas),
        ("desiredReplicas", fhpa.status.desired_replicas),
    ):
        if replicas < 0:
            errors.append(invalid(f"status.{name}", replicas, "must be greater than or equal to 0"))
    errors += check_bounds(spec, "spec")
    errors += validate_extensions(spec, karmada=karmada)
    if spec.placement is not None and spec.publishes:
        errors += validate_publication(fhpa, karmada=karmada)
    return errors


def _bounds_of_replicas(spec: FederatedHPASpec) -> Iterator[FieldError]:
    """Checks the lower and the upper limit, under their names or their federated aliases."""
    min_path, minimum = "spec.minReplicas", spec.min_replicas
    if minimum is None and spec.federated_min_replicas is not None:
        min_path, minimum = "spec.federatedMinReplicas", spec.federated_min_replicas
    max_path, maximum = "spec.maxReplicas", spec.max_replicas
    if maximum is None and spec.federated_max_replicas is not None:
        max_path, maximum = "spec.federatedMaxReplicas", spec.federated_max_replicas
    maximum = maximum or 0
    if minimum is not None and minimum < 1 and not (minimum == 0 and spec.scales_from_zero):
        yield invalid(min_path, minimum, "must be greater than or equal to 1")
    if maximum < 1:
        yield invalid(max_path, maximum, "must be greater than 0")
    if minimum is not None and maximum < minimum:
        yield invalid(max_path, maximum, "must be greater than or equal to `minReplicas`")


def validate_reference(reference: CrossVersionObjectReference, path: str) -> Iterator[FieldError]:
    """Yields the errors of the kind and name of a reference. The warnings check its apiVersion."""
    for name, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            yield required(f"{path}.{name}")
        yield from each_invalid(f"{path}.{name}", value, path_segment(value))


def _behavior(behavior: Behavior, path: str) -> Iterator[FieldError]:
    if behavior.scale_up is not None:
        yield from _scaling_rules(behavior.scale_up, f"{path}.scaleUp")
    if behavior.scale_down is not None:
        yield from _scaling_rules(behavior.scale_down, f"{path}.scaleDown")


def _scaling_rules(rules: HPAScalingRules, path: str) -> Iterator[FieldError]:
    window = rules.stabilization_window_seconds
    if window is not None and window < 0:
        yield invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window is not None and window > MAX_STABILIZATION_WINDOW_SECONDS:
        limit = f"must be less than or equal to {MAX_STABILIZATION_WINDOW_SECONDS}"
        yield invalid(f"{path}.stabilizationWindowSeconds", window, limit)
    if rules.select_policy is not None and rules.select_policy not in SELECT_POLICIES:
        yield unsupported(f"{path}.selectPolicy", TypedText(rules.select_policy), SELECT_POLICIES)
    if not rules.policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.policies or ()):
        yield from _scaling_policy(policy, f"{path}.policies[{index}]")
    if rules.tolerance is not None:
        tolerance = Quantity.parse(rules.tolerance)
        if tolerance.nano < 0:
            yield invalid(f"{path}.tolerance", tolerance, "must be greater than or equal to 0")


def _scaling_policy(policy: HPAScalingPolicy, path: str) -> Iterator[FieldError]:
    if policy.type not in POLICY_TYPES:
        yield unsupported(f"{path}.type", TypedText(policy.type), POLICY_TYPES)
    if policy.value <= 0:
        yield invalid(f"{path}.value", policy.value, "must be greater than zero")
    if policy.period_seconds <= 0:
        yield invalid(f"{path}.periodSeconds", policy.period_seconds, "must be greater than zero")
    if policy.period_seconds > MAX_PERIOD_SECONDS:
        limit = f"must be less than or equal to {MAX_PERIOD_SECONDS}"
        yield invalid(f"{path}.periodSeconds", policy.period_seconds, limit)


def warn_federatedhpa(fhpa: FederatedHPA, *, admitted: bool = False) -> Iterator[str]:
    """Yields the warnings about an object. Unless `admitted`, the remedies come first."""
    spec = fhpa.spec
    if not admitted:
        yield from federatedhpa_remedies(spec)
    yield from _rebalance(fhpa)
    yield from warn_hold(fhpa.metadata)
    yield from _api_version(spec)
    yield from warn_kind(spec.scale_target_ref.kind)
    # Mode Distributed has a warning of its own about metrics that are not of pods.
    named = () if spec.cluster_affinity is None else spec.cluster_affinity.cluster_names
    added_up = spec.mode != DISTRIBUTED and len(named) != 1
    yield from warn_metrics(spec.metrics, "spec.metrics", added_up=added_up)
    yield from warn_distributed(spec)
    yield from warn_extensions(spec)


def _rebalance(fhpa: FederatedHPA) -> Iterator[str]:
    """Warns about a timestamp that cannot be read, and about a policy that divides nothing."""
    value = fhpa.metadata.annotations.get(REBALANCE_ANNOTATION)
    if not isinstance(value, str) or not value:
        return
    try:
        rebalance_time(value)
    except InvalidObject as error:
        yield str(error)
        return
    if fhpa.spec.mode == DISTRIBUTED or fhpa.spec.policy.copies:
        what = "mode is Distributed" if fhpa.spec.mode == DISTRIBUTED else "Duplicated divides nothing"
        yield f"annotation {REBALANCE_ANNOTATION}: has no effect, because {what}; remove it"


def federatedhpa_remedies(spec: FederatedHPASpec) -> Iterator[str]:
    """Yields how to fix each mistake that has an obvious remedy."""
    if spec.maximum is None:
        yield "spec.maxReplicas: is missing; write the upper limit here, or as federatedMaxReplicas"
    if spec.minimum == 0 and not spec.scales_from_zero:
        yield "spec.minReplicas: 0 needs an Object or External metric, because no pod is left to measure"
    if "/" in spec.scale_target_ref.name:
        yield "spec.scaleTargetRef.name: write the name alone, without the kind or the namespace"
    yield from metric_remedies(spec.metrics, "spec.metrics")
    behavior = spec.behavior
    if behavior is not None:
        yield from _empty_policies(behavior.scale_up, "spec.behavior.scaleUp")
        yield from _empty_policies(behavior.scale_down, "spec.behavior.scaleDown")


def _empty_policies(rules: HPAScalingRules | None, path: str) -> Iterator[str]:
    if rules is not None and rules.policies == ():
        instead = "selectPolicy: Disabled forbids this direction"
        yield f"{path}.policies: leave them out for the defaults; {instead}"


def _api_version(spec: FederatedHPASpec) -> Iterator[str]:
    """Warns about the target's API version, which Karmada does not check. Mode Distributed refuses it."""
    reference = spec.scale_target_ref
    if spec.mode != DISTRIBUTED and not has_group_and_version(reference):
        yield f"spec.scaleTargetRef.apiVersion: {no_group_and_version(reference)}"


def warn_kind(kind: str) -> Iterator[str]:
    """Warns about the kind of a target that is no kind's name, or that nobody can scale."""
    path = "spec.scaleTargetRef.kind"
    meant = _KINDS.get(kind.lower().removesuffix("s"), kind)
    if meant != kind:
        yield f"{path}: {quoted(kind[:MAX_TEXT])} is no kind; {meant} is meant"
    if meant in UNSCALABLE:
        yield f"{path}: {meant} has no scale, so nothing can set its replicas"


def has_group_and_version(reference: CrossVersionObjectReference) -> bool:
    """True if apiVersion names the group and version of something that can be scaled."""
    group, slash, version = reference.api_version.partition("/")
    if reference.kind == "ReplicationController" and reference.api_version == "v1":
        return True
    return bool(slash and group and version) and "/" not in version


def no_group_and_version(reference: CrossVersionObjectReference) -> str:
    """Returns the warning about an apiVersion, without its path."""
    shown = quoted(reference.api_version[:MAX_TEXT])
    return f"{shown} names no API group and version; write one such as apps/v1"
