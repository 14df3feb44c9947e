"""The metric type ContainerResource: the usage of a resource by one container of each pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, Final

from pydantic import Field

from fedhpa.api.autoscaling import V2Model
from fedhpa.api.fielderror import FieldError, invalid, required
from fedhpa.api.model import LongText
from fedhpa.api.names import container_resource, dns_label
from fedhpa.metric_types.metric import USAGE_API, MetricIdentity, MetricType, ScalingMetric
from fedhpa.metric_types.sources import CURRENT_HELP, MetricTarget, MetricValueStatus
from fedhpa.metric_types.usage import propose_from_usage, usage_name, validate_usage_target, without_usage
from fedhpa.scaling import UsageRecord

JSON = object


class ContainerResourceMetricSource(V2Model):
    """A resource that metrics.k8s.io reports, of one container of each pod."""

    required: ClassVar[tuple[str, ...]] = ("container", "name", "target")

    name: LongText = ""
    """Name of the resource. Example: cpu or memory."""
    container: LongText = ""
    """Name of the container in the pods. Example: app."""
    target: MetricTarget = Field(default_factory=MetricTarget)
    """Target of the resource. Example: {type: AverageValue, averageValue: 500m}."""


class ContainerResourceMetricStatus(V2Model):
    """Current value of a ContainerResource metric."""

    required: ClassVar[tuple[str, ...]] = ("container", "current", "name")

    name: LongText = ""
    """Name of the resource."""
    container: LongText = ""
    """Name of the container."""
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


def _validate(source: ContainerResourceMetricSource, path: str) -> Iterator[FieldError]:
    if not source.name:
        yield required(f"{path}.name", "must specify a resource name")
    for message in container_resource(source.name) if source.name else ():
        yield invalid(f"{path}.name", source.name, message)
    if not source.container:
        yield required(f"{path}.container", "must specify a container")
    for message in dns_label(source.container) if source.container else ():
        yield invalid(f"{path}.container", source.container, message)
    yield from validate_usage_target(source.target, f"{path}.target")


def _identity(source: ContainerResourceMetricSource) -> MetricIdentity:
    return MetricIdentity(source.name, container=source.container)


def _reader(spec: ScalingMetric) -> Callable[[UsageRecord], int | None]:
    def value_of(record: UsageRecord) -> int | None:
        found = [one.milli(spec.name) for one in record.containers if one.name == spec.container]
        return found[-1] if found else None

    return value_of


def _display_name(spec: ScalingMetric) -> str:
    return usage_name(spec, "container resource")


def _status(spec: ScalingMetric) -> dict[str, JSON]:
    return {"name": spec.name, "container": spec.container}


CONTAINER_RESOURCE: Final = MetricType(
    "ContainerResource",
    description="Source of type ContainerResource: cpu or memory of one container in each pod. Use it "
    "where sidecars would distort the average.",
    source=ContainerResourceMetricSource,
    status=ContainerResourceMetricStatus,
    api=USAGE_API,
    per_pod=True,
    failure_source="{container} container",
    validate=_validate,
    identity=_identity,
    propose=partial(propose_from_usage, _reader),
    display_name=_display_name,
    status_fields=_status,
    unsampled=partial(without_usage, _reader),
)
