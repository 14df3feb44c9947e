"""What the measurements of all metric types share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fedhpa.api.selectors import selector_of
from fedhpa.decision.model import ClusterShare, PodCounts
from fedhpa.decision.snapshot import Failure
from fedhpa.decision.spec.federatedhpa import MetricSpec
from fedhpa.scaling.replicas import Proposal

JSON = object

# The name under which a store on the hub stands beside the clusters.
HUB: Final = "hub"


class MetricError(Exception):
    """A metric without a proposal: `inner` is what event and condition say, `text` what the sync reports.

    The source's name, which Kubernetes puts before `text`, is added where all sources meet.
    """

    def __init__(self, text: str, inner: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.inner = text if inner is None else inner


class Found(NamedTuple):
    """A metric's proposal, what the status shows of it, and what each cluster contributed."""

    proposal: Proposal
    current: Mapping[str, JSON]
    shares: Mapping[str, ClusterShare]
    pods: PodCounts | None = None


def check_selector(spec: MetricSpec) -> None:
    """Raises InvalidObject, with Go's message, for a metric selector that cannot be used."""
    if spec.selector is not None:
        selector_of(spec.selector)


def causes(failures: Sequence[tuple[str, Failure]], api: str) -> str:
    """Why an API gave no metric: its failures (with their clusters if there are several), or it is empty."""
    if not failures:
        return f"no metrics returned from {api} metrics API"
    if len(failures) == 1:
        text = failures[0][1].error
    else:
        text = "; ".join(f"{cluster}: {failure.error}" for cluster, failure in failures)
    return f"unable to fetch metrics from {api} metrics API: {text}"
