"""Metrics of metrics.k8s.io: the parts that Resource and ContainerResource share.

Sources: Kubernetes HPA 1.36, metric sources 5, with its error texts; Karmada v1.19 for the rules. Values are
milli-units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.fielderror import FieldError, forbidden, required
from fedhpa.api.quantity import format_milli
from fedhpa.api.texts import listed
from fedhpa.metric_types.metric import (
    MeasuredCluster,
    MeasuredFleet,
    MetricError,
    MetricProposal,
    ScalingMetric,
    calibrated,
    no_metrics,
    of_pods,
)
from fedhpa.metric_types.sources import MetricTarget, validate_target
from fedhpa.scaling import (
    CurrentSize,
    Part,
    Readiness,
    UsageRecord,
    group_pods,
    propose_average,
    propose_utilization,
)

JSON = object

# Reads the value of a metric of one record, None without one.
Reader = Callable[[ScalingMetric], Callable[[UsageRecord], int | None]]


def validate_usage_target(target: MetricTarget, path: str) -> Iterator[FieldError]:
    """Yields the errors of the target of a resource's usage."""
    yield from validate_target(target, path)
    if target.average_utilization is None and target.average_value is None:
        detail = "must set either a target raw value or a target utilization"
        yield required(f"{path}.averageUtilization", detail)
    if target.average_utilization is not None and target.average_value is not None:
        detail = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{path}.averageValue", detail)


def propose_from_usage(
    reader: Reader, fleet: MeasuredFleet, scale: CurrentSize, readiness: Readiness, spec: ScalingMetric
) -> MetricProposal:
    """Returns the proposal by utilization or average value. Raises MetricError."""
    if spec.average_value is None and spec.average_utilization is None:
        raise MetricError(
            "invalid resource metric source: neither an average utilization target nor an average value "
            "(usage) target was set"
        )
    binary = spec.name == "memory"
    by_usage = spec.average_value is not None
    scale = calibrated(fleet, spec, scale)
    try:
        parts = _parts(fleet, spec, reader(spec))
        request = None if by_usage else (spec.name, spec.container)
        groups = group_pods(parts, readiness, cpu=spec.name == "cpu", request=request)
        if spec.container and groups.pods and not groups.counted:
            _check_container(fleet.observed(spec), spec.container)
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
    return of_pods(proposal, current, groups, binary=binary)


def _parts(
    fleet: MeasuredFleet, spec: ScalingMetric, value_of: Callable[[UsageRecord], int | None]
) -> list[Part]:
    clusters = fleet.observed(spec)
    if not any(cluster.usage for cluster in clusters):
        cause = no_metrics(fleet.failures(spec), "resource")
        raise MetricsUnavailable(f"unable to get metrics for resource {spec.name}: {cause}")
    parts: list[Part] = []
    for cluster in clusters:
        values = {one.name: milli for one in cluster.usage if (milli := value_of(one)) is not None}
        parts.append((cluster, values, cluster.usage))
    return parts


def _check_container(clusters: Sequence[MeasuredCluster], container: str) -> None:
    """Raises MetricsUnavailable if no pod has the container. Kubernetes calls such pods unready."""
    names = {name for cluster in clusters for pod in cluster.pods for name, _ in pod.requests.containers}
    if names and container not in names:
        text = listed(sorted(names))
        raise MetricsUnavailable(f"no pod has a container {container}: the containers of the pods are {text}")


def without_usage(reader: Reader, fleet: MeasuredFleet, spec: ScalingMetric) -> list[str]:
    """Returns the clusters in which the usage of no selected pod has a value."""
    value_of, found = reader(spec), []
    for cluster in fleet.answered:
        usage, pods = cluster.usage, cluster.pods
        # Most lists name the pods in the same order.
        if not pods or (usage and usage[0].name == pods[0].name and value_of(usage[0]) is not None):
            continue
        names = {pod.name for pod in pods}
        if not any(record.name in names and value_of(record) is not None for record in usage):
            found.append(cluster.name)
    return found


def usage_name(spec: ScalingMetric, kind: str) -> str:
    """Returns the name of a usage metric in reasons and conditions; `kind` is "resource" or alike."""
    if spec.average_value is not None:
        return f"{spec.name} resource"
    return f"{spec.name} {kind} utilization (percentage of request)"
