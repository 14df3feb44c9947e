"""Metrics that are named and may have a selector: the parts that Pods, Object and External share.

Object and External have one value for each cluster. Values are milli-units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fedhpa.api import default_values
from fedhpa.api.quantity import MAX_INT64, format_milli
from fedhpa.api.selectors import selector_of
from fedhpa.api.shape import stored_json
from fedhpa.metric_types.metric import (
    ClusterShare,
    MeasuredFleet,
    MetricIdentity,
    MetricProposal,
    ScalingMetric,
)
from fedhpa.scaling import CurrentSize, propose_per_pod, propose_value

JSON = object

# The name that hub metrics have among the clusters of a metric.
HUB: Final = "hub"


def series_identity(source: Any) -> MetricIdentity:
    """Returns the name and the selector of the source's metric."""
    selector = source.metric.selector
    return MetricIdentity(source.metric.name, selector=None if selector is None else stored_json(selector))


def series_status(spec: ScalingMetric) -> dict[str, JSON]:
    """Returns the status entry of a metric with a name and a selector, without the current value."""
    metric: dict[str, JSON] = {"name": spec.name}
    if spec.selector is not None:
        metric["selector"] = spec.selector
    return {"metric": metric}


def check_selector(spec: ScalingMetric) -> None:
    """Raises InvalidObject with Go's message if the metric's selector is invalid."""
    if spec.selector is not None:
        selector_of(spec.selector)


def scale_for_hub(fleet: MeasuredFleet, scale: CurrentSize) -> CurrentSize:
    """Returns the scale for a metric of the hub: its value is that of all clusters, missing ones included."""
    return msgspec.structs.replace(scale, calibration=float(fleet.copies))


def scale_for_series(
    fleet: MeasuredFleet, scale: CurrentSize, spec: ScalingMetric, *, of_hub: bool
) -> CurrentSize:
    """Returns the scale for one value of each cluster: only a sum is smaller while a cluster is missing."""
    return scale_for_hub(fleet, scale) if of_hub or spec.aggregation != default_values.AGGREGATION else scale


def served_samples(fleet: MeasuredFleet, spec: ScalingMetric) -> tuple[dict[str, Sequence[Any]], bool]:
    """Returns the samples of each cluster that serves a metric, or those of the hub and True; {} if none."""
    found = {cluster.name: samples for cluster in fleet.answered if (samples := cluster.samples(spec))}
    if found:
        return found, False
    of_hub = fleet.hub_samples(spec)
    return ({HUB: of_hub} if of_hub else {}), True


def propose_from_values(
    fleet: MeasuredFleet,
    scale: CurrentSize,
    spec: ScalingMetric,
    values: Mapping[str, int],
    *,
    by_value: bool,
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


def selector_dump(selector: Mapping[str, JSON] | None) -> str:
    """Returns a metav1.LabelSelector as Go prints it in messages; "nil" for None."""
    if selector is None:
        return "nil"
    labels = selector.get("matchLabels")
    pairs = sorted(labels.items()) if isinstance(labels, Mapping) else []
    expressions = selector.get("matchExpressions")
    requirements = (
        [item for item in expressions if isinstance(item, Mapping)] if isinstance(expressions, list) else []
    )
    return (
        "&LabelSelector{MatchLabels:map[string]string{"
        + "".join(f"{key}: {value}," for key, value in pairs)
        + "},MatchExpressions:[]LabelSelectorRequirement{"
        + "".join(_requirement_dump(requirement) + "," for requirement in requirements)
        + "},}"
    )


def _requirement_dump(requirement: Mapping[str, JSON]) -> str:
    values = requirement.get("values")
    listed = " ".join(str(value) for value in values) if isinstance(values, list) else ""
    return (
        f"LabelSelectorRequirement{{Key:{requirement.get('key', '')},"
        f"Operator:{requirement.get('operator', '')},Values:[{listed}],}}"
    )
