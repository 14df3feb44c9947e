"""The entries of spec.metrics and of status.currentMetrics, and how a metric is read from an entry.

Source: Kubernetes HPA 1.36, object model. `aggregation` of Object and External metrics is an extension.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import Field, create_model

from fedhpa.api import default_values
from fedhpa.api.autoscaling import V2Model
from fedhpa.api.decode import decode
from fedhpa.api.model import Crd, ScalarType, Text
from fedhpa.api.quantity import Quantity, RawQuantity
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.metric_types.sources import MetricTarget
from fedhpa.metric_types.table import METRIC_TYPES, metric_type

MetricSourceType = Annotated[Text, ScalarType("v2.MetricSourceType")]


def _one_of(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


class _MetricSpec(V2Model):
    """One metric. Set `type`, and the one source field that belongs to the type."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: Annotated[MetricSourceType, Crd({"enum": tuple(sorted(METRIC_TYPES))})] = Field(
        "", description=f"Type of the metric: {_one_of(METRIC_TYPES)}. Example: Resource."
    )


class _MetricStatus(V2Model):
    """Current value of one metric: `type`, and the field that belongs to the type."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: MetricSourceType = ""
    """Type of the metric, as in spec.metrics."""


def _field(model: type[V2Model], description: str) -> Any:
    return model | None, Field(None, description=description)


# Both models have a field for each type, which a static checker cannot know.
if TYPE_CHECKING:
    MetricSpec = _MetricSpec
    MetricStatus = _MetricStatus
else:
    _sources = {row.attribute: _field(row.source, row.description) for row in METRIC_TYPES.values()}
    _values = {
        row.attribute: _field(row.status, f"Value of type {row.name}.") for row in METRIC_TYPES.values()
    }
    MetricSpec = create_model("MetricSpec", __base__=_MetricSpec, __doc__=_MetricSpec.__doc__, **_sources)
    MetricStatus = create_model(
        "MetricStatus", __base__=_MetricStatus, __doc__=_MetricStatus.__doc__, **_values
    )


def scaling_metric(metric: MetricSpec) -> ScalingMetric:
    """Returns the metric with its quantities parsed."""
    kind = metric_type(metric.type)
    source = getattr(metric, kind.attribute) if kind.field else None
    if source is None:
        return ScalingMetric(kind, present=False)
    target: MetricTarget = source.target
    value, average = _quantity(target.value), _quantity(target.average_value)
    identity = kind.identity(source)
    fields = {
        "type": target.type or None,
        "value": None if value is None else str(value),
        "averageValue": None if average is None else str(average),
        "averageUtilization": target.average_utilization,
    }
    return ScalingMetric(
        kind,
        name=identity.name,
        container=identity.container,
        target_type=target.type,
        value=None if value is None else value.milli,
        average_value=None if average is None else average.milli,
        average_utilization=target.average_utilization,
        selector=identity.selector,
        described_object=identity.described_object,
        aggregation=(not kind.per_pod and source.aggregation) or default_values.AGGREGATION,
        target={key: field for key, field in fields.items() if field is not None},
    )


def _quantity(raw: RawQuantity | None) -> Quantity | None:
    return None if raw is None else Quantity.parse(raw)


DEFAULT_METRICS: Final = tuple(
    [scaling_metric(decode(MetricSpec, entry)) for entry in default_values.default_metrics()]
)
