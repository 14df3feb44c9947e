"""Short misses: a cluster whose answer was missed for less than a minute is represented by its last one.

With many clusters, one of them misses an answer nearly always. If each miss counted, the size would hardly
ever fall. Source: docs/explanation/how-it-decides.md, "A short miss".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.decision.snapshot import Bridge, ClusterScale, ClusterSnapshot, Snapshot

BRIDGE_SECONDS: Final = 60.0


def bridged(snapshot: Snapshot, missed: Mapping[str, str], now: float, lost_after: float) -> Snapshot:
    """Returns the snapshot in which last answers stand for short misses; the same one if there are none.

    `missed` are the expected clusters without a usable answer, with the reason. If no other cluster has
    answered, nothing is known about the present, and nothing stands for it.
    """
    most = min(BRIDGE_SECONDS, lost_after)
    short = {
        one.name
        for one in snapshot.clusters
        if one.name in missed and one.name in snapshot.answers and missed_for(one, now) < most
    }
    others = (one for one in snapshot.clusters if one.name not in missed)
    if not short or all(one.usable_scale is None for one in others):
        return snapshot
    clusters = tuple(
        _represented(one, missed[one.name], snapshot, now) if one.name in short else one
        for one in snapshot.clusters
    )
    return msgspec.structs.replace(snapshot, clusters=clusters)


def missed_for(cluster: ClusterSnapshot, now: float) -> float:
    """Returns for how many seconds the cluster has been missed. A running clock began earlier."""
    clock = cluster.absence
    known = (cluster.missing_since, clock.since if clock is not None and clock.back is None else None)
    return max((now - since for since in known if since is not None), default=0.0)


def _represented(cluster: ClusterSnapshot, reason: str, snapshot: Snapshot, now: float) -> ClusterSnapshot:
    """Returns the cluster with the lists of its last answer.

    Its scale is the present one if that answered. Else it is the last known share, and it cannot be changed.
    """
    answer, answered_at = snapshot.answers[cluster.name]
    scale, held = cluster.scale, cluster.held
    if cluster.usable_scale is None:
        scale, held = answer.scale, True
        if isinstance(scale, ClusterScale) and cluster.last_replicas is not None:
            scale = msgspec.structs.replace(scale, spec_replicas=max(cluster.last_replicas, 0))
    return msgspec.structs.replace(
        cluster,
        ready=True,
        error=None,
        scale=scale,
        selector_error=None,
        pods=answer.pods,
        other_pods=answer.other_pods,
        usage=answer.usage,
        metrics=answer.metrics,
        hpa=answer.hpa,
        drift=(),
        held=held,
        bridge=Bridge(max(now - answered_at, 0.0), reason),
    )
