"""The metric type External: a metric of something outside Kubernetes."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from pydantic import Field

from fedhpa.api.metrics.parts import (
    AGGREGATION_HELP,
    CURRENT_HELP,
    METRIC_HELP,
    Aggregation,
    MetricIdentifier,
    MetricIdentity,
    MetricTarget,
    MetricValueStatus,
    RawMetricIdentifier,
    RawSource,
    V2Model,
)


class ExternalMetricSource(V2Model):
    """A metric of something outside Kubernetes, which external.metrics.k8s.io reports."""

    required: ClassVar[tuple[str, ...]] = ("metric", "target")

    metric: MetricIdentifier = Field(
        default_factory=MetricIdentifier,
        description="The metric. Example: {name: queue_depth, selector: {matchLabels: {queue: orders}}}.",
    )
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the metric, as a whole (Value) or for each pod (AverageValue). "
        'Example: {type: AverageValue, averageValue: "30"}.',
    )
    aggregation: Aggregation | None = Field(None, description=AGGREGATION_HELP)


class ExternalMetricStatus(V2Model):
    """Current value of an External metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "metric")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description=METRIC_HELP)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


class RawExternalSource(RawSource):
    """The source, as stored."""

    metric: RawMetricIdentifier = msgspec.field(default_factory=RawMetricIdentifier)

    def identity(self) -> MetricIdentity:
        """Returns the metric."""
        return MetricIdentity(self.metric.name, selector=self.metric.selector)
