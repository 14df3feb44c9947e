"""The room that the other clusters would have for the replicas of one cluster, if that cluster were lost.

Both modes use it. Source: docs/explanation/placement.md, "If a cluster is lost".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHeadroom:
    """One cluster: its `replicas`, the part of them that is `running`, and its room for more.

    `sure` is the room that is known. `most` is the room if unknown nodes take everything that its limits
    allow, None without a limit. `known` is True if the capacity of its nodes is known.
    """

    cluster: str
    replicas: int
    running: int
    sure: int
    most: int | None
    known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstLoss:
    """The loss of the one cluster that leaves most replicas without room.

    Without `cluster`, at least `lacking` of all `total` replicas have no room, and at most `at_most`: the two
    differ if the capacity of other clusters is unknown.
    """

    cluster: str
    total: int
    lacking: int
    at_most: int

    @property
    def survives(self) -> bool | None:
        """True if all replicas have room, None if that is unknown."""
        return None if self.lacking == 0 < self.at_most else self.lacking == 0


def cluster_headroom(
    cluster: str, *, replicas: int, pending: int = 0, available: int | None = None, high: int | None = None
) -> ClusterHeadroom:
    """Returns the headroom of one cluster with `replicas` replicas.

    `pending` of them wait for a node, and while some do, its nodes are full. `available` is how many more fit
    on its nodes, None if unknown. `high` is the limit of its replicas, None without one.
    """
    most = None if high is None else max(high - replicas, 0)
    if pending:
        sure, most = 0, 0
    elif available is None:
        sure = 0
    else:
        sure = most = max(available if most is None else min(available, most), 0)
    return ClusterHeadroom(
        cluster=cluster,
        replicas=replicas,
        running=max(replicas - pending, 0),
        sure=sure,
        most=most,
        known=available is not None,
    )


def worst_loss(clusters: Iterable[ClusterHeadroom], maximum: int) -> WorstLoss | None:
    """Returns the worst loss of one cluster; None if no replica runs.

    Replicas above `maximum`, that of the FederatedHPA, need no room elsewhere.
    """
    found = list(clusters)
    total = sum(one.replicas for one in found)
    if total <= 0:
        return None
    needed = min(total, maximum)
    running = sum(one.running for one in found)
    sure = sum(one.sure for one in found)
    most = sum(one.most for one in found if one.most is not None)
    unlimited = sum(one.most is None for one in found)
    losses = []
    for one in found:
        lacking = needed - (running - one.running)
        at_most = max(lacking - (sure - one.sure), 0)
        takes_all = unlimited > (one.most is None)
        least = 0 if takes_all else max(lacking - (most - (one.most or 0)), 0)
        losses.append((-least, -at_most, -one.replicas, one.cluster))
    least, at_most, _, cluster = min(losses)
    return WorstLoss(cluster=cluster, total=total, lacking=-least, at_most=-at_most)
