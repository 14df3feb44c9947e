"""The publication of the clusters that should have the workload, for others that deliver it.

Source: docs/how-to/publish-a-placement.md; docs/explanation/membership.md for Awaited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.api.assignment_policies import PRIORITY
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.taints import AWAITED, MEMBER, is_avoided
from fedhpa.decision.context import Context
from fedhpa.decision.membership import may_begin
from fedhpa.decision.memory import Awaited
from fedhpa.decision.messages import PUBLISHED
from fedhpa.decision.model import ClusterMembership, PublishedCluster, PublishPlacement, shortened
from fedhpa.decision.snapshot import PlacementInput

# The reason in a published placement for a cluster that takes its share.
MEMBER_REASON: Final = "Member"
# A delivery that takes longer is reported with a Warning.
LONG_SECONDS: Final = 600.0
# Nothing can be read of the workload, because no cluster has it yet: it is to be delivered.
_NOT_DELIVERED: Final = "FailedGetScale"
_KARMADA: Final = "karmada"
_MAX_WAITS: Final = 512


def publication_of(
    context: Context, given: PlacementInput
) -> tuple[PublishPlacement | None, dict[str, ClusterMembership]]:
    """Returns what the decision publishes, and the clusters that are Awaited, with what each waits for.

    None leaves what is published as it is. Sets the condition Published, and warns after a long wait.
    """
    members: dict[str, ClusterMembership] = {}
    if not context.spec.publish:
        # A placement that was published is removed, until that is done.
        if given.outcome is None or not given.outcome.removed:
            return PublishPlacement(), members
        context.builder.forget(PUBLISHED)
        return None, members
    text = "spec.placement.publish"
    if context.snapshot.propagation == _KARMADA:
        text += " is ignored with --propagation=karmada: the PropagationPolicy says where the workload runs"
        context.builder.condition(PUBLISHED, False, "NotSupported", text)
        return None, members
    if not context.spec.selects_clusters:
        text += " needs spec.clusterAffinity, which says which clusters are published"
        context.builder.condition(PUBLISHED, False, "NoClusterAffinity", text)
        return None, members
    awaited: dict[str, Awaited] = {}
    begin: list[tuple[KnownCluster, str]] = []
    for one in given.awaited:
        known = context.memory.awaited.get(one.name)
        if one.cluster is not None:
            if not may_begin(one.cluster, context.spec.tolerations, context.now, awaited=known is not None):
                continue
            begin.append((one.cluster, AWAITED))
        awaited[one.name] = _reported(context, one.name, one.why, known)
        text = f"it does not run the workload yet: {one.why}"
        members[one.name] = ClusterMembership(AWAITED, shortened(text, _MAX_WAITS))
    context.awaited = awaited
    clusters = _ranked(context, given, [*_hosts(context), *begin])
    _report(context, given, clusters)
    # An empty placement would make others remove the workload everywhere.
    blocked = context.snapshot.blocked
    is_kept = blocked is not None and blocked.reason != _NOT_DELIVERED
    kept = is_kept or context.spec.dry_run or not clusters
    return None if kept else PublishPlacement(clusters), members


def _reported(context: Context, name: str, why: str, known: Awaited | None) -> Awaited:
    """Returns since when a cluster is awaited, and adds a Warning once that is long."""
    if known is None:
        return Awaited(context.now // 1)
    since = min(known.since, context.now // 1)
    if known.warned or context.now - since < LONG_SECONDS:
        return Awaited(since, known.warned)
    text = f"{name} has been awaited for ten minutes: deliver the workload there, or do not select it"
    context.builder.warn("ClusterAwaited", shortened(f"{text} ({why})", _MAX_WAITS))
    return Awaited(since, warned=True)


def _hosts(context: Context) -> Iterator[tuple[KnownCluster, str]]:
    """Yields the clusters that have the workload, or had it, until they are Out."""
    fleet = context.fleet
    for cluster in context.snapshot.clusters:
        if not fleet.is_out(cluster):
            state = fleet.membership(cluster.name)
            reason = MEMBER_REASON if state == MEMBER else state
            yield cluster.cluster or KnownCluster(cluster.name), reason


def _ranked(
    context: Context, given: PlacementInput, found: list[tuple[KnownCluster, str]]
) -> tuple[PublishedCluster, ...]:
    """Returns the clusters in the order in which the policy fills them, else by name."""
    assignment = context.spec.assignment
    preferences = assignment.preferred(cluster for cluster, _ in found)

    def rank(cluster: KnownCluster) -> tuple[int, bool, str]:
        if assignment.policy.preference != PRIORITY:
            return 0, False, cluster.name
        preference = preferences.get(cluster.name)
        priority = 0 if preference is None else preference.priority or 0
        return -priority, is_avoided(cluster.taints, context.spec.tolerations), cluster.name

    ordered = sorted(found, key=lambda one: rank(one[0]))
    return tuple(
        PublishedCluster(cluster.name, reason, given.profiles.get(cluster.name))
        for cluster, reason in ordered
    )


def _report(context: Context, given: PlacementInput, clusters: tuple[PublishedCluster, ...]) -> None:
    """Set the condition Published, once a first write was tried."""
    builder = context.builder
    if context.spec.dry_run:
        builder.condition(PUBLISHED, False, "DryRun", "spec.dryRun: what was published stays as it is")
        return
    if not clusters:
        builder.condition(PUBLISHED, False, "NoCluster", "no cluster is selected that could be published")
        return
    if given.outcome is None:
        return
    problems = list(given.outcome.problems)
    if problems:
        text = "; ".join(problem.message for problem in problems)
        builder.condition(PUBLISHED, False, problems[0].reason, text)
        return
    noun = "cluster" if len(clusters) == 1 else "clusters"
    builder.condition(PUBLISHED, True, PUBLISHED, f"{len(clusters)} {noun} published")
