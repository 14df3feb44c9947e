"""Metrics with one value for each cluster: Object and External, aggregated over the clusters that serve them.

Source: Kubernetes HPA 1.36, metric sources 5, with its error texts. Values are milli-units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.quantity import MAX_INT64, format_milli
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.messages import selector_dump
from fedhpa.decision.metrics.proposal import (
    HUB,
    MetricError,
    MetricProposal,
    check_selector,
    no_metrics,
    scale_for_hub,
)
from fedhpa.decision.metrics.samples import custom_samples, external_samples
from fedhpa.decision.model import ClusterShare
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import CurrentSize, Readiness, propose_per_pod, propose_value


def propose_for_object(
    fleet: FleetView, scale: CurrentSize, _: Readiness, spec: ScalingMetric
) -> MetricProposal:
    """Object: one value, compared as a whole or divided by the pods. Raises MetricError."""
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
        values, of_hub = _object_values(fleet, spec)
        scale = scale_for_hub(fleet, scale) if of_hub else scale
        return _from_values(fleet, scale, spec, values, by_value=by_value)
    except MetricsUnavailable as error:
        text = str(error) if by_value else f"failed to get {spec.name} object metric: {error}"
        raise MetricError(text, str(error)) from error


def _object_values(fleet: FleetView, spec: ScalingMetric) -> tuple[dict[str, int], bool]:
    """Returns each cluster's value, or the hub's and True."""
    described = spec.described_object or {}
    where = f"{described.get('kind', '')} on {fleet.namespace} {described.get('name', '')}"
    context = f"unable to get metric {spec.name}: {where}/"
    found = {
        cluster.name: custom_samples(cluster.snapshot.custom_metrics, spec, fleet.namespace)
        for cluster in fleet.answered
    }
    of_hub = not any(found.values())
    if of_hub:
        found = {HUB: custom_samples(fleet.hub_custom, spec, fleet.namespace)}
        if not found[HUB]:
            failures = fleet.failures(spec)
            cause = no_metrics(failures, "custom") if failures else _not_one(0)
            raise MetricsUnavailable(context + cause)
    for samples in found.values():
        if len(samples) > 1:
            raise MetricsUnavailable(context + _not_one(len(samples)))
    return {cluster: samples[0].milli for cluster, samples in found.items() if samples}, of_hub


def _not_one(results: int) -> str:
    return (
        "unable to fetch metrics from custom metrics API: "
        f"the custom metrics API server returned {results} results when we asked for exactly one"
    )


def propose_for_external(
    fleet: FleetView, scale: CurrentSize, _: Readiness, spec: ScalingMetric
) -> MetricProposal:
    """External: the sum of the series, compared as a whole or divided by the pods. Raises MetricError."""
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
        values, of_hub = _external_values(fleet, spec)
        scale = scale_for_hub(fleet, scale) if of_hub else scale
        return _from_values(fleet, scale, spec, values, by_value=by_value)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(f"{prefix}{error}", str(error)) from error


def _external_values(fleet: FleetView, spec: ScalingMetric) -> tuple[dict[str, int], bool]:
    """Returns each cluster's sum of series, or the hub's and True."""
    check_selector(spec)
    found = {
        cluster.name: external_samples(cluster.snapshot.external_metrics, spec) for cluster in fleet.answered
    }
    of_hub = not any(found.values())
    if of_hub:
        found = {HUB: external_samples(fleet.hub_external, spec)}
        if not found[HUB]:
            cause = no_metrics(fleet.failures(spec), "external")
            where = f"{fleet.namespace}/{spec.name}/{selector_dump(spec.selector)}"
            raise MetricsUnavailable(f"unable to get external metric {where}: {cause}")
    values = {
        cluster: min(sum(sample.milli for sample in samples), MAX_INT64)
        for cluster, samples in found.items()
        if samples
    }
    return values, of_hub


def _from_values(
    fleet: FleetView, scale: CurrentSize, spec: ScalingMetric, values: Mapping[str, int], *, by_value: bool
) -> MetricProposal:
    value = _aggregate(spec.aggregation, list(values.values()))
    ready = {cluster.name: cluster.ready_pods for cluster in fleet.answered}
    shares = {
        cluster: ClusterShare(ready.get(cluster, 0), format_milli(milli)) for cluster, milli in values.items()
    }
    if by_value:
        pods = sum(len(cluster.pods) for cluster in fleet.answered)
        proposal = propose_value(value, spec.value or 0, pods, sum(ready.values()), scale)
        return MetricProposal(proposal, {"value": format_milli(proposal.milli)}, shares)
    proposal = propose_per_pod(value, spec.average_value or 0, fleet.status_replicas, scale)
    return MetricProposal(proposal, {"averageValue": format_milli(proposal.milli)}, shares)


def _aggregate(aggregation: str, values: Sequence[int]) -> int:
    if aggregation == "Max":
        return max(values)
    if aggregation == "Min":
        return min(values)
    total = sum(values)
    if aggregation == "Average":
        return total // len(values) if total >= 0 else -(-total // len(values))
    return min(total, MAX_INT64)
