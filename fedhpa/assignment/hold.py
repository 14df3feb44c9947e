"""Scale-down by priority: higher priorities are held while a lower one may still scale down.

Member HPAs see the same low usage at the same time and would all scale down. A hold raises the minReplicas of
the higher priorities to what they run. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from fedhpa.assignment.policies import PRIORITIZED, Policy
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import NO_STATE, ClusterState, States

# A hold that keeps replicas ends if no lower priority changed for this long: they may need all that they run.
_HOLD_SECONDS: Final = 10 * 60
# An HPA wants fewer replicas if usage is below target by more than its tolerance.
_WANTS_FEWER: Final = 0.9


@dataclass(frozen=True, slots=True)
class Held:
    """The next state, and the reasons of what changed."""

    states: States
    reasons: tuple[str, ...]


def hold(
    states: States,
    members: Sequence[MemberState],
    policy: Policy,
    step: int,
    now: float,
    loads: Mapping[str, float],
) -> Held:
    """Returns the state with the holds of this pass. A hold that ended is released by `step` in each pass.

    Only Prioritized holds; under another policy holds are released. Unreachable clusters keep their state.
    `loads` has for each cluster the replicas that its present usage would keep exactly at target. While that
    is what a held cluster runs, its hold keeps nothing, and does not end. An unknown load counts as none.
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
                load = loads.get(member.cluster, 0.0)
                after = _after(state, member, lower, load, above=above, step=step, now=now)
            else:
                after = _released(replace(state, held_since=None, lower_replicas=None), member, step)
            if after != state:
                found[member.cluster] = after
                reasons += _reason(state, after, member.cluster)
        lower += sum(member.running for member in same)
        above = above or any(member.running > (member.minimum or 0) for member in same)
    return Held(found, tuple(reasons))


def _after(
    state: ClusterState,
    member: MemberState,
    lower: int,
    load: float,
    *,
    above: bool,
    step: int,
    now: float,
) -> ClusterState:
    changed = state.lower_replicas != lower
    if changed:
        state = replace(state, held_since=None, lower_replicas=lower)
    since = state.held_since
    ended = not changed and (not state.held or (since is not None and now - since >= _HOLD_SECONDS))
    if not above or ended:
        return _released(state, member, step)
    keeps = load < member.running * _WANTS_FEWER
    if keeps != (since is not None):
        state = replace(state, held_since=now if keeps else None)
    most = member.running if member.maximum is None else member.maximum
    # Growth needs no hold. Following it would write a minimum in each pass of a rising load.
    held = min(max(state.held, member.running) if keeps or not state.held else state.held, most)
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
