"""The parts that the sources of several metric types share.

Source: Kubernetes HPA 1.36, object model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from pydantic import Field

from fedhpa.api.meta import LabelSelector
from fedhpa.api.model import ApiModel, Checked, Crd, Int32, LongText, Name, RawQuantity, ScalarType, Text

JSON = object

AGGREGATIONS: Final = ("Sum", "Average", "Max", "Min")
TARGET_TYPES: Final = ("Utilization", "Value", "AverageValue")

# Target type -> the field of the target that goes with it.
TARGET_FIELDS: Final = {
    "Utilization": "averageUtilization",
    "Value": "value",
    "AverageValue": "averageValue",
}
MetricTargetType = Annotated[
    Text, ScalarType("v2.MetricTargetType", {"type": "string"}), Crd({"enum": tuple(TARGET_FIELDS)})
]
Aggregation = Annotated[Text, Checked({"enum": AGGREGATIONS})]

AGGREGATION_HELP: Final = (
    "Function that merges the values of several clusters: Sum, Average, Max or Min. Not allowed with mode "
    "Distributed. Default: Sum. Example: Max."
)
CURRENT_HELP: Final = "Current value of the metric."
METRIC_HELP: Final = "Name and selector of the metric."


class V2Model(ApiModel):
    """A part of autoscaling/v2."""

    go_package: ClassVar[str] = "v2"


class CrossVersionObjectReference(V2Model):
    """A reference to one object in the namespace of the autoscaler."""

    required: ClassVar[tuple[str, ...]] = ("kind", "name")

    api_version: LongText = Field("", description="API group and version of the object. Example: apps/v1.")
    kind: Annotated[Name, Crd({"minLength": 1})] = Field(
        "", description="Kind of the object. Example: Deployment."
    )
    name: Annotated[Name, Crd({"minLength": 1})] = Field(
        "", description="Name of the object, without kind or namespace. Example: web."
    )


class MetricIdentifier(V2Model):
    """Name and selector of a metric."""

    required: ClassVar[tuple[str, ...]] = ("name",)

    name: LongText = Field(
        "", description="Name of the metric in the metrics API. Example: http_requests_per_second."
    )
    selector: LabelSelector | None = Field(
        None,
        description="Selects the series of the metric by their labels; the metrics API evaluates it. "
        "Default: all series. Example: {matchLabels: {queue: orders}}.",
    )


class MetricTarget(V2Model):
    """The value at which the autoscaler holds a metric. Set `type` and the field that goes with the type."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: MetricTargetType = Field(
        "",
        description="Utilization (with averageUtilization), Value (with value) or AverageValue "
        "(with averageValue). Example: Utilization.",
    )
    value: RawQuantity | None = Field(
        None,
        description="Target of the whole metric, as a quantity in the metric's own unit. For Object and "
        "External metrics. Example: 30 or 10k.",
    )
    average_value: RawQuantity | None = Field(
        None,
        description="Target per pod, as a quantity in the metric's own unit: the average over all pods of "
        "all clusters, or the whole metric divided by their number. Example: 500m (half a core of cpu) "
        "or 200Mi (memory).",
    )
    average_utilization: Annotated[Int32, Crd({"minimum": 1})] | None = Field(
        None,
        description="Target of the average usage, in percent of what the pods request. For Resource and "
        "ContainerResource metrics. At least 1. Example: 80.",
    )


class MetricValueStatus(V2Model):
    """Current value of a metric; the field that is set corresponds to the type of the target."""

    value: RawQuantity | None = Field(None, description="Value of the whole metric, as a quantity.")
    average_value: RawQuantity | None = Field(
        None, description="Average over all pods of all clusters, as a quantity."
    )
    average_utilization: Int32 | None = Field(
        None, description="Average usage over all pods, in percent of what they request."
    )


class MetricIdentity(NamedTuple):
    """The identity of a metric. Together with the type it makes up the query to a metrics API.

    `name` is that of the resource or of the metric. `selector` and `described_object` are JSON as stored.
    """

    name: str
    container: str = ""
    selector: Mapping[str, JSON] | None = None
    described_object: Mapping[str, JSON] | None = None


class MetricStatus(V2Model):
    """Current value of a metric that is named."""

    required: ClassVar[tuple[str, ...]] = ("current", "metric")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description=METRIC_HELP)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


def stored_json(part: ApiModel) -> Mapping[str, JSON]:
    """Returns a part of an object as JSON, as it was stored."""
    return part.model_dump(mode="json", by_alias=True, exclude_unset=True)


def series(source: Any) -> MetricIdentity:
    """Returns the metric of a source that names it."""
    selector = source.metric.selector
    return MetricIdentity(source.metric.name, selector=None if selector is None else stored_json(selector))
