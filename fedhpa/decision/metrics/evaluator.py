"""The part of a metric type in a decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.metrics.proposal import MetricProposal
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import CurrentSize, Readiness

JSON = object


def _always(_: FleetView, __: ClusterView, ___: ScalingMetric) -> bool:
    return True


class MetricEvaluator(NamedTuple):
    """Evaluates and shows the metrics of one type.

    `propose` returns the replicas that the metric asks for; it raises MetricError. `display_name` returns the
    name of the metric in reasons and conditions. `status` returns its entry of status.currentMetrics without
    the type and the current value. `has_sample` is True if some selected pod of a cluster has a sample, or if
    the answer failed; a type without a value for each pod needs none.
    """

    propose: Callable[[FleetView, CurrentSize, Readiness, ScalingMetric], MetricProposal]
    display_name: Callable[[ScalingMetric], str]
    status: Callable[[ScalingMetric], dict[str, JSON]]
    has_sample: Callable[[FleetView, ClusterView, ScalingMetric], bool] = _always
