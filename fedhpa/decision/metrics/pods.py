"""The metric type Pods: a custom metric of each pod.

Source: Kubernetes HPA 1.36, metric sources 5, with its error texts. Values are milli-units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.quantity import format_milli
from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.metrics.evaluator import MetricEvaluator
from fedhpa.decision.metrics.per_pod import calibrated, counts, finder, shares
from fedhpa.decision.metrics.proposal import (
    HUB,
    MetricError,
    MetricProposal,
    check_selector,
    no_metrics,
    scale_for_hub,
    series_status,
)
from fedhpa.decision.metrics.samples import custom_samples
from fedhpa.decision.snapshot import Failure
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import ClusterSamples, CurrentSize, CustomSample, Readiness, group_pods, propose_average

JSON = object


def _propose(
    fleet: FleetView, scale: CurrentSize, readiness: Readiness, spec: ScalingMetric
) -> MetricProposal:
    try:
        check_selector(spec)
        clusters = fleet.observed(spec)
        parts, of_hub = _custom_parts(fleet, clusters, spec)
        scale = scale_for_hub(fleet, scale) if of_hub else calibrated(fleet, clusters, scale)
        groups = group_pods(parts, readiness, cpu=False)
        proposal = propose_average(groups, spec.average_value or 0, scale)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(str(error)) from error
    current: dict[str, JSON] = {"averageValue": format_milli(proposal.milli)}
    return MetricProposal(proposal, current, shares(groups), counts(groups))


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
        parts.append(ClusterSamples(cluster.name, cluster.pods, values, finder(own)))
    return parts, False


def _hub_parts(fleet: FleetView, spec: ScalingMetric) -> list[ClusterSamples]:
    # Hub metrics name a pod but no cluster, so a value counts in every cluster with a pod of that name.
    found = custom_samples(fleet.snapshot.hub_custom_metrics, spec, fleet.namespace)
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
        parts.append(ClusterSamples(cluster.name, cluster.pods, values, finder(found)))
    unlisted = {name: milli for name, milli in left.items() if name not in listed}
    if unlisted:
        parts.append(ClusterSamples(HUB, (), unlisted, finder(found)))
    return parts


def _display_name(spec: ScalingMetric) -> str:
    return f"pods metric {spec.name}"


def _has_sample(fleet: FleetView, cluster: ClusterView, spec: ScalingMetric) -> bool:
    answer = cluster.snapshot.custom_metrics
    if isinstance(answer, Mapping):
        own = answer.get(spec.query_key)
        if isinstance(own, Failure):
            return True
    elif isinstance(answer, Failure):
        return True
    named = {sample.name for sample in _samples(fleet, cluster, spec)}
    return any(pod.name in named for pod in cluster.pods)


def _samples(fleet: FleetView, cluster: ClusterView, spec: ScalingMetric) -> Sequence[CustomSample]:
    """Returns the samples that may be of the cluster's pods: its own, else the hub's."""
    own = custom_samples(cluster.snapshot.custom_metrics, spec, fleet.namespace)
    hub = fleet.snapshot.hub_custom_metrics
    if own or not hub or not fleet.served_by_hub(spec):
        return own
    return custom_samples(hub, spec, fleet.namespace)


EVALUATOR: Final = MetricEvaluator(_propose, _display_name, series_status, _has_sample)
