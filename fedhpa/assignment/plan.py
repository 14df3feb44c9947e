"""One pass of mode Distributed over one FederatedHPA, and its result.

A pass remembers full clusters, divides the bounds, gives help, holds by priority, and sets clusters to 0, in
this order. A hold by annotation then keeps what it stops. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from fedhpa.assignment.division import divider
from fedhpa.assignment.fleet import read_fleet
from fedhpa.assignment.floors import bounds_of, floors
from fedhpa.assignment.incident import Goals, kept
from fedhpa.assignment.observed import HoldRules, Observed, Previous, Rules
from fedhpa.assignment.policies import DUPLICATED
from fedhpa.assignment.remembered import next_states
from fedhpa.assignment.scales import first_replicas
from fedhpa.assignment.shares import Bounds
from fedhpa.assignment.sizes import Sizes, sizes
from fedhpa.assignment.state import States
from fedhpa.assignment.steps import PlanStep
from fedhpa.assignment.writes import Outcome, Result, Write, next_writes

__all__ = ["Observed", "Plan", "PlanStep", "Previous", "Rules", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of a pass.

    `total` is the most that all maxima may add up to, None under Duplicated. `present` are the bounds that
    were read and `goals` those to write, help and hold included; None is no HPA. Both have all candidates. A
    cluster that must not change has the same bounds in both. `scales` are the replicas that the hub itself
    writes: first replicas, and 0.

    `states` and `assigned_for` are for the status, if all writes succeed. `lost` clusters count in no sum.
    `unassigned` replicas fit in no cluster. `exceeded` replicas are above the FederatedHPA's maximum.
    `unhelped` replicas are lacking in full clusters, and no other cluster has room for them.
    """

    total: int | None
    present: Mapping[str, Bounds | None]
    goals: Mapping[str, Bounds | None]
    scales: Mapping[str, int]
    states: States
    assigned_for: str
    lost: frozenset[str] = frozenset()
    unassigned: int = 0
    exceeded: int = 0
    unhelped: int = 0
    steps: tuple[PlanStep, ...] = ()

    def next_writes(self, outcomes: Iterable[Outcome] = ()) -> tuple[Write, ...]:
        """Returns the writes that may be sent now, all at once; none when the pass has ended.

        `outcomes` are those of all earlier writes of the pass, in order.
        """
        present = {cluster: bounds for cluster, bounds in self.present.items() if cluster not in self.lost}
        wanted = {
            cluster: bounds for cluster, bounds in self.goals.items() if bounds != self.present.get(cluster)
        }
        return next_writes(self.total, present, wanted, outcomes)

    def states_after(self, outcomes: Iterable[Outcome]) -> States:
        """Returns the states with the maxima that the members have after these outcomes.

        An unknown outcome counts with the higher maximum, because the member may have it.
        """
        maxima = {cluster: _most(bounds) for cluster, bounds in self.present.items()}
        for outcome in outcomes:
            cluster, after = outcome.write.cluster, _most(outcome.write.after)
            if outcome.result is Result.CONFIRMED:
                maxima[cluster] = after
            elif outcome.result is Result.UNKNOWN:
                maxima[cluster] = max(maxima.get(cluster, 0), after)
        return {
            cluster: state
            if cluster in self.lost
            else structs.replace(state, maximum=maxima.get(cluster, 0) or None)
            for cluster, state in self.states.items()
        }


def _most(bounds: Bounds | None) -> int:
    return 0 if bounds is None else bounds.maximum


def plan(rules: Rules, observed: Sequence[Observed], previous: Previous, now: float) -> Plan:
    """Returns the bounds and scales to write, the next states, and each step with its reason.

    `observed` are all candidate clusters, in any order. `now` is a POSIX time in seconds.
    """
    made = _without_hold(rules, observed, previous, now)
    return made if rules.hold is None else _held(made, rules.hold, observed, previous)


def _held(made: Plan, hold: HoldRules, observed: Sequence[Observed], previous: Previous) -> Plan:
    """Returns what the hold allows of a pass. A failover may grow what it needs under every hold."""
    hold = replace(hold, up=hold.up and not made.lost)
    found = kept(hold, observed, previous.states, made.present, made.goals, made.scales, made.states)
    most = sum(_most(bounds) for cluster, bounds in found.goals.items() if cluster not in made.lost)
    step = PlanStep(step="hold", before=_least(made.goals), after=_least(found.goals), reason=hold.reason)
    return replace(
        made,
        goals=found.goals,
        scales=found.scales,
        states=found.states,
        # A removal is decided only where the bounds are divided anew, so that is done again after the hold.
        assigned_for=previous.assigned_for if found.removals else made.assigned_for,
        exceeded=0 if made.total is None else max(most - made.total, 0),
        steps=(*made.steps, step),
    )


def _least(goals: Goals) -> int:
    return sum(bounds.minimum for bounds in goals.values() if bounds is not None)


def _without_hold(rules: Rules, observed: Sequence[Observed], previous: Previous, now: float) -> Plan:
    made = _pass(rules, observed, previous, now)
    if not made.unhelped or made.steps[0].step != "initial":
        return made
    # A cluster that has to help enters only beside bounds that are assigned already.
    seen = [
        replace(one, written=made.goals[one.state.cluster])
        if one.state.reachable and not one.foreign
        else one
        for one in observed
    ]
    after = Previous(states=made.states, assigned_for=made.assigned_for, lost=made.lost)
    again = _pass(rules, seen, after, now)
    return replace(again, present=made.present, steps=(made.steps[0], *again.steps))


def _pass(rules: Rules, observed: Sequence[Observed], previous: Previous, now: float) -> Plan:
    fleet = read_fleet(rules, observed, previous, now)
    sized = sizes(rules, fleet, now)
    raised = floors(rules, fleet, sized.members, now)
    if raised.unhelped and (entering := _entering(rules, sized)):
        sized = sizes(rules, fleet, now, entering, raised.unhelped)
        raised = floors(rules, fleet, sized.members, now)
    goals = dict(fleet.present)
    for member in sized.members:
        if member.reachable:
            goals[member.cluster] = bounds_of(member, raised.states[member.cluster])
    scales, states = first_replicas(
        rules, sized.members, goals, fleet.states, raised.states, raised.scales, now
    )
    return Plan(
        total=None if rules.policy == DUPLICATED else rules.maximum,
        present=fleet.present,
        goals=goals,
        scales=scales,
        states=next_states(rules, fleet, sized, states, raised.unhelped, now),
        assigned_for=f"{rules.assigned_for}/{rules.maximum}",
        lost=fleet.lost,
        unassigned=sized.unassigned,
        exceeded=sized.exceeded,
        unhelped=raised.unhelped,
        steps=(sized.step, *raised.steps),
    )


def _entering(rules: Rules, sized: Sizes) -> str:
    """Returns the first cluster without an HPA, by policy, that may help; empty without one.

    The next one waits until the replicas of the one before are there. No running replica makes room for it.
    """
    taken = sum(max(member.present, member.minimum or 0) for member in sized.members)
    if taken >= rules.maximum or sized.step.step == "initial":
        return ""
    able = {
        member.cluster: member
        for member in sized.members
        if member.reachable and member.minimum is None and member.limit != 0 and member.room != 0
    }
    starting = any(member.spare and not member.running for member in sized.members)
    if not able or starting:
        return ""
    rank = min(member.overflow for member in able.values())
    able = {cluster: member for cluster, member in able.items() if member.overflow == rank}
    shares = divider(able, rules.policy, rules.uid)(1, dict.fromkeys(able, 0), dict.fromkeys(able, 1))
    return next(cluster for cluster, share in shares.items() if share)
