"""Answers of a cluster that cannot be true. An empty answer never becomes a number.

The cluster counts as one whose metrics are missing, so partialMetrics decides; its scale is believed. Event,
condition and the clock of the loss wait for a moment, because lists of the same cluster may differ briefly.
Source: docs/explanation/how-it-decides.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.scaling import IGNORED, PodRecord

# For how long an implausible answer is not reported.
PODS_GRACE_SECONDS: Final = 30.0
SAMPLES_GRACE_SECONDS: Final = 60.0
# A pod that has been ready for so long has a sample. Metrics servers need two measurements.
READY_SECONDS: Final = 60.0


class Implausible(NamedTuple):
    """The reason why an answer is implausible, and True once that is old enough to be reported."""

    reason: str
    reported: bool


def implausible_answers(
    fleet: FleetView, metrics: Sequence[ScalingMetric], now: float
) -> Mapping[str, Implausible]:
    """Returns the clusters whose answer is implausible.

    A scale with replicas needs pods. Pods that have been ready for a minute need a sample of each metric: at
    least one of them. A metric that failed is not judged here.
    """
    found: dict[str, Implausible] = {}
    by_pod = [
        (spec, {name for name, _ in fleet.failures(spec)})
        for spec in metrics
        if spec.metric_type.per_pod and spec.present
    ]
    # A single cluster is decided as Kubernetes does, which reads no pods for such a metric.
    alone = len(fleet.candidates) == 1 and all(_needs_no_pods(spec) for spec in metrics)
    for cluster in fleet.answered:
        scale = cluster.scale
        if not cluster.pods:
            if scale.spec_replicas > 0 and scale.status_replicas > 0 and not alone:
                reason = f"its scale has {scale.status_replicas} replicas, and no pod is selected"
                found[cluster.name] = Implausible(reason, _is_over(cluster, PODS_GRACE_SECONDS))
            continue
        for spec, failed in by_pod:
            kind = spec.metric_type
            if (
                cluster.name not in failed
                and not kind.has_sample(fleet, cluster, spec)
                and _long_ready(cluster.pods, now)
            ):
                reason = f"none of its ready pods has a sample of {kind.display_name(spec)}"
                found[cluster.name] = Implausible(reason, _is_over(cluster, SAMPLES_GRACE_SECONDS))
                break
    return found


def _needs_no_pods(spec: ScalingMetric) -> bool:
    return not spec.metric_type.per_pod and spec.average_value is not None


def _is_over(cluster: ClusterView, grace: float) -> bool:
    implausible_for = cluster.snapshot.implausible_for
    return implausible_for is None or implausible_for >= grace


def _long_ready(pods: Sequence[PodRecord], now: float) -> bool:
    return any(
        pod.ready == "True" and pod.state != IGNORED and now - pod.ready_since > READY_SECONDS for pod in pods
    )
