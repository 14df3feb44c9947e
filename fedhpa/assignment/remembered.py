"""The states that a pass of mode Distributed leaves for the next one.

Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from fedhpa.assignment.fleet import RETURNED_SECONDS, Fleet
from fedhpa.assignment.floors import without_help
from fedhpa.assignment.observed import Observed, Rules
from fedhpa.assignment.policies import DUPLICATED
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.sizes import Sizes
from fedhpa.assignment.state import ClusterState


def next_states(
    rules: Rules,
    fleet: Fleet,
    sized: Sizes,
    states: Mapping[str, ClusterState],
    unhelped: int,
    now: float,
) -> dict[str, ClusterState]:
    """Returns the state of each candidate, as if all writes succeed.

    `states` are those of the clusters that are not lost, after all steps. `unhelped` replicas are lacking
    although all clusters with an HPA help.
    """
    found = {
        cluster: replace(
            without_help(fleet.states[cluster]), lost=True, away=False, over_since=None, idle_since=None
        )
        for cluster in fleet.lost
    }
    easing = sized.exceeded > 0
    needed = unhelped > 0 or _room_is_left(rules, sized.members)
    for member in sized.members:
        cluster, state = member.cluster, states[member.cluster]
        if not member.reachable:
            found[cluster] = _kept(state, member, fleet.observed[cluster])
            continue
        if member.minimum is None:
            found[cluster] = ClusterState(cap=state.cap)
            continue
        over = now if state.away or cluster in fleet.returned else state.over_since
        if over is not None and not easing and now - over >= RETURNED_SECONDS:
            over = None
        idle = None
        if member.spare and not needed and not _works(member, state):
            idle = now if state.idle_since is None else state.idle_since
        after = (member.minimum, member.maximum, member.spare, idle, over, False, False)
        if after != _remembered(state):
            state = replace(
                state,
                minimum=member.minimum,
                maximum=member.maximum,
                spare=member.spare,
                idle_since=idle,
                over_since=over,
                lost=False,
                away=False,
            )
        found[cluster] = state
    return {cluster: found[cluster] for cluster in fleet.observed}


def _remembered(state: ClusterState) -> tuple[object, ...]:
    bounds = (state.minimum, state.maximum)
    return (*bounds, state.spare, state.idle_since, state.over_since, state.lost, state.away)


def _kept(state: ClusterState, member: MemberState, one: Observed) -> ClusterState:
    """Returns the state of a cluster that cannot be written. Without bounds, it gets its first ones later."""
    if one.foreign:
        return ClusterState(cap=state.cap, starting=True)
    starting = state.starting or (member.minimum is None and not member.maximum)
    return replace(
        state,
        minimum=member.minimum,
        maximum=member.maximum,
        lost=False,
        away=one.lost,
        starting=starting,
    )


def _works(member: MemberState, state: ClusterState) -> bool:
    """True if a spare cluster runs more than its one replica, or helps."""
    return member.present > 1 or member.need is not None or bool(state.given or state.held)


def _room_is_left(rules: Rules, members: Sequence[MemberState]) -> bool:
    """True if the clusters that are not spare cannot take all of the FederatedHPA's maximum."""
    if rules.policy == DUPLICATED:
        return False
    taken = 0
    for member in members:
        if not member.reachable:
            taken += member.maximum or 0
        elif not member.spare and member.minimum is not None:
            if member.limit is None:
                return False
            taken += max(member.limit, member.minimum)
    return taken < rules.maximum
