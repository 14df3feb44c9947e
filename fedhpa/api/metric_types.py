"""The metric types of a FederatedHPA: one table that admission, decision and controller read.

A new metric type is a row here, a source model in `fedhpa.api.autoscaling`, a validator, and a function that
proposes a replica count. Source of the types: Kubernetes HPA 1.36, metric sources 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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

    api: str
    """The metrics API that serves the values."""

    per_pod: bool
    """True if each pod has a value. Otherwise a cluster has one value, and `aggregation` applies."""

    scales_from_zero: bool
    """True if the metric has a value while no pod runs. Only such a metric permits minReplicas 0."""

    failure_reason: str
    """The event and condition reason that Kubernetes' HPA reports for a metric it cannot read."""

    failure_source: str
    """How Kubernetes' HPA names the source in the error, with `{name}` and `{container}` to fill in."""


# In the order in which Karmada's webhook checks the fields.
METRIC_TYPES: Final = (
    MetricType(
        OBJECT,
        field="object",
        attribute="object",
        api=CUSTOM_API,
        per_pod=False,
        scales_from_zero=True,
        failure_reason="FailedGetObjectMetric",
        failure_source="object",
    ),
    MetricType(
        EXTERNAL,
        field="external",
        attribute="external",
        api=EXTERNAL_API,
        per_pod=False,
        scales_from_zero=True,
        failure_reason="FailedGetExternalMetric",
        failure_source="{name} external",
    ),
    MetricType(
        PODS,
        field="pods",
        attribute="pods",
        api=CUSTOM_API,
        per_pod=True,
        scales_from_zero=False,
        failure_reason="FailedGetPodsMetric",
        failure_source="pods",
    ),
    MetricType(
        RESOURCE,
        field="resource",
        attribute="resource",
        api=USAGE_API,
        per_pod=True,
        scales_from_zero=False,
        failure_reason="FailedGetResourceMetric",
        failure_source="{name} resource",
    ),
    MetricType(
        CONTAINER_RESOURCE,
        field="containerResource",
        attribute="container_resource",
        api=USAGE_API,
        per_pod=True,
        scales_from_zero=False,
        failure_reason="FailedGetContainerResourceMetric",
        failure_source="{container} container",
    ),
)

BY_NAME: Final[Mapping[str, MetricType]] = {metric_type.name: metric_type for metric_type in METRIC_TYPES}
BY_FIELD: Final[Mapping[str, MetricType]] = {metric_type.field: metric_type for metric_type in METRIC_TYPES}

_UNKNOWN: Final = MetricType(
    "",
    field="",
    attribute="",
    api="",
    per_pod=False,
    scales_from_zero=False,
    failure_reason="InvalidMetricSourceType",
    failure_source="",
)


def metric_type(name: str) -> MetricType:
    """Returns the row of a type. For a name that is no metric type, returns a row with an empty name."""
    return BY_NAME.get(name, _UNKNOWN)
