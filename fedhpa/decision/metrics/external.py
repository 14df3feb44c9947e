"""The metric type External: the sum of the series of a metric from outside Kubernetes.

Source: Kubernetes HPA 1.36, metric sources 5, with its error texts. Values are milli-units.
"""

from __future__ import annotations

from typing import Final

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.quantity import MAX_INT64
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.messages import selector_dump
from fedhpa.decision.metrics.evaluator import MetricEvaluator
from fedhpa.decision.metrics.proposal import (
    HUB,
    MetricError,
    MetricProposal,
    check_selector,
    no_metrics,
    scale_for_hub,
    series_status,
)
from fedhpa.decision.metrics.samples import external_samples
from fedhpa.decision.metrics.values import external_name, propose_from_values
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import CurrentSize, Readiness


def _propose(fleet: FleetView, scale: CurrentSize, _: Readiness, spec: ScalingMetric) -> MetricProposal:
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
        values, of_hub = _values(fleet, spec)
        scale = scale_for_hub(fleet, scale) if of_hub else scale
        return propose_from_values(fleet, scale, spec, values, by_value=by_value)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(f"{prefix}{error}", str(error)) from error


def _values(fleet: FleetView, spec: ScalingMetric) -> tuple[dict[str, int], bool]:
    """Returns each cluster's sum of series, or the hub's and True."""
    check_selector(spec)
    found = {
        cluster.name: external_samples(cluster.snapshot.external_metrics, spec) for cluster in fleet.answered
    }
    of_hub = not any(found.values())
    if of_hub:
        found = {HUB: external_samples(fleet.snapshot.hub_external_metrics, spec)}
        if not found[HUB]:
            cause = no_metrics(fleet.failures(spec), "external")
            where = f"{fleet.namespace}/{spec.name}/{selector_dump(spec.selector)}"
            raise MetricsUnavailable(f"unable to get external metric {where}: {cause}")
    values = {
        cluster: min(sum(sample.milli for sample in samples), MAX_INT64)
        for cluster, samples in found.items()
        if samples
    }
    return values, of_hub


EVALUATOR: Final = MetricEvaluator(_propose, external_name, series_status)
