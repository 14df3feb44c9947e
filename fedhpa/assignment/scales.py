"""The replicas that the hub itself writes to scales: first replicas, and 0 (mode Distributed).

The HPA of a cluster without replicas rests, so it starts nothing. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from fedhpa.assignment.initial import starting_replicas
from fedhpa.assignment.observed import Rules
from fedhpa.assignment.shares import Bounds, MemberState
from fedhpa.assignment.state import ClusterState, States


def first_replicas(
    rules: Rules,
    members: Sequence[MemberState],
    goals: Mapping[str, Bounds | None],
    before: States,
    found: States,
    changed: Mapping[str, int],
    now: float,
) -> tuple[dict[str, int], dict[str, ClusterState]]:
    """Returns the replicas to write, and the states that remember which clusters still have to start.

    `before` are the states before the pass and `found` those after its other steps. `changed` are the scales
    that step zero writes. A write is repeated in each pass until the cluster has the replicas.
    """
    scales, states = dict(changed), dict(found)
    to_zero = rules.assists and rules.scales_to_zero
    for member in members:
        if not member.reachable:
            continue
        cluster, goal = member.cluster, goals[member.cluster]
        if goal is None:
            states[cluster] = replace(states[cluster], starting=False, zero_since=None, at_min_since=None)
            if member.present:
                scales[cluster] = starting_replicas(member.present, goal)
            continue
        new = before[cluster].minimum is None and not member.present
        states[cluster] = state = _started(states[cluster], member, new, to_zero, changed, now)
        if state.starting:
            scales[cluster] = starting_replicas(member.present, goal)
        elif state.zero_since is not None and member.present:
            scales[cluster] = 0
    return scales, states


def _started(
    state: ClusterState,
    member: MemberState,
    new: bool,
    to_zero: bool,
    changed: Mapping[str, int],
    now: float,
) -> ClusterState:
    """Returns the state with `zero_since`, and with `starting` if the cluster has no replicas but is to."""
    at_zero = state.zero_since is not None
    if new and to_zero and not member.spare:
        return replace(state, zero_since=state.zero_since if at_zero else now, starting=False)
    back = changed.get(member.cluster, 0) > 0 or (at_zero and not to_zero)
    starting = not member.present and (new or back or state.starting)
    zero_since = state.zero_since if to_zero else None
    if starting == state.starting and zero_since == state.zero_since:
        return state
    return replace(state, starting=starting, zero_since=zero_since)
