"""The decision of mode Distributed: a pass over the bounds of the member HPAs, and all that follows from it.

Source of status and memory: docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.quantity import format_milli
from fedhpa.api.texts import listed
from fedhpa.assignment import HpaReport, Outcome, Plan, Previous, Result, SetBounds, plan
from fedhpa.decision.conditions import report_outlook
from fedhpa.decision.context import Context
from fedhpa.decision.distributed.bounds_view import BoundsView, SeenMembers
from fedhpa.decision.distributed.conditions import report_assignment, report_members, report_moves
from fedhpa.decision.distributed.returning import give_back
from fedhpa.decision.memory import MAX_SKEW_SECONDS
from fedhpa.decision.messages import HELD
from fedhpa.decision.metrics import status_entry
from fedhpa.decision.model import Decision, MemberBounds, api_time, member_bounds
from fedhpa.decision.outcome import memory_of, without_status
from fedhpa.decision.status import bounds_entry, cluster_entries, status_of
from fedhpa.metric_types.metric import ScalingMetric

JSON = object

_MAX_REPLICAS: Final = 2**31 - 1
_NO_HPA: Final = "no HPA"


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
    view, dry_run = BoundsView(context, seen), context.spec.dry_run
    made = plan(view.rules, view.members, view.previous, context.now, give_back(context, view))
    # Clusters that are no longer selected wait for the end of a hold.
    stays = context.hold is not None and context.hold.stops_down
    removals = () if stays else context.snapshot.leftovers
    writes, scales = made.all_writes(), made.scales
    named = tuple(_changes(made, writes, removals, scales))
    left = made.left if outcomes is None else made.after(outcomes)
    if dry_run:
        removals, writes, scales, left = (), (), {}, view.previous
    current, desired = _sizes(context, view, scales)
    reason = _steps(context, made, current, changes=bool(writes or scales))
    failed = [one for one in outcomes or () if one.result is not Result.CONFIRMED]
    errors = [f"{one.write.cluster}: {one.reason or 'no answer'}" for one in failed]
    errors = [write_error, *errors] if write_error else errors
    report_members(context, view, current, left.states)
    why = f"; reason: {reason}" if reason else ""
    report_assignment(context, view, made, errors, listed(named) if dry_run else "", why)
    report_outlook(context, view.headroom(), copies=view.rules.policy.copies)
    sent = writes if outcomes is None else [one.write for one in outcomes if one not in failed]
    done = [one for one in sent if isinstance(one, SetBounds) and one.before != one.after]
    if done or removals or scales:
        texts = listed(tuple(_changes(made, done, removals, scales)))
        context.builder.event("BoundsAssigned", texts + why)
    _report_repairs(context, view, writes)
    report_moves(context, made)
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
    decision = _with_status(decision, context, view, left)
    if seen is not None and outcomes is None and write_error is None:
        seen.keep(context, view, decision)
    return decision


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


def _report_repairs(context: Context, view: BoundsView, writes: Sequence[SetBounds]) -> None:
    """Adds the events of HPAs that somebody changed. A change of FederatedHPA or hold is no such change."""
    held = context.builder.message(HELD) if context.builder.has(HELD) else None
    changed = held != (None if context.hold is None else str(context.hold))
    if changed or context.stored.observed_generation != context.snapshot.hpa.generation:
        return
    written = {write.cluster for write in writes}
    for one in (each for each in view.members if each.cluster in written):
        cluster, fields = one.cluster, list(one.drift)
        state = view.previous.states[cluster]
        # A hold keeps minima that are not the assigned ones.
        same = one.written == state.bounds or (
            context.hold is not None and one.written is not None and one.written.maximum == state.maximum
        )
        if one.answers and state.maximum and not same:
            fields.append("bounds" if one.written is not None else "the HPA itself")
        if fields:
            text = f"{cluster}: {', '.join(fields)} differed from the assignment and was written again"
            context.builder.event("MemberHPARepaired", text)


def _changes(
    made: Plan, writes: Sequence[SetBounds], removals: Sequence[str], scales: Mapping[str, int]
) -> Iterator[str]:
    """Yields each write for people, such as `member1 1-6 -> 1-8`."""
    yield from (f"{cluster} loses its replicas and its HPA: it is not selected" for cluster in removals)
    members = {one.cluster: one for one in made.members} if writes else {}
    # Of several writes of a cluster the last one counts.
    for cluster, write in sorted({write.cluster: write for write in writes}.items()):
        present, drift = members[cluster].present, members[cluster].drift
        again = write.before == write.after == present
        if again and drift:
            yield f"{cluster} gets {', '.join(drift)}"
        else:
            told = f"{cluster} {present or _NO_HPA} -> {write.after or _NO_HPA}"
            yield f"{told}, written again" if again else told
    for cluster, replicas in sorted(scales.items()):
        yield f"{cluster} set to {replicas} replica{'s' if replicas != 1 else ''}"


def _with_status(decision: Decision, context: Context, view: BoundsView, left: Previous) -> Decision:
    """Returns the decision with its status and memory: assignment, HPA and state of each cluster.

    `left` is what the pass left. A cluster that answers that it has no HPA, and is to have none, holds none
    any more.
    """
    values = tuple(_mean(metric, index, view) for index, metric in enumerate(context.spec.metrics))
    known = memory_of(decision, context)
    empty = {one.cluster for one in view.members if one.foreign or (one.answers and one.written is None)}
    clusters = {
        name: one.with_assignment(
            left.states[name],
            # An HPA that goes holds it until the cluster answers without one.
            holds_hpa=name not in empty and (one.holds_hpa or bool(view.previous.states[name].maximum)),
        )
        for name, one in known.clusters.items()
        if name in left.states
    }
    memory = msgspec.structs.replace(
        known, clusters=clusters, assigned_for=left.assigned_for, course=left.course
    )
    # A cluster that left is shown no more: it holds no HPA, and runs nothing.
    out = {
        cluster.name
        for cluster, one in zip(context.snapshot.clusters, view.members, strict=True)
        if one.leaving and one.cluster in empty and context.fleet.is_empty(cluster)
    }
    entries = [
        {
            **entry,
            **bounds_entry(memory, str(entry["name"])),
            **_hpa(view.reports.get(str(entry["name"])), context.now),
        }
        for entry in cluster_entries(decision, context.snapshot, context.fleet, memory)
        if entry["name"] not in out
    ]
    status = status_of(decision, context.snapshot, context.fleet, entries, values if any(values) else None)
    return msgspec.structs.replace(decision, status=status, memory=memory)


def _hpa(report: HpaReport | None, now: float) -> dict[str, JSON]:
    """Returns what a status entry shows of a member HPA."""
    entry: dict[str, JSON] = {}
    if report is not None and report.desired is not None:
        entry["desiredReplicas"] = report.desired
    if report is not None and report.scaled_at is not None and report.scaled_at <= now + MAX_SKEW_SECONDS:
        entry["lastScaleTime"] = api_time(report.scaled_at)
    return entry


def _mean(metric: ScalingMetric, index: int, view: BoundsView) -> Mapping[str, JSON]:
    """Returns one entry of status.currentMetrics: the mean over all members, weighted by their replicas.

    Empty if the value of a member with replicas is unknown, because the others do not speak for it.
    """
    totals: dict[str, int] = {}
    weight = 0
    for report in view.reports.values():
        replicas = report.current
        if not replicas:
            continue
        values = report.values[index] if index < len(report.values) else None
        if not values:
            return {}
        weight += replicas
        for name, number in values.items():
            totals[name] = totals.get(name, 0) + number * replicas
    current: dict[str, JSON] = {
        name: total // weight // 1000 if name == "averageUtilization" else format_milli(total // weight)
        for name, total in totals.items()
    }
    return status_entry(metric, current) if current else {}
