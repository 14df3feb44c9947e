"""Rebalances: one for each timestamp of an annotation, and returns.

The state, with the shares that it moves to, is stored before the first replica moves. So a restarted
controller goes on and never begins again. Source: docs/explanation/placement.md, "Rebalance" and "Return".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.hold import Hold
from fedhpa.api.rebalance import REBALANCE_ANNOTATION, rebalance_time
from fedhpa.api.texts import listed
from fedhpa.api.times import format_time
from fedhpa.decision.context import Context
from fedhpa.decision.memory import ANSWERED, QUIET_SECONDS, Rebalance
from fedhpa.decision.messages import REBALANCED
from fedhpa.decision.placement import PlacementPlan
from fedhpa.decision.spec import DISTRIBUTED, WHEN_QUIET
from fedhpa.scaling import IGNORED

# Pods that never become ready must not keep the size for ever.
MAX_SECONDS: Final = 3600
# A return that no cluster could serve for so long ends, and none begins for a day.
BLOCKED_SECONDS: Final = 300.0
REST_SECONDS: Final = 24 * 3600.0
# A return begins at most this often.
PERIOD_SECONDS: Final = 3600.0
# Less than this is not worth the restarts of pods.
_FEWEST: Final = 2
_FEWEST_PER_CENT: Final = 10
_FINISHED, _TIMED_OUT, _STOPPED, _NOTHING = "Rebalanced", "TimedOut", "Stopped", "RebalanceServesNothing"
_INTERRUPTED: Final = "Interrupted"
_RETURNING, _WAITS_TO_RETURN, _IN_PLACE = "Returning", "ReturnWaits", "InPlace"
_NOT_ASKED: Final = "nobody asks for a rebalance"
_FIELD: Final = "spec.federatedHPAAssignment.rebalance: WhenQuiet"


def title(state: Rebalance) -> str:
    """Returns what people call the rebalance."""
    return "return to the division of the policy" if state.is_return else f"rebalance of {state.requested}"


def report_refusal(context: Context) -> bool:
    """Returns True if a rebalance is asked for that cannot be; sets the condition with the remedy."""
    value = context.snapshot.hpa.rebalance
    if value:
        try:
            rebalance_time(value)
        except InvalidObject as error:
            _refuse(context, "InvalidTimestamp", str(error))
            return True
    elif context.spec.assignment.rebalance != WHEN_QUIET:
        refused = context.builder.found(REBALANCED)
        if refused is not None and refused.reason in ("InvalidTimestamp", "NotSupported"):
            context.builder.condition(REBALANCED, True, "NotAsked", _NOT_ASKED)
        return False
    what, where = ("annotation", f"annotation {REBALANCE_ANNOTATION}") if value else ("field", _FIELD)
    text = ""
    if context.spec.mode == DISTRIBUTED:
        if not context.spec.assignment.assist:
            text = f"scaleAssist: false leaves bounds as they are; remove the {what}"
    elif not context.fleet.direct:
        text = (
            f"Karmada's scheduler places the replicas; remove the {what}, and create a WorkloadRebalancer "
            "(apps.karmada.io/v1alpha1) that names the workload"
        )
    if not text and context.spec.assignment.policy.copies:
        text = f"Duplicated divides nothing: every cluster has the whole size; remove the {what}"
    if text:
        _refuse(context, "NotSupported", f"{where}: {text}")
    return bool(text)


def rebalances(
    context: Context, plan: PlacementPlan, current: int, desired: int, *, changed: float = 0.0
) -> bool:
    """Returns True if replicas move to another division now; begins and stops rebalances and returns.

    `changed` is when a member scaled last, in POSIX seconds.
    """
    value, state, returns = context.snapshot.hpa.rebalance, context.rebalance, context.spec.assignment.returns
    if state is not None and not state.ended:
        wanted = returns if state.is_return else state.requested == value
        if not wanted:
            state = context.rebalance = state.ends(_STOPPED)
        elif yields := _yields(context, plan, state):
            state = interrupted(context, state, yields)
    if not value and not returns and context.builder.found(REBALANCED) is not None:
        context.builder.condition(REBALANCED, True, "NotAsked", _NOT_ASKED)
    if context.spec.dry_run or report_refusal(context) or context.snapshot.record_problem:
        return False
    is_new = bool(value) and (state is None or state.requested != value)
    if context.hold is not None:
        _wait_for_hold(context, context.hold, state, is_new=is_new)
        return False
    if is_new:
        begins = _begins(context, plan, value, current, desired)
        return not begins and state is not None and not state.ended
    if state is not None and not state.ended:
        return True
    if returns:
        _return(context, plan, current, desired, changed)
    return False


def _wait_for_hold(context: Context, hold: Hold, state: Rebalance | None, *, is_new: bool) -> None:
    """Sets the condition. A rebalance that goes on after the hold does not time out in it."""
    goes_on = state is not None and not state.ended
    if state is not None and goes_on and not 0 <= context.now - state.since < MAX_SECONDS / 2:
        context.rebalance = msgspec.structs.replace(state, since=context.now, blocked_since=None)
    if is_new or goes_on:
        context.builder.condition(REBALANCED, False, "Waiting", f"waits for the end of a hold: {hold}")


def _yields(context: Context, plan: PlacementPlan, state: Rebalance) -> str:
    """Returns which cluster ends the move, and why; "" if it goes on.

    A leave and a loss move replicas themselves, and a cluster that is gone can neither give nor take.
    """
    if context.fleet.leaving:
        return f"{context.fleet.leaving[0].name} leaves"
    gone = sorted((state.goal.keys() | state.before.keys()) - plan.places.keys())
    return f"{gone[0]} is lost or takes part no more" if gone else ""


def interrupted(context: Context, state: Rebalance, why: str) -> Rebalance:
    """Ends the move without a verdict, and returns it; adds an event, and sets the condition."""
    text = f"the {title(state)} ends, because {why}"
    if not state.is_return:
        text += "; write a new timestamp to go on"
    context.builder.event("RebalanceInterrupted", text)
    context.builder.condition(REBALANCED, False, _INTERRUPTED, text)
    context.rebalance = state.ends(_INTERRUPTED)
    return context.rebalance


def _begins(context: Context, plan: PlacementPlan, value: str, current: int, desired: int) -> bool:
    """Begins the rebalance of an annotation. Returns False if it waits, and sets the condition."""
    at, waits = rebalance_time(value), ""
    if at > context.now:
        waits = f"begins at {format_time(at)}"
    elif context.coverage.unanswered:
        waits = f"waits for an answer of {context.coverage.unanswered}"
    elif context.fleet.leaving:
        waits = f"waits until {context.fleet.leaving[0].name} has left"
    elif desired != current or not current:
        waits = "waits for a size that stays"
    if waits:
        context.builder.condition(REBALANCED, False, "Waiting", f"the rebalance of {value} {waits}")
        return False
    goal = plan.goal(desired, fair=True)
    context.rebalance = Rebalance(value, context.now, goal=goal, before=_receivers(plan, goal))
    context.builder.condition(REBALANCED, False, "Rebalancing", f"the rebalance of {value} begins")
    return True


def _receivers(plan: PlacementPlan, goal: Mapping[str, int]) -> dict[str, int]:
    """Returns the shares of the clusters that are to grow."""
    return {name: place.present for name, place in plan.places.items() if place.present < goal[name]}


def _return(context: Context, plan: PlacementPlan, current: int, desired: int, changed: float) -> None:
    """Begins a return if it is time for one, or says what it waits for."""
    goal, state = plan.goal(desired, fair=True), context.rebalance
    count = misplaced(plan, goal)
    if not is_worth_it(count, desired):
        _report_in_place(context)
        return
    waits = obstacle(context, current, desired, changed)
    if waits:
        text = f"{count} of {desired} replicas run in other clusters than the policy says; the return {waits}"
        context.builder.condition(REBALANCED, False, _WAITS_TO_RETURN, text)
        return
    requested = "" if state is None else state.requested
    context.rebalance = Rebalance(
        requested, context.now, goal=goal, is_return=True, before=_receivers(plan, goal)
    )
    text = f"the {title(context.rebalance)} begins: {count} of {desired} replicas run in other clusters"
    context.builder.condition(REBALANCED, False, _RETURNING, text)


def misplaced(plan: PlacementPlan, goal: Mapping[str, int]) -> int:
    """Returns how many replicas run in other clusters than the goal says."""
    return sum(max(place.present - goal[name], 0) for name, place in plan.places.items())


def is_worth_it(replicas: int, size: int) -> bool:
    """True if so many misplaced replicas of a size are worth a return."""
    return replicas >= _FEWEST and replicas * 100 >= size * _FEWEST_PER_CENT


def obstacle(context: Context, current: int, desired: int, changed: float) -> str:
    """Returns what a return waits for; "" if it may begin. A member scaled last at `changed`."""
    fleet, state = context.fleet, context.rebalance
    if state is not None and state.rests_until is not None and context.now < state.rests_until:
        return (
            f"rests until {format_time(state.rests_until)}, because no cluster could give a replica at the "
            "last one: load that is tied to its cluster stays there"
        )
    if context.coverage.unanswered:
        return f"waits for an answer of {context.coverage.unanswered}"
    if fleet.leaving:
        return f"waits until {fleet.leaving[0].name} has left"
    if desired != current or fleet.running != current or not current:
        return "waits for a size that stays"
    for view in fleet.answered:
        if view.ready_pods != view.replicas or view.is_rolling:
            return f"waits until all pods of {view.name} are ready"
    begins = max(_last_change(context), min(changed, context.now)) + QUIET_SECONDS
    if state is not None:
        begins = max(begins, min(state.since, context.now) + PERIOD_SECONDS)
    return (
        f"begins at {format_time(math.ceil(begins))} if nothing changes before"
        if begins > context.now
        else ""
    )


def _last_change(context: Context) -> float:
    """Returns when a pod became ready, a share changed, or data came back last, in POSIX seconds."""
    times = [pod.ready_since for view in context.fleet.answered for pod in view.pods if pod.state != IGNORED]
    for view in context.fleet.answered:
        known = context.memory.clusters.get(view.name)
        if known is None or known.state != ANSWERED:
            return context.now
        changes = (known.scaled, known.answered_since, known.standing.since)
        times += [time for time in changes if time is not None]
    # The clock of a former leader or of a member may be ahead of ours.
    return min(max(times, default=0.0), context.now)


def _report_in_place(context: Context) -> None:
    """Set the condition back once little is misplaced. Free capacity changes all the time, so that waits."""
    before = context.builder.found(REBALANCED)
    if before is None or before.status == "True":
        return
    if before.since is None or not 0 <= context.now - before.since < QUIET_SECONDS:
        text = "the replicas run where the policy puts them"
        context.builder.condition(REBALANCED, True, _IN_PLACE, text)


def goal_of(context: Context, plan: PlacementPlan, desired: int) -> dict[str, int]:
    """Returns the shares that the present rebalance moves to.

    They stay as they were at its beginning, because free capacity changes all the time. Only a change of the
    size or of the clusters is divided anew.
    """
    state = context.rebalance
    if state is None or not state.goal:
        goal = plan.goal(desired, fair=True)
    else:
        goal = plan.goal(desired, since=state.goal)
    if state is not None and (goal.keys() != state.goal.keys() or sum(state.goal.values()) != desired):
        context.rebalance = msgspec.structs.replace(state, goal=goal)
    return goal


def ended_early(context: Context, *, gives: bool, blocked: bool) -> bool:
    """Returns True if the present rebalance ends before its goal, and then ends it.

    It may take an hour. A return ends, too, if no cluster `gives` a replica for five minutes while it is only
    `blocked` by what the clusters need.
    """
    state = context.rebalance
    if state is None:
        return False
    if context.now - state.since >= MAX_SECONDS:
        return _end_late(context, state)
    proves = state.is_return or context.spec.mode == DISTRIBUTED
    if not proves or context.coverage.unanswered:
        return False
    if gives or (blocked and state.blocked_since is None):
        state = msgspec.structs.replace(state, blocked_since=context.now if blocked else None)
        context.rebalance = state
    since = state.blocked_since
    if since is None or not blocked or context.now - since < BLOCKED_SECONDS:
        return False
    rests = context.now // 1 + REST_SECONDS
    context.rebalance = msgspec.structs.replace(state.ends(_NOTHING), rests_until=rests)
    text = (
        f"new pods took no load of other clusters, so the {title(state)} ends and rests until "
        f"{format_time(rests)}: load that is tied to its cluster stays there; rebalance: Never ends attempts"
    )
    context.builder.warn(_NOTHING, text)
    context.builder.condition(REBALANCED, False, _WAITS_TO_RETURN, text)
    return True


def _end_late(context: Context, state: Rebalance) -> bool:
    context.rebalance = state.ends(_TIMED_OUT)
    text = f"the {title(state)} took more than {MAX_SECONDS // 60} minutes and ended"
    if not state.is_return:
        text += "; write a new timestamp to go on"
    context.builder.warn("RebalanceTimedOut", text)
    context.builder.condition(REBALANCED, False, _TIMED_OUT, text)
    return True


def absent_clusters(context: Context, plan: PlacementPlan) -> list[str]:
    """Returns the clusters that the present move waits for: their share changes, and none can be written.

    Meanwhile it moves nothing, and no cluster counts as one that gives nothing.
    """
    state = context.rebalance
    if state is None:
        return []
    found = [
        name
        for name, place in plan.places.items()
        if not place.reachable and state.goal.get(name, place.present) != place.present
    ]
    if found:
        context.rebalance = msgspec.structs.replace(state, blocked_since=None)
    return found


def report_progress(
    context: Context, goal: Mapping[str, int], *, done: bool, waits_for: int, absent: Sequence[str] = ()
) -> None:
    """Set the condition of the present rebalance to the shares of `goal`; ends it if it is `done`.

    It waits for `waits_for` pods to be ready, and for the `absent` clusters.
    """
    state = context.rebalance
    if state is None:
        return
    shares = listed([f"{cluster} {replicas}" for cluster, replicas in goal.items()])
    if done:
        context.rebalance = state.ends(_FINISHED)
        text = f"the {title(state)} is done: {shares}"
        context.builder.event("Rebalanced", text)
        context.builder.condition(REBALANCED, True, _FINISHED, text)
        return
    pods = "pod" if waits_for == 1 else "pods"
    waits = f"; it waits for {waits_for} {pods} to be ready" if waits_for else ""
    if state.blocked_since is not None and not waits_for:
        waits = "; it waits until usage lets a cluster give a replica"
    if absent:
        waits = f"; it waits for {listed(absent)}: no answer, or a refused write"
    text = f"the {title(state)} goes on to {shares}{waits}"
    reason = _RETURNING if state.is_return else "Rebalancing"
    context.builder.condition(REBALANCED, False, reason, text)


def _refuse(context: Context, reason: str, text: str) -> None:
    if context.builder.message(REBALANCED) != text:
        context.builder.warn("RebalanceRefused", text)
    context.builder.condition(REBALANCED, False, reason, text)
