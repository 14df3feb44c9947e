"""The state of one decision while it is made: its clusters, which of them count, and what is missing.

Missing data never becomes a number, and an empty answer neither: `partialMetrics` decides. The replicas of a
lost cluster go to the others (direct propagation; Karmada replaces those of a template). Source:
docs/explanation/how-it-decides.md (partialMetrics), docs/reference/decision-record.md (coverage) and
docs/explanation/how-it-decides.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple

from fedhpa.api.texts import listed
from fedhpa.decision.bridge import bridged
from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.memory import (
    LOST,
    Absence,
    Awaited,
    History,
    follow,
    history_at,
)
from fedhpa.decision.messages import REBALANCED
from fedhpa.decision.model import Coverage, DecisionBuilder, MetricResult, api_time
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.snapshot import Failure, Snapshot
from fedhpa.decision.spec import DISTRIBUTED, FALLBACK, HOLD, PROCEED, ScalingSpec
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.scaling import IGNORED, PodRecord, Recommendation

# For how long an implausible answer is not reported.
PODS_GRACE_SECONDS: Final = 30.0
SAMPLES_GRACE_SECONDS: Final = 60.0
# A pod that has been ready for so long has a sample. Metrics servers need two measurements.
READY_SECONDS: Final = 60.0


def unreadable_hpas(snapshot: Snapshot) -> dict[str, str]:
    """Returns the clusters whose HPA could not be read, with the reason."""
    return {
        cluster.name: cluster.hpa.error
        for cluster in snapshot.clusters
        if isinstance(cluster.hpa, Failure) and cluster.ready and cluster.error is None
    }


class NoDecision(Exception):
    """No decision can be made; the message is the decision's error. Conditions and events are set already."""


class Context:
    """The input of one decision, prepared, and the results so far."""

    def __init__(
        self, snapshot: Snapshot, history: History, now: float, settings: ControllerSettings
    ) -> None:
        self.spec = snapshot.hpa.spec
        self.stored = snapshot.hpa.status
        self.memory = snapshot.memory
        self.history = history_at(history, now)
        self.now = now
        self.hold = snapshot.hold_at(now)
        self.settings = settings
        self.builder = DecisionBuilder(self.stored.conditions, now)
        fleet = FleetView(snapshot, settings, now)
        failed, found = _failed_and_implausible(fleet, now)
        # Misses, also where the last answer stands for them.
        counting = {name: one.reason for name, one in found.items() if one.counts}
        self.missed = fleet.missing.keys() | failed.keys() | counting.keys()
        implausible = frozenset(found)
        if self.missed and snapshot.answers:
            reasons = counting | failed | fleet.missing
            present, snapshot = snapshot, bridged(snapshot, reasons, now, fleet.lost_after)
            if snapshot is not present:
                fleet = FleetView(snapshot, settings, now)
                failed, found = _failed_and_implausible(fleet, now)
        self.snapshot, self.fleet = snapshot, fleet
        fleet.implausible = implausible
        # Clusters that are missing for a moment only: policies apply, and nothing is reported yet.
        self.unreported = frozenset(
            name for name, answer in found.items() if not answer.reported and name not in failed
        )
        if found:
            failed = {name: answer.reason for name, answer in found.items() if answer.counts} | failed
        self.coverage: Coverage = coverage_of(fleet, self.spec, failed)
        self.fleet.metrics_lost = frozenset(self.coverage.lost)
        self.metrics: tuple[MetricResult, ...] = ()
        self.policy_in_force = False
        self.failover: Failover | None = None
        self.rebalance = snapshot.memory.rebalance
        # For the next decision: the clocks of lost clusters, and selected clusters without the workload.
        self.absences: Mapping[str, Absence] = {}
        self.awaited: Mapping[str, Awaited] = {}
        # Clusters that are no Members, with what each waits for.
        self.waits: dict[str, str] = {}
        self.cordoned_grow = False

    @property
    def wakes_on_metrics(self) -> bool:
        """True if a metric has a value while no pod runs."""
        return any(metric.metric_type.scales_from_zero for metric in self.spec.metrics)

    @property
    def knows_rebalance(self) -> bool:
        """True if an annotation or the spec asks for a rebalance, or something of an earlier one is left."""
        assignment = self.spec.assignment
        asked = self.snapshot.hpa.rebalance or self.rebalance or assignment.rebalance or assignment.returns
        return bool(asked) or self.builder.found(REBALANCED) is not None

    def seed(self, current: int) -> None:
        """Make the present size a recommendation: the first one, or one for what a lost cluster brings back.

        Otherwise no window would apply to the replicas of a cluster that returns.
        """
        known = self.history.recommendations
        if known is None:
            self.recommend((Recommendation(self.now, current),))
        elif self.fleet.direct and any(
            self.fleet.views[name].replicas
            for name in [name for name, one in self.memory.clusters.items() if one.state == LOST]
            if name in self.fleet.views
        ):
            self.recommend((*known, Recommendation(self.now, min(current, self.spec.max_replicas))))

    def recommend(self, recommendations: tuple[Recommendation, ...]) -> None:
        """Replace the recommendations in the history."""
        self.history = History(recommendations, self.history.scale_ups, self.history.scale_downs)


def _failed_and_implausible(fleet: FleetView, now: float) -> tuple[dict[str, str], Mapping[str, Implausible]]:
    """Returns why clusters that answered cannot be used: what failed, and what is implausible.

    In mode Distributed each member reads its metrics itself, so nothing of them is read here.
    """
    spec = fleet.snapshot.hpa.spec
    if spec.mode == DISTRIBUTED:
        return unreadable_hpas(fleet.snapshot), {}
    return fleet.metric_failures(spec.metrics), implausible_answers(fleet, spec.metrics, now)


class Implausible(NamedTuple):
    """The reason why an answer is implausible; True once that is old enough to be reported, or to count."""

    reason: str
    reported: bool
    counts: bool = True


def implausible_answers(
    fleet: FleetView, metrics: Sequence[ScalingMetric], now: float
) -> Mapping[str, Implausible]:
    """Returns the clusters whose answer is implausible.

    A scale with replicas needs pods, and after half a minute as many as it has. Pods that have been ready for
    a minute need a sample of each metric: at least one of them. A metric that failed is not judged here.
    """
    found: dict[str, Implausible] = {}
    unsampled = [
        (spec, set(kind.unsampled(fleet, spec)).difference([name for name, _ in fleet.failures(spec)]))
        for spec in metrics
        if (kind := spec.metric_type).per_pod and spec.present
    ]
    # A single cluster is decided as Kubernetes does, which reads no pods for such a metric.
    alone = len(fleet.candidates) == 1 and all(
        not one.metric_type.per_pod and one.average_value is not None for one in metrics
    )
    for cluster in fleet.answered:
        scale = cluster.scale
        if cluster.snapshot.bridge is not None:
            continue  # it was plausible when it came
        if not cluster.pods:
            if scale.spec_replicas > 0 and scale.status_replicas > 0 and not alone:
                reason = f"its scale has {scale.status_replicas} replicas, and no pod is selected"
                found[cluster.name] = Implausible(reason, _is_over(cluster, PODS_GRACE_SECONDS))
            continue
        implausible_for = cluster.snapshot.implausible_for
        if cluster.is_short and implausible_for is not None and not alone:
            reason = (
                f"its scale has {scale.status_replicas} replicas, and {len(cluster.pods)} pods are listed"
            )
            is_over = _is_over(cluster, PODS_GRACE_SECONDS)
            found[cluster.name] = Implausible(reason, is_over, is_over)
        for spec, names in unsampled:
            if cluster.name in names and _long_ready(cluster.pods, now):
                of_container = f" of container {spec.container}" if spec.container else ""
                name = spec.metric_type.display_name(spec)
                reason = f"none of its ready pods has a sample of {name}{of_container}"
                found[cluster.name] = Implausible(reason, _is_over(cluster, SAMPLES_GRACE_SECONDS))
                break
    return found


def _is_over(cluster: ClusterView, grace: float) -> bool:
    implausible_for = cluster.snapshot.implausible_for
    return implausible_for is None or implausible_for >= grace


def _long_ready(pods: Sequence[PodRecord], now: float) -> bool:
    return any(
        pod.ready == "True" and pod.state != IGNORED and now - pod.ready_since > READY_SECONDS for pod in pods
    )


# People read the condition. With a thousand clusters it would be larger than the object.
_MAX_CLUSTERS: Final = 16
_MAX_REASON: Final = 160


def coverage_of(fleet: FleetView, spec: ScalingSpec, failed: Mapping[str, str]) -> Coverage:
    """Returns which clusters were expected, answered, missing and lost.

    `failed` maps the clusters that answered but whose metrics failed to the reason.
    """
    reasons = {**fleet.missing, **failed}
    metrics_lost = _metrics_lost(fleet, failed)
    expected = tuple([cluster.name for cluster in fleet.expected if cluster.name not in metrics_lost])
    missing = {name: reasons[name] for name in expected if name in reasons}
    return Coverage(
        expected=expected,
        answered=tuple([cluster.name for cluster in fleet.answered if cluster.name not in metrics_lost]),
        missing=missing,
        policy=spec.partial_policy,
        applied=bool(missing),
        lost={**fleet.lost, **metrics_lost},
        bridged={one.name: one.bridge.age for one in fleet.expected if one.bridge is not None},
    )


def _metrics_lost(fleet: FleetView, failed: Mapping[str, str]) -> dict[str, str]:
    """Returns the clusters that answer, but whose metrics have failed for lostAfterSeconds.

    Their replicas still count, and the pods of other clusters stand for theirs. If the metrics of all
    clusters are lost, all of them stay expected.
    """
    if not failed:
        return {}
    found = {
        cluster.name: failed[cluster.name]
        for cluster in fleet.expected
        if cluster.name in failed and fleet.is_overdue(cluster)
    }
    return {} if len(found) == len(fleet.expected) else found


def apply_policy(
    builder: DecisionBuilder, spec: ScalingSpec, coverage: Coverage, current: int, desired: int
) -> int:
    """Returns the size after the partialMetrics policy; adds the step."""
    policy = policy_of(spec, coverage)
    if not policy:
        return builder.step("coverage", desired, desired, "all expected clusters answered")
    missing = describe(coverage.missing)
    if policy == PROCEED:
        return builder.step("coverage", desired, desired, f"Proceed without {missing}")
    if policy == FALLBACK and spec.fallback_replicas is not None:
        return builder.step("coverage", desired, spec.fallback_replicas, f"Fallback while missing {missing}")
    after = current if policy == HOLD else max(desired, current)
    verb = "held by" if after != desired else "allowed by"
    return builder.step("coverage", desired, after, f"{verb} {spec.partial_policy} while missing {missing}")


def policy_of(spec: ScalingSpec, coverage: Coverage) -> str:
    """Returns the partialMetrics policy that applies; "" while no cluster is missing.

    Fallback without fallbackReplicas keeps the present size, as Hold does.
    """
    if not coverage.missing:
        return ""
    lacks = spec.partial_policy == FALLBACK and spec.fallback_replicas is None
    return HOLD if lacks else spec.partial_policy


def absence_clocks(
    fleet: FleetView, snapshot: Snapshot, coverage: Coverage, now: float, unreported: Set[str] = frozenset()
) -> Mapping[str, Absence]:
    """Returns the clocks of lost clusters after this decision. Without any cluster they stay as stored.

    `unreported` are clusters that are missing for a moment only: their clocks neither start nor end. Nor do
    those of bridged clusters; after the bridge the clock counts from the first miss.
    """
    if not snapshot.clusters:
        return snapshot.memory.absences
    usable = set(coverage.answered) - set(coverage.missing)
    found: dict[str, Absence] = {}
    for cluster in snapshot.clusters:
        name, absence, answers = cluster.name, cluster.absence, cluster.name in usable
        if absence is None and answers:
            continue  # no clock runs, and none starts
        if name not in unreported and name not in coverage.bridged:
            absence = follow(absence, answers, now, fleet.lost_after, missed_since=cluster.missing_since)
        if absence is not None:
            found[name] = absence
    return found


def no_cluster(coverage: Coverage) -> str:
    """Returns the error of a decision for which no cluster gave its scale, with the reason of each."""
    reasons = {**coverage.missing, **coverage.lost}
    # Karmada's words: Kubernetes has only one cluster. Instead of its guess at the cause, the reasons follow.
    text = describe(reasons) if reasons else "no cluster was asked"
    return f"failed to get replicas in any of clusters: {text}"


def describe(
    missing: Mapping[str, str],
    absences: Mapping[str, Absence] | None = None,
    most: int = _MAX_CLUSTERS,
) -> str:
    """Returns one line with each missing cluster, its reason and, if known, the time of the loss.

    Names at most `most` clusters, then the number of the others.
    """
    since = {name: f", since {api_time(absence.since)}" for name, absence in (absences or {}).items()}
    described = [
        f"{cluster}: {reason[:_MAX_REASON]}{since.get(cluster, '')}"
        for cluster, reason in list(missing.items())[:most]
    ]
    more = [f"and {len(missing) - most} more clusters"] if len(missing) > most else []
    return "; ".join([*described, *more])


# As --unhealthy-zone-threshold of Kubernetes: above it, the hub may be the one that is cut off.
MAX_LOST_PER_CENT: Final = 55


class Failover(NamedTuple):
    """The lost clusters' `shares`, and the `floor` of the size that they give: 0 if it is `prevented`."""

    shares: Mapping[str, int]
    floor: int
    prevented: bool
    reason: str
    is_new: bool


def failover_of(snapshot: Snapshot, fleet: FleetView, current: int) -> Failover | None:
    """Returns the failover of lost clusters; None if no lost cluster has replicas that others could run."""
    if not fleet.direct or not fleet.lost or snapshot.hpa.spec.assignment.policy.copies:
        return None
    known = {cluster.name: fleet.known_replicas(cluster) for cluster in snapshot.clusters}
    # A cluster that was lost before is so again at once. Its replicas wait, or each flap would move them.
    gone = {
        cluster.name
        for cluster in snapshot.clusters
        if cluster.gone is not None
        or (cluster.absence is not None and cluster.absence.unbroken(fleet.now) >= fleet.lost_after)
    }
    shares = {name: known[name] for name in fleet.lost if known[name] > 0 and name in gone}
    if not shares:
        return None
    lost = sum(shares.values())
    states = snapshot.memory.states
    is_new = any(states.get(name) != LOST for name in shares)
    held = next((one.gone for one in snapshot.clusters if one.name in shares and one.gone), "")
    reason = held or too_many_lost(shares, known)
    if reason:
        # The loss of a whole source is reported with the clusters, also where no other one answers.
        return Failover(shares, 0, True, reason, is_new and not held)
    floor = min(snapshot.hpa.status.desired_replicas or 0, current + lost)
    noun = "cluster" if len(shares) == 1 else "clusters"
    return Failover(shares, floor, False, f"lost {noun} {_named(shares)} had {lost} replicas", is_new)


def too_many_lost(lost: Mapping[str, int], known: Mapping[str, int]) -> str:
    """Returns why the shares of `lost` clusters are not failed over; "" if they are.

    `known` are the replicas of all clusters.
    """
    part, whole = sum(lost.values()), sum(known.values())
    if part * 100 <= MAX_LOST_PER_CENT * whole:
        return ""
    return (
        f"lost clusters have {part} of {whole} replicas, more than {MAX_LOST_PER_CENT} %: "
        f"nothing is failed over ({_named(lost, with_shares=True)})"
    )


def _named(shares: Mapping[str, int], *, with_shares: bool = False) -> str:
    named = [f"{name} {share}" if with_shares else name for name, share in shares.items()]
    return listed(named)
