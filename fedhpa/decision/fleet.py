"""The clusters as one workload: who answered, how many replicas there are, and which data belongs to it.

Prepared once a decision and read by every metric. Source: docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.metric_types import CUSTOM_API, EXTERNAL_API, PODS, USAGE_API
from fedhpa.api.selectors import Selector, selector_of
from fedhpa.assignment.direct import DUPLICATED, size_of_each
from fedhpa.decision.asked import asked_for
from fedhpa.decision.snapshot import (
    ClusterScale,
    ClusterSnapshot,
    ControllerSettings,
    CustomMetrics,
    ExternalMetrics,
    Failure,
    Snapshot,
    Target,
)
from fedhpa.decision.spec.federatedhpa import MetricSpec
from fedhpa.decision.spec.placement import Preference
from fedhpa.scaling.grouping import running_and_ready
from fedhpa.scaling.records import CustomSample, ExternalSample

BAD_SELECTOR: Final = "couldn't convert selector into a corresponding internal selector object: "


class ClusterView:
    """A cluster that answered: its snapshot, its scale and the workload's pods and usage in it."""

    def __init__(self, snapshot: ClusterSnapshot, scale: ClusterScale) -> None:
        self.name = snapshot.name
        self.snapshot = snapshot
        self.scale = scale
        self.pods = snapshot.pods
        self.usage = () if isinstance(snapshot.usage, Failure) else snapshot.usage

    @property
    def ready_pods(self) -> int:
        """How many of the workload's pods run and are ready."""
        return running_and_ready(self.pods)

    def is_foreign(self, pod: str) -> bool:
        """True if the name is that of a listed pod that the workload's selector does not match."""
        return pod in self.snapshot.other_pods


class FleetView:
    """The expected clusters and what is known of the workload in them.

    `missing` maps the clusters that did not answer to the reason, `lost` those that are no longer expected
    to; `selector_errors` holds, for those that have a scale but no usable selector, event reason and
    message. `preferences` are those of the expected clusters that the object's assignment selects. `silent`
    are members whose metrics are waited for no longer: where theirs fail, the others speak for their pods.
    """

    def __init__(self, snapshot: Snapshot, settings: ControllerSettings, now: float = 0.0) -> None:
        lost_after = snapshot.hpa.spec.lost_after
        self.lost_after = settings.cluster_lost_timeout if lost_after is None else lost_after
        self._now = now
        self.namespace = snapshot.hpa.namespace
        self.hub_custom = snapshot.hub_custom_metrics
        self.hub_external = snapshot.hub_external_metrics
        self.lost: dict[str, str] = {}
        self.expected: list[ClusterSnapshot] = []
        self.members: list[ClusterView] = []
        self.missing: dict[str, str] = {}
        self.selector_errors: list[tuple[str, str]] = []
        for cluster in snapshot.clusters:
            self._add(cluster)
        self._answered = {member.name for member in self.members}
        self.direct = snapshot.target is None
        self.preferences = self._preferred(snapshot) if self.direct else {}
        self.current = self._current(snapshot)
        self.calibration = self.calibration_by(self.members)
        self.silent: frozenset[str] = frozenset()
        self.status_replicas = sum(member.scale.status_replicas for member in self.members)

    def _add(self, cluster: ClusterSnapshot) -> None:
        reason, event = _unavailability(cluster)
        if reason is None and isinstance(cluster.scale, ClusterScale):
            self.members.append(ClusterView(cluster, cluster.scale))
        elif self.is_overdue(cluster):
            self.lost[cluster.name] = reason or ""
            return
        else:
            self.missing[cluster.name] = reason or ""
            if event:
                self.selector_errors.append((event, reason or ""))
        self.expected.append(cluster)

    def is_overdue(self, cluster: ClusterSnapshot) -> bool:
        """Whether the cluster went missing so long ago that its data is no longer waited for."""
        return cluster.absence is not None and self._now - cluster.absence.since >= self.lost_after

    def calibration_by(self, members: Sequence[ClusterView]) -> float:
        """For how much of the workload these members speak; 1 if they or the workload have no replicas."""
        answered = sum(member.scale.spec_replicas for member in members)
        return answered / self.current if answered and self.current else 1.0

    def heard(self, spec: MetricSpec) -> list[ClusterView]:
        """The members whose pods count for a metric: all but the silent ones that failed to give it."""
        return [
            member
            for member in self.members
            if member.name not in self.silent or self._failure(member, spec) is None
        ]

    def _preferred(self, snapshot: Snapshot) -> Mapping[str, Preference]:
        clusters = (cluster.cluster or KnownCluster(cluster.name) for cluster in self.expected)
        return snapshot.hpa.spec.assignment.preferred(clusters)

    def _current(self, snapshot: Snapshot) -> int:
        if isinstance(snapshot.target, Target):
            return snapshot.target.replicas
        if isinstance(snapshot.target, Failure):
            return 0
        if snapshot.hpa.spec.assignment.policy == DUPLICATED:
            # As with a template: its size is that of each cluster, and the calibration counts the clusters.
            lows = {name: preference.low or 0 for name, preference in self.preferences.items()}
            return size_of_each({member.name: member.scale.spec_replicas for member in self.members}, lows)
        return sum(self.known_replicas(cluster) for cluster in self.expected)

    def known_replicas(self, cluster: ClusterSnapshot) -> int:
        """A cluster's share of the workload: what it has, or, absent, what it was last known to have."""
        if cluster.name in self._answered and isinstance(cluster.scale, ClusterScale):
            return cluster.scale.spec_replicas
        # What it carries beside its failure may be of any time: only what is handed over as known counts.
        return cluster.last_replicas or 0

    def note_failures(self, metrics: Sequence[MetricSpec]) -> dict[str, str]:
        """The clusters that answered but whose metrics failed, with the reason, for the metrics in use."""
        failed: dict[str, str] = {}
        for spec in metrics:
            for member in self.members:
                failure = self._failure(member, spec)
                if failure is not None:
                    failed.setdefault(member.name, failure.error)
        return failed

    def _failure(self, member: ClusterView, spec: MetricSpec) -> Failure | None:
        failure = self._said(member, spec)
        # A store on the hub that has the metric makes the members' own answers unnecessary.
        return None if failure is None or self.serves_from_hub(spec) else failure

    def failures(self, spec: MetricSpec) -> list[tuple[str, Failure]]:
        """The clusters that answered but for the metric's data, with the reason."""
        said = [(member.name, self._said(member, spec)) for member in self.members]
        return [(name, failure) for name, failure in said if failure is not None]

    def _said(self, member: ClusterView, spec: MetricSpec) -> Failure | None:
        data: object = ()
        api = spec.metric_type.api
        if api == USAGE_API:
            data = member.snapshot.usage
        elif api == EXTERNAL_API:
            data = member.snapshot.external_metrics
        elif api == CUSTOM_API:
            data = member.snapshot.custom_metrics
        if isinstance(data, Mapping):
            data = data.get(asked_for(spec), ())
        return data if isinstance(data, Failure) else None

    def serves_from_hub(self, spec: MetricSpec) -> bool:
        """Whether no cluster serves a metric and the hub does."""
        api = spec.metric_type.api
        if api == EXTERNAL_API:
            by_cluster = any(self.external(member.snapshot.external_metrics, spec) for member in self.members)
            return not by_cluster and bool(self.external(self.hub_external, spec))
        if api == CUSTOM_API:
            by_cluster = any(self.custom(member.snapshot.custom_metrics, spec) for member in self.members)
            return not by_cluster and bool(self.custom(self.hub_custom, spec))
        return False

    def external(self, samples: ExternalMetrics, spec: MetricSpec) -> list[ExternalSample]:
        """The samples of an External metric: by name, and by the labels of those that have labels."""
        if isinstance(samples, Mapping):
            own = samples.get(asked_for(spec), ())
            return [] if isinstance(own, Failure) else list(own)
        if isinstance(samples, Failure):
            return []
        try:
            selector = selector_of(spec.selector) if spec.selector is not None else Selector()
        except InvalidObject:
            return []  # the metric itself fails on it, with the message
        return [
            sample
            for sample in samples
            if sample.metric == spec.name and (not sample.labels or selector.matches(sample.labels))
        ]

    def custom(self, samples: CustomMetrics, spec: MetricSpec) -> list[CustomSample]:
        """The samples of a Pods or Object metric: by metric and described object.

        Samples that carry the metric's own selector are preferred, since one name may have several series.
        """
        if isinstance(samples, Mapping):
            own = samples.get(asked_for(spec), ())
            return [] if isinstance(own, Failure) else list(own)
        if isinstance(samples, Failure):
            return []
        found = [sample for sample in samples if sample.metric == spec.name and self._describes(sample, spec)]
        exact = [sample for sample in found if (sample.selector or None) == (spec.selector or None)]
        return exact or [sample for sample in found if not sample.selector or not spec.selector]

    def _describes(self, sample: CustomSample, spec: MetricSpec) -> bool:
        if spec.type == PODS:
            return sample.kind in ("Pod", "") and self._is_ours(sample.namespace)
        described = spec.described_object or {}
        kind = described.get("kind", "")
        if sample.kind and sample.kind != kind:
            return False
        # A metric of a Namespace is that of the autoscaler's own, whatever name is written.
        return kind == "Namespace" or (
            sample.name == described.get("name", "") and self._is_ours(sample.namespace)
        )

    def _is_ours(self, namespace: str) -> bool:
        return not namespace or not self.namespace or namespace == self.namespace


def _unavailability(cluster: ClusterSnapshot) -> tuple[str | None, str]:
    """Why a cluster does not count as answering (None if it does), and the event reason of a bad selector."""
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
