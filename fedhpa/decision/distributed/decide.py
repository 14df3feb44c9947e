"""The decision of mode Distributed: a pass over the bounds of the member HPAs, with conditions and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.texts import listed
from fedhpa.assignment import (
    Bounds,
    ClusterState,
    Outcome,
    Plan,
    Result,
    SetBounds,
    plan,
)
from fedhpa.decision.conditions import report_outlook
from fedhpa.decision.context import Context
from fedhpa.decision.distributed.bounds_status import MAX_REPLICAS, whole_number, with_bounds
from fedhpa.decision.distributed.bounds_view import BoundsView, SeenMembers
from fedhpa.decision.distributed.conditions import report_assignment, report_members, report_moves
from fedhpa.decision.distributed.returning import give_back
from fedhpa.decision.messages import ASSIGNED, HELD
from fedhpa.decision.model import Decision, MemberBounds, member_bounds
from fedhpa.decision.outcome import without_status

# The bounds are computed in this interval, and at once when something asks for it.
PERIOD_SECONDS: Final = 60
# People read events, so they name only so many clusters.
_MAX_NAMED: Final = 8


def decide_bounds(
    context: Context,
    *,
    outcomes: Sequence[Outcome] | None = None,
    write_error: str | None = None,
    seen: SeenMembers | None = None,
) -> Decision:
    """Returns the decision: the bounds of all member HPAs, and what of them is to be written.

    It assumes that all writes succeed. After the writes the caller decides again with their `outcomes`, and
    with the error of a failed scale write as `write_error`.
    """
    view = BoundsView(context, seen)
    move = give_back(context, view)
    triggers = view.triggers | ({f"return {sorted(move.stays.items())}"} if move.stays else set())
    due = _is_due(context, triggers)
    made = plan(view.rules, view.members, view.previous, context.now, move) if due else None
    states, remembered = view.states, None
    writes: tuple[SetBounds, ...] = ()
    repairs, removals = _repairs(context, view), _removals(context)
    planned = () if made is None else _all_writes(made)
    named = tuple(_changes(made, planned, repairs, removals if made else ()))
    if context.spec.dry_run:
        repairs, removals = {}, ()
    elif made is not None:
        writes = planned
        remembered = made if outcomes is None else made.after(outcomes)
        states = remembered.states
    else:
        removals = ()
    scales = {} if made is None or context.spec.dry_run else made.scales
    goals = _goals(view) if made is None else made.goals
    shown = states if made is None else made.states
    shares = tuple(_shares(view, goals, shown, scales))
    current, desired = _sizes(context, view, scales)
    reason = _steps(context, made, current, changes=bool(writes or scales))
    errors = tuple(_errors(outcomes or (), write_error))
    report_members(context, view, current, states)
    if context.spec.dry_run:
        _report_dry_run(context, view, made, named, reason)
    else:
        report_assignment(context, view, made, errors)
    report_outlook(context, view.headroom(), copies=view.policy.copies)
    _report_changes(context, made, writes, removals, outcomes, reason)
    _report_repairs(context, view, repairs, writes)
    if made is not None:
        report_moves(context, view, made)
    decision = msgspec.structs.replace(
        without_status(context, current, desired, reason, "; ".join(errors) or None),
        rescale=bool(writes or scales or repairs or removals),
        bounds=shares,
        plan=made,
        hpa_writes=writes,
        repairs=repairs,
        removals=removals,
        changes=named,
        triggers=triggers if not errors else frozenset(),
        distributed=True,
    )
    return with_bounds(decision, context, view, states, remembered)


def _is_due(context: Context, triggers: frozenset[str]) -> bool:
    last = context.snapshot.last_pass
    if last is None or not 0 <= context.now - last < PERIOD_SECONDS:
        return True
    return bool(triggers - context.snapshot.last_triggers)


def _all_writes(made: Plan) -> tuple[SetBounds, ...]:
    """Returns all writes of the pass in order, if each succeeds."""
    writes: tuple[SetBounds, ...] = ()
    while batch := made.next_writes([Outcome(write=one, result=Result.CONFIRMED) for one in writes]):
        writes += batch
    return writes


def _repairs(context: Context, view: BoundsView) -> Mapping[str, tuple[str, ...]]:
    """Returns the fields besides the bounds that are not as the FederatedHPA has them, by cluster."""
    return {
        cluster.name: cluster.drift
        for cluster in context.snapshot.clusters
        if cluster.drift and cluster.name in view.hpas and view.hpas[cluster.name].ours
    }


def _removals(context: Context) -> tuple[str, ...]:
    """Returns the clusters that are no longer selected and have our HPA. They wait for the end of a hold."""
    stops = context.hold is not None and context.hold.stops_down
    return () if stops else context.snapshot.leftovers


def _goals(view: BoundsView) -> dict[str, Bounds | None]:
    """Returns the present bounds between two passes."""
    return {one.cluster: one.written for one in view.members}


def _shares(
    view: BoundsView,
    goals: Mapping[str, Bounds | None],
    states: Mapping[str, ClusterState],
    scales: Mapping[str, int],
) -> Iterator[MemberBounds]:
    """Yields the bounds of each cluster, by name, with what people want to know about it."""
    for one in sorted(view.members, key=lambda each: each.cluster):
        state = states[one.cluster]
        found = one.written if one.foreign else None if state.lost else goals[one.cluster]
        yield msgspec.structs.replace(
            member_bounds(one.cluster, found, state),
            replicas=scales.get(one.cluster),
            current=one.running,
            need=one.need,
            is_missing=not one.answers and not one.foreign,
            is_foreign=one.foreign,
        )


def _sizes(context: Context, view: BoundsView, scales: Mapping[str, int]) -> tuple[int, int]:
    """Returns the replicas of all expected clusters: present ones, and those that their HPAs want."""
    current = desired = 0
    for cluster in context.fleet.expected:
        present = context.fleet.known_replicas(cluster)
        hpa = view.hpas.get(cluster.name)
        wanted = None if hpa is None else whole_number(hpa.status.get("desiredReplicas"))
        if hpa is None or not wanted or not present:
            wanted = present
        elif wanted > present:
            # No HPA scales above its maximum, whatever its status says.
            wanted = max(min(wanted, hpa.spec.maxReplicas), present)
        current += present
        desired += scales.get(cluster.name, wanted)
    return min(current, MAX_REPLICAS), min(desired, MAX_REPLICAS)


def _steps(context: Context, made: Plan | None, current: int, *, changes: bool) -> str:
    """Adds the steps of the pass. Returns the reason of the last one that changed a sum.

    If bounds move between clusters (`changes`) and no sum changes, the reason is that of the first step.
    """
    if made is None:
        return _kept_steps(context)
    reason = made.steps[0].reason if changes and made.steps else ""
    for step in made.steps:
        context.builder.step(step.step, step.before, step.after, step.reason)
        if step.before != step.after:
            reason = step.reason
    if context.spec.dry_run:
        context.builder.step("dryRun", current, current, "spec.dryRun: nothing is written to the members")
    return reason


def _kept_steps(context: Context) -> str:
    """Adds the steps of the last pass: between two passes they are still the reason."""
    context.builder.steps.extend(context.snapshot.last_steps)
    return context.snapshot.last_reason


def _errors(outcomes: Sequence[Outcome], write_error: str | None) -> Iterator[str]:
    if write_error:
        yield write_error
    for outcome in outcomes:
        if outcome.result is not Result.CONFIRMED:
            yield f"{outcome.write.cluster}: {outcome.reason or 'no answer'}"


def _report_repairs(
    context: Context, view: BoundsView, repairs: Mapping[str, tuple[str, ...]], writes: Sequence[SetBounds]
) -> None:
    """Adds the events of HPAs that somebody changed. A change of FederatedHPA or hold is no such change."""
    held = context.builder.message(HELD) if context.builder.has(HELD) else None
    changed = held != (None if context.hold is None else str(context.hold))
    if changed or context.stored.observed_generation != context.snapshot.hpa.generation:
        return
    written = {write.cluster for write in writes}
    for one in view.members:
        cluster = one.cluster
        fields = list(repairs.get(cluster, ()))
        if cluster in view.edited & written:
            fields += ["bounds"] if one.written is not None else ["the HPA itself"]
        if fields:
            text = f"{cluster}: {', '.join(fields)} differed from the assignment and was written again"
            context.builder.event("MemberHPARepaired", text)


def _report_changes(
    context: Context,
    made: Plan | None,
    writes: Sequence[SetBounds],
    removals: Sequence[str],
    outcomes: Sequence[Outcome] | None,
    reason: str,
) -> None:
    """Adds the event of written bounds."""
    if made is None:
        return
    if outcomes is not None:
        confirmed = [outcome.write for outcome in outcomes if outcome.result is Result.CONFIRMED]
        writes = [write for write in confirmed if isinstance(write, SetBounds)]
    why = f"; reason: {reason}" if reason else ""
    writes = [write for write in writes if write.before != write.after]
    if writes or removals or (made.scales and not context.spec.dry_run):
        texts = list(_changes(made, writes, {}, removals))
        context.builder.event("BoundsAssigned", f"{listed(texts, _MAX_NAMED)}{why}")


def _report_dry_run(
    context: Context, view: BoundsView, made: Plan | None, named: Sequence[str], reason: str
) -> None:
    """Sets Assigned in a dry run: what would be written. Between two passes it stays as it was."""
    if made is None:
        return
    would = f"would assign {listed(named, _MAX_NAMED)}" if named else "nothing would change"
    if named and _asked_anew(context, view):
        context.builder.event("DryRun", f"{would}{f'; reason: {reason}' if reason else ''}")
    meanwhile = "; the member HPAs go on scaling within the bounds that they have"
    running = any(hpa.ours for hpa in view.hpas.values())
    text = f"spec.dryRun: nothing is written to the members; {would}{meanwhile if running else ''}"
    context.builder.condition(ASSIGNED, True, "DryRun", text)


def _asked_anew(context: Context, view: BoundsView) -> bool:
    """True if the FederatedHPA asks for something else than in the last pass."""
    new = view.triggers - context.snapshot.last_triggers
    return any(trigger.startswith("spec ") for trigger in new)


def _changes(
    made: Plan | None,
    writes: Sequence[SetBounds],
    repairs: Mapping[str, tuple[str, ...]],
    removals: Sequence[str],
) -> Iterator[str]:
    """Yields each write for people, such as `member1 1-6 -> 1-8`."""
    yield from (f"{cluster} loses its replicas and its HPA: it is not selected" for cluster in removals)
    last = {write.cluster: write for write in writes}
    present = {} if made is None else made.present
    for cluster, write in sorted(last.items()):
        again = ", written again" if write.before == write.after == present.get(cluster) else ""
        yield f"{cluster} {_text(present.get(cluster))} -> {_text(write.after)}{again}"
    yield from (f"{cluster} gets {', '.join(fields)}" for cluster, fields in sorted(repairs.items()))
    scales = {} if made is None else made.scales
    for cluster, replicas in sorted(scales.items()):
        yield f"{cluster} set to {replicas} replica{'s' if replicas != 1 else ''}"


def _text(bounds: Bounds | None) -> str:
    return "no HPA" if bounds is None else f"{bounds.minimum}-{bounds.maximum}"
