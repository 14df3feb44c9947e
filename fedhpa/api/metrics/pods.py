"""The metric type Pods: a custom metric of each pod."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from pydantic import Field

from fedhpa.api.metrics.parts import (
    CURRENT_HELP,
    METRIC_HELP,
    MetricIdentifier,
    MetricIdentity,
    MetricTarget,
    MetricValueStatus,
    RawMetricIdentifier,
    RawSource,
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


class PodsMetricStatus(V2Model):
    """Current value of a Pods metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "metric")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description=METRIC_HELP)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


class RawPodsSource(RawSource):
    """The source, as stored."""

    metric: RawMetricIdentifier = msgspec.field(default_factory=RawMetricIdentifier)

    def identity(self) -> MetricIdentity:
        """Returns the metric."""
        return MetricIdentity(self.metric.name, selector=self.metric.selector)
