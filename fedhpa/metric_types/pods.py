"""The metric type Pods: a custom metric of each pod.

Source: Kubernetes HPA 1.36, metric sources 5, with its error texts. Values are milli-units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from pydantic import Field

from fedhpa.api.autoscaling import V2Model
from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.fielderror import FieldError, required
from fedhpa.api.quantity import format_milli
from fedhpa.metric_types.metric import (
    CUSTOM_API,
    MeasuredFleet,
    MetricError,
    MetricProposal,
    MetricType,
    ScalingMetric,
    calibrated,
    no_metrics,
    of_pods,
)
from fedhpa.metric_types.series import HUB, check_selector, scale_for_hub, series_identity, series_status
from fedhpa.metric_types.sources import (
    MetricIdentifier,
    MetricStatus,
    MetricTarget,
    validate_identifier,
    validate_target,
)
from fedhpa.scaling import CurrentSize, Part, Readiness, group_pods, propose_average

JSON = object


class PodsMetricSource(V2Model):
    """A metric that custom.metrics.k8s.io reports for each pod."""

    required: ClassVar[tuple[str, ...]] = ("metric", "target")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier)
    """The metric. Example: {name: http_requests_per_second}."""
    target: MetricTarget = Field(default_factory=MetricTarget)
    """Target of the average over the pods. Example: {type: AverageValue, averageValue: "100"}."""


class PodsMetricStatus(MetricStatus):
    """Current value of a Pods metric."""


def _validate(source: PodsMetricSource, path: str) -> Iterator[FieldError]:
    yield from validate_identifier(source.metric, f"{path}.metric")
    yield from validate_target(source.target, f"{path}.target")
    if source.target.average_value is None:
        yield required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _propose(
    fleet: MeasuredFleet, scale: CurrentSize, readiness: Readiness, spec: ScalingMetric
) -> MetricProposal:
    try:
        check_selector(spec)
        parts = _parts(fleet, spec)
        if parts:
            scale = calibrated(fleet, spec, scale)
            groups = group_pods(parts, readiness, cpu=False)
        else:
            parts, unlisted = _hub_parts(fleet, spec)
            scale = scale_for_hub(fleet, scale)
            groups = group_pods(parts, readiness, cpu=False, strays={HUB: unlisted} if unlisted else {})
        proposal = propose_average(groups, spec.average_value or 0, scale)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(str(error)) from error
    return of_pods(proposal, {"averageValue": format_milli(proposal.milli)}, groups)


def _parts(fleet: MeasuredFleet, spec: ScalingMetric) -> list[Part]:
    """Returns each cluster's samples; [] if no cluster has any."""
    served = [(cluster, cluster.samples(spec)) for cluster in fleet.observed(spec)]
    if not any(samples for _, samples in served):
        return []
    parts: list[Part] = []
    for cluster, samples in served:
        own = [sample for sample in samples if not cluster.is_foreign(sample.name)]
        parts.append((cluster, {sample.name: sample.milli for sample in own}, own))
    return parts


def _hub_parts(fleet: MeasuredFleet, spec: ScalingMetric) -> tuple[list[Part], dict[str, int]]:
    """Returns the hub's samples by cluster, and the values of pods that no cluster lists."""
    # Hub metrics name a pod but no cluster, so a value counts in every cluster with a pod of that name.
    found = fleet.hub_samples(spec)
    if not found:
        cause = no_metrics(fleet.failures(spec), "custom")
        raise MetricsUnavailable(f"unable to get metric {spec.name}: {cause}")
    left = {sample.name: sample.milli for sample in found}
    parts: list[Part] = []
    listed: set[str] = set()
    for cluster in fleet.answered:
        own = {pod.name for pod in cluster.pods}
        values = {name: milli for name, milli in left.items() if name in own}
        listed |= own | {name for name in left if cluster.is_foreign(name)}
        parts.append((cluster, values, ()))
    return parts, {name: milli for name, milli in left.items() if name not in listed}


def _display_name(spec: ScalingMetric) -> str:
    return f"pods metric {spec.name}"


def _unsampled(fleet: MeasuredFleet, spec: ScalingMetric) -> list[str]:
    of_hub: Sequence[Any] = fleet.hub_samples(spec) if fleet.served_by_hub(spec) else ()
    found = []
    for cluster in fleet.answered:
        named = {sample.name for sample in cluster.samples(spec) or of_hub}
        if named.isdisjoint([pod.name for pod in cluster.pods]) and cluster.pods:
            found.append(cluster.name)
    return found


PODS: Final = MetricType(
    "Pods",
    description="Source of type Pods: a custom metric of each pod, averaged over the pods of all clusters.",
    source=PodsMetricSource,
    status=PodsMetricStatus,
    api=CUSTOM_API,
    per_pod=True,
    failure_source="pods",
    validate=_validate,
    identity=series_identity,
    propose=_propose,
    display_name=_display_name,
    status_fields=series_status,
    unsampled=_unsampled,
)
