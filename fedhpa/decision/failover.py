"""The replicas of lost clusters go to the others (direct propagation). Karmada replaces those of a template.

Failover is a level, not an edge: while the status has replicas for a lost cluster, the size is at least what
ran with them. The status has 0 once the others' writes succeeded. Source: docs/explanation/how-it-decides.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fedhpa.assignment import DUPLICATED
from fedhpa.decision.absence import LOST
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.snapshot import Snapshot

# As --unhealthy-zone-threshold of Kubernetes: above it, the hub may be the one that is cut off.
MAX_LOST_PER_CENT: Final = 55
# People read events, so they name only so many clusters.
_MAX_NAMED: Final = 8


class Failover(NamedTuple):
    """The lost clusters' `shares`, and the `floor` of the size that they give: 0 if it is `held`."""

    shares: Mapping[str, int]
    floor: int
    held: bool
    reason: str
    is_new: bool


def failover_of(snapshot: Snapshot, fleet: FleetView, current: int) -> Failover | None:
    """Returns the failover of lost clusters; None if no lost cluster has replicas that others could run."""
    if not fleet.direct or not fleet.lost or snapshot.hpa.spec.assignment.policy == DUPLICATED:
        return None
    known = {cluster.name: fleet.known_replicas(cluster) for cluster in snapshot.clusters}
    shares = {name: known[name] for name in fleet.lost if known[name] > 0}
    if not shares:
        return None
    lost = sum(shares.values())
    states = snapshot.memory.states
    is_new = any(states.get(name) != LOST for name in shares)
    reason = too_many_lost(shares, known)
    if reason:
        return Failover(shares, 0, True, reason, is_new)
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
    named = [f"{name} {share}" if with_shares else name for name, share in list(shares.items())[:_MAX_NAMED]]
    more = f" and {len(shares) - _MAX_NAMED} more" if len(shares) > _MAX_NAMED else ""
    return ", ".join(named) + more
