"""Metrics that every pod has: Resource, ContainerResource, Pods.

Source: Kubernetes HPA 1.36, metric sources 5; errors are worded as there. Values are milli-units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.quantity import format_milli
from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.metrics.proposal import HUB, Found, MetricError, causes, check_selector
from fedhpa.decision.model import ClusterShare, PodCounts
from fedhpa.decision.spec.federatedhpa import MetricSpec
from fedhpa.scaling.grouping import ClusterSamples, Groups, Readiness, Sampled, group_pods
from fedhpa.scaling.records import CustomSample, UsageRecord, sum_over
from fedhpa.scaling.replicas import Scale, propose_average, propose_utilization

JSON = object


def measure_resource(world: FleetView, scale: Scale, readiness: Readiness, spec: MetricSpec) -> Found:
    """Resource and ContainerResource, by utilization or average value. Raises MetricError."""
    if spec.average_value is None and spec.average_utilization is None:
        raise MetricError(
            "invalid resource metric source: neither an average utilization target nor an average value "
            "(usage) target was set"
        )
    binary = spec.name == "memory"
    by_usage = spec.average_value is not None
    heard = world.heard(spec)
    scale = _spoken_for(world, heard, scale)
    try:
        parts = _usage_parts(world, heard, spec)
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
    return Found(proposal, current, _shares(groups, binary=binary), _counts(groups))


def _spoken_for(world: FleetView, heard: list[ClusterView], scale: Scale) -> Scale:
    """The scale of a metric that only some members gave: these stand for the others' replicas, too."""
    if len(heard) == len(world.members):
        return scale
    return msgspec.structs.replace(scale, calibration=world.calibration_by(heard))


def _usage_parts(world: FleetView, heard: list[ClusterView], spec: MetricSpec) -> list[ClusterSamples]:
    parts = [
        ClusterSamples(
            member.name,
            member.pods,
            _values(member.usage, spec),
            _finder(member.usage),
        )
        for member in heard
    ]
    if not any(member.usage for member in heard):
        cause = causes(world.failures(spec), "resource")
        raise MetricsUnavailable(f"unable to get metrics for resource {spec.name}: {cause}")
    return parts


def _values(usage: Sequence[UsageRecord], spec: MetricSpec) -> dict[str, int]:
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
    """Finds a pod's record by name; the index is made when the first young pod asks."""
    by_name: dict[str, Sampled] = {}

    def find(name: str) -> Sampled:
        if not by_name:
            by_name.update((record.name, record) for record in records)
        return by_name[name]

    return find


def measure_pods(world: FleetView, scale: Scale, readiness: Readiness, spec: MetricSpec) -> Found:
    """Pods: the average of a custom metric over the pods. Raises MetricError."""
    try:
        check_selector(spec)
        heard = world.heard(spec)
        scale = _spoken_for(world, heard, scale)
        parts = _custom_parts(world, heard, spec)
        groups = group_pods(parts, readiness, cpu=False)
        proposal = propose_average(groups, spec.average_value or 0, scale)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(str(error)) from error
    current: dict[str, JSON] = {"averageValue": format_milli(proposal.milli)}
    return Found(proposal, current, _shares(groups), _counts(groups))


def _custom_parts(world: FleetView, heard: list[ClusterView], spec: MetricSpec) -> list[ClusterSamples]:
    samples = {member.name: world.custom(member.snapshot.custom_metrics, spec) for member in heard}
    if not any(samples.values()):
        return _hub_parts(world, spec)
    parts = []
    for member in heard:
        own = [sample for sample in samples[member.name] if not member.is_foreign(sample.name)]
        values = {sample.name: sample.milli for sample in own}
        parts.append(ClusterSamples(member.name, member.pods, values, _finder(own)))
    return parts


def _hub_parts(world: FleetView, spec: MetricSpec) -> list[ClusterSamples]:
    # A store on the hub knows pods by name alone, so a value counts in every cluster that has such a pod.
    found = world.custom(world.hub_custom, spec)
    if not found:
        cause = causes(world.failures(spec), "custom")
        raise MetricsUnavailable(f"unable to get metric {spec.name}: {cause}")
    left = {sample.name: sample.milli for sample in found}
    parts = []
    listed: set[str] = set()
    for member in world.members:
        own = {pod.name for pod in member.pods}
        values = {name: milli for name, milli in left.items() if name in own}
        listed |= own | {name for name in left if member.is_foreign(name)}
        parts.append(ClusterSamples(member.name, member.pods, values, _finder(found)))
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
