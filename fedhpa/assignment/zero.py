"""Clusters without replicas: which cluster's scale is written to 0, and which comes back.

An HPA whose target has 0 replicas rests, so the cluster stays at 0 until the hub writes its scale again.
Source: docs/explanation/distributed.md, "Clusters without replicas".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from msgspec.structs import replace

from fedhpa.api.assignment_policies import PRIORITY
from fedhpa.assignment.clusters import NO_STATE, ClusterState, Member, Rules, States, lowest
from fedhpa.assignment.division import in_order, weights_of

# A cluster goes to 0 if the others could have run its load for this long without a break.
_WAIT_SECONDS: Final = 5 * 60


class Zeroed(NamedTuple):
    """The next states, and the reasons of what changed."""

    states: dict[str, ClusterState]
    reasons: list[str]


def zero(
    rules: Rules, members: Sequence[Member], states: States, maxima: Mapping[str, int], unmet: int, now: float
) -> Zeroed:
    """Returns the states with the clusters at 0. `maxima` and `unmet` are those of the division."""
    found = dict(states)
    members = [one for one in members if one.has_hpa and not one.lost and not one.foreign]
    zeroed = {one.cluster for one in members if states.get(one.cluster, NO_STATE).zero_since is not None}
    if not rules.scales_to_zero:
        for name in zeroed:
            found[name] = replace(found[name], zero_since=None, idle_since=None)
        return Zeroed(found, [])
    at_zero = [one for one in members if one.cluster in zeroed and one.answers and not one.leaving]
    running = [one for one in members if one.cluster not in zeroed]
    why, candidate = _why_back(rules, members, running, maxima, unmet) if at_zero else "", ""
    if why:
        ranks = [one.priority if rules.policy.preference == PRIORITY else 0 for one in at_zero]
        back = sorted(one.cluster for one, rank in zip(at_zero, ranks, strict=True) if rank == max(ranks))
        found |= {name: replace(found[name], zero_since=None) for name in back}
    else:
        candidate = _candidate(rules, members, running)
    for one in running:
        # The pass itself keeps the time of a spare cluster.
        state = found.get(one.cluster, NO_STATE)
        since = (state.idle_since or now) if one.cluster == candidate else None
        if one.minimum and state.idle_since != since:
            found[one.cluster] = replace(state, idle_since=since)
    if why:
        return Zeroed(found, [f"{name}: comes back from 0, because {why}" for name in back])
    since = found[candidate].idle_since if candidate else None
    if since is None or now - since < _WAIT_SECONDS:
        return Zeroed(found, [])
    found[candidate] = replace(found[candidate], zero_since=now, idle_since=None)
    reason = f"{candidate}: goes to 0, because the other clusters could have run its load for five minutes"
    return Zeroed(found, [reason])


def _why_back(
    rules: Rules, members: Sequence[Member], running: Sequence[Member], maxima: Mapping[str, int], unmet: int
) -> str:
    """Returns why clusters at 0 are needed; "" if they are not."""
    if sum(one.running for one in running) < rules.minimum:
        return f"fewer than minReplicas {rules.minimum} run"
    if unmet:
        return f"{unmet} replicas are needed that fit nowhere else"
    if any(_is_full(one, maxima) for one in running):
        return "usage is above target where no room is left"
    if not any(one.running for one in members) and any(one.wakes for one in members):
        return "a metric asks for replicas"
    return ""


def _is_full(member: Member, maxima: Mapping[str, int]) -> bool:
    most = lowest(member.capacity, maxima.get(member.cluster, member.maximum))
    above = member.load is not None and member.load > member.running
    return member.stuck or (above and most is not None and member.running >= most)


def _candidate(rules: Rules, members: Sequence[Member], running: Sequence[Member]) -> str:
    """Returns the cluster whose load the others can run now, by policy; "" without one.

    A cluster that does not answer may run replicas that nobody sees now, so it blocks the way to 0.
    """
    running = [one for one in running if one.running]
    if rules.policy.copies or not running or not all(one.answers for one in members):
        return ""
    total = sum(one.running for one in running)
    if total <= rules.minimum or any(one.running > max(one.minimum or 0, 1) for one in running):
        return ""
    if any(one.load is None or one.membership for one in running):
        return ""
    need = math.ceil(sum((one.load or Fraction(0) for one in running), Fraction(0)))
    named = {one.cluster: one for one in running}
    last = in_order(weights_of(named, rules.policy), rules.uid)[-1]
    others = sum(one.running for one in running if one.cluster != last)
    return last if named[last].minimum and max(need, rules.minimum) <= others else ""
