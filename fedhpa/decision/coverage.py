"""What absent clusters mean for a decision: coverage, the partialMetrics policy, MetricsComplete.

Source: docs/reference/federatedhpa.md (partialMetrics) and 5 (coverage). Missing data never becomes a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.decision.absence import Absence, follow
from fedhpa.decision.builder import WARNING, DecisionBuilder, api_time
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.messages import METRICS_COMPLETE
from fedhpa.decision.model import Coverage, Event
from fedhpa.decision.snapshot import Snapshot
from fedhpa.decision.spec.federatedhpa import ANSWERED, FALLBACK, HOLD, LOST_STATES, PROCEED, ScalingSpec

# A condition is read by people, and with a thousand clusters it would be larger than the object.
_MAX_TOLD: Final = 16
_MAX_REASON: Final = 160


def coverage_of(world: FleetView, spec: ScalingSpec, failed: Mapping[str, str]) -> Coverage:
    """Who was expected, who answered, and what is missing; `failed` has the clusters whose metrics failed."""
    reasons = {**world.missing, **failed}
    silent = _given_up(world, failed)
    expected = tuple(cluster.name for cluster in world.expected if cluster.name not in silent)
    missing = {name: reasons[name] for name in expected if name in reasons}
    return Coverage(
        expected=expected,
        answered=tuple(member.name for member in world.members if member.name not in silent),
        missing=missing,
        policy=spec.partial_policy,
        applied=bool(missing),
        lost={**world.lost, **silent},
    )


def _given_up(world: FleetView, failed: Mapping[str, str]) -> dict[str, str]:
    """The clusters that answer, but whose metrics have failed for so long that they block nothing any more.

    Their replicas still count, and the other clusters' pods speak for theirs. Where nobody has metrics,
    nobody is given up.
    """
    silent = {
        cluster.name: failed[cluster.name]
        for cluster in world.expected
        if cluster.name in failed and world.is_overdue(cluster)
    }
    return {} if len(silent) == len(world.expected) else silent


def apply_policy(
    draft: DecisionBuilder, spec: ScalingSpec, coverage: Coverage, current: int, desired: int
) -> int:
    """The size after the policy; adds the step."""
    if not coverage.missing:
        return draft.step("coverage", desired, desired, "all expected clusters answered")
    after = desired
    if spec.partial_policy == PROCEED:
        return draft.step("coverage", desired, desired, f"Proceed without {describe(coverage.missing)}")
    if spec.partial_policy == FALLBACK and spec.fallback_replicas is not None:
        after = spec.fallback_replicas
        return draft.step("coverage", desired, after, f"Fallback while missing {describe(coverage.missing)}")
    # Fallback without a number has nothing to fall back to but the present size.
    after = current if spec.partial_policy in (HOLD, FALLBACK) else max(desired, current)
    verb = "held by" if after != desired else "allowed by"
    return draft.step(
        "coverage", desired, after, f"{verb} {spec.partial_policy} while missing {describe(coverage.missing)}"
    )


def holds(spec: ScalingSpec, coverage: Coverage) -> bool:
    """Whether the policy leaves no room for any change."""
    without_number = spec.partial_policy == FALLBACK and spec.fallback_replicas is None
    return bool(coverage.missing) and (spec.partial_policy == HOLD or without_number)


def falls_back(spec: ScalingSpec, coverage: Coverage) -> bool:
    """Whether the policy has a size of its own, metrics or not."""
    return bool(coverage.missing) and spec.partial_policy == FALLBACK and spec.fallback_replicas is not None


def clocks(world: FleetView, snapshot: Snapshot, coverage: Coverage, now: float) -> Mapping[str, Absence]:
    """The clocks of the clusters' losses as they go on; a look that saw no cluster changes none."""
    if not snapshot.clusters:
        return snapshot.hpa.status.absences
    usable = set(coverage.answered) - set(coverage.missing)
    found = {
        cluster.name: follow(cluster.absence, cluster.name in usable, now, world.lost_after)
        for cluster in snapshot.clusters
    }
    return {name: absence for name, absence in found.items() if absence is not None}


def report(
    draft: DecisionBuilder,
    world: FleetView,
    coverage: Coverage,
    states: Mapping[str, str],
    absences: Mapping[str, Absence],
) -> None:
    """Sets MetricsComplete, and tells once of a cluster that is missing, once that it is no longer expected.

    `states` are the clusters' states in the stored status: what is told already.
    """
    if coverage.missing:
        draft.condition(METRICS_COMPLETE, False, "ClustersMissing", describe(coverage.missing, absences))
    elif coverage.lost and not coverage.expected:
        draft.condition(METRICS_COMPLETE, False, "ClustersLost", describe(coverage.lost, absences))
    else:
        count = len(coverage.expected)
        noun = "cluster" if count == 1 else "clusters"
        draft.condition(METRICS_COMPLETE, True, "AllClustersAnswered", f"{count} expected {noun} answered")
    told = [
        Event(
            WARNING, "ClusterMissing", f"cluster {cluster.name} is missing: {coverage.missing[cluster.name]}"
        )
        for cluster in world.expected
        if cluster.name in coverage.missing
        and states.get(cluster.name, ANSWERED) == ANSWERED
        # What is wrong with an only cluster that answers has its own events, Kubernetes'.
        and (len(coverage.expected) > 1 or not cluster.ready or cluster.error is not None)
    ]
    for name, reason in coverage.lost.items():
        if states.get(name) not in LOST_STATES:
            began = absences.get(name)
            ago = "" if began is None else f" {draft.now - began.since:.0f} s ago"
            text = f"cluster {name} went missing{ago} and is no longer expected: {reason}"
            told.append(Event(WARNING, "ClusterLost", text))
    draft.events[:0] = told  # the cause before what follows from it


def describe(missing: Mapping[str, str], absences: Mapping[str, Absence] | None = None) -> str:
    """Each missing cluster with its reason, and since when where that is given, on one line; of very many the
    first, and how many more.
    """
    since = {name: f", since {api_time(absence.since)}" for name, absence in (absences or {}).items()}
    told = [
        f"{cluster}: {reason[:_MAX_REASON]}{since.get(cluster, '')}"
        for cluster, reason in list(missing.items())[:_MAX_TOLD]
    ]
    more = [f"and {len(missing) - _MAX_TOLD} more clusters"] if len(missing) > _MAX_TOLD else []
    return "; ".join([*told, *more])
