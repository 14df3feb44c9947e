"""One metric: what a metric type is, a metric of it, what it reads of the clusters, and what it proposes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as derived
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from fedhpa.api import default_values
from fedhpa.api.autoscaling import V2Model
from fedhpa.api.fielderror import FieldError
from fedhpa.api.quantity import format_milli
from fedhpa.scaling import ClusterPods, CurrentSize, Groups, Proposal, Readiness, UsageRecord

JSON = object

USAGE_API: Final = "metrics.k8s.io"
CUSTOM_API: Final = "custom.metrics.k8s.io"
EXTERNAL_API: Final = "external.metrics.k8s.io"

_encoder = msgspec.json.Encoder(order="deterministic")


class MetricError(Exception):
    """A metric could not be evaluated.

    `inner` is the text of event and condition. `text` is that of the decision's error: the caller puts the
    name of the metric's source in front, as Kubernetes does.
    """

    def __init__(self, text: str, inner: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.inner = text if inner is None else inner


class PodCounts(msgspec.Struct, frozen=True):
    """The classification of the pods for a metric."""

    ready: int = 0
    unready: int = 0
    missing: int = 0
    ignored: int = 0


class ClusterShare(msgspec.Struct, frozen=True, gc=False):
    """One cluster's part of a metric: its counted pods, and the sum of their values as a quantity."""

    pods: int
    value: str


class MetricProposal(NamedTuple):
    """A metric's proposal, its current value as the status shows it, and each cluster's share of it."""

    proposal: Proposal
    current: Mapping[str, JSON]
    shares: Mapping[str, ClusterShare]
    pods: PodCounts | None = None


class MetricIdentity(NamedTuple):
    """The identity of a metric. Together with the type it makes up the query to a metrics API.

    `name` is that of the resource or of the metric. `selector` and `described_object` are JSON as stored.
    """

    name: str
    container: str = ""
    selector: Mapping[str, JSON] | None = None
    described_object: Mapping[str, JSON] | None = None


class MeasuredCluster(ClusterPods, Protocol):
    """A cluster that answered, as far as a metric reads it."""

    @property
    def usage(self) -> Sequence[UsageRecord]:
        """The usage of the workload's pods."""

    @property
    def ready_pods(self) -> int:
        """The number of the workload's pods that run and are ready."""

    def is_foreign(self, pod: str) -> bool:
        """True if the name is that of a listed pod that the workload's selector does not match."""

    def samples(self, spec: ScalingMetric) -> Sequence[Any]:
        """Returns the samples of a metric that the cluster serves."""


class MeasuredFleet(Protocol):
    """The clusters of a workload, as far as a metric reads them."""

    @property
    def namespace(self) -> str:
        """The namespace of the workload."""

    @property
    def answered(self) -> Sequence[MeasuredCluster]:
        """The clusters that answered."""

    @property
    def copies(self) -> int:
        """The number of clusters that run the whole size each."""

    @property
    def status_replicas(self) -> int:
        """The replicas in the clusters that answered."""

    def observed(self, spec: ScalingMetric) -> Sequence[MeasuredCluster]:
        """Returns the clusters whose pods count for a metric."""

    def calibration_for(self, spec: ScalingMetric) -> float:
        """Returns how many times the workload's size these clusters stand for."""

    def failures(self, spec: ScalingMetric) -> Sequence[tuple[str, str]]:
        """Returns the clusters that failed to serve a metric, with the reasons."""

    def served_by_hub(self, spec: ScalingMetric) -> bool:
        """True if the hub serves a metric and no cluster does."""

    def hub_samples(self, spec: ScalingMetric) -> Sequence[Any]:
        """Returns the samples of a metric that the hub serves."""


def _nobody(_: MeasuredFleet, __: ScalingMetric) -> Collection[str]:
    return ()


@dataclass(frozen=True)
class MetricType:
    """One metric type. Its callables take a source of the type, or a metric of it."""

    name: str
    """The value of `spec.metrics[].type`."""

    description: str
    """The description of the field in the CRD."""

    source: type[V2Model]
    """The model of the source."""

    status: type[V2Model]
    """The model of the entry of status.currentMetrics."""

    api: str
    """The metrics API that serves the values."""

    per_pod: bool
    """True if each pod has a value. Otherwise a cluster has one value, and `aggregation` applies."""

    failure_source: str
    """The name of the source in errors of Kubernetes' HPA, with `{name}` and `{container}` to fill in."""

    validate: Callable[[Any, str], Iterator[FieldError]]
    """Yields the errors of a source at a path."""

    identity: Callable[[Any], MetricIdentity]
    """Returns what a source measures. It is equal for two metrics that read the same values."""

    propose: Callable[[MeasuredFleet, CurrentSize, Readiness, ScalingMetric], MetricProposal]
    """Returns the replicas that the metric asks for. Raises MetricError."""

    display_name: Callable[[ScalingMetric], str]
    """Returns the name of the metric in reasons and conditions."""

    status_fields: Callable[[ScalingMetric], dict[str, JSON]]
    """Returns the metric's entry of status.currentMetrics without the type and the current value."""

    unsampled: Callable[[MeasuredFleet, ScalingMetric], Collection[str]] = _nobody
    """Returns the clusters that answered with pods of which none has a sample, though each needs one."""

    strict_target: bool = False
    """True if `validate` refuses a target that lacks the field of its type. Else admission warns about it."""

    # The others follow from these.

    field: str = derived(init=False)
    """The JSON field of the metric that holds the source of this type; "" for an unknown type."""

    attribute: str = derived(init=False)
    """The attribute of `MetricSpec` that holds the source."""

    describes_object: bool = derived(init=False)
    """True if the source has a `describedObject`."""

    scales_from_zero: bool = derived(init=False)
    """True if the metric has a value while no pod runs. Only such a metric permits minReplicas 0."""

    failure_reason: str = derived(init=False)
    """The event and condition reason that Kubernetes' HPA reports for a metric it cannot read."""

    def __post_init__(self) -> None:
        name = "" if self.source is V2Model else self.name[0].lower() + self.name[1:]
        found = {
            "field": name,
            "attribute": re.sub("([A-Z])", r"_\1", name).lower(),
            "describes_object": "described_object" in self.source.model_fields,
            "scales_from_zero": bool(name) and not self.per_pod,
            "failure_reason": f"FailedGet{self.name}Metric" if name else "InvalidMetricSourceType",
        }
        for attribute, value in found.items():
            object.__setattr__(self, attribute, value)


class ScalingMetric(msgspec.Struct, frozen=True):
    """One entry of spec.metrics. Values are milli-units, utilization is per cent of requests.

    `name` is that of the resource or of the metric. `target` is the target as JSON with canonical quantities.
    `selector` and `described_object` are JSON as stored. `present` is False if the field of the type is
    missing.
    """

    metric_type: MetricType
    name: str = ""
    container: str = ""
    target_type: str = ""
    value: int | None = None
    average_value: int | None = None
    average_utilization: int | None = None
    selector: Mapping[str, JSON] | None = None
    described_object: Mapping[str, JSON] | None = None
    aggregation: str = default_values.AGGREGATION
    target: Mapping[str, JSON] = {}
    present: bool = True

    @property
    def type(self) -> str:
        """The name of the metric's type, as written."""
        return self.metric_type.name

    @property
    def query_key(self) -> str:
        """The key of the metrics API query. Metrics with the same query share one answer.

        The query has type, name, selector and object; target and aggregation do not change it.
        """
        return _encoder.encode((self.type, self.name, self.selector, self.described_object)).decode()


def no_metrics(failures: Sequence[tuple[str, str]], api: str) -> str:
    """Returns why no cluster served a metric: the failures, with the clusters' names if there are several."""
    if not failures:
        return f"no metrics returned from {api} metrics API"
    if len(failures) == 1:
        text = failures[0][1]
    else:
        text = "; ".join(f"{cluster}: {reason}" for cluster, reason in failures)
    return f"unable to fetch metrics from {api} metrics API: {text}"


def calibrated(fleet: MeasuredFleet, spec: ScalingMetric, scale: CurrentSize) -> CurrentSize:
    """Returns the scale for a metric that only some clusters serve: they stand for the others' replicas."""
    if len(fleet.observed(spec)) == len(fleet.answered):
        return scale
    return msgspec.structs.replace(scale, calibration=fleet.calibration_for(spec))


def of_pods(
    proposal: Proposal, current: Mapping[str, JSON], groups: Groups, *, binary: bool = False
) -> MetricProposal:
    """Returns the proposal of a metric with a value for each pod; `binary` is the suffix of sums."""
    shares = {
        cluster: ClusterShare(share.pods, format_milli(share.milli, binary=binary))
        for cluster, share in groups.shares.items()
    }
    counts = PodCounts(groups.ready, groups.unready, groups.missing, groups.ignored)
    return MetricProposal(proposal, current, shares, counts)
