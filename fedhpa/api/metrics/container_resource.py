"""The metric type ContainerResource: usage of a resource by one container of each pod."""

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


class ContainerResourceMetricSource(V2Model):
    """A resource that metrics.k8s.io reports, of one container of each pod."""

    required: ClassVar[tuple[str, ...]] = ("container", "name", "target")

    name: LongText = Field("", description="Name of the resource. Example: cpu or memory.")
    container: LongText = Field("", description="Name of the container in the pods. Example: app.")
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the resource. Example: {type: AverageValue, averageValue: 500m}.",
    )


class ContainerResourceMetricStatus(V2Model):
    """Current value of a ContainerResource metric."""

    required: ClassVar[tuple[str, ...]] = ("container", "current", "name")

    name: LongText = Field("", description="Name of the resource.")
    container: LongText = Field("", description="Name of the container.")
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


def identity(source: ContainerResourceMetricSource) -> MetricIdentity:
    """Returns the resource and the container."""
    return MetricIdentity(source.name, container=source.container)
