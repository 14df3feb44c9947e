"""The effect of missing clusters on a decision: the coverage, the partialMetrics policy, MetricsComplete.

Source: docs/reference/federatedhpa.md (partialMetrics), docs/reference/decision-record.md (coverage). Missing
data never becomes a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

from fedhpa.decision.absence import ANSWERED, LOST_STATES, METRICS_MISSING, Absence, follow
from fedhpa.decision.builder import WARNING, DecisionBuilder, api_time
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.messages import METRICS_COMPLETE, NO_CLUSTER
from fedhpa.decision.model import Coverage, Event
from fedhpa.decision.snapshot import ClusterSnapshot, Snapshot
from fedhpa.decision.spec.federatedhpa import FALLBACK, HOLD, PROCEED, ScalingSpec

# People read the condition. With a thousand clusters it would be larger than the object.
_MAX_CLUSTERS: Final = 16
_MAX_REASON: Final = 160


def coverage_of(fleet: FleetView, spec: ScalingSpec, failed: Mapping[str, str]) -> Coverage:
    """Returns which clusters were expected, answered, missing and lost.

    `failed` maps the clusters that answered but whose metrics failed to the reason.
    """
    reasons = {**fleet.missing, **failed}
    metrics_lost = _metrics_lost(fleet, failed)
    expected = tuple(cluster.name for cluster in fleet.expected if cluster.name not in metrics_lost)
    missing = {name: reasons[name] for name in expected if name in reasons}
    return Coverage(
        expected=expected,
        answered=tuple(cluster.name for cluster in fleet.answered if cluster.name not in metrics_lost),
        missing=missing,
        policy=spec.partial_policy,
        applied=bool(missing),
        lost={**fleet.lost, **metrics_lost},
    )


def _metrics_lost(fleet: FleetView, failed: Mapping[str, str]) -> dict[str, str]:
    """Returns the clusters that answer, but whose metrics have failed for lostAfterSeconds.

    Their replicas still count, and the pods of other clusters stand for theirs. If the metrics of all
    clusters are lost, no cluster is given up.
    """
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
    if not coverage.missing:
        return builder.step("coverage", desired, desired, "all expected clusters answered")
    missing = describe(coverage.missing)
    if spec.partial_policy == PROCEED:
        return builder.step("coverage", desired, desired, f"Proceed without {missing}")
    if spec.partial_policy == FALLBACK and spec.fallback_replicas is not None:
        return builder.step("coverage", desired, spec.fallback_replicas, f"Fallback while missing {missing}")
    # Fallback without fallbackReplicas keeps the present size.
    after = current if spec.partial_policy in (HOLD, FALLBACK) else max(desired, current)
    verb = "held by" if after != desired else "allowed by"
    return builder.step("coverage", desired, after, f"{verb} {spec.partial_policy} while missing {missing}")


def holds(spec: ScalingSpec, coverage: Coverage) -> bool:
    """True if the policy allows no change of the size."""
    without_number = spec.partial_policy == FALLBACK and spec.fallback_replicas is None
    return bool(coverage.missing) and (spec.partial_policy == HOLD or without_number)


def falls_back(spec: ScalingSpec, coverage: Coverage) -> bool:
    """True if the policy sets a size of its own, whatever the metrics say."""
    return bool(coverage.missing) and spec.partial_policy == FALLBACK and spec.fallback_replicas is not None


def absence_clocks(
    fleet: FleetView, snapshot: Snapshot, coverage: Coverage, now: float, unreported: Set[str] = frozenset()
) -> Mapping[str, Absence]:
    """Returns the clocks of lost clusters after this decision. Without any cluster they stay as stored.

    `unreported` are clusters that are missing for a moment only: their clocks neither start nor end.
    """
    if not snapshot.clusters:
        return snapshot.memory.absences
    usable = set(coverage.answered) - set(coverage.missing)
    found = {
        cluster.name: cluster.absence
        if cluster.name in unreported
        else follow(cluster.absence, cluster.name in usable, now, fleet.lost_after)
        for cluster in snapshot.clusters
    }
    return {name: absence for name, absence in found.items() if absence is not None}


def report(
    builder: DecisionBuilder,
    fleet: FleetView,
    coverage: Coverage,
    states: Mapping[str, str],
    absences: Mapping[str, Absence],
    unreported: Set[str] = frozenset(),
) -> None:
    """Set MetricsComplete, and add one event when a cluster goes missing and one when it is lost.

    `states` are the clusters' states in the stored status: they show which events were sent before.
    `unreported` are clusters that are missing for a moment only.
    """
    missing = coverage.missing
    if unreported:
        missing = {name: reason for name, reason in missing.items() if name not in unreported}
    if missing:
        builder.condition(METRICS_COMPLETE, False, "ClustersMissing", describe(missing, absences))
    elif unreported and builder.message(METRICS_COMPLETE) is not None:
        pass  # a moment changes no condition
    elif coverage.lost and not coverage.expected:
        builder.condition(METRICS_COMPLETE, False, "ClustersLost", describe(coverage.lost, absences))
    elif not coverage.expected:
        builder.condition(METRICS_COMPLETE, False, "NoClusters", "no cluster was found that has the workload")
    else:
        count = len(coverage.expected)
        noun = "cluster" if count == 1 else "clusters"
        builder.condition(METRICS_COMPLETE, True, "AllClustersAnswered", f"{count} expected {noun} answered")
    events = [
        Event(
            WARNING, "ClusterMissing", f"cluster {cluster.name} is missing: {coverage.missing[cluster.name]}"
        )
        for cluster in fleet.expected
        if cluster.name in missing
        and _is_new(cluster, states.get(cluster.name, ANSWERED), fleet.implausible)
        # If the only cluster answers, Kubernetes' own events name the problem.
        and (len(coverage.expected) > 1 or not cluster.ready or cluster.error is not None)
    ]
    for name, reason in coverage.lost.items():
        if states.get(name) not in LOST_STATES:
            absence = absences.get(name)
            ago = "" if absence is None else f" {builder.now - absence.since:.0f} s ago"
            text = f"cluster {name} went missing{ago} and is no longer expected: {reason}"
            events.append(Event(WARNING, "ClusterLost", text))
    builder.events[:0] = events  # the cause comes before its effects


def _is_new(cluster: ClusterSnapshot, state: str, implausible: Set[str]) -> bool:
    """True without an event about a missing cluster. An implausible one is missing before its clock runs."""
    waited = state == METRICS_MISSING and cluster.name in implausible
    return state == ANSWERED or (waited and (cluster.absence is None or cluster.absence.back is not None))


def no_cluster(coverage: Coverage) -> str:
    """Returns the error of a decision for which no cluster gave its scale, with the reason of each."""
    reasons = {**coverage.missing, **coverage.lost}
    return f"{NO_CLUSTER}: {describe(reasons)}" if reasons else f"{NO_CLUSTER}: no cluster was asked"


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
