"""The metric type Resource: usage of cpu, memory or another resource, summed over the containers of a pod."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from fedhpa.api.metrics.parts import (
    CURRENT_HELP,
    MetricIdentity,
    MetricTarget,
    MetricValueStatus,
    V2Model,
)
from fedhpa.api.model import LongText


class ResourceMetricSource(V2Model):
    """A resource that metrics.k8s.io reports, summed over the containers of each pod."""

    required: ClassVar[tuple[str, ...]] = ("name", "target")

    name: LongText = Field("", description="Name of the resource. Example: cpu or memory.")
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the resource. Example: {type: Utilization, averageUtilization: 80}.",
    )


class ResourceMetricStatus(V2Model):
    """Current value of a Resource metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "name")

    name: LongText = Field("", description="Name of the resource.")
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


def identity(source: ResourceMetricSource) -> MetricIdentity:
    """Returns the resource."""
    return MetricIdentity(source.name)
