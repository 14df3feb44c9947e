"""The metric type Object: a custom metric of one object that is no pod."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from fedhpa.api.metrics.parts import (
    AGGREGATION_HELP,
    CURRENT_HELP,
    METRIC_HELP,
    Aggregation,
    CrossVersionObjectReference,
    MetricIdentifier,
    MetricIdentity,
    MetricTarget,
    MetricValueStatus,
    V2Model,
    series,
    stored_json,
)


class ObjectMetricSource(V2Model):
    """A metric that custom.metrics.k8s.io reports for one object that is no pod."""

    required: ClassVar[tuple[str, ...]] = ("describedObject", "metric", "target")

    described_object: CrossVersionObjectReference = Field(
        default_factory=CrossVersionObjectReference,
        description="The object that the metric describes, in the autoscaler's namespace. "
        "Example: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}.",
    )
    metric: MetricIdentifier = Field(
        default_factory=MetricIdentifier, description="The metric. Example: {name: requests_per_second}."
    )
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the metric, as a whole (Value) or for each pod (AverageValue). "
        "Example: {type: Value, value: 10k}.",
    )
    aggregation: Aggregation | None = Field(None, description=AGGREGATION_HELP)


class ObjectMetricStatus(V2Model):
    """Current value of an Object metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "describedObject", "metric")

    described_object: CrossVersionObjectReference = Field(
        default_factory=CrossVersionObjectReference, description="The object that the metric describes."
    )
    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description=METRIC_HELP)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


def identity(source: ObjectMetricSource) -> MetricIdentity:
    """Returns the metric and the object."""
    return series(source)._replace(described_object=stored_json(source.described_object))
