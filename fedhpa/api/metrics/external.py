"""The metric type External: a metric of something outside Kubernetes."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from fedhpa.api.metrics.parts import (
    AGGREGATION_HELP,
    Aggregation,
    MetricIdentifier,
    MetricStatus,
    MetricTarget,
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


class ExternalMetricStatus(MetricStatus):
    """Current value of an External metric."""
