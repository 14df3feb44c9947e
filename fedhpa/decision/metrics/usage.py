"""Metrics of metrics.k8s.io: the parts that Resource and ContainerResource share.

Source: Kubernetes HPA 1.36, metric sources 5, with its error texts. Values are milli-units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import format_milli
from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.metrics.per_pod import calibrated, counts, finder, shares
from fedhpa.decision.metrics.proposal import MetricError, MetricProposal, no_metrics
from fedhpa.decision.snapshot import Failure
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import (
    ClusterSamples,
    CurrentSize,
    Readiness,
    UsageRecord,
    group_pods,
    propose_average,
    propose_utilization,
)

JSON = object

# Returns the metric's values by pod name.
Values = Callable[[Sequence[UsageRecord], ScalingMetric], dict[str, int]]


def propose_from_usage(
    fleet: FleetView, scale: CurrentSize, readiness: Readiness, spec: ScalingMetric, values: Values
) -> MetricProposal:
    """Returns the proposal by utilization or average value. Raises MetricError."""
    if spec.average_value is None and spec.average_utilization is None:
        raise MetricError(
            "invalid resource metric source: neither an average utilization target nor an average value "
            "(usage) target was set"
        )
    binary = spec.name == "memory"
    by_usage = spec.average_value is not None
    clusters = fleet.observed(spec)
    scale = calibrated(fleet, clusters, scale)
    try:
        parts = _parts(fleet, clusters, spec, values)
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
    return MetricProposal(proposal, current, shares(groups, binary=binary), counts(groups))


def _parts(
    fleet: FleetView, clusters: list[ClusterView], spec: ScalingMetric, values: Values
) -> list[ClusterSamples]:
    parts = [
        ClusterSamples(cluster.name, cluster.pods, values(cluster.usage, spec), finder(cluster.usage))
        for cluster in clusters
    ]
    if not any(cluster.usage for cluster in clusters):
        cause = no_metrics(fleet.failures(spec), "resource")
        raise MetricsUnavailable(f"unable to get metrics for resource {spec.name}: {cause}")
    return parts


def has_usage(cluster: ClusterView, measured: Callable[[UsageRecord], bool]) -> bool:
    """True if the usage of some selected pod is `measured`, or if the answer failed."""
    if isinstance(cluster.snapshot.usage, Failure):
        return True
    usage = cluster.usage
    # Most lists name the pods in the same order.
    if usage and usage[0].name == cluster.pods[0].name and measured(usage[0]):
        return True
    names = {pod.name for pod in cluster.pods}
    return any(record.name in names and measured(record) for record in usage)


def usage_name(spec: ScalingMetric, kind: str) -> str:
    """Returns the name of a usage metric in reasons and conditions; `kind` is "resource" or alike."""
    if spec.average_value is not None:
        return f"{spec.name} resource"
    return f"{spec.name} {kind} utilization (percentage of request)"
