"""The sources of members: each gives records of clusters, and the access to them, by one method each.

A source is the only code that knows what kind of object registers a cluster, and where its credentials are.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedhpa.api.member_sources import ARGOCD, CLUSTER_PROFILES, CLUSTERS, MemberSources
from fedhpa.kube import ApiClient, Clock
from fedhpa.members.sources.clusters import ClusterSource
from fedhpa.members.sources.notes import MemberNotes
from fedhpa.members.sources.source import Changes, Source


def sources_of(
    chosen: MemberSources, hub: ApiClient, changed: Changes, *, deadline: float, clock: Clock
) -> tuple[Sequence[Source], MemberNotes]:
    """Returns the sources in the order of the flag, and what the hub notes about their members.

    `changed` is called with each member whose record or access may have changed. Raises ConfigError for an
    unusable provider file.
    """
    chosen.check()
    now = clock.monotonic
    notes = MemberNotes(hub, chosen, changed, clock=now)
    found: list[Source] = []
    for name in chosen.names:
        if name == CLUSTERS:
            metrics = chosen.reads_metrics
            found.append(ClusterSource(hub, changed, reads_metrics=metrics, deadline=deadline, clock=now))
        elif name == CLUSTER_PROFILES:
            # Imported only where there are any: most hubs have Clusters alone.
            from fedhpa.members.sources.profiles import ProfileSource

            found.append(ProfileSource(hub, chosen, notes, changed, clock=clock))
        elif name == ARGOCD:
            from fedhpa.members.sources.argocd import ArgoSource

            found.append(ArgoSource(hub, chosen, notes, changed, deadline=deadline, clock=clock))
    return found, notes
