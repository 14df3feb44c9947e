"""The parts that Object and External share: metrics with one value for each cluster, in milli-units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedhpa.api.quantity import MAX_INT64, format_milli
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.messages import selector_dump
from fedhpa.decision.metrics.proposal import MetricProposal
from fedhpa.decision.model import ClusterShare
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import CurrentSize, propose_per_pod, propose_value


def propose_from_values(
    fleet: FleetView, scale: CurrentSize, spec: ScalingMetric, values: Mapping[str, int], *, by_value: bool
) -> MetricProposal:
    """Returns the proposal from each cluster's value, compared as a whole or divided by the pods."""
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


def external_name(spec: ScalingMetric) -> str:
    """Returns the name in reasons and conditions that Kubernetes gives to a metric with an average target."""
    return f"external metric {spec.name}({selector_dump(spec.selector)})"
