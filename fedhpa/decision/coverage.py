"""What absent clusters mean for a decision: coverage, the partialMetrics policy, MetricsComplete.

Source: docs/contracts.md section 3 (partialMetrics) and 5 (coverage). Missing data never becomes a number.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedhpa.decision.draft import WARNING, Draft
from fedhpa.decision.model import Coverage, Event
from fedhpa.decision.spec import ANSWERED, FALLBACK, HOLD, LOST, PROCEED, ScalingSpec
from fedhpa.decision.wording import METRICS_COMPLETE
from fedhpa.decision.world import World


def coverage_of(world: World, spec: ScalingSpec, failed: Mapping[str, str]) -> Coverage:
    """Who was expected, who answered, and what is missing; `failed` has the clusters whose metrics failed."""
    reasons = {**world.missing, **failed}
    missing = {cluster.name: reasons[cluster.name] for cluster in world.expected if cluster.name in reasons}
    return Coverage(
        expected=tuple(cluster.name for cluster in world.expected),
        answered=tuple(member.name for member in world.members),
        missing=missing,
        policy=spec.partial_policy,
        applied=bool(missing),
        lost=tuple(cluster.name for cluster in world.lost),
    )


def apply_policy(draft: Draft, spec: ScalingSpec, coverage: Coverage, current: int, desired: int) -> int:
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


def report(draft: Draft, world: World, coverage: Coverage, states: Mapping[str, str]) -> None:
    """Sets MetricsComplete, and tells once of a cluster that is missing, once that it is no longer expected.

    `states` are the clusters' states in the stored status: what is told already.
    """
    if coverage.missing:
        draft.condition(METRICS_COMPLETE, False, "ClustersMissing", describe(coverage.missing))
    else:
        count = len(coverage.expected)
        noun = "cluster" if count == 1 else "clusters"
        draft.condition(METRICS_COMPLETE, True, "AllClustersAnswered", f"{count} expected {noun} answered")
    # The cause before what follows from it.
    draft.events[:0] = [
        Event(
            WARNING, "ClusterMissing", f"cluster {cluster.name} is missing: {coverage.missing[cluster.name]}"
        )
        for cluster in world.expected
        if cluster.name in coverage.missing
        and states.get(cluster.name, ANSWERED) == ANSWERED
        # What is wrong with an only cluster that answers has its own events, Kubernetes'.
        and (len(coverage.expected) > 1 or not cluster.ready or cluster.error is not None)
    ]
    for cluster in world.lost:
        if states.get(cluster.name) != LOST:
            away = f"cluster {cluster.name} has not answered for {cluster.lost_for or 0:.0f} s"
            draft.warn("ClusterLost", f"{away} and is no longer expected")


def describe(missing: Mapping[str, str]) -> str:
    """Each missing cluster with its reason, on one line."""
    return "; ".join(f"{cluster}: {reason}" for cluster, reason in missing.items())
