"""The parts that the rules of several metric types share: the target, the metric's name and its selector.

Messages and order: Karmada v1.19, which are Kubernetes 1.27's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedhpa.api.affinity import selector_json
from fedhpa.api.fielderror import FieldError, TypedText, forbidden, invalid, required
from fedhpa.api.meta import LabelSelector
from fedhpa.api.metrics.parts import TARGET_FIELDS, MetricIdentifier, MetricTarget
from fedhpa.api.names import path_segment
from fedhpa.api.quantity import Quantity


def validate_usage_target(target: MetricTarget, path: str) -> Iterator[FieldError]:
    """Yields the errors of the target of a resource's usage."""
    yield from validate_target(target, path)
    if target.average_utilization is None and target.average_value is None:
        detail = "must set either a target raw value or a target utilization"
        yield required(f"{path}.averageUtilization", detail)
    if target.average_utilization is not None and target.average_value is not None:
        detail = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{path}.averageValue", detail)


def validate_identifier(metric: MetricIdentifier, path: str) -> Iterator[FieldError]:
    """Yields the errors of a metric's name."""
    if not metric.name:
        yield required(f"{path}.name", "must specify a metric name")
    for message in path_segment(metric.name):
        yield invalid(f"{path}.name", metric.name, message)


def validate_target(target: MetricTarget, path: str) -> Iterator[FieldError]:
    """Yields the errors that a target of any metric type can have."""
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


def series_identity(source: Any) -> tuple[object, ...]:
    """Returns the name and the selector of the source's metric."""
    selector = source.metric.selector
    return source.metric.name, None if selector is None else selector_json(selector)


def selector_of_series(source: Any) -> LabelSelector | None:
    """Returns the selector of the source's metric."""
    selector: LabelSelector | None = source.metric.selector
    return selector
