"""The metric type Resource: the usage of a resource, summed over the containers of a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import ClassVar, Final

from pydantic import Field

from fedhpa.api.autoscaling import V2Model
from fedhpa.api.fielderror import FieldError, required
from fedhpa.api.model import LongText
from fedhpa.metric_types.metric import USAGE_API, MetricIdentity, MetricType, ScalingMetric
from fedhpa.metric_types.sources import CURRENT_HELP, MetricTarget, MetricValueStatus
from fedhpa.metric_types.usage import propose_from_usage, usage_name, validate_usage_target, without_usage
from fedhpa.scaling import UsageRecord, sum_over

JSON = object


class ResourceMetricSource(V2Model):
    """A resource that metrics.k8s.io reports, summed over the containers of each pod."""

    required: ClassVar[tuple[str, ...]] = ("name", "target")

    name: LongText = ""
    """Name of the resource. Example: cpu or memory."""
    target: MetricTarget = Field(default_factory=MetricTarget)
    """Target of the resource. Example: {type: Utilization, averageUtilization: 80}."""


class ResourceMetricStatus(V2Model):
    """Current value of a Resource metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "name")

    name: LongText = ""
    """Name of the resource."""
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


def _validate(source: ResourceMetricSource, path: str) -> Iterator[FieldError]:
    if not source.name:
        yield required(f"{path}.name", "must specify a resource name")
    yield from validate_usage_target(source.target, f"{path}.target")


def _identity(source: ResourceMetricSource) -> MetricIdentity:
    return MetricIdentity(source.name)


# The sums of these two are in the records.
_SUMS: Final = {"cpu": attrgetter("cpu"), "memory": attrgetter("memory")}


def _reader(spec: ScalingMetric) -> Callable[[UsageRecord], int | None]:
    known: Callable[[UsageRecord], int | None] | None = _SUMS.get(spec.name)
    return known or (lambda record: sum_over(record.containers, spec.name))


def _display_name(spec: ScalingMetric) -> str:
    return usage_name(spec, "resource")


def _status(spec: ScalingMetric) -> dict[str, JSON]:
    return {"name": spec.name}


RESOURCE: Final = MetricType(
    "Resource",
    description="Source of type Resource: cpu or memory of whole pods, averaged over the pods of all "
    "clusters.",
    source=ResourceMetricSource,
    status=ResourceMetricStatus,
    api=USAGE_API,
    per_pod=True,
    failure_source="{name} resource",
    validate=_validate,
    identity=_identity,
    propose=partial(propose_from_usage, _reader),
    display_name=_display_name,
    status_fields=_status,
    unsampled=partial(without_usage, _reader),
)
