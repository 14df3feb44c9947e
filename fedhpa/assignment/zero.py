"""Clusters without replicas: which cluster's scale is written to 0, and which comes back.

An HPA whose target has 0 replicas rests, so the cluster stays at 0 until the hub writes its scale again.
Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from fedhpa.assignment.division import in_order
from fedhpa.assignment.policies import AGGREGATED, DUPLICATED, DYNAMIC_WEIGHTED, PRIORITIZED, Policy
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import NO_STATE, ClusterState, States

# A cluster goes to 0 if the others could have run its load for this long without a break.
_WAIT_SECONDS: Final = 5 * 60
# A load is a sum of quotients. A sum this little above a whole number is that number.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Zeroed:
    """The next state, the replicas to write to scales, and the reasons of what changed."""

    states: States
    replicas: Mapping[str, int]
    reasons: tuple[str, ...]


def zero(
    states: States,
    members: Sequence[MemberState],
    policy: Policy,
    minimum: int,
    now: float,
    loads: Mapping[str, float],
    *,
    wanted: bool = False,
    uid: str = "",
) -> Zeroed:
    """Returns the state with the clusters at 0.

    `minimum` is minReplicas of the FederatedHPA. `loads` has for each cluster the replicas that its present
    usage would keep exactly at target: currentReplicas x the highest usage / target. Unknown loads are left
    out. `wanted` is True if an Object or External metric asks for replicas while no cluster runs any.
    `uid` is the object's.
    """
    reachable = [member for member in members if member.reachable and member.minimum is not None]
    at_zero = [member for member in reachable if states.get(member.cluster, NO_STATE).zero_since is not None]
    running = [member for member in reachable if member not in at_zero]
    found = dict(states)
    if at_zero and (any(_needs_help(member) for member in running) or (wanted and not running)):
        if policy == PRIORITIZED:
            highest = max(member.priority for member in at_zero)
            at_zero = [member for member in at_zero if member.priority == highest]
        replicas = {member.cluster: max(member.minimum or 0, 1) for member in at_zero}
        for name in replicas:
            found[name] = replace(found[name], zero_since=None)
        _watch(found, running, None, now)
        return Zeroed(found, replicas, tuple(f"{name}: comes back from 0 to help" for name in replicas))
    # An unreachable cluster may run replicas that nobody sees now, so it blocks the way to 0.
    candidate = None
    if len(reachable) == len(members):
        candidate = _candidate(states, running, policy, minimum, loads, uid)
    _watch(found, running, candidate, now)
    since = found[candidate.cluster].at_min_since if candidate is not None else None
    if candidate is None or since is None or now - since < _WAIT_SECONDS:
        return Zeroed(found, {}, ())
    name = candidate.cluster
    found[name] = replace(found[name], zero_since=now, at_min_since=None)
    reason = f"{name}: goes to 0, because the other clusters could have run its load for five minutes"
    return Zeroed(found, {name: 0}, (reason,))


def _needs_help(member: MemberState) -> bool:
    return member.pending > 0 or member.need is not None


def _watch(
    found: dict[str, ClusterState],
    running: Sequence[MemberState],
    candidate: MemberState | None,
    now: float,
) -> None:
    for member in running:
        state = found.get(member.cluster, NO_STATE)
        begun = now if state.at_min_since is None else state.at_min_since
        since = begun if candidate is member else None
        if state.at_min_since != since:
            found[member.cluster] = replace(state, at_min_since=since)


def _candidate(
    states: States,
    running: Sequence[MemberState],
    policy: Policy,
    minimum: int,
    loads: Mapping[str, float],
    uid: str,
) -> MemberState | None:
    """Returns the cluster whose load the others can run now, by policy; None without one."""
    if policy == DUPLICATED or any(member.cluster not in loads for member in running):
        return None
    total = sum(member.running for member in running)
    if total <= minimum or not all(_rests(states, member) for member in running):
        return None
    last = _last(running, policy, uid)
    need = math.ceil(sum(loads[member.cluster] for member in running) - _ROUNDING)
    others = total - last.running
    return last if max(need, minimum) <= others else None


def _rests(states: States, member: MemberState) -> bool:
    state = states.get(member.cluster, NO_STATE)
    return (
        not member.pending and not state.given and not state.held and member.running <= (member.minimum or 0)
    )


def _last(running: Sequence[MemberState], policy: Policy, uid: str) -> MemberState:
    if policy == PRIORITIZED:
        weights = {member.cluster: member.priority for member in running}
    elif policy in (AGGREGATED, DYNAMIC_WEIGHTED):
        weights = {member.cluster: member.rank for member in running}
    else:
        weights = {member.cluster: member.weight for member in running}
    name = in_order(weights, uid)[-1]
    return next(member for member in running if member.cluster == name)
