"""One entry of spec.metrics: which metric, and its target."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.api import default_values
from fedhpa.api.autoscaling import MetricSpec
from fedhpa.api.metric_types import MetricType, metric_type
from fedhpa.api.metrics.parts import MetricTarget
from fedhpa.api.quantity import Quantity, RawQuantity

JSON = object

_encoder = msgspec.json.Encoder(order="deterministic")


class ScalingMetric(msgspec.Struct, frozen=True):
    """One entry of spec.metrics. Values are milli-units, utilization is per cent of requests.

    `name` is that of the resource or of the metric. `target` is the target as JSON with canonical quantities.
    `selector` and `described_object` are JSON as stored. `present` is False if the field of the type is
    missing.
    """

    type: str
    name: str = ""
    container: str = ""
    target_type: str = ""
    value: int | None = None
    average_value: int | None = None
    average_utilization: int | None = None
    selector: Mapping[str, JSON] | None = None
    described_object: Mapping[str, JSON] | None = None
    aggregation: str = default_values.AGGREGATION
    target: Mapping[str, JSON] = {}
    present: bool = True

    @property
    def metric_type(self) -> MetricType:
        """Returns the row of the metric's type."""
        return metric_type(self.type)

    @property
    def query_key(self) -> str:
        """The key of the metrics API query. Metrics with the same query share one answer.

        The query has type, name, selector and object; target and aggregation do not change it.
        """
        return _encoder.encode((self.type, self.name, self.selector, self.described_object)).decode()


def default_metric() -> ScalingMetric:
    """Returns the metric of a FederatedHPA without metrics: 80 per cent of the CPU requests."""
    utilization = default_values.METRIC_AVERAGE_UTILIZATION
    return ScalingMetric(
        default_values.METRIC_TYPE,
        name=default_values.METRIC_RESOURCE_NAME,
        target_type="Utilization",
        average_utilization=utilization,
        target={"type": "Utilization", "averageUtilization": utilization},
    )


def metric_spec(metric: MetricSpec) -> ScalingMetric:
    """Returns the metric with its quantities parsed."""
    kind = metric_type(metric.type)
    source = getattr(metric, kind.attribute) if kind.attribute else None
    if source is None:
        return ScalingMetric(metric.type, present=False)
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
        metric.type,
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
