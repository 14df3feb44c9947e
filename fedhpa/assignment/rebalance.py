"""One step of a rebalance: replicas that run apart from the fair split come together without a lack of pods.

More replicas are started first, and others are removed only for those that are ready. Source:
docs/explanation/placement.md, "Rebalance".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedhpa.assignment.direct import Places, fair_split
from fedhpa.assignment.policies import Policy
from fedhpa.assignment.state import release_step

Shares = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStep:
    """The `shares` to write; the present ones if nothing is to be written now.

    `goal` is the fair split. `waits_for` is how many new pods are not ready yet. `done` is True at the end.
    """

    shares: Shares
    goal: Shares
    waits_for: int = 0
    done: bool = False


def rebalance_step(
    size: int, places: Places, ready: Shares, maximum: int, policy: Policy = None
) -> RebalanceStep:
    """Returns the next step towards the fair split of `size` replicas; what runs above it is the surge.

    `ready` are the pods of each cluster that are ready. A step either adds or removes replicas. It removes at
    most as many ready ones as there are ready new ones. The sum passes `maximum` only if `size` leaves no
    room below it, and then by at most 10 % of it, at least 1.
    """
    present = {cluster: place.present for cluster, place in places.items()}
    goal = fair_split(size, places, policy)
    over = {cluster: present[cluster] - goal[cluster] for cluster in goal if present[cluster] > goal[cluster]}
    short = {
        cluster: goal[cluster] - present[cluster] for cluster in goal if goal[cluster] > present[cluster]
    }
    surge = sum(present.values()) - size
    if not over and not short:
        return RebalanceStep(shares=present, goal=goal, done=True)
    starting = sum(_unready(present, ready, cluster) for cluster in goal if cluster not in over)
    shares = dict(present)
    left = surge - _remove(shares, _waste(present, ready, over), surge)
    _remove(shares, {cluster: shares[cluster] - goal[cluster] for cluster in over}, left - starting)
    if shares != present:
        return RebalanceStep(shares=shares, goal=goal, waits_for=starting)
    if not starting and short:
        ceiling = max(maximum, size + release_step(maximum)) if size >= maximum else maximum
        _add(shares, short, ceiling - sum(present.values()))
    return RebalanceStep(shares=shares, goal=goal, waits_for=starting)


def ended(size: int, places: Places, ready: Shares, policy: Policy = None) -> dict[str, int]:
    """Returns the shares that end a rebalance early: the surge goes, and first of it what is not ready."""
    shares = {cluster: place.present for cluster, place in places.items()}
    goal = fair_split(size, places, policy)
    reachable = {cluster: shares[cluster] for cluster, place in places.items() if place.reachable}
    surge = sum(shares.values()) - size
    surge -= _remove(shares, _waste(shares, ready, reachable), surge)
    surge -= _remove(
        shares, {cluster: max(shares[cluster] - goal[cluster], 0) for cluster in reachable}, surge
    )
    _remove(shares, {cluster: shares[cluster] for cluster in reachable}, surge)
    return shares


def _unready(present: Shares, ready: Shares, cluster: str) -> int:
    return max(present[cluster] - ready.get(cluster, 0), 0)


def _waste(present: Shares, ready: Shares, excess: Shares) -> dict[str, int]:
    """Returns the part of the excess of each cluster that is not ready: a ReplicaSet removes it first."""
    return {cluster: min(_unready(present, ready, cluster), more) for cluster, more in excess.items()}


def _remove(shares: dict[str, int], most: Shares, count: int) -> int:
    """Removes `count` replicas, the largest part first and at most `most` of each; returns how many."""
    left = max(count, 0)
    for cluster in sorted(most, key=lambda name: (-most[name], name)):
        part = min(most[cluster], left)
        shares[cluster] -= part
        left -= part
    return max(count, 0) - left


def _add(shares: dict[str, int], most: Shares, count: int) -> None:
    left = max(count, 0)
    for cluster in sorted(most, key=lambda name: (-most[name], name)):
        part = min(most[cluster], left)
        shares[cluster] += part
        left -= part
