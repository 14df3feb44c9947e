"""The minReplicas that help and hold raise in a pass, and the clusters at 0: steps assist, hold and zero.

Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from fedhpa.assignment.assist import Assistance, assist
from fedhpa.assignment.fleet import Fleet
from fedhpa.assignment.hold import hold
from fedhpa.assignment.observed import Rules
from fedhpa.assignment.policies import PRIORITIZED
from fedhpa.assignment.shares import Bounds, MemberState
from fedhpa.assignment.state import ClusterState, States, release_step
from fedhpa.assignment.steps import PlanStep, named, sentence
from fedhpa.assignment.zero import zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The states of the clusters that are not lost, the replicas to write to scales, and the steps.

    `unhelped` replicas are lacking, and no cluster with an HPA has room for them.
    """

    states: States
    scales: Mapping[str, int]
    unhelped: int
    steps: tuple[PlanStep, ...]


def floors(rules: Rules, fleet: Fleet, members: Sequence[MemberState], now: float) -> Floors:
    """Returns the help, the holds and the clusters at 0 of a pass. `members` have the bounds of this pass."""
    states = {member.cluster: fleet.states[member.cluster] for member in members}
    if not rules.assists:
        bare = {cluster: without_help(state) for cluster, state in states.items()}
        return Floors(states=bare, scales={}, unhelped=0, steps=())
    members = [
        member
        if member.minimum is None or member.minimum <= (member.maximum or 0)
        else replace(member, minimum=member.maximum)
        for member in members
    ]
    observed = fleet.observed
    loads = {
        member.cluster: float(load)
        for member in members
        if member.reachable and (load := observed[member.cluster].load) is not None
    }
    settled = {member.cluster: observed[member.cluster].settled for member in members if member.reachable}
    step, sums = release_step(rules.maximum), [_sum(members, states)]

    helped = assist(states, members, rules.policy, step, now, settled, rules.uid)
    sums.append(_sum(members, helped.states))
    steps = [PlanStep(step="assist", before=sums[0], after=sums[1], reason=_of_help(helped))]

    held = hold(helped.states, members, rules.policy, step, now, loads)
    sums.append(_sum(members, held.states))
    if rules.policy == PRIORITIZED or held.reasons:
        reason = sentence(held.reasons or ["no hold begins or ends"])
        steps.append(PlanStep(step="hold", before=sums[1], after=sums[2], reason=reason))
    if not rules.scales_to_zero:
        return Floors(states=held.states, scales={}, unhelped=helped.unassigned, steps=tuple(steps))

    # Clusters that never get an HPA do not block the others' way to 0.
    taking = [member for member in members if member.minimum is not None or not member.reachable]
    wanted = any(observed[member.cluster].wakes for member in taking) or bool(fleet.newly_lost)
    found = zero(held.states, taking, rules.policy, rules.minimum, now, loads, wanted=wanted, uid=rules.uid)
    running = sum(member.present for member in taking)
    change = sum(
        found.replicas[member.cluster] - member.present
        for member in taking
        if member.cluster in found.replicas
    )
    reason = sentence(found.reasons or ["no cluster goes to 0 or comes back"])
    steps.append(PlanStep(step="zero", before=running, after=running + change, reason=reason))
    return Floors(states=found.states, scales=found.replicas, unhelped=helped.unassigned, steps=tuple(steps))


def bounds_of(member: MemberState, state: ClusterState) -> Bounds | None:
    """Returns the bounds to write for a cluster, help and hold included."""
    if member.minimum is None or not member.maximum:
        return None
    least = state.floor(min(member.minimum, member.maximum), member.maximum)
    return Bounds(minimum=max(least, 1), maximum=member.maximum)


def without_help(state: ClusterState) -> ClusterState:
    """Returns the state of a cluster that neither helps nor is held."""
    return structs.replace(
        state,
        given=0,
        given_since=None,
        given_share=0,
        ready_since=None,
        deficit_before=None,
        held=0,
        held_since=None,
        lower_replicas=None,
    )


def _sum(members: Sequence[MemberState], states: States) -> int:
    return sum(
        bounds.minimum
        for member in members
        if (bounds := bounds_of(member, states[member.cluster])) is not None
    )


def _of_help(helped: Assistance) -> str:
    reasons = list(helped.reasons)
    if helped.unassigned:
        reasons.append(f"{helped.unassigned} replicas of help fit in no cluster")
    if not reasons and helped.deficit:
        reasons.append(f"help for {helped.deficit} lacking replicas is given already")
    if not reasons and helped.ineffective:
        reasons.append(f"{named(helped.ineffective)}: help changed nothing there before, so none is given")
    return sentence(reasons or ["no cluster lacks replicas that it cannot run"])
