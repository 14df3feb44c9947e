"""The clusters of one autoscaler, prepared once a decision: which answered, and how many replicas there are.

Source: docs/reference/decision-record.md; docs/explanation/how-it-decides.md for shares and calibration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.propagation import DIVIDED, DUPLICATED
from fedhpa.api.taints import LEAVING, MEMBER, STUCK
from fedhpa.assignment import size_of_each
from fedhpa.decision.membership import GIVEN, Membership, is_new_host, memberships
from fedhpa.decision.memory import LOST, NEW_MEMBER, Standing
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.snapshot import (
    Answers,
    ClusterScale,
    ClusterSnapshot,
    Failure,
    Snapshot,
    TemplateScale,
)
from fedhpa.decision.spec import CENTRALIZED, DISTRIBUTED
from fedhpa.decision.stuck import Stuck, lacking_since, stuck_clusters
from fedhpa.metric_types.metric import USAGE_API, ScalingMetric
from fedhpa.scaling import IGNORED, running_and_ready

BAD_SELECTOR: Final = "couldn't convert selector into a corresponding internal selector object: "


class ClusterView:
    """A cluster that answered: its snapshot, its scale, and the workload's pods and usage in it.

    `replicas` are the workload's spec.replicas, and `ready_pods` is how many of its pods run and are ready.
    It `is_short` if fewer pods are listed than the workload's status has.
    """

    # Each decision makes one for each cluster and reads it several times, so that nothing here is a property.
    __slots__ = (
        "age",
        "is_short",
        "name",
        "pods",
        "ready_pods",
        "replicas",
        "scale",
        "snapshot",
        "usage",
    )

    def __init__(self, snapshot: ClusterSnapshot, scale: ClusterScale) -> None:
        self.name = snapshot.name
        self.snapshot = snapshot
        self.scale = scale
        self.pods = snapshot.pods
        self.usage = snapshot.usage if type(snapshot.usage) is tuple else ()
        self.age = 0.0 if snapshot.bridge is None else snapshot.bridge.age
        if snapshot.clock_ahead:
            self.pods = tuple([pod.moved(-snapshot.clock_ahead) for pod in self.pods])
            self.usage = tuple([one.moved(-snapshot.clock_ahead) for one in self.usage])
        self.replicas, given = scale.spec_replicas, snapshot.ready_replicas
        self.ready_pods = running_and_ready(self.pods) if given is None else given
        self.is_short = given is None and len(self.pods) < scale.status_replicas

    @property
    def is_rolling(self) -> bool:
        """True if its pods have more than one version of the template."""
        return len({pod.template for pod in self.pods if pod.state != IGNORED}) > 1

    def is_foreign(self, pod: str) -> bool:
        """True if the name is that of a listed pod that the workload's selector does not match."""
        return pod in self.snapshot.other_pods

    def samples(self, spec: ScalingMetric) -> Sequence[Any]:
        """Returns the samples of a metric that the cluster serves."""
        return _values(self.snapshot.metrics, spec)


class FleetView:
    """All clusters of one autoscaler.

    `expected` are the clusters that must answer, `answered` the `views` of those that did. `missing` maps the
    others to the reason. `lost` maps clusters that are no longer expected to the reason. `candidates` are the
    clusters that share the size: with a template lost ones too, because Karmada divides it over them as well.
    `selector_errors` holds the event reason and the message of each unusable pod selector.
    `shares` are each cluster's spec.replicas, the last known if it is missing, None if unknown.
    `preferences` are the assignment's preferences by cluster (direct propagation only).
    `memberships` are those of clusters that may be no Members. `leaving` clusters still have replicas.
    `lacking` are clusters with fewer ready pods than replicas, and `stuck` are those that get none for long.
    `moves` is True if replicas can be moved.
    `moving` is True while replicas move, so that more run than the `current` size.
    `size_was_decided` is False if Duplicated had to take the size from the clusters.
    With `returns` replicas may return to the division of the policy by themselves.
    Of clusters that answer, `metrics_lost` names those whose metrics are no longer expected, and
    `implausible` those with an implausible answer.
    """

    def __init__(self, snapshot: Snapshot, settings: ControllerSettings, now: float = 0.0) -> None:
        lost_after = snapshot.hpa.spec.lost_after
        self.lost_after = settings.cluster_lost_timeout if lost_after is None else lost_after
        self.now, self.namespace, self.snapshot = now, snapshot.hpa.namespace, snapshot
        self.lost, self.missing = dict[str, str](), dict[str, str]()
        self.expected, self.answered = list[ClusterSnapshot](), list[ClusterView]()
        self.selector_errors: list[tuple[str, str]] = []
        self.direct = snapshot.target is None
        known = snapshot.memory.clusters
        plain = {name for name, one in known.items() if one.standing == NEW_MEMBER}
        # All others are Members.
        asking = [
            one
            for one in snapshot.clusters
            if not one.selected
            or one.membership is not None
            or (one.pending_replicas and one.given_membership is not None)
            or (one.cluster is not None and (one.cluster.taints or one.cluster.deleted))
            or (one.name not in plain and (one.name in known or is_new_host(one, snapshot)))
        ]
        self.memberships: dict[str, Membership] = (
            memberships(snapshot, asking, now, self.is_overdue, settings.new_hosts) if asking else {}
        )
        for name, why in snapshot.evictions.items():
            self.memberships[name] = Membership(LEAVING, why, self.standing(name))
        self.moves = self.direct and snapshot.hpa.spec.mode == CENTRALIZED
        self.returns = self.direct and snapshot.hpa.spec.assignment.returns
        for cluster in snapshot.clusters:
            if self.memberships and self.is_out(cluster):
                continue
            # Nearly all clusters answer.
            if (scale := cluster.usable_scale) is None:
                self._note_missing(cluster)
            else:
                self.answered.append(ClusterView(cluster, scale))
                self.expected.append(cluster)
        self.views = {view.name: view for view in self.answered}
        # A missing cluster may carry an old scale beside its failure, so only `last_replicas` counts.
        last = {one.name: one.last_replicas for one in snapshot.clusters}
        self.shares = {name: 0 if size is not None and size < 0 else size for name, size in last.items()}
        self.shares |= {view.name: view.scale.spec_replicas for view in self.answered}
        self._failures: dict[int, tuple[ScalingMetric, list[tuple[str, str]]]] = {}
        sees_pods = self.moves or snapshot.hpa.spec.mode == DISTRIBUTED
        lacking = [one for one in self.answered if sees_pods and one.ready_pods < one.scale.spec_replicas]
        self.lacking = {one.name: one for one in lacking if not one.is_short}
        given = self.moves and any(one.state == STUCK for one in self.memberships.values())
        self.stuck = self._stuck(snapshot) if self.lacking or given else {}
        there = [one for one in self.expected if self.memberships and not self.is_empty(one)]
        self.leaving = [one for one in there if self.direct and self.membership(one.name) == LEAVING]
        known_fields = [one.cluster or KnownCluster(one.name) for one in self.expected]
        self.preferences = snapshot.hpa.spec.assignment.preferred(known_fields) if self.direct else {}
        self.candidates = tuple(self.expected) if self.direct else snapshot.clusters
        self.size_was_decided, self.moving = True, False
        self.current = self._current(snapshot)
        shares = [self.shares[cluster.name] for cluster in self.candidates]
        self.scheduling, self._whole = self._scheduling(snapshot, shares), self._known_sum(shares)
        self.calibration = self.calibration_of(self.answered)
        self.metrics_lost = self.implausible = frozenset[str]()
        self.status_replicas = sum([cluster.scale.status_replicas for cluster in self.answered])

    def is_overdue(self, cluster: ClusterSnapshot) -> bool:
        """True if the cluster has been missing for lostAfterSeconds, or is gone: it is no longer expected."""
        clock = cluster.absence
        return cluster.gone is not None or (clock is not None and clock.elapsed(self.now) >= self.lost_after)

    def _stuck(self, snapshot: Snapshot) -> Mapping[str, Stuck]:
        """Returns the clusters that are stuck, and notes it in their memberships."""
        assignment = snapshot.hpa.spec.assignment
        if not assignment.assist or assignment.policy.copies:
            return {}
        takers = [one.name for one in self.answered if self.membership(one.name) == MEMBER]
        found = stuck_clusters(self.answered, takers, snapshot.memory, snapshot.hpa.spec, self.now)
        for view in self.answered:
            if view.snapshot.given_membership is not None:
                found.pop(view.name, None)
            if view.snapshot.given_membership == STUCK:
                found[view.name] = Stuck(self.standing(view.name).stuck_since or self.now, GIVEN)
        for name, one in found.items():
            if self.views[name].age and self.standing(name).stuck_since is None:
                continue  # the pods are those of some time ago
            known = self.memberships.get(name) or Membership(MEMBER, "", NEW_MEMBER)
            standing = msgspec.structs.replace(known.standing, stuck_since=one.since // 1)
            state, why = (LEAVING, known.why) if known.state == LEAVING else (STUCK, one.why)
            self.memberships[name] = Membership(state, why, standing)
        return {name: one for name, one in found.items() if self.membership(name) == STUCK}

    def lacking_since(self, cluster: str) -> float | None:
        """Returns since when a cluster has fewer pods than replicas; None if it has as many."""
        pods = self.lacking.get(cluster)
        if pods is None:
            return None
        known = self.snapshot.memory.clusters.get(cluster)
        return lacking_since(pods, None if known is None else known.lacking_since, self.now // 1)

    def is_out(self, cluster: ClusterSnapshot) -> bool:
        """True if the cluster leaves and runs nothing of the workload any more. Nobody needs its answer.

        A lost cluster whose replicas the others have now may still run them.
        """
        if not self.moves or self.membership(cluster.name) != LEAVING:
            return False
        known = self.snapshot.memory.clusters.get(cluster.name)
        gone = cluster.usable_scale is None and cluster.last_replicas == 0
        return self.is_empty(cluster) or (gone and (known is None or known.state != LOST))

    def is_empty(self, cluster: ClusterSnapshot) -> bool:
        """True if the cluster answers that it runs nothing of the workload, and no pod terminates there."""
        scale = cluster.usable_scale
        if scale is None:
            return False
        # A failed pod stays in the list until somebody deletes it.
        running = any(pod.running for pod in cluster.pods)
        return not (scale.spec_replicas or scale.status_replicas or running)

    def standing(self, cluster: str) -> Standing:
        """Returns the membership of a cluster as it is remembered."""
        known = self.memberships.get(cluster)
        return NEW_MEMBER if known is None else known.standing

    def is_unproven(self, cluster: str) -> bool:
        """True if the cluster began to host the workload, and its pods did not serve at the last decision."""
        standing = self.standing(cluster)
        return standing.new and standing.serves_since is None

    def membership(self, cluster: str) -> str:
        """Returns the membership of a cluster."""
        known = self.memberships.get(cluster)
        return MEMBER if known is None else known.state

    @property
    def copies(self) -> int:
        """The number of clusters that run the whole size each: the candidates under Duplicated, else 1."""
        return len(self.candidates) if self.scheduling == DUPLICATED and self.current else 1

    def calibration_of(self, clusters: Sequence[ClusterView]) -> float:
        """Returns how many times the workload's size these clusters stand for: they speak for the others.

        It is copies x (their known shares) / (known shares of all candidates), or 1 if a sum is 0. A template
        that differs from the shares does not count: its propagation lags, and must not be extrapolated.
        """
        if self.scheduling == DUPLICATED:
            if not clusters or not self.current:
                return 1.0
            left = {cluster.name for cluster in self.leaving}
            # A leaving cluster is no whole copy any more.
            parts = [min(one.scale.spec_replicas / self.current, 1.0) for one in clusters if one.name in left]
            return float(len(clusters) - len(parts)) + sum(parts)
        part = sum([cluster.scale.spec_replicas for cluster in clusters])
        return part / self._whole if part and self._whole else 1.0

    def calibration_for(self, spec: ScalingMetric) -> float:
        """Returns the calibration of the clusters whose pods count for a metric."""
        return self.calibration_of(self.observed(spec))

    def known_replicas(self, cluster: ClusterSnapshot) -> int:
        """Returns the cluster's known share; 0 if it is unknown."""
        return self.shares[cluster.name] or 0

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
        if id(spec) in self._failures:
            return self._failures[id(spec)][1]
        key = "" if spec.metric_type.api == USAGE_API else spec.query_key
        failed: list[tuple[str, str]] = []
        self._failures[id(spec)] = spec, failed
        for cluster in self.answered:
            answer = cluster.snapshot.metrics.get(key) if key else cluster.snapshot.usage
            if type(answer) is Failure:
                failed.append((cluster.name, answer.error))
        return failed

    def served_by_hub(self, spec: ScalingMetric) -> bool:
        """True if the hub serves the metric and no cluster does."""
        return bool(self.hub_samples(spec)) and not any(cluster.samples(spec) for cluster in self.answered)

    def hub_samples(self, spec: ScalingMetric) -> Sequence[Any]:
        """Returns the samples of a metric that the hub serves."""
        return _values(self.snapshot.hub_metrics, spec)

    def _note_missing(self, cluster: ClusterSnapshot) -> None:
        reason, event = _unavailability(cluster)
        if self.is_overdue(cluster):
            self.lost[cluster.name] = reason
            return
        self.missing[cluster.name] = reason
        if event:
            self.selector_errors.append((event, reason))
        self.expected.append(cluster)

    def _current(self, snapshot: Snapshot) -> int:
        if isinstance(snapshot.target, TemplateScale):
            return snapshot.target.replicas
        if isinstance(snapshot.target, Failure):
            return 0
        if snapshot.hpa.spec.assignment.policy.copies:
            # Every cluster has the whole size, as with a template. A cluster that somebody scaled by hand
            # never becomes the size.
            if snapshot.decided_size is not None:
                return snapshot.decided_size
            self.size_was_decided = False
            lows = {name: preference.low or 0 for name, preference in self.preferences.items()}
            present = {cluster.name: cluster.scale.spec_replicas for cluster in self.answered}
            return size_of_each(present, lows)
        decided = self._size_before_moves(snapshot)
        self.moving = decided is not None
        return self.running if decided is None else decided

    @property
    def unknown_shares(self) -> list[str]:
        """The expected clusters whose replicas the size lacks, because nobody knows them."""
        is_sum = self.direct and self.scheduling != DUPLICATED and not self.moving
        return [one.name for one in self.expected if is_sum and self.shares[one.name] is None]

    @property
    def running(self) -> int:
        """The known replicas of all expected clusters, the surge of a move included."""
        return sum([self.shares[cluster.name] or 0 for cluster in self.expected])

    def _size_before_moves(self, snapshot: Snapshot) -> int | None:
        """Returns the size of the last decision while replicas move: what runs then includes their surge."""
        if not self.moves:
            return None
        known = snapshot.memory.rebalance
        moves = known is not None and not known.ended
        # A move that has just ended may have left its surge.
        special = [one for one in snapshot.memory.clusters.values() if one.standing is not NEW_MEMBER]
        moves = moves or any(one.has_moved for one in special)
        if not (self.leaving or self.stuck or moves):
            return None
        # Without its memory, the status has the size. A memory without a size is that of another target.
        shown = None if snapshot.memory.clusters else snapshot.hpa.status.desired_replicas
        return snapshot.memory.size or shown or None

    def _scheduling(self, snapshot: Snapshot, shares: Sequence[int | None]) -> str:
        if snapshot.target is None:
            return DUPLICATED if snapshot.hpa.spec.assignment.policy.copies else DIVIDED
        if isinstance(snapshot.target, TemplateScale) and snapshot.target.scheduling:
            return snapshot.target.scheduling
        alike = all(share == self.current for share in shares)
        return DUPLICATED if len(shares) > 1 and alike else DIVIDED

    def _known_sum(self, shares: Sequence[int | None]) -> int:
        """Returns the known shares of all candidates; an unknown one has what is lacking to the template."""
        known = sum([share for share in shares if share is not None])
        return max(known, self.current) if None in shares and not self.direct else known


def _values(answers: Answers, spec: ScalingMetric) -> Sequence[Any]:
    """Returns the values of a metric; () if nothing or a failure was answered."""
    found = answers.get(spec.query_key, ()) if answers else ()
    return () if isinstance(found, Failure) else found


def _unavailability(cluster: ClusterSnapshot) -> tuple[str, str]:
    """Returns why a cluster did not answer, and the event reason of a bad selector."""
    if not cluster.ready:
        return cluster.error or "not ready", ""
    if cluster.error is not None:
        return cluster.error, ""
    if isinstance(cluster.scale, Failure):
        return cluster.scale.error, ""
    if not cluster.scale.selector:
        return "selector is required", "SelectorRequired"
    return f"{BAD_SELECTOR}{cluster.selector_error}", "InvalidSelector"
