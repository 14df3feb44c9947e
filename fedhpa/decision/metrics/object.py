"""The metric type Object: one custom metric of an object that is no pod.

Source: Kubernetes HPA 1.36, metric sources 5, with its error texts. Values are milli-units.
"""

from __future__ import annotations

from typing import Final

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.decision.fleet import FleetView
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
from fedhpa.decision.metrics.samples import custom_samples
from fedhpa.decision.metrics.values import external_name, propose_from_values
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import CurrentSize, Readiness

JSON = object


def _propose(fleet: FleetView, scale: CurrentSize, _: Readiness, spec: ScalingMetric) -> MetricProposal:
    by_value = spec.target_type == "Value" and spec.value is not None
    try:
        check_selector(spec)
    except InvalidObject as error:
        raise MetricError(str(error)) from error
    if not by_value and not (spec.target_type == "AverageValue" and spec.average_value is not None):
        raise MetricError(
            "invalid object metric source: neither a value target nor an average value target was set"
        )
    try:
        values, of_hub = _values(fleet, spec)
        scale = scale_for_hub(fleet, scale) if of_hub else scale
        return propose_from_values(fleet, scale, spec, values, by_value=by_value)
    except MetricsUnavailable as error:
        text = str(error) if by_value else f"failed to get {spec.name} object metric: {error}"
        raise MetricError(text, str(error)) from error


def _values(fleet: FleetView, spec: ScalingMetric) -> tuple[dict[str, int], bool]:
    """Returns each cluster's value, or the hub's and True."""
    described = spec.described_object or {}
    where = f"{described.get('kind', '')} on {fleet.namespace} {described.get('name', '')}"
    context = f"unable to get metric {spec.name}: {where}/"
    found = {
        cluster.name: custom_samples(cluster.snapshot.custom_metrics, spec, fleet.namespace)
        for cluster in fleet.answered
    }
    of_hub = not any(found.values())
    if of_hub:
        found = {HUB: custom_samples(fleet.snapshot.hub_custom_metrics, spec, fleet.namespace)}
        if not found[HUB]:
            failures = fleet.failures(spec)
            cause = no_metrics(failures, "custom") if failures else _not_one(0)
            raise MetricsUnavailable(context + cause)
    for samples in found.values():
        if len(samples) > 1:
            raise MetricsUnavailable(context + _not_one(len(samples)))
    return {cluster: samples[0].milli for cluster, samples in found.items() if samples}, of_hub


def _not_one(results: int) -> str:
    return (
        "unable to fetch metrics from custom metrics API: "
        f"the custom metrics API server returned {results} results when we asked for exactly one"
    )


def _display_name(spec: ScalingMetric) -> str:
    if spec.target_type != "Value":
        return external_name(spec)
    return f"{(spec.described_object or {}).get('kind', '')} metric {spec.name}"


def _status(spec: ScalingMetric) -> dict[str, JSON]:
    return {**series_status(spec), "describedObject": spec.described_object or {}}


EVALUATOR: Final = MetricEvaluator(_propose, _display_name, _status)
