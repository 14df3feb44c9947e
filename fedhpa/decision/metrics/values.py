"""Metrics of which there is one value: Object and External, aggregated over the clusters that serve them.

Source: Kubernetes HPA 1.36, metric sources 5; errors are worded as there. Values are milli-units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.quantity import MAX_INT64, format_milli
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.messages import selector_dump
from fedhpa.decision.metrics.proposal import HUB, Found, MetricError, causes, check_selector
from fedhpa.decision.model import ClusterShare
from fedhpa.decision.spec.federatedhpa import MetricSpec
from fedhpa.scaling.grouping import Readiness
from fedhpa.scaling.replicas import Scale, propose_per_pod, propose_value


def measure_object(world: FleetView, scale: Scale, _: Readiness, spec: MetricSpec) -> Found:
    """Object: one value, as a whole or a share for each pod. Raises MetricError."""
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
        values = _object_values(world, spec)
        return _from_values(world, scale, spec, values, by_value=by_value)
    except MetricsUnavailable as error:
        text = str(error) if by_value else f"failed to get {spec.name} object metric: {error}"
        raise MetricError(text, str(error)) from error


def _object_values(world: FleetView, spec: MetricSpec) -> dict[str, int]:
    described = spec.described_object or {}
    where = f"{described.get('kind', '')} on {world.namespace} {described.get('name', '')}"
    context = f"unable to get metric {spec.name}: {where}/"
    found = {member.name: world.custom(member.snapshot.custom_metrics, spec) for member in world.members}
    if not any(found.values()):
        found = {HUB: world.custom(world.hub_custom, spec)}
        if not found[HUB]:
            failures = world.failures(spec)
            cause = causes(failures, "custom") if failures else _not_one(0)
            raise MetricsUnavailable(context + cause)
    for samples in found.values():
        if len(samples) > 1:
            raise MetricsUnavailable(context + _not_one(len(samples)))
    return {cluster: samples[0].milli for cluster, samples in found.items() if samples}


def _not_one(results: int) -> str:
    return (
        "unable to fetch metrics from custom metrics API: "
        f"the custom metrics API server returned {results} results when we asked for exactly one"
    )


def measure_external(world: FleetView, scale: Scale, _: Readiness, spec: MetricSpec) -> Found:
    """External: the sum of a metric's series, as a whole or a share for each pod. Raises MetricError."""
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
        values = _external_values(world, spec)
        return _from_values(world, scale, spec, values, by_value=by_value)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(f"{prefix}{error}", str(error)) from error


def _external_values(world: FleetView, spec: MetricSpec) -> dict[str, int]:
    check_selector(spec)
    found = {member.name: world.external(member.snapshot.external_metrics, spec) for member in world.members}
    if not any(found.values()):
        found = {HUB: world.external(world.hub_external, spec)}
        if not found[HUB]:
            cause = causes(world.failures(spec), "external")
            where = f"{world.namespace}/{spec.name}/{selector_dump(spec.selector)}"
            raise MetricsUnavailable(f"unable to get external metric {where}: {cause}")
    return {
        cluster: min(sum(sample.milli for sample in samples), MAX_INT64)
        for cluster, samples in found.items()
        if samples
    }


def _from_values(
    world: FleetView, scale: Scale, spec: MetricSpec, values: Mapping[str, int], *, by_value: bool
) -> Found:
    value = _aggregate(spec.aggregation, list(values.values()))
    ready = {member.name: member.ready_pods for member in world.members}
    shares = {
        cluster: ClusterShare(ready.get(cluster, 0), format_milli(milli)) for cluster, milli in values.items()
    }
    if by_value:
        pods = sum(len(member.pods) for member in world.members)
        proposal = propose_value(value, spec.value or 0, pods, sum(ready.values()), scale)
        return Found(proposal, {"value": format_milli(proposal.milli)}, shares)
    proposal = propose_per_pod(value, spec.average_value or 0, world.status_replicas, scale)
    return Found(proposal, {"averageValue": format_milli(proposal.milli)}, shares)


def _aggregate(aggregation: str, values: Sequence[int]) -> int:
    if aggregation == "Max":
        return max(values)
    if aggregation == "Min":
        return min(values)
    total = sum(values)
    if aggregation == "Average":
        return total // len(values) if total >= 0 else -(-total // len(values))
    return min(total, MAX_INT64)
