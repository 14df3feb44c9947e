"""The metric types of a FederatedHPA: one table that admission, decision and controller read.

A new metric type is a row here and a module in each of `fedhpa.api.metrics` (its models),
`fedhpa.admission.metrics` (its rules) and `fedhpa.decision.metrics` (its evaluation).
Source of the types: Kubernetes HPA 1.36, metric sources 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedhpa.api.metrics import container_resource, resource
from fedhpa.api.metrics import object as object_
from fedhpa.api.metrics.container_resource import ContainerResourceMetricSource, ContainerResourceMetricStatus
from fedhpa.api.metrics.external import ExternalMetricSource, ExternalMetricStatus
from fedhpa.api.metrics.object import ObjectMetricSource, ObjectMetricStatus
from fedhpa.api.metrics.parts import MetricIdentity, V2Model, series
from fedhpa.api.metrics.pods import PodsMetricSource, PodsMetricStatus
from fedhpa.api.metrics.resource import ResourceMetricSource, ResourceMetricStatus

RESOURCE: Final = "Resource"
CONTAINER_RESOURCE: Final = "ContainerResource"
PODS: Final = "Pods"
OBJECT: Final = "Object"
EXTERNAL: Final = "External"

USAGE_API: Final = "metrics.k8s.io"
CUSTOM_API: Final = "custom.metrics.k8s.io"
EXTERNAL_API: Final = "external.metrics.k8s.io"


@dataclass(frozen=True)
class MetricType:
    """One metric type."""

    name: str
    """The value of `spec.metrics[].type`."""

    field: str
    """The JSON field of the metric that holds the source of this type."""

    attribute: str
    """The attribute of `fedhpa.api.autoscaling.MetricSpec` that holds the source."""

    description: str
    """The description of the field in the CRD."""

    source: type[V2Model]
    """The model of the source that admission checks."""

    status: type[V2Model]
    """The model of the entry of status.currentMetrics."""

    identity: Callable[[Any], MetricIdentity]
    """Returns what a source of this type measures."""

    api: str
    """The metrics API that serves the values."""

    per_pod: bool
    """True if each pod has a value. Otherwise a cluster has one value, and `aggregation` applies."""

    describes_object: bool
    """True if the source has a `describedObject`."""

    scales_from_zero: bool
    """True if the metric has a value while no pod runs. Only such a metric permits minReplicas 0."""

    failure_reason: str
    """The event and condition reason that Kubernetes' HPA reports for a metric it cannot read."""

    failure_source: str
    """The name of the source in errors of Kubernetes' HPA, with `{name}` and `{container}` to fill in."""


# In the order in which Karmada's webhook checks the fields.
_ROWS: Final = (
    MetricType(
        OBJECT,
        field="object",
        attribute="object",
        description="Source of type Object: a custom metric of one object, such as the requests of an "
        "Ingress. Can scale from zero.",
        source=ObjectMetricSource,
        status=ObjectMetricStatus,
        identity=object_.identity,
        api=CUSTOM_API,
        per_pod=False,
        describes_object=True,
        scales_from_zero=True,
        failure_reason="FailedGetObjectMetric",
        failure_source="object",
    ),
    MetricType(
        EXTERNAL,
        field="external",
        attribute="external",
        description="Source of type External: a metric from outside Kubernetes, such as the length of a "
        "queue. Can scale from zero.",
        source=ExternalMetricSource,
        status=ExternalMetricStatus,
        identity=series,
        api=EXTERNAL_API,
        per_pod=False,
        describes_object=False,
        scales_from_zero=True,
        failure_reason="FailedGetExternalMetric",
        failure_source="{name} external",
    ),
    MetricType(
        PODS,
        field="pods",
        attribute="pods",
        description="Source of type Pods: a custom metric of each pod, averaged over the pods of all "
        "clusters.",
        source=PodsMetricSource,
        status=PodsMetricStatus,
        identity=series,
        api=CUSTOM_API,
        per_pod=True,
        describes_object=False,
        scales_from_zero=False,
        failure_reason="FailedGetPodsMetric",
        failure_source="pods",
    ),
    MetricType(
        RESOURCE,
        field="resource",
        attribute="resource",
        description="Source of type Resource: cpu or memory of whole pods, averaged over the pods of all "
        "clusters.",
        source=ResourceMetricSource,
        status=ResourceMetricStatus,
        identity=resource.identity,
        api=USAGE_API,
        per_pod=True,
        describes_object=False,
        scales_from_zero=False,
        failure_reason="FailedGetResourceMetric",
        failure_source="{name} resource",
    ),
    MetricType(
        CONTAINER_RESOURCE,
        field="containerResource",
        attribute="container_resource",
        description="Source of type ContainerResource: cpu or memory of one container in each pod. Use it "
        "where sidecars would distort the average.",
        source=ContainerResourceMetricSource,
        status=ContainerResourceMetricStatus,
        identity=container_resource.identity,
        api=USAGE_API,
        per_pod=True,
        describes_object=False,
        scales_from_zero=False,
        failure_reason="FailedGetContainerResourceMetric",
        failure_source="{container} container",
    ),
)

METRIC_TYPES: Final[Mapping[str, MetricType]] = {row.name: row for row in _ROWS}

_UNKNOWN: Final = MetricType(
    "",
    field="",
    attribute="",
    description="",
    source=V2Model,
    status=V2Model,
    identity=lambda _: MetricIdentity(""),
    api="",
    per_pod=False,
    describes_object=False,
    scales_from_zero=False,
    failure_reason="InvalidMetricSourceType",
    failure_source="",
)


def metric_type(name: str) -> MetricType:
    """Returns the row of a type. For a name that is no metric type, returns a row with an empty name."""
    return METRIC_TYPES.get(name, _UNKNOWN)
