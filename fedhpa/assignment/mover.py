"""One step of a move: replicas go from clusters that have too many to others, without a lack of ready pods.

A leaving cluster, a rebalance and a return are moves. Nothing is remembered between two steps. Source:
docs/explanation/membership.md, "How replicas move".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

from fedhpa.assignment.division import Shares

NOTHING: Final[Shares] = {}


def next_step(
    present: Shares,
    goal: Shares,
    ready: Shares,
    step: int,
    rolling: Collection[str] = (),
    needed: Shares = NOTHING,
) -> dict[str, int]:
    """Returns the replicas to write now on the way from the `present` replicas to the `goal`.

    All clusters are reachable. The sum of the goal is the size: at most `step` replicas more than that run
    meanwhile. `ready` are each cluster's ready pods. Replicas above the goal go only as far as as many others
    are ready, and no cluster falls below what is `needed` there. Clusters in `rolling` run two versions of
    the workload, so a move leaves them alone.
    """
    size = sum(goal.values())
    # A rolling cluster keeps what it has above its goal.
    above = {name: max(present[name] - goal[name], 0) for name in goal}
    fixed = {name: above[name] for name in rolling if above.get(name)}
    above |= dict.fromkeys(fixed, 0)
    due = max(size - sum(fixed.values()), 0)
    moving = sum(above.values())
    serving = sum(min(ready.get(name, 0), present[name], goal[name]) for name in goal)
    shares = dict(present)
    go = moving - min(moving, max(due - serving, 0))
    spare = {name: min(more, max(present[name] - needed.get(name, 0), 0)) for name, more in above.items()}
    taken = _take(shares, _waste(present, ready, spare), go)
    taken += _take(shares, {name: spare[name] - present[name] + shares[name] for name in spare}, go - taken)
    # The size may fall meanwhile, and never more than a step above it runs.
    excess = min(go - taken, max(sum(shares.values()) - size - step, 0))
    taken += _take(shares, {name: above[name] - present[name] + shares[name] for name in above}, excess)
    stays = moving - taken
    short = {name: max(goal[name] - present[name], 0) for name in goal}
    running = sum(min(present[name], goal[name]) for name in goal)
    more = max(min(due, due + step - stays) - running, 0)
    # A change of the size is no move.
    grown = max(size - sum(present.values()), 0)
    more -= _give(shares, {name: part for name, part in short.items() if name not in rolling}, more)
    _give(shares, {name: part for name, part in short.items() if name in rolling}, min(more, grown))
    return shares


def without_surge(present: Shares, goal: Shares, ready: Shares) -> dict[str, int]:
    """Returns the shares that end a move early: as many replicas as the goal has; unready ones go first."""
    shares = dict(present)
    surge = sum(present.values()) - sum(goal.values())
    surge -= _take(shares, _waste(present, ready, present), surge)
    surge -= _take(shares, {name: max(shares[name] - goal[name], 0) for name in goal}, surge)
    _take(shares, dict(shares), surge)
    return shares


def receivers_back(present: Shares, before: Shares, ready: Shares, surge: int) -> dict[str, int]:
    """Returns the shares that end a move which serves nothing: the `surge` leaves the clusters that grew.

    `before` are the shares that these clusters had when the move began. Replicas that are not ready go first.
    """
    shares = dict(present)
    grown = {name: max(present[name] - share, 0) for name, share in before.items() if name in present}
    taken = _take(shares, _waste(present, ready, grown), surge)
    _take(shares, {name: grown[name] - present[name] + shares[name] for name in grown}, surge - taken)
    return shares


def needed_replicas(
    load: Mapping[str, float], ready: Shares, grown: Collection[str], above: float, *, spare: float = 1.0
) -> dict[str, int]:
    """Returns the fewest replicas with which each cluster serves its own part of the load.

    `load` is each cluster's part, in replicas at exactly the target. Up to `above` times the target is within
    the tolerance, and pods may be `spare` times as busy as the target. Pods of the `grown` clusters that are
    as busy as those of another cluster, within the same tolerance, show that the load is shared: then the
    other cluster needs one replica less.
    """
    pods = sum(ready.get(name, 0) for name in grown)
    busy = sum(load.get(name, 0.0) for name in grown) / pods if pods else 0.0
    found = {}
    for name, part in load.items():
        # A hair below, because a ratio of exactly the tolerance asks for no replica more.
        found[name] = math.ceil(part / spare - 1e-9)
        if busy and part <= busy * ready.get(name, 0) * above:
            found[name] = max(found[name] - 1, 0)
    return found


def waiting(present: Shares, goal: Shares, ready: Shares) -> dict[str, int]:
    """Returns the replicas that are not ready yet in each cluster that has no more than its goal."""
    return {
        name: present[name] - ready.get(name, 0)
        for name in goal
        if present[name] <= goal[name] and ready.get(name, 0) < present[name]
    }


def _waste(present: Shares, ready: Shares, above: Shares) -> dict[str, int]:
    """Returns the part above the goal that is not ready: a ReplicaSet removes it first."""
    return {name: min(max(present[name] - ready.get(name, 0), 0), more) for name, more in above.items()}


def _take(shares: dict[str, int], most: Shares, count: int) -> int:
    """Removes up to `count` replicas, the largest part first and at most `most` of each; returns how many."""
    return _change(shares, most, count, -1)


def _give(shares: dict[str, int], most: Shares, count: int) -> int:
    """Adds up to `count` replicas, the largest part first and at most `most` of each; returns how many."""
    return _change(shares, most, count, 1)


def _change(shares: dict[str, int], most: Shares, count: int, sign: int) -> int:
    left = max(count, 0)
    for name in sorted(most, key=lambda name: (-most[name], name)):
        part = min(most[name], left)
        shares[name] += sign * part
        left -= part
    return max(count, 0) - left
