"""What to write instead of what a FederatedHPA is refused for, where the refusal does not say it itself.

The messages of refusals are Karmada's to the byte, so these are admission warnings: they reach the person
together with the refusal, also with one of the schema. Each is about what nothing but a change of the object
mends: defaults that are not written yet make no difference to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.validation.metrics import METRICS_AT_ZERO, SOURCE_FIELDS, TARGET_TYPES, source_bodies
from fedhpa.api.autoscaling import HPAScalingRules, MetricSpec, MetricTarget
from fedhpa.api.federatedhpa import FederatedHPASpec
from fedhpa.api.model import MAX_METRICS

_TYPE_OF_FIELD: Final = {field: type_ for type_, field in SOURCE_FIELDS.items()}


def remedies(spec: FederatedHPASpec) -> Iterator[str]:
    """One text for each mistake that has an obvious remedy."""
    if spec.max_replicas is None and spec.federated_max_replicas is None:
        yield "spec.maxReplicas: is missing; write the upper limit here, or as federatedMaxReplicas"
    minimum = spec.min_replicas if spec.min_replicas is not None else spec.federated_min_replicas
    if minimum == 0 and not any(metric.type in METRICS_AT_ZERO for metric in spec.metrics):
        yield "spec.minReplicas: 0 needs an Object or External metric, because no pod is left to measure"
    if "/" in spec.scale_target_ref.name:
        yield "spec.scaleTargetRef.name: write the name alone, without the kind or the namespace"
    for index, metric in enumerate(spec.metrics[:MAX_METRICS]):
        yield from _metric(metric, f"spec.metrics[{index}]")
    behavior = spec.behavior
    if behavior is not None:
        yield from _rules(behavior.scale_up, "spec.behavior.scaleUp")
        yield from _rules(behavior.scale_down, "spec.behavior.scaleDown")


def _metric(metric: MetricSpec, path: str) -> Iterator[str]:
    bodies = source_bodies(metric)
    present = [field for field, _ in bodies]
    expected = SOURCE_FIELDS.get(metric.type)
    if len(present) > 1:
        yield f"{path}: {', '.join(present)} are two metrics; write each as an item of the list"
    elif present and expected is None:
        yield f"{path}.type: write {_TYPE_OF_FIELD[present[0]]}, which has the field {present[0]}"
    elif present and present[0] != expected:
        instead = f"write type {_TYPE_OF_FIELD[present[0]]}, or {expected}"
        yield f"{path}: type {metric.type} has the field {expected}, but {present[0]} is given; {instead}"
    elif expected is not None and not present:
        yield f"{path}: type {metric.type} has the field {expected}, which is missing"
    for field, body in bodies[:1]:
        yield from _target(body.target, f"{path}.{field}.target", resource=field.lower().endswith("resource"))


def _target(target: MetricTarget, path: str, *, resource: bool) -> Iterator[str]:
    if resource and target.average_utilization is not None and target.average_value is not None:
        yield f"{path}: keep averageUtilization (percent of the requests) or averageValue, not both"
    if target.type not in TARGET_TYPES:
        for type_, name, value in target_fields(target):
            if value is not None:
                yield f"{path}.type: write {type_}, which goes with {name}"
                return


def target_fields(target: MetricTarget) -> tuple[tuple[str, str, object], ...]:
    """Each type that a target can have, the name of the field that goes with it, and what it holds."""
    return (
        ("Utilization", "averageUtilization", target.average_utilization),
        ("Value", "value", target.value),
        ("AverageValue", "averageValue", target.average_value),
    )


def _rules(rules: HPAScalingRules | None, path: str) -> Iterator[str]:
    if rules is not None and rules.policies == ():
        instead = "selectPolicy: Disabled forbids this direction"
        yield f"{path}.policies: leave them out for the defaults; {instead}"
