"""The metric type Resource: the usage of a resource, summed over the containers of a pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.metrics.evaluator import MetricEvaluator
from fedhpa.decision.metrics.proposal import MetricProposal
from fedhpa.decision.metrics.usage import has_usage, propose_from_usage, usage_name
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import CurrentSize, Readiness, UsageRecord, sum_over

JSON = object


def _propose(
    fleet: FleetView, scale: CurrentSize, readiness: Readiness, spec: ScalingMetric
) -> MetricProposal:
    return propose_from_usage(fleet, scale, readiness, spec, _values)


def _values(usage: Sequence[UsageRecord], spec: ScalingMetric) -> dict[str, int]:
    # The sums of these two are in the records.
    if spec.name == "cpu":
        return {record.name: record.cpu for record in usage if record.cpu is not None}
    if spec.name == "memory":
        return {record.name: record.memory for record in usage if record.memory is not None}
    sums = {record.name: sum_over(record.containers, spec.name) for record in usage}
    return {name: milli for name, milli in sums.items() if milli is not None}


def _display_name(spec: ScalingMetric) -> str:
    return usage_name(spec, "resource")


def _status(spec: ScalingMetric) -> dict[str, JSON]:
    return {"name": spec.name}


def _has_sample(_: FleetView, cluster: ClusterView, spec: ScalingMetric) -> bool:
    return has_usage(cluster, lambda record: bool(_values((record,), spec)))


EVALUATOR: Final = MetricEvaluator(_propose, _display_name, _status, _has_sample)
