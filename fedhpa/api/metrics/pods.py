"""The metric type Pods: a custom metric of each pod."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from fedhpa.api.metrics.parts import (
    MetricIdentifier,
    MetricStatus,
    MetricTarget,
    V2Model,
)


class PodsMetricSource(V2Model):
    """A metric that custom.metrics.k8s.io reports for each pod."""

    required: ClassVar[tuple[str, ...]] = ("metric", "target")

    metric: MetricIdentifier = Field(
        default_factory=MetricIdentifier,
        description="The metric. Example: {name: http_requests_per_second}.",
    )
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the average over the pods. "
        'Example: {type: AverageValue, averageValue: "100"}.',
    )


class PodsMetricStatus(MetricStatus):
    """Current value of a Pods metric."""
