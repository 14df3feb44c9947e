"""The clusters of one autoscaler, prepared once a decision: which answered, and how many replicas there are.

Source: docs/reference/decision-record.md; docs/explanation/how-it-decides.md for shares and calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fedhpa.api.errors import InvalidObject
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.selectors import Selector, selector_of
from fedhpa.assignment import DUPLICATED, size_of_each
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.snapshot import (
    ClusterScale,
    ClusterSnapshot,
    CustomMetrics,
    ExternalMetrics,
    Failure,
    Snapshot,
    TemplateScale,
)
from fedhpa.decision.spec import PlacementPreference
from fedhpa.metric_types.metric import CUSTOM_API, EXTERNAL_API, USAGE_API, ScalingMetric
from fedhpa.scaling import CustomSample, ExternalSample, running_and_ready

DIVIDED: Final = "Divided"
BAD_SELECTOR: Final = "couldn't convert selector into a corresponding internal selector object: "


class ClusterView:
    """A cluster that answered: its snapshot, its scale, and the workload's pods and usage in it."""

    def __init__(self, snapshot: ClusterSnapshot, scale: ClusterScale, namespace: str) -> None:
        self.name = snapshot.name
        self.snapshot = snapshot
        self.scale = scale
        self.pods = snapshot.pods
        self.usage = () if isinstance(snapshot.usage, Failure) else snapshot.usage
        self._namespace = namespace
        self._ready_pods: int | None = None

    @property
    def ready_pods(self) -> int:
        """The number of the workload's pods that run and are ready."""
        if self._ready_pods is None:
            self._ready_pods = running_and_ready(self.pods)
        return self._ready_pods

    def is_foreign(self, pod: str) -> bool:
        """True if the name is that of a listed pod that the workload's selector does not match."""
        return pod in self.snapshot.other_pods

    def samples(self, spec: ScalingMetric) -> Sequence[Any]:
        """Returns the samples of a metric that the cluster serves."""
        api = metrics_api(spec)
        return api.pick(api.of_cluster(self.snapshot), spec, self._namespace)


class FleetView:
    """All clusters of one autoscaler.

    `expected` are the clusters that must answer, `answered` the views of those that did. `missing` maps the
    others to the reason. `lost` maps clusters that are no longer expected to the reason. `candidates` are the
    clusters that share the size: with a template lost ones too, because Karmada divides it over them as well.
    `selector_errors` holds the event reason and the message of each unusable pod selector.
    `preferences` are the assignment's preferences by cluster (direct propagation only).
    `size_was_decided` is False if Duplicated had to take the size from the clusters.
    `metrics_lost` names the clusters that answer but whose metrics are no longer expected.
    `implausible` names the clusters whose answer is implausible.
    """

    def __init__(self, snapshot: Snapshot, settings: ControllerSettings, now: float = 0.0) -> None:
        lost_after = snapshot.hpa.spec.lost_after
        self.lost_after = settings.cluster_lost_timeout if lost_after is None else lost_after
        self._now = now
        self.namespace = snapshot.hpa.namespace
        self.snapshot = snapshot
        self.lost: dict[str, str] = {}
        self.expected: list[ClusterSnapshot] = []
        self.answered: list[ClusterView] = []
        self.missing: dict[str, str] = {}
        self.selector_errors: list[tuple[str, str]] = []
        for cluster in snapshot.clusters:
            self._add(cluster)
        self._answered_names = {cluster.name for cluster in self.answered}
        self.direct = snapshot.target is None
        self.preferences = self._preferences(snapshot) if self.direct else {}
        self.candidates = tuple(self.expected) if self.direct else snapshot.clusters
        self.size_was_decided = True
        self.current = self._current(snapshot)
        shares = [self.known_share(cluster) for cluster in self.candidates]
        self.scheduling = self._scheduling(snapshot, shares)
        self._whole = self._known_sum(shares)
        self.calibration = self.calibration_of(self.answered)
        self.metrics_lost: frozenset[str] = frozenset()
        self.implausible: frozenset[str] = frozenset()
        self.status_replicas = sum(cluster.scale.status_replicas for cluster in self.answered)

    def is_overdue(self, cluster: ClusterSnapshot) -> bool:
        """True if the cluster has been missing for lostAfterSeconds, so that it is no longer expected."""
        return cluster.absence is not None and cluster.absence.elapsed(self._now) >= self.lost_after

    @property
    def copies(self) -> int:
        """The number of clusters that run the whole size each: the candidates under Duplicated, else 1."""
        return len(self.candidates) if self.scheduling == DUPLICATED and self.current else 1

    def calibration_of(self, clusters: Sequence[ClusterView]) -> float:
        """Returns how many times the workload's size these clusters stand for: they speak for the others.

        It is copies x (their known shares) / (known shares of all candidates), or 1 if a sum is 0. While
        every candidate answers, the shares cancel out, whatever the template says: a difference is
        propagation that lags, and must not be extrapolated.
        """
        if self.scheduling == DUPLICATED:
            return float(len(clusters)) if clusters and self.current else 1.0
        part = sum(cluster.scale.spec_replicas for cluster in clusters)
        return part / self._whole if part and self._whole else 1.0

    def calibration_for(self, spec: ScalingMetric) -> float:
        """Returns the calibration of the clusters whose pods count for a metric."""
        return self.calibration_of(self.observed(spec))

    def answers(self, cluster: str) -> bool:
        """True if the cluster answered."""
        return cluster in self._answered_names

    def known_share(self, cluster: ClusterSnapshot) -> int | None:
        """Returns the cluster's spec.replicas, the last known if it is missing, None if unknown."""
        if cluster.name in self._answered_names and isinstance(cluster.scale, ClusterScale):
            return cluster.scale.spec_replicas
        # A missing cluster may carry an old scale beside its failure, so only `last_replicas` counts.
        return None if cluster.last_replicas is None else max(cluster.last_replicas, 0)

    def known_replicas(self, cluster: ClusterSnapshot) -> int:
        """Returns the cluster's known share; 0 if it is unknown."""
        return self.known_share(cluster) or 0

    def observed(self, spec: ScalingMetric) -> list[ClusterView]:
        """Returns the clusters whose pods count for a metric.

        These are all that answered, but for clusters with lost metrics that failed to serve this one.
        """
        if not self.metrics_lost or self.served_by_hub(spec):
            return list(self.answered)
        failed = self.metrics_lost & {name for name, _ in self.failures(spec)}
        return [cluster for cluster in self.answered if cluster.name not in failed]

    def metric_failures(self, metrics: Sequence[ScalingMetric]) -> dict[str, str]:
        """Returns the clusters that answered but failed to serve a metric, with the first reason.

        If the hub serves a metric, the clusters need not.
        """
        failed: dict[str, str] = {}
        for spec in metrics:
            failures = self.failures(spec)
            if failures and not self.served_by_hub(spec):
                for name, reason in failures:
                    failed.setdefault(name, reason)
        return failed

    def failures(self, spec: ScalingMetric) -> list[tuple[str, str]]:
        """Returns the clusters that answered but failed to serve the metric, with the reasons.

        The hub may serve it nevertheless.
        """
        answer_of = metrics_api(spec).of_cluster
        key: str | None = None
        failed: list[tuple[str, str]] = []
        for cluster in self.answered:
            answer = answer_of(cluster.snapshot)
            if isinstance(answer, Mapping):
                key = spec.query_key if key is None else key
                answer = answer.get(key)
            if isinstance(answer, Failure):
                failed.append((cluster.name, answer.error))
        return failed

    def served_by_hub(self, spec: ScalingMetric) -> bool:
        """True if the hub serves the metric and no cluster does."""
        return bool(self.hub_samples(spec)) and not any(cluster.samples(spec) for cluster in self.answered)

    def hub_samples(self, spec: ScalingMetric) -> Sequence[Any]:
        """Returns the samples of a metric that the hub serves."""
        api = metrics_api(spec)
        return api.pick(api.of_hub(self.snapshot), spec, self.namespace)

    def _add(self, cluster: ClusterSnapshot) -> None:
        reason, event = _unavailability(cluster)
        if reason is None and isinstance(cluster.scale, ClusterScale):
            self.answered.append(ClusterView(cluster, cluster.scale, self.namespace))
        elif self.is_overdue(cluster):
            self.lost[cluster.name] = reason or ""
            return
        else:
            self.missing[cluster.name] = reason or ""
            if event:
                self.selector_errors.append((event, reason or ""))
        self.expected.append(cluster)

    def _preferences(self, snapshot: Snapshot) -> Mapping[str, PlacementPreference]:
        clusters = [cluster.cluster or KnownCluster(cluster.name) for cluster in self.expected]
        return snapshot.hpa.spec.assignment.preferred(clusters)

    def _current(self, snapshot: Snapshot) -> int:
        if isinstance(snapshot.target, TemplateScale):
            return snapshot.target.replicas
        if isinstance(snapshot.target, Failure):
            return 0
        if snapshot.hpa.spec.assignment.policy == DUPLICATED:
            # Every cluster has the whole size, as with a template. A cluster that somebody scaled by hand
            # never becomes the size.
            if snapshot.decided_size is not None:
                return snapshot.decided_size
            self.size_was_decided = False
            lows = {name: preference.low or 0 for name, preference in self.preferences.items()}
            present = {cluster.name: cluster.scale.spec_replicas for cluster in self.answered}
            return size_of_each(present, lows)
        return sum(self.known_replicas(cluster) for cluster in self.expected)

    def _scheduling(self, snapshot: Snapshot, shares: Sequence[int | None]) -> str:
        if snapshot.target is None:
            return DUPLICATED if snapshot.hpa.spec.assignment.policy == DUPLICATED else DIVIDED
        if isinstance(snapshot.target, TemplateScale) and snapshot.target.scheduling:
            return snapshot.target.scheduling
        alike = all(share == self.current for share in shares)
        return DUPLICATED if len(shares) > 1 and alike else DIVIDED

    def _known_sum(self, shares: Sequence[int | None]) -> int:
        """Returns the known shares of all candidates; an unknown one has what is lacking to the template."""
        known = sum(share for share in shares if share is not None)
        return max(known, self.current) if None in shares and not self.direct else known


def _unavailability(cluster: ClusterSnapshot) -> tuple[str | None, str]:
    """Returns why a cluster did not answer (None if it did), and the event reason of a bad selector."""
    if not cluster.ready:
        return cluster.error or "not ready", ""
    if cluster.error is not None:
        return cluster.error, ""
    if isinstance(cluster.scale, Failure):
        return cluster.scale.error, ""
    if not cluster.scale.selector:
        return "selector is required", "SelectorRequired"
    if cluster.selector_error is not None:
        return f"{BAD_SELECTOR}{cluster.selector_error}", "InvalidSelector"
    return None, ""


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
    USAGE_API: MetricsApi(lambda cluster: cluster.usage, lambda _: (), lambda *_: ()),
    CUSTOM_API: MetricsApi(
        lambda cluster: cluster.custom_metrics, lambda snapshot: snapshot.hub_custom_metrics, custom_samples
    ),
    EXTERNAL_API: MetricsApi(
        lambda cluster: cluster.external_metrics,
        lambda snapshot: snapshot.hub_external_metrics,
        lambda answer, spec, _: external_samples(answer, spec),
    ),
}
# A type of a later version: no API is known, so nothing answers and nothing fails.
_NO_API: Final = MetricsApi(lambda _: (), lambda _: (), lambda *_: ())


def metrics_api(spec: ScalingMetric) -> MetricsApi:
    """Returns the API that serves a metric. For an unknown type, returns one that has nothing."""
    return METRICS_APIS.get(spec.metric_type.api, _NO_API)
