"""Validation of one metric of a FederatedHPA.

Messages and order: Karmada v1.19, which are Kubernetes 1.27's; External: Kubernetes HPA 1.36. One rule is
stricter: an Object metric must set the field of its target type, because Karmada's controller dereferences
nil without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fedhpa.api import metric_types
from fedhpa.api.autoscaling import (
    ContainerResourceMetricSource,
    ExternalMetricSource,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)
from fedhpa.api.fielderror import FieldError, TypedText, forbidden, invalid, required, unsupported
from fedhpa.api.metric_types import METRIC_TYPES, MetricType
from fedhpa.api.names import container_resource, dns_label, path_segment
from fedhpa.api.quantity import Quantity

_ATTRIBUTES: Final = tuple((row.attribute, row) for row in METRIC_TYPES)
# Target type -> the field of the target that goes with it.
TARGET_FIELDS: Final = {
    "Utilization": "averageUtilization",
    "Value": "value",
    "AverageValue": "averageValue",
}


def validate_metric(metric: MetricSpec, path: str) -> Iterator[FieldError]:
    """Yields the errors of a metric. Karmada checks the inside of the first source only."""
    if not metric.type:
        yield required(f"{path}.type", "must specify a metric source type")
    if metric.type not in metric_types.BY_NAME:
        yield unsupported(f"{path}.type", TypedText(metric.type), metric_types.BY_NAME)
    present = sources_of(metric)
    for metric_type, source in present[:1]:
        yield from _VALIDATORS[metric_type.name](source, f"{path}.{metric_type.field}")
    expected = metric_types.metric_type(metric.type).field
    if len(present) == 1 and present[0][0].field == expected:
        return
    fields = [metric_type.field for metric_type, _ in present]
    if expected and expected not in fields:
        yield required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(fields) > 1:
        for field in fields:
            if field != expected:
                yield forbidden(f"{path}.{field}", "must populate the given metric source only")


def sources_of(metric: MetricSpec) -> list[tuple[MetricType, Any]]:
    """Returns the sources that a metric has, in the order of the table. A correct metric has one."""
    # Faster than reading the attributes of a pydantic model.
    values = vars(metric)
    return [(row, values[attribute]) for attribute, row in _ATTRIBUTES if values[attribute] is not None]


def _pods(source: PodsMetricSource, path: str) -> Iterator[FieldError]:
    yield from _identifier(source.metric, f"{path}.metric")
    yield from _target(source.target, f"{path}.target")
    if source.target.average_value is None:
        yield required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _resource(source: ResourceMetricSource, path: str) -> Iterator[FieldError]:
    if not source.name:
        yield required(f"{path}.name", "must specify a resource name")
    yield from _resource_target(source.target, f"{path}.target")


def _object(source: ObjectMetricSource, path: str) -> Iterator[FieldError]:
    described = source.described_object
    for name, value in (("kind", described.kind), ("name", described.name)):
        if not value:
            yield required(f"{path}.describedObject.{name}")
        for message in path_segment(value):
            yield invalid(f"{path}.describedObject.{name}", value, message)
    yield from _identifier(source.metric, f"{path}.metric")
    yield from _target(source.target, f"{path}.target")
    target = source.target
    if target.value is None and target.average_value is None:
        yield required(f"{path}.target.averageValue", "must set either a target value or averageValue")
    elif target.type == "AverageValue" and target.average_value is None:
        yield required(f"{path}.target.averageValue", "must be set when the target type is AverageValue")
    elif target.type == "Value" and target.value is None:
        yield required(f"{path}.target.value", "must be set when the target type is Value")


def _external(source: ExternalMetricSource, path: str) -> Iterator[FieldError]:
    yield from _identifier(source.metric, f"{path}.metric")
    yield from _target(source.target, f"{path}.target")
    value, average = source.target.value, source.target.average_value
    if value is None and average is None:
        detail = "must set either a target value for metric or a per-pod target"
        yield required(f"{path}.target.averageValue", detail)
    if value is not None and average is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        yield forbidden(f"{path}.target.value", detail)


def _container_resource(source: ContainerResourceMetricSource, path: str) -> Iterator[FieldError]:
    if not source.name:
        yield required(f"{path}.name", "must specify a resource name")
    for message in container_resource(source.name) if source.name else ():
        yield invalid(f"{path}.name", source.name, message)
    if not source.container:
        yield required(f"{path}.container", "must specify a container")
    for message in dns_label(source.container) if source.container else ():
        yield invalid(f"{path}.container", source.container, message)
    yield from _resource_target(source.target, f"{path}.target")


# By type name, because asking a pydantic model for its class costs more than validating it.
_VALIDATORS: Final[Mapping[str, Callable[[Any, str], Iterator[FieldError]]]] = {
    metric_types.OBJECT: _object,
    metric_types.EXTERNAL: _external,
    metric_types.PODS: _pods,
    metric_types.RESOURCE: _resource,
    metric_types.CONTAINER_RESOURCE: _container_resource,
}


def _resource_target(target: MetricTarget, path: str) -> Iterator[FieldError]:
    yield from _target(target, path)
    if target.average_utilization is None and target.average_value is None:
        detail = "must set either a target raw value or a target utilization"
        yield required(f"{path}.averageUtilization", detail)
    if target.average_utilization is not None and target.average_value is not None:
        detail = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{path}.averageValue", detail)


def _identifier(metric: MetricIdentifier, path: str) -> Iterator[FieldError]:
    if not metric.name:
        yield required(f"{path}.name", "must specify a metric name")
    for message in path_segment(metric.name):
        yield invalid(f"{path}.name", metric.name, message)


def _target(target: MetricTarget, path: str) -> Iterator[FieldError]:
    if not target.type:
        yield required(f"{path}.type", "must specify a metric target type")
    if target.type not in TARGET_FIELDS:
        detail = "must be either Utilization, Value, or AverageValue"
        yield invalid(f"{path}.type", TypedText(target.type), detail)
    for name, value in (("value", target.value), ("averageValue", target.average_value)):
        if value is None:
            continue
        quantity = Quantity.parse(value)
        if quantity.nano <= 0:
            yield invalid(f"{path}.{name}", quantity, "must be positive")
    if target.average_utilization is not None and target.average_utilization < 1:
        yield invalid(f"{path}.averageUtilization", target.average_utilization, "must be greater than 0")
