"""Scale-down by priority: higher priorities are held while a lower one may still scale down.

Member HPAs see the same low usage at the same time and would all scale down. A hold raises the minReplicas of
the higher priorities to what they run. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from fedhpa.assignment.policies import PRIORITIZED, Policy
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import NO_STATE, ClusterState, States

# A hold ends if no lower priority changed for this long: they may need all that they run.
_HOLD_SECONDS: Final = 10 * 60


@dataclass(frozen=True, slots=True)
class Held:
    """The next state, and the reasons of what changed."""

    states: States
    reasons: tuple[str, ...]


def hold(states: States, members: Sequence[MemberState], policy: Policy, step: int, now: float) -> Held:
    """Returns the state with the holds of this pass. A hold that ended is released by `step` in each pass.

    Only Prioritized holds; under another policy holds are released. Unreachable clusters keep their state.
    """
    found, reasons = dict(states), []
    lower, above = 0, False
    ranked = sorted(members, key=lambda member: member.priority)
    lowest = ranked[0].priority if ranked else 0
    for _, rank in groupby(ranked, key=lambda member: member.priority):
        same = tuple(rank)
        for member in same:
            state = states.get(member.cluster, NO_STATE)
            if member.minimum is None or not member.reachable:
                continue
            if policy == PRIORITIZED and member.priority > lowest:
                after = _after(state, member, lower, above=above, step=step, now=now)
            else:
                after = _released(replace(state, held_since=None, lower_replicas=None), member, step)
            if after != state:
                found[member.cluster] = after
                reasons += _reason(state, after, member.cluster)
        lower += sum(member.running for member in same)
        above = above or any(member.running > (member.minimum or 0) for member in same)
    return Held(found, tuple(reasons))


def _after(
    state: ClusterState, member: MemberState, lower: int, *, above: bool, step: int, now: float
) -> ClusterState:
    since = state.held_since
    if state.lower_replicas != lower:
        state = replace(state, held_since=now, lower_replicas=lower)
        since = now
    if not above or since is None or now - since >= _HOLD_SECONDS:
        return _released(state, member, step)
    most = member.running if member.maximum is None else member.maximum
    held = min(max(state.held, member.running), most)
    return replace(state, held=held if held > (member.minimum or 0) else 0)


def _released(state: ClusterState, member: MemberState, step: int) -> ClusterState:
    if not state.held:
        return state
    # A hold above what runs would not be noticed, so the release begins at what runs.
    held = min(state.held, member.running) - step
    return replace(state, held=held if held > (member.minimum or 0) else 0)


def _reason(before: ClusterState, after: ClusterState, cluster: str) -> list[str]:
    if after.held > before.held:
        return [f"{cluster}: held at {after.held} replicas until lower priorities have scaled down"]
    if after.held == before.held:
        return []
    return [f"{cluster}: its hold is released" + (f" to {after.held}" if after.held else "")]
