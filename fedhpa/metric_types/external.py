"""The metric type External: the sum of the series of a metric from outside Kubernetes.

Source: Kubernetes HPA 1.36, metric sources 5, with its error texts. Values are milli-units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from pydantic import Field

from fedhpa.api.autoscaling import V2Model
from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.fielderror import FieldError, forbidden, required
from fedhpa.api.quantity import MAX_INT64
from fedhpa.metric_types.metric import (
    EXTERNAL_API,
    MeasuredFleet,
    MetricError,
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
    selector_dump,
    series_identity,
    series_status,
    served_samples,
)
from fedhpa.metric_types.sources import (
    AGGREGATION_HELP,
    Aggregation,
    MetricIdentifier,
    MetricStatus,
    MetricTarget,
    validate_identifier,
    validate_target,
)
from fedhpa.scaling import CurrentSize, Readiness


class ExternalMetricSource(V2Model):
    """A metric of something outside Kubernetes, which external.metrics.k8s.io reports."""

    required: ClassVar[tuple[str, ...]] = ("metric", "target")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier)
    """The metric. Example: {name: queue_depth, selector: {matchLabels: {queue: orders}}}."""
    target: MetricTarget = Field(default_factory=MetricTarget)
    """Target of the metric, as a whole (Value) or for each pod (AverageValue). Example: {type: AverageValue,
    averageValue: "30"}."""
    aggregation: Aggregation | None = Field(None, description=AGGREGATION_HELP)


class ExternalMetricStatus(MetricStatus):
    """Current value of an External metric."""


def _validate(source: ExternalMetricSource, path: str) -> Iterator[FieldError]:
    yield from validate_identifier(source.metric, f"{path}.metric")
    yield from validate_target(source.target, f"{path}.target")
    value, average = source.target.value, source.target.average_value
    if value is None and average is None:
        detail = "must set either a target value for metric or a per-pod target"
        yield required(f"{path}.target.averageValue", detail)
    if value is not None and average is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        yield forbidden(f"{path}.target.value", detail)


def _propose(fleet: MeasuredFleet, scale: CurrentSize, _: Readiness, spec: ScalingMetric) -> MetricProposal:
    by_value = spec.average_value is None
    prefix = (
        f"failed to get external metric {spec.name}: "
        if by_value
        else f"failed to get {spec.name} external metric: "
    )
    if by_value and spec.value is None:
        raise MetricError(
            "invalid external metric source: neither a value target nor an average value target was set"
        )
    try:
        values, of_hub = _values(fleet, spec)
        scale = scale_for_series(fleet, scale, spec, of_hub=of_hub)
        return propose_from_values(fleet, scale, spec, values, by_value=by_value)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(f"{prefix}{error}", str(error)) from error


def _values(fleet: MeasuredFleet, spec: ScalingMetric) -> tuple[dict[str, int], bool]:
    """Returns each cluster's sum of series, or the hub's and True."""
    check_selector(spec)
    found, of_hub = served_samples(fleet, spec)
    if not found:
        cause = no_metrics(fleet.failures(spec), "external")
        where = f"{fleet.namespace}/{spec.name}/{selector_dump(spec.selector)}"
        raise MetricsUnavailable(f"unable to get external metric {where}: {cause}")
    sums = {cluster: sum(sample.milli for sample in samples) for cluster, samples in found.items()}
    return {cluster: min(total, MAX_INT64) for cluster, total in sums.items()}, of_hub


EXTERNAL: Final = MetricType(
    "External",
    description="Source of type External: a metric from outside Kubernetes, such as the length of a "
    "queue. Can scale from zero.",
    source=ExternalMetricSource,
    status=ExternalMetricStatus,
    api=EXTERNAL_API,
    per_pod=False,
    failure_source="{name} external",
    validate=_validate,
    identity=series_identity,
    propose=_propose,
    display_name=external_name,
    status_fields=series_status,
)
