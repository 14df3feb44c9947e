"""The conditions of mode Distributed: those of Kubernetes' HPA over all members, and Assigned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fedhpa.api.texts import MAX_NAMED, counted, listed
from fedhpa.assignment import ClusterState, Member, Plan
from fedhpa.decision.context import Context, describe
from fedhpa.decision.distributed.bounds_view import BoundsView
from fedhpa.decision.messages import (
    ABLE_TO_SCALE,
    ASSIGNED,
    GOT_SCALE,
    IS_SCALED_TO_ZERO,
    NOT_SCALED_TO_ZERO,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SCALING_LIMITED,
)

_MAX_REASON: Final = 160
# Each remedy has two UIDs. Clusters beyond these are named once the first ones are solved.
_MAX_REMEDIES: Final = 3
NO_HPA: Final = "no member has an HPA yet"
_DRY_RUN: Final = "DryRun"
_NO_ROOM: Final = "no cluster has room for "


def report_members(
    context: Context, view: BoundsView, current: int, states: Mapping[str, ClusterState]
) -> None:
    """Sets the conditions that say how the members scale."""
    builder = context.builder
    builder.condition(ABLE_TO_SCALE, True, "SucceededGetScale", GOT_SCALE)
    ours = view.reports
    failed = {name: report.failure for name, report in ours.items() if report.failure}
    if failed:
        builder.condition(SCALING_ACTIVE, False, "MemberHPAFailed", describe(failed, most=MAX_NAMED))
    else:
        verb = "scales" if len(ours) == 1 else "scale"
        text = f"{counted(len(ours), 'member HPA')} {verb} the workload" if ours else NO_HPA
        builder.condition(SCALING_ACTIVE, True, "MembersScale", text)
    pinned = [one.cluster for one in view.members if one.need is not None]
    if pinned:
        text = f"HPAs that ask for more than their maxReplicas: {listed(pinned)}"
        builder.condition(SCALING_LIMITED, True, "TooManyReplicas", text)
    else:
        text = "no member HPA asks for more than its maxReplicas"
        builder.condition(SCALING_LIMITED, False, "DesiredWithinRange", text)
    zero = current == 0 and any(state.zero_since is not None for state in states.values())
    if zero:
        builder.condition(SCALED_TO_ZERO, True, "ScaledToZero", IS_SCALED_TO_ZERO)
    elif builder.message(SCALED_TO_ZERO) is not None:
        builder.condition(SCALED_TO_ZERO, False, "NotScaledToZero", NOT_SCALED_TO_ZERO)


def report_assignment(
    context: Context, view: BoundsView, made: Plan, errors: Sequence[str], would: str, why: str
) -> None:
    """Sets Assigned, with an event when it becomes worse.

    In a dry run, `would` is what would be written, and `why`. An event says so for each spec.
    """
    builder = context.builder
    before, found = builder.message(ASSIGNED), builder.found(ASSIGNED)
    if context.spec.dry_run:
        text = f"would assign {would}" if would else "nothing would change"
        known = context.stored.observed_generation == context.snapshot.hpa.generation
        if would and not (known and found is not None and found.reason == _DRY_RUN):
            builder.event(_DRY_RUN, text + why)
        meanwhile = "; the member HPAs go on scaling within the bounds that they have" if view.reports else ""
        text = f"spec.dryRun: nothing is written to the members; {text}{meanwhile}"
        builder.condition(ASSIGNED, True, _DRY_RUN, text)
    elif errors:
        text = (
            f"bounds could not be written: {'; '.join(error[:_MAX_REASON] for error in errors[:MAX_NAMED])}"
        )
        builder.warn("FailedAssign", text)
        builder.condition(ASSIGNED, False, "WriteFailed", text)
    elif foreign := sorted(one.cluster for one in view.members if one.foreign):
        text = _not_owned(view, foreign)
        if before != text:
            builder.warn("NotOwned", text)
        builder.condition(ASSIGNED, False, "NotOwned", text)
    elif made.surplus > 0:
        text = f"the bounds add up to {made.surplus} more than maxReplicas {view.rules.maximum}"
        builder.condition(ASSIGNED, True, "MaxReplicasExceeded", text)
    elif text := _no_room(view, made):
        # Its numbers change in many passes, and one event is enough.
        if not (before or "").startswith(_NO_ROOM):
            builder.warn("CapacityLimited", text)
        builder.condition(ASSIGNED, True, "CapacityLimited", text)
    else:
        count = sum(bounds is not None for bounds in made.goals.values())
        clusters = f"{counted(count, 'cluster')} {'has' if count == 1 else 'have'}"
        chosen = f"; {context.snapshot.selection}" if context.snapshot.selection else ""
        text = f"{clusters} bounds as assigned{_above_minimum(view, made)}{chosen}"
        builder.condition(ASSIGNED, True, "Assigned", text)


def _not_owned(view: BoundsView, foreign: Sequence[str]) -> str:
    """Returns which clusters have an HPA that is not ours, together where the remedy is the same."""
    clusters: dict[str, list[str]] = {}
    for name in foreign:
        clusters.setdefault(view.hpas[name].remedy, []).append(name)
    texts = [
        f"{listed(names)}: the HorizontalPodAutoscaler of this name is not ours and stays as it is; {remedy}"
        for remedy, names in clusters.items()
    ]
    return ". ".join(texts[:_MAX_REMEDIES])


def _no_room(view: BoundsView, made: Plan) -> str:
    """Returns which replicas fit in no cluster; empty if all do. maxReplicas leaves room for all of them."""
    running = sum(one.serving for one in view.members)
    lacking = min(made.unmet, view.rules.maximum - running)
    parts = [f"{-made.surplus} of maxReplicas {view.rules.maximum}"] if made.surplus < 0 else []
    if lacking > 0:
        parts.append(f"{counted(lacking, 'replica')} that clusters need now")
    return _NO_ROOM + ", and for ".join(parts) if parts else ""


def _above_minimum(view: BoundsView, made: Plan) -> str:
    least = sum(state.minimum or 0 for state in made.left.states.values() if state.maximum)
    if view.rules.policy.copies or least <= view.rules.minimum:
        return ""
    return f"; their minReplicas add up to {least}, more than minReplicas {view.rules.minimum}"


def report_moves(context: Context, made: Plan) -> None:
    """Sets what leaving and Stuck clusters wait for, and if Cordoned ones have to grow."""
    context.cordoned_grow = made.cordoned_grow
    for one in made.members:
        if one.stuck:
            context.waits[one.cluster] = f"it keeps {counted(one.ready, 'ready pod')} and one more"
        if one.leaving:
            context.waits[one.cluster] = _wait_of(context, one, made)


def _wait_of(context: Context, one: Member, made: Plan) -> str:
    """Returns what a leaving cluster waits for."""
    goal = made.goals.get(one.cluster)
    stays = 0 if goal is None else min(goal.maximum, one.running)
    if not one.answers:
        return "it does not answer, or its HPA is not ours"
    if context.spec.dry_run:
        return "spec.dryRun: nothing moves"
    if one.rolling:
        return "its pods have two versions, and a rollout ends first"
    text = f"{stays} of {counted(one.running, 'replica')} stay"
    if not stays:
        return f"{text}, and its HPA goes"
    others = [each for each in made.members if each.answers and not each.leaving]
    if unready := sorted(each.cluster for each in others if each.ready < each.running):
        pods = sum(max(each.running - each.ready, 0) for each in others)
        are = f"{counted(pods, 'pod')} {'is' if pods == 1 else 'are'}"
        return f"{text} until {are} ready in {listed(unready)}"
    return f"{text} until others run more"
