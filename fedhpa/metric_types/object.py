"""The metric type Object: one custom metric of an object that is no pod.

Source: Kubernetes HPA 1.36, metric sources 5, with its error texts. Values are milli-units.
One rule is stricter than Karmada's: the target must have the field of its type, because Karmada's controller
dereferences nil without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from pydantic import Field

from fedhpa.api.autoscaling import CrossVersionObjectReference, V2Model
from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.fielderror import FieldError, invalid, required
from fedhpa.api.names import path_segment
from fedhpa.api.shape import stored_json
from fedhpa.metric_types.metric import (
    CUSTOM_API,
    MeasuredFleet,
    MetricError,
    MetricIdentity,
    MetricProposal,
    MetricType,
    ScalingMetric,
    no_metrics,
)
from fedhpa.metric_types.series import (
    check_selector,
    external_name,
    propose_from_values,
    scale_for_series,
    series_identity,
    series_status,
    served_samples,
)
from fedhpa.metric_types.sources import (
    AGGREGATION_HELP,
    CURRENT_HELP,
    METRIC_HELP,
    Aggregation,
    MetricIdentifier,
    MetricTarget,
    MetricValueStatus,
    validate_identifier,
    validate_target,
)
from fedhpa.scaling import CurrentSize, Readiness

JSON = object


class ObjectMetricSource(V2Model):
    """A metric that custom.metrics.k8s.io reports for one object that is no pod."""

    required: ClassVar[tuple[str, ...]] = ("describedObject", "metric", "target")

    described_object: CrossVersionObjectReference = Field(default_factory=CrossVersionObjectReference)
    """The object that the metric describes, in the autoscaler's namespace. Example: {apiVersion:
    networking.k8s.io/v1, kind: Ingress, name: web}."""
    metric: MetricIdentifier = Field(default_factory=MetricIdentifier)
    """The metric. Example: {name: requests_per_second}."""
    target: MetricTarget = Field(default_factory=MetricTarget)
    """Target of the metric, as a whole (Value) or for each pod (AverageValue). Example: {type: Value, value:
    10k}."""
    aggregation: Aggregation | None = Field(None, description=AGGREGATION_HELP)


class ObjectMetricStatus(V2Model):
    """Current value of an Object metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "describedObject", "metric")

    described_object: CrossVersionObjectReference = Field(default_factory=CrossVersionObjectReference)
    """The object that the metric describes."""
    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description=METRIC_HELP)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=CURRENT_HELP)


def _validate(source: ObjectMetricSource, path: str) -> Iterator[FieldError]:
    described = source.described_object
    for name, value in (("kind", described.kind), ("name", described.name)):
        if not value:
            yield required(f"{path}.describedObject.{name}")
        for message in path_segment(value):
            yield invalid(f"{path}.describedObject.{name}", value, message)
    yield from validate_identifier(source.metric, f"{path}.metric")
    yield from validate_target(source.target, f"{path}.target")
    target = source.target
    if target.value is None and target.average_value is None:
        yield required(f"{path}.target.averageValue", "must set either a target value or averageValue")
    elif target.type == "AverageValue" and target.average_value is None:
        yield required(f"{path}.target.averageValue", "must be set when the target type is AverageValue")
    elif target.type == "Value" and target.value is None:
        yield required(f"{path}.target.value", "must be set when the target type is Value")


def _identity(source: ObjectMetricSource) -> MetricIdentity:
    return series_identity(source)._replace(described_object=stored_json(source.described_object))


def _propose(fleet: MeasuredFleet, scale: CurrentSize, _: Readiness, spec: ScalingMetric) -> MetricProposal:
    by_value = spec.target_type == "Value" and spec.value is not None
    try:
        check_selector(spec)
    except InvalidObject as error:
        raise MetricError(str(error)) from error
    if not by_value and not (spec.target_type == "AverageValue" and spec.average_value is not None):
        raise MetricError(
            "invalid object metric source: neither a value target nor an average value target was set"
        )
    try:
        values, of_hub = _values(fleet, spec)
        scale = scale_for_series(fleet, scale, spec, of_hub=of_hub)
        return propose_from_values(fleet, scale, spec, values, by_value=by_value)
    except MetricsUnavailable as error:
        text = str(error) if by_value else f"failed to get {spec.name} object metric: {error}"
        raise MetricError(text, str(error)) from error


def _values(fleet: MeasuredFleet, spec: ScalingMetric) -> tuple[dict[str, int], bool]:
    """Returns each cluster's value, or the hub's and True."""
    described = spec.described_object or {}
    where = f"{described.get('kind', '')} on {fleet.namespace} {described.get('name', '')}"
    context = f"unable to get metric {spec.name}: {where}/"
    found, of_hub = served_samples(fleet, spec)
    if not found:
        failures = fleet.failures(spec)
        raise MetricsUnavailable(context + (no_metrics(failures, "custom") if failures else _not_one(0)))
    for samples in found.values():
        if len(samples) > 1:
            raise MetricsUnavailable(context + _not_one(len(samples)))
    return {cluster: samples[0].milli for cluster, samples in found.items()}, of_hub


def _not_one(results: int) -> str:
    return (
        "unable to fetch metrics from custom metrics API: "
        f"the custom metrics API server returned {results} results when we asked for exactly one"
    )


def _display_name(spec: ScalingMetric) -> str:
    if spec.target_type != "Value":
        return external_name(spec)
    return f"{(spec.described_object or {}).get('kind', '')} metric {spec.name}"


def _status(spec: ScalingMetric) -> dict[str, JSON]:
    return {**series_status(spec), "describedObject": spec.described_object or {}}


OBJECT: Final = MetricType(
    "Object",
    description="Source of type Object: a custom metric of one object, such as the requests of an "
    "Ingress. Can scale from zero.",
    source=ObjectMetricSource,
    status=ObjectMetricStatus,
    api=CUSTOM_API,
    per_pod=False,
    failure_source="object",
    validate=_validate,
    identity=_identity,
    propose=_propose,
    display_name=_display_name,
    status_fields=_status,
    strict_target=True,
)
