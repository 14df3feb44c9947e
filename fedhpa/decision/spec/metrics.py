"""One entry of spec.metrics: which metric, and its target."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.api import default_values
from fedhpa.api.errors import InvalidObject, InvalidQuantity
from fedhpa.api.metric_types import MetricType, metric_type
from fedhpa.api.metrics.parts import RawMetricTarget, RawSource
from fedhpa.api.quantity import Quantity, RawQuantity
from fedhpa.decision.spec.wire import RawMetric

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


def metric_spec(raw: RawMetric, path: str) -> ScalingMetric:
    """Returns the metric with its quantities parsed. Raises InvalidObject; `path` is where the metric is."""
    kind = metric_type(raw.type)
    field = kind.field
    source: RawSource | None = getattr(raw, field) if field else None
    if source is None:
        return ScalingMetric(raw.type, present=False)
    value, value_text = _quantity(source.target.value, f"{path}.{field}.target.value")
    average, average_text = _quantity(source.target.averageValue, f"{path}.{field}.target.averageValue")
    identity = source.identity()
    return ScalingMetric(
        raw.type,
        name=identity.name,
        container=identity.container,
        target_type=source.target.type,
        value=value,
        average_value=average,
        average_utilization=source.target.averageUtilization,
        selector=identity.selector,
        described_object=identity.described_object,
        aggregation=source.aggregation or default_values.AGGREGATION,
        target=_target(source.target, value_text, average_text),
    )


def _target(raw: RawMetricTarget, value: str | None, average: str | None) -> Mapping[str, JSON]:
    fields = {
        "type": raw.type or None,
        "value": value,
        "averageValue": average,
        "averageUtilization": raw.averageUtilization,
    }
    return {key: field for key, field in fields.items() if field is not None}


def _quantity(raw: RawQuantity | None, path: str) -> tuple[int | None, str | None]:
    if raw is None:
        return None, None
    try:
        quantity = Quantity.parse(raw)
    except InvalidQuantity as error:
        raise InvalidObject(f"{path}: {error}") from error
    return quantity.milli, str(quantity)
