"""The parts that the sources of several metric types share: models and rules.

Sources: Kubernetes HPA 1.36, object model; Karmada v1.19 for messages and order, which are Kubernetes 1.27's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from pydantic import Field

from fedhpa.api.autoscaling import V2Model
from fedhpa.api.fielderror import FieldError, TypedText, invalid, required
from fedhpa.api.meta import LabelSelector
from fedhpa.api.model import Checked, Crd, Int32, LongText, RawQuantity, ScalarType, Text
from fedhpa.api.names import path_segment
from fedhpa.api.quantity import Quantity

JSON = object

AGGREGATIONS: Final = ("Sum", "Average", "Max", "Min")
TARGET_TYPES: Final = ("Utilization", "Value", "AverageValue")

# Target type -> the field of the target that goes with it.
TARGET_FIELDS: Final = {
    "Utilization": "averageUtilization",
    "Value": "value",
    "AverageValue": "averageValue",
}
MetricTargetType = Annotated[Text, ScalarType("v2.MetricTargetType"), Crd({"enum": tuple(TARGET_FIELDS)})]
Aggregation = Annotated[Text, Checked({"enum": AGGREGATIONS})]

AGGREGATION_HELP: Final = (
    "Function that merges the values of several clusters: Sum, Average, Max or Min. Not allowed with mode "
    "Distributed. Default: Sum. Example: Max."
)
CURRENT_HELP: Final = "Current value of the metric."
METRIC_HELP: Final = "Name and selector of the metric."


class MetricIdentifier(V2Model):
    """Name and selector of a metric."""

    required: ClassVar[tuple[str, ...]] = ("name",)

    name: LongText = ""
    """Name of the metric in the metrics API. Example: http_requests_per_second."""
    selector: LabelSelector | None = None
    """Selects the series of the metric by their labels; the metrics API evaluates it. Default: all series.
    Example: {matchLabels: {queue: orders}}."""


class MetricTarget(V2Model):
    """The value at which the autoscaler holds a metric. Set `type` and the field that goes with the type."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: MetricTargetType = ""
    """Utilization (with averageUtilization), Value (with value) or AverageValue (with averageValue). Example:
    Utilization."""
    value: RawQuantity | None = None
    """Target of the whole metric, as a quantity in the metric's own unit. For Object and External metrics.
    Example: 30 or 10k."""
    average_value: RawQuantity | None = None
    """Target per pod, as a quantity in the metric's own unit: the average over all pods of all clusters, or
    the whole metric divided by their number. Example: 500m (half a core of cpu) or 200Mi (memory)."""
    average_utilization: Annotated[Int32, Crd({"minimum": 1})] | None = None
    """Target of the average usage, in percent of what the pods request. For Resource and ContainerResource
    metrics. At least 1. Example: 80."""


class MetricValueStatus(V2Model):
    """Current value of a metric; the field that is set corresponds to the type of the target."""

    value: RawQuantity | None = None
    """Value of the whole metric, as a quantity."""
    average_value: RawQuantity | None = None
    """Average over all pods of all clusters, as a quantity."""
    average_utilization: Int32 | None = None
    """Average usage over all pods, in percent of what they request."""


class MetricStatus(V2Model):
    """Current value of a metric that is named."""

    required: ClassVar[tuple[str, ...]] = ("current", "metric")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description=METRIC_HELP)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


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
