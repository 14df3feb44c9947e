"""The decision of mode Distributed: a pass over the bounds of the member HPAs, with conditions and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.texts import listed
from fedhpa.assignment import Bounds, Outcome, Plan, Result, SetBounds, plan
from fedhpa.decision.conditions import report_outlook
from fedhpa.decision.context import Context
from fedhpa.decision.distributed.bounds_status import with_bounds
from fedhpa.decision.distributed.bounds_view import BoundsView, SeenMembers
from fedhpa.decision.distributed.conditions import report_assignment, report_members, report_moves
from fedhpa.decision.distributed.returning import give_back
from fedhpa.decision.messages import ASSIGNED, HELD
from fedhpa.decision.model import Decision, MemberBounds, member_bounds
from fedhpa.decision.outcome import without_status

_MAX_REPLICAS: Final = 2**31 - 1
_DRY_RUN: Final = "DryRun"
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
    made = plan(view.rules, view.members, view.previous, context.now, give_back(context, view))
    # Clusters that are no longer selected wait for the end of a hold.
    stays = context.hold is not None and context.hold.stops_down
    removals = () if stays else context.snapshot.leftovers
    writes = _all_writes(made)
    named = tuple(_changes(made, writes, removals, made.scales))
    scales, left = made.scales, made.left if outcomes is None else made.after(outcomes)
    if context.spec.dry_run:
        removals, writes, scales, left = (), (), {}, view.previous
    current, desired = _sizes(context, view, scales)
    reason = _steps(context, made, current, changes=bool(writes or scales))
    errors = tuple(_errors(outcomes or (), write_error))
    report_members(context, view, current, left.states)
    if context.spec.dry_run:
        _report_dry_run(context, view, named, reason)
    else:
        report_assignment(context, view, made, errors)
    report_outlook(context, view.headroom(), copies=view.policy.copies)
    _report_changes(context, made, writes, removals, scales, outcomes, reason)
    _report_repairs(context, view, writes)
    report_moves(context, view, made)
    decision = msgspec.structs.replace(
        without_status(context, current, desired, reason, "; ".join(errors) or None),
        rescale=bool(writes or scales or removals),
        bounds=tuple(_shares(view, made, scales)),
        plan=made,
        hpa_writes=writes,
        removals=removals,
        changes=named,
        distributed=True,
    )
    decision = with_bounds(decision, context, view, left)
    if seen is not None and outcomes is None and write_error is None:
        seen.keep(context, view, decision)
    return decision


def _all_writes(made: Plan) -> tuple[SetBounds, ...]:
    """Returns all writes of the pass in order, if each succeeds."""
    writes: tuple[SetBounds, ...] = ()
    while batch := made.next_writes([Outcome(write=one, result=Result.CONFIRMED) for one in writes]):
        writes += batch
    return writes


def _shares(view: BoundsView, made: Plan, scales: Mapping[str, int]) -> Iterator[MemberBounds]:
    """Yields the bounds of each cluster, by name, with what people want to know about it."""
    for one in sorted(view.members, key=lambda each: each.cluster):
        state = made.left.states[one.cluster]
        found = one.written if one.foreign else None if state.lost else made.goals[one.cluster]
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
        report = view.reports.get(cluster.name)
        wanted = present
        if report is not None and report.desired and present:
            # No HPA scales above its maximum, whatever its status says.
            most = view.hpas[cluster.name].spec.maxReplicas
            wanted = min(report.desired, max(most, present))
        current += present
        desired += scales.get(cluster.name, wanted)
    return min(current, _MAX_REPLICAS), min(desired, _MAX_REPLICAS)


def _steps(context: Context, made: Plan, current: int, *, changes: bool) -> str:
    """Adds the steps of the pass. Returns the reason of the last one that changed a sum.

    If bounds move between clusters (`changes`) and no sum changes, the reason is that of the first step.
    """
    reason = made.steps[0].reason if changes else ""
    for step in made.steps:
        context.builder.step(*step)
        if step.before != step.after:
            reason = step.reason
    if context.spec.dry_run:
        context.builder.step("dryRun", current, current, "spec.dryRun: nothing is written to the members")
    return reason


def _errors(outcomes: Sequence[Outcome], write_error: str | None) -> Iterator[str]:
    if write_error:
        yield write_error
    for outcome in outcomes:
        if outcome.result is not Result.CONFIRMED:
            yield f"{outcome.write.cluster}: {outcome.reason or 'no answer'}"


def _report_repairs(context: Context, view: BoundsView, writes: Sequence[SetBounds]) -> None:
    """Adds the events of HPAs that somebody changed. A change of FederatedHPA or hold is no such change."""
    held = context.builder.message(HELD) if context.builder.has(HELD) else None
    changed = held != (None if context.hold is None else str(context.hold))
    if changed or context.stored.observed_generation != context.snapshot.hpa.generation:
        return
    written = {write.cluster for write in writes}
    for one in view.members:
        cluster, fields = one.cluster, list(one.drift)
        if cluster in view.edited:
            fields.append("bounds" if one.written is not None else "the HPA itself")
        if fields and cluster in written:
            text = f"{cluster}: {', '.join(fields)} differed from the assignment and was written again"
            context.builder.event("MemberHPARepaired", text)


def _report_changes(
    context: Context,
    made: Plan,
    writes: Sequence[SetBounds],
    removals: Sequence[str],
    scales: Mapping[str, int],
    outcomes: Sequence[Outcome] | None,
    reason: str,
) -> None:
    """Adds the event of written bounds."""
    if outcomes is not None:
        confirmed = [outcome.write for outcome in outcomes if outcome.result is Result.CONFIRMED]
        writes = [write for write in confirmed if isinstance(write, SetBounds)]
    writes = [write for write in writes if write.before != write.after]
    if writes or removals or scales:
        texts = listed(list(_changes(made, writes, removals, scales)), _MAX_NAMED)
        context.builder.event("BoundsAssigned", f"{texts}{f'; reason: {reason}' if reason else ''}")


def _report_dry_run(context: Context, view: BoundsView, named: Sequence[str], reason: str) -> None:
    """Sets Assigned in a dry run: what would be written. An event says so for each spec."""
    would = f"would assign {listed(named, _MAX_NAMED)}" if named else "nothing would change"
    before = context.builder.found(ASSIGNED)
    known = context.stored.observed_generation == context.snapshot.hpa.generation
    if named and not (known and before is not None and before.reason == _DRY_RUN):
        context.builder.event(_DRY_RUN, f"{would}{f'; reason: {reason}' if reason else ''}")
    meanwhile = "; the member HPAs go on scaling within the bounds that they have"
    text = f"spec.dryRun: nothing is written to the members; {would}{meanwhile if view.reports else ''}"
    context.builder.condition(ASSIGNED, True, _DRY_RUN, text)


def _changes(
    made: Plan, writes: Sequence[SetBounds], removals: Sequence[str], scales: Mapping[str, int]
) -> Iterator[str]:
    """Yields each write for people, such as `member1 1-6 -> 1-8`."""
    yield from (f"{cluster} loses its replicas and its HPA: it is not selected" for cluster in removals)
    last = {write.cluster: write for write in writes}
    present = made.present if last else {}
    drift = {one.cluster: ", ".join(one.drift) for one in made.members}
    for cluster, write in sorted(last.items()):
        again = write.before == write.after == present.get(cluster)
        if again and drift[cluster]:
            yield f"{cluster} gets {drift[cluster]}"
        else:
            told = f"{cluster} {_text(present.get(cluster))} -> {_text(write.after)}"
            yield f"{told}, written again" if again else told
    for cluster, replicas in sorted(scales.items()):
        yield f"{cluster} set to {replicas} replica{'s' if replicas != 1 else ''}"


def _text(bounds: Bounds | None) -> str:
    return "no HPA" if bounds is None else f"{bounds.minimum}-{bounds.maximum}"
