"""The outcome of evaluating one metric, shared by all metric types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.selectors import selector_of
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.model import ClusterShare, PodCounts
from fedhpa.decision.snapshot import Failure
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.scaling import CurrentSize, Proposal

JSON = object

# The name that hub metrics have among the clusters of a metric.
HUB: Final = "hub"


class MetricError(Exception):
    """A metric could not be evaluated.

    `inner` is the text of event and condition. `text` is that of the decision's error: the caller puts the
    name of the metric's source in front, as Kubernetes does.
    """

    def __init__(self, text: str, inner: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.inner = text if inner is None else inner


class MetricProposal(NamedTuple):
    """A metric's proposal, its current value as the status shows it, and each cluster's share of it."""

    proposal: Proposal
    current: Mapping[str, JSON]
    shares: Mapping[str, ClusterShare]
    pods: PodCounts | None = None


def scale_for_hub(fleet: FleetView, scale: CurrentSize) -> CurrentSize:
    """Returns the scale for a metric of the hub: its value is that of all clusters, missing ones included."""
    return msgspec.structs.replace(scale, calibration=float(fleet.copies))


def check_selector(spec: ScalingMetric) -> None:
    """Raises InvalidObject with Go's message if the metric's selector is invalid."""
    if spec.selector is not None:
        selector_of(spec.selector)


def no_metrics(failures: Sequence[tuple[str, Failure]], api: str) -> str:
    """Returns why no cluster served a metric: the failures, with the clusters' names if there are several."""
    if not failures:
        return f"no metrics returned from {api} metrics API"
    if len(failures) == 1:
        text = failures[0][1].error
    else:
        text = "; ".join(f"{cluster}: {failure.error}" for cluster, failure in failures)
    return f"unable to fetch metrics from {api} metrics API: {text}"


def series_status(spec: ScalingMetric) -> dict[str, JSON]:
    """Returns the status entry of a metric with a name and a selector, without the current value."""
    metric: dict[str, JSON] = {"name": spec.name}
    if spec.selector is not None:
        metric["selector"] = spec.selector
    return {"metric": metric}
