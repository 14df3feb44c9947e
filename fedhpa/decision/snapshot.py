"""The input of a decision: the controller gathers it, or a recorded scenario holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.hold import Hold, HoldRequest, hold_in_force
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.placement_decisions import Profile
from fedhpa.api.selectors import Selector, selector_of
from fedhpa.api.taints import STUCK
from fedhpa.api.wire import Scale
from fedhpa.decision.memory import NO_MEMORY, Absence, MemoryState
from fedhpa.decision.spec import ScalingObject
from fedhpa.metric_types.metric import CUSTOM_API, EXTERNAL_API, USAGE_API, ScalingMetric
from fedhpa.scaling import CustomSample, ExternalSample, PodRecord, UsageRecord


class Failure(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Data that could not be read, with the reason as one line."""

    error: str


# The metric values of one cluster: all values, the reason why there are none, or one answer for each query
# (`ScalingMetric.query_key`). Then the server has selected the values, and one query may fail alone.
CustomMetrics = tuple[CustomSample, ...] | Mapping[str, tuple[CustomSample, ...] | Failure] | Failure
ExternalMetrics = tuple[ExternalSample, ...] | Mapping[str, tuple[ExternalSample, ...] | Failure] | Failure


class ClusterScale(msgspec.Struct, frozen=True, gc=False):
    """The scale sub-resource of the workload in one cluster."""

    spec_replicas: int = 0
    status_replicas: int = 0
    selector: str = ""


class WorkloadReading(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The workload as one cluster has it, for whoever writes to it or compares selectors.

    `path` is its URL path in that cluster, and `scale` what a write must be based on. `selector` is None if
    the scale has none. `is_absent` says that the cluster answered that it has no such workload. `label_sets`
    are the label sets of its pods.
    """

    path: str = ""
    scale: Scale | None = None
    selector: Selector | None = None
    is_absent: bool = False
    label_sets: tuple[Mapping[str, str], ...] = ()


class Bridge(msgspec.Struct, frozen=True, gc=False):
    """A missed answer, with the reason. The last one, which stands for it, is `age` seconds old."""

    age: float
    reason: str = ""


class ClusterSnapshot(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One candidate cluster.

    `error` says why it does not answer although it is ready. `selector_error` says why the scale's selector
    cannot be parsed. `pods` are those that the selector matches, `usage` is theirs, and `other_pods` are the
    names of the namespace's other listed pods (`fedhpa.scaling.selection`).
    `absence` is the clock of the cluster's loss, None if no clock runs. `last_replicas` is its last known
    share of the workload. `available_replicas` is how many more replicas it could run, None if unknown.
    `most_replicas` is its limit by clusterHPAPreference, None for no limit. `cluster` has the fields that
    cluster affinities select by. `selected` is False once spec.clusterAffinity does not select the cluster
    any more. A `held` cluster answers, but its share cannot be changed now. `overflow` is the rank of an
    overflow cluster of Karmada's placement, 0 for others. Where it is lost and `replaced`, the placement has
    other clusters for that case.
    `hpa` is the cluster's HPA of the FederatedHPA's name, None if there is none (mode Distributed only).
    Only a scenario gives `pending_replicas` (mode Distributed only): they have waited for a node longer than
    the delay, so the cluster is Stuck.
    `drift` are the fields of the HPA's spec, besides its bounds, that are not as the FederatedHPA has them.
    `clock_ahead` is by how many seconds its clock is ahead of ours, so its pods are judged by its own time.
    `implausible_for` is for how many seconds its answers were implausible (`fedhpa.decision.context`);
    None reports an implausible answer at once. No decision reads `workload`. `uid` is a hash of that of the
    cluster, which the memory keeps; "" if it is not known now.
    `missing_since` is when an answer of the cluster was missed first, in POSIX seconds; None if none was, or
    only now. `bridge` says that the other fields are those of its last answer (`fedhpa.decision.bridge`).
    `gone` is None while some object on the hub registers the cluster. Otherwise it says why its replicas stay
    where they are, "" if others take them.
    Only a scenario gives `membership`, which is else derived, and `ready_replicas`, else counted from pods.
    """

    name: str
    ready: bool = True
    error: str | None = None
    scale: ClusterScale | Failure = Failure("scale was not read")
    selector_error: str | None = None
    pods: tuple[PodRecord, ...] = ()
    other_pods: frozenset[str] = frozenset()
    usage: tuple[UsageRecord, ...] | Failure = ()
    custom_metrics: CustomMetrics = ()
    external_metrics: ExternalMetrics = ()
    available_replicas: int | None = None
    most_replicas: int | None = None
    last_replicas: int | None = None
    absence: Absence | None = None
    hpa: MemberHpa | Failure | None = None
    pending_replicas: int | None = None
    drift: tuple[str, ...] = ()
    cluster: KnownCluster | None = None
    selected: bool = True
    held: bool = False
    overflow: int = 0
    replaced: bool = False
    implausible_for: float | None = None
    clock_ahead: float = 0.0
    workload: WorkloadReading = WorkloadReading()
    uid: str = ""
    missing_since: float | None = None
    bridge: Bridge | None = None
    gone: str | None = None
    membership: str | None = None
    ready_replicas: int | None = None

    @property
    def usable_scale(self) -> ClusterScale | None:
        """The scale if the cluster answered, with a selector that can be used; else None."""
        scale = self.scale
        if not self.ready or self.error is not None or self.selector_error is not None:
            return None
        return scale if type(scale) is ClusterScale and scale.selector else None

    @property
    def given_membership(self) -> str | None:
        """The membership that a scenario gives; None where it is derived."""
        waits = self.pending_replicas and isinstance(self.scale, ClusterScale) and self.scale.spec_replicas
        return STUCK if waits and self.membership is None else self.membership


# The last complete answer of a cluster, and when it came, in POSIX seconds.
Answer = tuple[ClusterSnapshot, float]


class TemplateScale(msgspec.Struct, frozen=True):
    """The scale of the workload's template on the hub (propagation karmada).

    `scheduling` is Duplicated if each cluster runs the template's number, Divided if they share it, and "" if
    that is unknown.
    """

    replicas: int = 0
    generation: int | None = None
    scheduling: str = ""


class Blocked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The obstacle to any decision: the reason and message of a condition that is then False.

    `event` is the reason of the event if it differs (Karmada: FailedGetBindings).
    """

    reason: str
    message: str
    event: str = ""
    condition: str = "AbleToScale"


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A problem of the hub that affects all objects: reason and message of a condition that is then False."""

    reason: str
    message: str


class AwaitedCluster(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A selected cluster without the workload, and why. `cluster` is None if nobody registers it."""

    name: str
    why: str
    cluster: KnownCluster | None = None


class PublicationOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of the last write of a placement: the problems of it. `removed` if there is nothing left."""

    problems: tuple[Finding, ...] = ()
    removed: bool = False


class PlacementInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of the publication of an object's clusters.

    `awaited` are the selected clusters without the workload. `profiles` maps clusters to their
    ClusterProfiles. `outcome` is None before the first write.
    """

    awaited: tuple[AwaitedCluster, ...] = ()
    profiles: Mapping[str, Profile] = {}
    outcome: PublicationOutcome | None = None

    @property
    def names(self) -> frozenset[str]:
        """The clusters that are awaited."""
        return frozenset(one.name for one in self.awaited)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one decision on one autoscaler.

    `target` is None with direct propagation: then the clusters' scales add up to the workload's size.
    `ambiguous_with` names the autoscalers (namespace/name, this one included) whose selectors match the same
    pods, if there is more than one. `competitors` describes competing autoscalers of the same workload.
    `blocked` is set if nothing could be gathered or if another controller acts on the object.
    `propagation` is the controller's flag, "" if it is to be inferred from `target`.
    `selection` says why not all clusters of Karmada's placement take part; "" if they do. `leftovers` are
    clusters that have our HPA and are not selected any more. `evictions` are those of Karmada, by cluster: it
    need be no candidate any more.
    `hub_findings` are problems of the hub. `decided_size` is the size of the last decision, None on a fresh
    start; only policy Duplicated reads it. `memory` is what the last decision left, without its history.
    `record_problem` says why the memory cannot be stored; "" if it can. `answers` are the last complete
    answers of the clusters, as far as this process has them. `holds` are what the object's namespace and that
    of the controller ask for, in this order. `placement` is None where no clusters are or were published.
    `unfollowed` says why the PlacementDecision of another scheduler cannot be followed: "" if it
    can, and None while nobody knows.
    """

    hpa: ScalingObject
    clusters: tuple[ClusterSnapshot, ...] = ()
    target: TemplateScale | Failure | None = None
    hub_custom_metrics: tuple[CustomSample, ...] = ()
    hub_external_metrics: tuple[ExternalSample, ...] = ()
    ambiguous_with: tuple[str, ...] = ()
    competitors: tuple[str, ...] = ()
    blocked: Blocked | None = None
    selection: str = ""
    evictions: Mapping[str, str] = {}
    leftovers: tuple[str, ...] = ()
    hub_findings: tuple[Finding, ...] = ()
    decided_size: int | None = None
    propagation: str = ""
    memory: MemoryState = NO_MEMORY
    record_problem: str = ""
    answers: Mapping[str, Answer] = {}
    holds: tuple[HoldRequest, ...] = ()
    placement: PlacementInput | None = None
    unfollowed: str | None = None

    def hold_at(self, now: float) -> Hold | None:
        """Returns the hold in force at `now` in POSIX seconds; None without one."""
        if self.hpa.hold is None and not self.holds:
            return None
        return hold_in_force((self.hpa.hold, *self.holds), now)


def external_samples(answer: ExternalMetrics, spec: ScalingMetric) -> list[ExternalSample]:
    """Returns the samples of an External metric: by name, and by labels if the sample has any."""
    if isinstance(answer, Mapping):
        answer = answer.get(spec.query_key, ())
        return [] if isinstance(answer, Failure) else list(answer)
    if isinstance(answer, Failure):
        return []
    try:
        selector = selector_of(spec.selector) if spec.selector is not None else Selector()
    except InvalidObject:
        return []  # the evaluation of the metric fails with the message
    return [
        sample
        for sample in answer
        if sample.metric == spec.name and (not sample.labels or selector.matches(sample.labels))
    ]


def custom_samples(answer: CustomMetrics, spec: ScalingMetric, namespace: str) -> list[CustomSample]:
    """Returns the samples of a Pods or Object metric: by metric and described object.

    One metric name may have several series. Samples with the metric's own selector are preferred.
    """
    if isinstance(answer, Mapping):
        answer = answer.get(spec.query_key, ())
        return [] if isinstance(answer, Failure) else list(answer)
    if isinstance(answer, Failure):
        return []
    found = [
        sample
        for sample in answer
        if sample.metric == spec.name and _describes_target(sample, spec, namespace)
    ]
    exact = [sample for sample in found if (sample.selector or None) == (spec.selector or None)]
    return exact or [sample for sample in found if not sample.selector or not spec.selector]


def _describes_target(sample: CustomSample, spec: ScalingMetric, namespace: str) -> bool:
    in_namespace = not sample.namespace or not namespace or sample.namespace == namespace
    if spec.metric_type.per_pod:
        return sample.kind in ("Pod", "") and in_namespace
    described = spec.described_object or {}
    kind = described.get("kind", "")
    if sample.kind and sample.kind != kind:
        return False
    # A metric of a Namespace is that of the autoscaler's own namespace, whatever name the spec has.
    return kind == "Namespace" or (sample.name == described.get("name", "") and in_namespace)


class MetricsApi(NamedTuple):
    """The answers of one metrics API in a snapshot, and the choice of the samples of a metric.

    `of_cluster` and `of_hub` return the answer for all metrics. `pick` returns the samples of one metric, by
    answer, metric and namespace.
    """

    of_cluster: Callable[[ClusterSnapshot], object]
    of_hub: Callable[[Snapshot], object]
    pick: Callable[[Any, ScalingMetric, str], Sequence[CustomSample | ExternalSample]]


METRICS_APIS: Final[Mapping[str, MetricsApi]] = {
    # The usage of a pod belongs to a cluster, so the hub never serves it alone.
    USAGE_API: MetricsApi(attrgetter("usage"), lambda _: (), lambda *_: ()),
    CUSTOM_API: MetricsApi(attrgetter("custom_metrics"), attrgetter("hub_custom_metrics"), custom_samples),
    EXTERNAL_API: MetricsApi(
        attrgetter("external_metrics"),
        attrgetter("hub_external_metrics"),
        lambda answer, spec, _: external_samples(answer, spec),
    ),
}
# A type of a later version: no API is known, so nothing answers and nothing fails.
_NO_API: Final = MetricsApi(lambda _: (), lambda _: (), lambda *_: ())


def metrics_api(spec: ScalingMetric) -> MetricsApi:
    """Returns the API that serves a metric. For an unknown type, returns one that has nothing."""
    return METRICS_APIS.get(spec.metric_type.api, _NO_API)
