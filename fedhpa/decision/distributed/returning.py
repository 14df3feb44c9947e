"""Replicas go back to the division of the policy, by a step in each pass (mode Distributed).

A return and a rebalance begin and end as in mode Centralized; here the bounds of HPAs move. Source:
docs/explanation/placement.md, "Return".
"""

from __future__ import annotations

from fedhpa.assignment import NO_MOVE, Move, needed_replicas, next_step, release_step, waiting
from fedhpa.decision.context import Context
from fedhpa.decision.distributed.bounds_view import BoundsView
from fedhpa.decision.metrics import tolerances
from fedhpa.decision.placement import PlacementPlan
from fedhpa.decision.rebalance import (
    absent_clusters,
    ended_early,
    goal_of,
    interrupted,
    rebalances,
    report_progress,
)


def give_back(context: Context, view: BoundsView) -> Move:
    """Returns the next step of a return or rebalance, `NO_MOVE` without one; sets its state and condition.

    The receivers' minima rise first. A giver then loses what it runs beyond its goal: no more than others
    have ready, and nothing that its own metrics need.
    """
    if not context.knows_rebalance:
        return NO_MOVE
    state, size, busy = context.rebalance, context.fleet.current, _busy(view)
    if busy and state is not None and not state.ended:
        interrupted(context, state, busy)
    plan = PlacementPlan(context)
    changed = max((report.scaled_at or 0.0 for report in view.reports.values()), default=0.0)
    moves = rebalances(context, plan, size, size + bool(busy), changed=changed)
    state = context.rebalance
    if not moves or state is None:
        return NO_MOVE
    goal = goal_of(context, plan, sum(state.goal.values()))
    members = {one.cluster: one for one in view.members if one.cluster in goal and one.answers}
    present = {name: one.running for name, one in members.items()}
    target = {name: goal[name] for name in members}
    absent = absent_clusters(context, plan)
    if absent:
        if not ended_early(context, gives=False, blocked=False):
            report_progress(context, goal, done=False, waits_for=0, absent=absent)
        return Move({}, {name: present[name] for name in state.before if name in present}, 0)
    ready = {name: one.ready for name, one in members.items()}
    grown = [name for name, share in state.before.items() if present.get(name, 0) > share]
    load = {name: float(one.load) for name, one in members.items() if one.load is not None}
    needed = present | needed_replicas(load, ready, grown, 1 + tolerances(context).scale_up)
    rolling = [name for name, one in members.items() if one.rolling]
    step = release_step(context.spec.max_replicas)
    moved = next_step(present, target, ready, step, rolling, needed)
    unready = waiting(present, target, ready)
    gives = any(moved[name] < present[name] for name in moved)
    above = {name: moved[name] for name in members if present[name] > target[name]}
    if ended_early(context, gives=gives, blocked=moved == present and not (unready or rolling)):
        return NO_MOVE
    report_progress(context, goal, done=not above, waits_for=sum(unready.values()))
    if not above:
        return NO_MOVE
    stays = {name: max(share, members[name].minimum or 1) for name, share in above.items()}
    return Move(stays, {name: min(moved[name], target[name]) for name in target.keys() - above.keys()}, 0)


def _busy(view: BoundsView) -> str:
    """Returns why nothing may be given back now; "" if it may."""
    for one in view.members:
        if one.need is not None:
            return f"{one.cluster} needs {one.need} replicas"
        if one.foreign or one.stuck:
            return f"{one.cluster} cannot take part"
    return ""
