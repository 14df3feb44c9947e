"""What to write instead of what a FederatedHPA is refused for, where the refusal does not say it itself.

The messages of refusals are Karmada's to the byte, so these are admission warnings: they reach the person
together with the refusal, also with one of the schema. Each is about what nothing but a change of the object
mends: defaults that are not written yet make no difference to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedhpa.admission.validation.metrics import TARGET_TYPES, sources_of
from fedhpa.api.autoscaling import HPAScalingRules, MetricSpec, MetricTarget
from fedhpa.api.federatedhpa import FederatedHPASpec
from fedhpa.api.metric_types import USAGE_API, metric_type
from fedhpa.api.model import MAX_METRICS


def remedies(spec: FederatedHPASpec) -> Iterator[str]:
    """One text for each mistake that has an obvious remedy."""
    if spec.max_replicas is None and spec.federated_max_replicas is None:
        yield "spec.maxReplicas: is missing; write the upper limit here, or as federatedMaxReplicas"
    minimum = spec.min_replicas if spec.min_replicas is not None else spec.federated_min_replicas
    if minimum == 0 and not any(metric_type(metric.type).scales_from_zero for metric in spec.metrics):
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
    sources = sources_of(metric)
    expected = metric_type(metric.type).field
    if len(sources) > 1:
        fields = ", ".join(given.field for given, _ in sources)
        yield f"{path}: {fields} are two metrics; write each as an item of the list"
    elif not sources and expected:
        yield f"{path}: type {metric.type} has the field {expected}, which is missing"
    for given, source in sources[:1]:
        if len(sources) == 1 and not expected:
            yield f"{path}.type: write {given.name}, which has the field {given.field}"
        elif len(sources) == 1 and given.field != expected:
            found = f"type {metric.type} has the field {expected}, but {given.field} is given"
            yield f"{path}: {found}; write type {given.name}, or {expected}"
        yield from _target(source.target, f"{path}.{given.field}.target", resource=given.api == USAGE_API)


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
