"""The metric type ContainerResource: the usage of a resource by one container of each pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.metrics.evaluator import MetricEvaluator
from fedhpa.decision.metrics.proposal import MetricProposal
from fedhpa.decision.metrics.usage import has_usage, propose_from_usage, usage_name
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import CurrentSize, Readiness, UsageRecord

JSON = object


def _propose(
    fleet: FleetView, scale: CurrentSize, readiness: Readiness, spec: ScalingMetric
) -> MetricProposal:
    return propose_from_usage(fleet, scale, readiness, spec, _values)


def _values(usage: Sequence[UsageRecord], spec: ScalingMetric) -> dict[str, int]:
    found = {
        record.name: container.milli(spec.name)
        for record in usage
        for container in record.containers
        if container.name == spec.container
    }
    return {name: milli for name, milli in found.items() if milli is not None}


def _display_name(spec: ScalingMetric) -> str:
    return usage_name(spec, "container resource")


def _status(spec: ScalingMetric) -> dict[str, JSON]:
    return {"name": spec.name, "container": spec.container}


def _has_sample(_: FleetView, cluster: ClusterView, spec: ScalingMetric) -> bool:
    return has_usage(cluster, lambda record: bool(_values((record,), spec)))


EVALUATOR: Final = MetricEvaluator(_propose, _display_name, _status, _has_sample)
