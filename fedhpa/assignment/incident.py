"""A pass under a hold: bounds and scales that it stops stay as they are (mode Distributed).

The states go on as if nothing were held, but for what a cluster really has. So the first pass after the hold
writes what is due then. Source: docs/how-to/hold-scaling.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace as with_fields

from fedhpa.assignment.clusters import Bounds, HoldRules, Member
from fedhpa.assignment.state import NO_STATE, ClusterState, States

Goals = Mapping[str, Bounds | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The goals, scales and states of a pass under a hold."""

    goals: dict[str, Bounds | None]
    scales: dict[str, int]
    states: dict[str, ClusterState]


def kept(
    hold: HoldRules,
    members: Sequence[Member],
    before: States,
    present: Goals,
    goals: Goals,
    scales: Mapping[str, int],
    states: States,
) -> Kept:
    """Returns what the hold allows of a pass.

    `before` and `present` are the states and bounds before the pass; `goals`, `scales` and `states` are those
    that it found. No maximum and no minimum falls below what runs under `down`. Under `up` a minimum rises
    only to what runs, or as far as minReplicas asks.
    """
    found = Kept(goals=dict(goals), scales=dict(scales), states=dict(states))
    for one in members:
        cluster = one.cluster
        if not one.answers:
            continue
        was, runs = before.get(cluster, NO_STATE), one.running
        now, goal = present.get(cluster), goals.get(cluster)
        if hold.down and now is not None and goal is None:
            _stay(found, cluster, now, was)
            continue
        if hold.up and now is None and goal is not None and states[cluster].minimum == 0:
            _stay(found, cluster, None, was)
            continue
        if goal is not None:
            goal = _allowed(hold, now, goal, runs, states[cluster].minimum or 0)
            found.goals[cluster] = goal
            found.states[cluster] = with_fields(states[cluster], floor=goal.minimum, maximum=goal.maximum)
        written = scales.get(cluster)
        if written is not None and _stops(hold, written, runs, was):
            del found.scales[cluster]
            zeroed = ("zero_since", "quiet_since")
            found.states[cluster] = with_fields(
                found.states[cluster], **{field: getattr(was, field) for field in zeroed}
            )
    return found


def _stay(found: Kept, cluster: str, bounds: Bounds | None, state: ClusterState) -> None:
    found.goals[cluster] = bounds
    found.states[cluster] = state
    found.scales.pop(cluster, None)


def _allowed(hold: HoldRules, now: Bounds | None, goal: Bounds, runs: int, assigned: int) -> Bounds:
    """Returns the bounds that a cluster may get. `assigned` is its minimum without help."""
    least, most = goal.minimum, goal.maximum
    if hold.down:
        most = max(most, runs if now is None else min(now.maximum, runs))
        least = max(least, 0 if now is None else min(now.minimum, runs))
    if hold.up:
        least = min(least, max(0 if now is None else now.minimum, assigned, runs, 1))
    return Bounds(minimum=min(least, most), maximum=most)


def _stops(hold: HoldRules, written: int, runs: int, before: ClusterState) -> bool:
    """True if the hold stops the scale. The first replicas of a cluster belong to minReplicas."""
    wakes = before.zero_since is not None or before.minimum == 0
    return (hold.down and written < runs) or (hold.up and written > runs and wakes)
