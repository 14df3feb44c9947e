"""Metrics with a value for each pod: Resource, ContainerResource, Pods.

Source: Kubernetes HPA 1.36, metric sources 5, with its error texts. Values are milli-units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.quantity import format_milli
from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.metrics.proposal import (
    HUB,
    MetricError,
    MetricProposal,
    check_selector,
    no_metrics,
    scale_for_hub,
)
from fedhpa.decision.metrics.samples import custom_samples
from fedhpa.decision.model import ClusterShare, PodCounts
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import (
    ClusterSamples,
    CurrentSize,
    CustomSample,
    Groups,
    Readiness,
    Sampled,
    UsageRecord,
    group_pods,
    propose_average,
    propose_utilization,
    sum_over,
)

JSON = object


def propose_for_resource(
    fleet: FleetView, scale: CurrentSize, readiness: Readiness, spec: ScalingMetric
) -> MetricProposal:
    """Resource and ContainerResource, by utilization or average value. Raises MetricError."""
    if spec.average_value is None and spec.average_utilization is None:
        raise MetricError(
            "invalid resource metric source: neither an average utilization target nor an average value "
            "(usage) target was set"
        )
    binary = spec.name == "memory"
    by_usage = spec.average_value is not None
    clusters = fleet.observed(spec)
    scale = _calibrated(fleet, clusters, scale)
    try:
        parts = _usage_parts(fleet, clusters, spec)
        request = None if by_usage else (spec.name, spec.container)
        groups = group_pods(parts, readiness, cpu=spec.name == "cpu", request=request)
        if spec.average_value is not None:
            proposal = propose_average(groups, spec.average_value, scale)
        else:
            proposal = propose_utilization(groups, spec.average_utilization or 0, scale)
    except MetricsUnavailable as error:
        what = "usage" if by_usage else "utilization"
        raise MetricError(f"failed to get {spec.name} {what}: {error}") from error
    current: dict[str, JSON] = {}
    if proposal.utilization is not None:
        current["averageUtilization"] = proposal.utilization
    current["averageValue"] = format_milli(proposal.milli, binary=binary)
    return MetricProposal(proposal, current, _shares(groups, binary=binary), _counts(groups))


def _calibrated(fleet: FleetView, clusters: list[ClusterView], scale: CurrentSize) -> CurrentSize:
    """Returns the scale for a metric that only these clusters serve: they stand for the others' replicas."""
    if len(clusters) == len(fleet.answered):
        return scale
    return msgspec.structs.replace(scale, calibration=fleet.calibration_of(clusters))


def _usage_parts(fleet: FleetView, clusters: list[ClusterView], spec: ScalingMetric) -> list[ClusterSamples]:
    parts = [
        ClusterSamples(cluster.name, cluster.pods, _values(cluster.usage, spec), _finder(cluster.usage))
        for cluster in clusters
    ]
    if not any(cluster.usage for cluster in clusters):
        cause = no_metrics(fleet.failures(spec), "resource")
        raise MetricsUnavailable(f"unable to get metrics for resource {spec.name}: {cause}")
    return parts


def _values(usage: Sequence[UsageRecord], spec: ScalingMetric) -> dict[str, int]:
    if spec.container:
        found = {
            record.name: container.milli(spec.name)
            for record in usage
            for container in record.containers
            if container.name == spec.container
        }
        return {name: milli for name, milli in found.items() if milli is not None}
    if spec.name == "cpu":
        return {record.name: record.cpu for record in usage if record.cpu is not None}
    if spec.name == "memory":
        return {record.name: record.memory for record in usage if record.memory is not None}
    sums = {record.name: sum_over(record.containers, spec.name) for record in usage}
    return {name: milli for name, milli in sums.items() if milli is not None}


def _finder(records: Sequence[UsageRecord] | Sequence[CustomSample]) -> Callable[[str], Sampled]:
    """Returns a function that finds a pod's record by name. Its index is built on the first call."""
    by_name: dict[str, Sampled] = {}

    def find(name: str) -> Sampled:
        if not by_name:
            by_name.update((record.name, record) for record in records)
        return by_name[name]

    return find


def propose_for_pods(
    fleet: FleetView, scale: CurrentSize, readiness: Readiness, spec: ScalingMetric
) -> MetricProposal:
    """Pods: the average of a custom metric over the pods. Raises MetricError."""
    try:
        check_selector(spec)
        clusters = fleet.observed(spec)
        parts, of_hub = _custom_parts(fleet, clusters, spec)
        scale = scale_for_hub(fleet, scale) if of_hub else _calibrated(fleet, clusters, scale)
        groups = group_pods(parts, readiness, cpu=False)
        proposal = propose_average(groups, spec.average_value or 0, scale)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(str(error)) from error
    current: dict[str, JSON] = {"averageValue": format_milli(proposal.milli)}
    return MetricProposal(proposal, current, _shares(groups), _counts(groups))


def _custom_parts(
    fleet: FleetView, clusters: list[ClusterView], spec: ScalingMetric
) -> tuple[list[ClusterSamples], bool]:
    """Returns each cluster's samples, and True if they are the hub's."""
    samples = {
        cluster.name: custom_samples(cluster.snapshot.custom_metrics, spec, fleet.namespace)
        for cluster in clusters
    }
    if not any(samples.values()):
        return _hub_parts(fleet, spec), True
    parts = []
    for cluster in clusters:
        own = [sample for sample in samples[cluster.name] if not cluster.is_foreign(sample.name)]
        values = {sample.name: sample.milli for sample in own}
        parts.append(ClusterSamples(cluster.name, cluster.pods, values, _finder(own)))
    return parts, False


def _hub_parts(fleet: FleetView, spec: ScalingMetric) -> list[ClusterSamples]:
    # Hub metrics name a pod but no cluster, so a value counts in every cluster with a pod of that name.
    found = custom_samples(fleet.hub_custom, spec, fleet.namespace)
    if not found:
        cause = no_metrics(fleet.failures(spec), "custom")
        raise MetricsUnavailable(f"unable to get metric {spec.name}: {cause}")
    left = {sample.name: sample.milli for sample in found}
    parts = []
    listed: set[str] = set()
    for cluster in fleet.answered:
        own = {pod.name for pod in cluster.pods}
        values = {name: milli for name, milli in left.items() if name in own}
        listed |= own | {name for name in left if cluster.is_foreign(name)}
        parts.append(ClusterSamples(cluster.name, cluster.pods, values, _finder(found)))
    unlisted = {name: milli for name, milli in left.items() if name not in listed}
    if unlisted:
        parts.append(ClusterSamples(HUB, (), unlisted, _finder(found)))
    return parts


def _shares(groups: Groups, *, binary: bool = False) -> dict[str, ClusterShare]:
    return {
        cluster: ClusterShare(share.pods, format_milli(share.milli, binary=binary))
        for cluster, share in groups.shares.items()
    }


def _counts(groups: Groups) -> PodCounts:
    return PodCounts(groups.ready, groups.unready, groups.missing, groups.ignored)
