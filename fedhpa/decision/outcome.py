"""Builds the whole decision from a size: conditions, events, history, assignment and status.

Source: Kubernetes HPA 1.36, reconcile 4.9-4.12 and zero 9.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from fedhpa.api.propagation import DUPLICATED
from fedhpa.assignment import NO_COURSE, NO_STATE
from fedhpa.decision.conditions import report, report_hold, report_others, report_outlook
from fedhpa.decision.context import Context, absence_clocks
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.memory import (
    ANSWERED,
    ANSWERED_STATES,
    KNOWN_BEFORE,
    LOST,
    METRICS_LOST,
    METRICS_MISSING,
    MISSING,
    QUIET_SECONDS,
    ClusterMemory,
    History,
    MemoryState,
    bounded_history,
)
from fedhpa.decision.messages import (
    ABLE_TO_SCALE,
    HELD,
    IS_SCALED_TO_ZERO,
    MEMBERS_AVAILABLE,
    NOT_SCALED_TO_ZERO,
    SCALED_TO_ZERO,
)
from fedhpa.decision.metrics import tolerances
from fedhpa.decision.model import Decision, PublishPlacement
from fedhpa.decision.moves import held_shares, held_size, reported_memberships, shares_now
from fedhpa.decision.placement import PlacementPlan, headroom_of_binding, keeps
from fedhpa.decision.publication import publication_of
from fedhpa.decision.rebalance import report_refusal
from fedhpa.decision.snapshot import ClusterSnapshot, Failure, Snapshot
from fedhpa.decision.spec import DISTRIBUTED, ScalingSpec
from fedhpa.decision.status import bounds_entry, cluster_entries, kept_entry, reason_of_change, status_of
from fedhpa.decision.stuck import ready_nowhere
from fedhpa.scaling import ScaleEvent, store_event

JSON = object


def decided(
    context: Context,
    current: int,
    desired: int,
    reason: str,
    *,
    write_error: str | None = None,
    written_change: int = 0,
) -> Decision:
    """Returns the decision for a size. With `write_error` only `written_change` is counted as a scale."""
    error: str | None = None
    rescale = moves = False
    shares: Mapping[str, int] = {}
    split = changes = ""
    builder, stored = context.builder, context.stored
    if context.fleet.direct:
        plan = PlacementPlan(context)
        headroom = plan.headroom()
        wanted, desired = desired, plan.limited(desired)
        if context.hold is not None and desired != wanted:
            desired = held_size(context, context.hold, current, desired)
        moving = ""
        if context.fleet.leaving or context.fleet.stuck or context.knows_rebalance:
            shares, moving = shares_now(context, plan, current, desired)
        else:
            shares = plan.goal(desired)
        if context.hold is not None:
            shares = held_shares(context, context.hold, plan, current, desired, shares)
        split = plan.changes(shares)
        # Copies are made equal without a rescale only at a size that was decided.
        if desired == current and (context.fleet.size_was_decided or moving):
            changes = split
            reason = moving or (
                "every cluster gets the same number" if changes else reason if desired == wanted else ""
            )
    else:
        desired = _kept_for_bridged(context, current, desired)
        headroom = headroom_of_binding(context)
        if context.knows_rebalance:
            report_refusal(context)
    copies = context.fleet.scheduling == DUPLICATED
    report_outlook(context, headroom, copies=copies, held_above=context.fleet.direct and not copies)
    why = reason_of_change(reason, builder.steps, current, desired)
    if context.spec.dry_run:
        builder.step("dryRun", desired, desired, "spec.dryRun: nothing is written to the target")
        reported = (stored.current_replicas or 0, stored.desired_replicas or 0)
        if desired != current and reported != (current, desired):
            builder.event("DryRun", f"New size would be: {desired}; reason: {why}")
    elif (desired != current or changes) and write_error is not None:
        builder.warn("FailedRescale", f"New size: {desired}; reason: {why}; error: {write_error}")
        message = f"the HPA controller was unable to update the target scale: {write_error}"
        builder.condition(ABLE_TO_SCALE, False, "FailedUpdateScale", message)
        # Otherwise a rate limit would allow the same replicas again as long as one cluster refuses. A move is
        # no scale.
        scaled = 0 if desired == current else written_change
        context.history = history_after_scale(context.spec, context.history, scaled, context.now)
        error, desired = write_error, stored.desired_replicas or 0
    elif desired != current:
        rescale = True
        _report_rescale(context, current, desired, why, split if len(shares) > 1 else "")
    elif changes:
        moves = True
        builder.step("assignment", current, desired, f"{reason}: {changes}")
        builder.event("ReplicasMoved", f"{reason}: {changes}")
    failed_over = _failed_over(context, desired, written=error is None)
    decision = msgspec.structs.replace(
        without_status(context, current, desired, reason, error),
        assignment=shares if error is None else {},
        rescale=rescale,
        moves=moves,
        failed_over=failed_over,
        why=why,
        split=split if error is None else "",
    )
    return _with_status(decision, context, have_scale=True)


def _kept_for_bridged(context: Context, current: int, desired: int) -> int:
    """Returns the size of a template. It does not fall while a cluster is bridged: all shares would."""
    if desired >= current or not context.coverage.bridged:
        return desired
    return context.builder.step("assignment", desired, current, keeps(list(context.coverage.bridged)))


def undecided(context: Context, current: int, error: str, *, have_scale: bool) -> Decision:
    """Returns the decision that none could be made. Without the target's scale the stored size stays."""
    stored = context.stored
    shown = current if have_scale else stored.current_replicas or 0
    decision = without_status(context, shown, stored.desired_replicas or 0, "", error)
    return _with_status(decision, context, have_scale=have_scale)


def _report_rescale(context: Context, current: int, desired: int, reason: str, split: str) -> None:
    builder = context.builder
    message = f"the HPA controller was able to update the target scale to {desired}"
    builder.condition(ABLE_TO_SCALE, True, "SucceededRescale", message)
    builder.event(
        "SuccessfulRescale", f"New size: {desired}; reason: {reason}{f'; {split}' if split else ''}"
    )
    # Replicas that replace those of a lost cluster are no growth, so they use up no policy.
    floor = 0 if context.failover is None else min(context.failover.floor, desired)
    change = desired - max(current, floor)
    context.history = history_after_scale(context.spec, context.history, change, context.now)
    # Only a workload that the autoscaler scaled to zero, and that a metric can wake, is scaled up again.
    if current > 0 and desired == 0 and context.spec.min_replicas == 0 and context.wakes_on_metrics:
        builder.condition(SCALED_TO_ZERO, True, "ScaledToZero", IS_SCALED_TO_ZERO)
    else:
        builder.condition(SCALED_TO_ZERO, False, "NotScaledToZero", NOT_SCALED_TO_ZERO)


def _failed_over(context: Context, desired: int, *, written: bool) -> frozenset[str]:
    """Returns the lost clusters whose replicas the others have now, with an event."""
    failover, builder = context.failover, context.builder
    if failover is None:
        return frozenset()
    if failover.prevented:
        if failover.is_new:
            builder.warn("FailoverHeld", failover.reason)
        return frozenset()
    if not written or context.spec.dry_run:
        return frozenset()
    builder.event("FailedOver", f"{failover.reason}: the others have {desired} now")
    return frozenset(failover.shares)


def without_status(context: Context, current: int, desired: int, reason: str, error: str | None) -> Decision:
    """Returns a decision without writes, status and memory. Sets the conditions that all decisions have."""
    fleet, states = context.fleet, context.memory.states
    allowed = tolerances(context)
    serves = any(view.ready_pods >= view.replicas > 0 for view in fleet.answered)
    lacks = fleet.moves and not (fleet.stuck or serves)
    report_others(context)
    if context.hold is not None or context.builder.found(HELD) is not None:
        report_hold(context)
    known = context.fleet.memberships or context.builder.found(MEMBERS_AVAILABLE)
    members = reported_memberships(context) if known else {}
    write: PublishPlacement | None = None
    if context.snapshot.placement is not None:
        write, awaited = publication_of(context, context.snapshot.placement)
        members |= awaited
    context.absences = absences = absence_clocks(
        fleet, context.snapshot, context.coverage, context.now, context.unreported
    )
    propagation = context.snapshot.propagation
    if not propagation and not isinstance(context.snapshot.target, Failure):
        propagation = "direct" if fleet.direct else "karmada"
    # If the hub gave no template, no cluster was asked: MetricsComplete stays as it was.
    if context.snapshot.clusters or not isinstance(context.snapshot.target, Failure):
        report(context.builder, fleet, context.coverage, states, absences, context.unreported)
    return Decision(
        now=context.now,
        current_replicas=current,
        desired_replicas=desired,
        rescale=False,
        reason=reason,
        error=error,
        coverage=msgspec.structs.replace(context.coverage, applied=context.policy_in_force),
        metrics=context.metrics,
        steps=tuple(context.builder.steps),
        conditions=context.builder.conditions,
        events=tuple(context.builder.events),
        status={},
        history=context.history,
        missed=frozenset(context.missed),
        implausible=context.fleet.implausible,
        propagation=propagation,
        tolerance=(allowed.scale_up, allowed.scale_down),
        settings=context.settings,
        memberships=members,
        placement=write,
        unready=ready_nowhere(fleet.answered, context.memory, context.spec, context.now) if lacks else "",
    )


def history_after_scale(spec: ScalingSpec, history: History, change: int, now: float) -> History:
    """Returns the history after a scale by `change` replicas. Without behavior no scale event is kept."""
    if spec.behavior is None or change == 0:
        return history
    ups: tuple[ScaleEvent, ...] = history.scale_ups
    downs: tuple[ScaleEvent, ...] = history.scale_downs
    if change > 0:
        ups = store_event(ups, spec.behavior.scale_up, change, now)
    else:
        downs = store_event(downs, spec.behavior.scale_down, -change, now)
    return History(history.recommendations, ups, downs)


def _with_status(decision: Decision, context: Context, *, have_scale: bool) -> Decision:
    """Returns the decision with its status and memory. Without the target's scale the stored metrics stay."""
    snapshot, fleet = context.snapshot, context.fleet
    values: Sequence[Mapping[str, JSON]] | None = context.stored.current_metrics
    if have_scale:
        values = [metric.status for metric in decision.metrics] or None
    memory = memory_of(decision, context, have_scale=have_scale)
    entries = cluster_entries(decision, snapshot, fleet, memory)
    if _keeps_assignment(snapshot):
        entries = entries or [kept_entry(name, one) for name, one in memory.clusters.items()]
        entries = [{**entry, **bounds_entry(memory, str(entry["name"]))} for entry in entries]
    status = status_of(decision, snapshot, fleet, entries, values)
    return msgspec.structs.replace(decision, status=status, memory=memory)


def memory_of(decision: Decision, context: Context, *, have_scale: bool = True) -> MemoryState:
    """Returns what the next decision needs of this one."""
    snapshot, fleet = context.snapshot, context.fleet
    before, coverage = snapshot.memory, decision.coverage
    writes = decision.writes
    size = decision.desired_replicas if writes else decision.current_replicas
    keeps, holding = _keeps_assignment(snapshot), before.clusters_with_hpas
    # Nearly always nothing is to be noted of a cluster. Then its record stays the same one.
    quiet: Collection[str] = ()
    if not writes:
        others = coverage.missing, coverage.lost, fleet.memberships, fleet.lacking, decision.failed_over
        quiet = set(coverage.answered).difference(*others)
    clusters: dict[str, ClusterMemory] = {}
    for cluster in snapshot.clusters:
        name = cluster.name
        if not cluster.selected and fleet.is_empty(cluster) and name not in holding:
            continue
        known = before.clusters[name] if name in before.clusters else None  # noqa: SIM401  # no call
        if known is not None and name in quiet:
            uid, share = cluster.uid or known.uid, fleet.shares[name]
            if known == ClusterMemory(replicas=share, scaled=known.scaled, uid=uid):
                clusters[name] = known
                continue
        clusters[name] = _remembered(decision, cluster, known, fleet, keeps=keeps, writes=writes)
    if clusters and fleet.moves:
        # One that is selected again later is no new host.
        clusters = dict.fromkeys(before.clusters, KNOWN_BEFORE) | clusters
    return MemoryState(
        size=size if have_scale else before.size,
        history=bounded_history(decision.history),
        absences=dict(context.absences),
        rebalance=context.rebalance,
        clusters=clusters or before.clusters,
        assigned_for=before.assigned_for if keeps else "",
        course=before.course if keeps else NO_COURSE,
        resets=None if decision.distributed else before.resets,
        target=before.target,
        awaited=before.awaited if snapshot.placement is None else dict(context.awaited),
        followed=before.followed if snapshot.hpa.spec.follows else (),
    )


def _remembered(
    decision: Decision,
    cluster: ClusterSnapshot,
    before: ClusterMemory | None,
    fleet: FleetView,
    *,
    keeps: bool,
    writes: bool,
) -> ClusterMemory:
    answers = cluster.name in fleet.views
    state = _state(decision, cluster, answers=answers)
    before = before or KNOWN_BEFORE
    share = decision.assignment.get(cluster.name)
    known = 0 if cluster.name in decision.failed_over else fleet.shares[cluster.name]
    scaled = writes and share is not None and share != fleet.known_replicas(cluster)
    found = ClusterMemory(
        replicas=share if share is not None and writes else known,
        state=state,
        seen=None if answers else _last_seen(decision.now, cluster, before),
        scaled=decision.now // 1 if scaled else before.scaled,
        assignment=before.assignment if keeps else NO_STATE,
        holds_hpa=before.holds_hpa and keeps,
        standing=fleet.standing(cluster.name),
        lacking_since=fleet.lacking_since(cluster.name),
        answered_since=_answered_since(before, state, decision.now) if fleet.returns else None,
        uid=cluster.uid or before.uid,
    )
    return before if found == before else found  # the same record is quickly compared


def _keeps_assignment(snapshot: Snapshot) -> bool:
    """True while members may have our HPAs: in mode Distributed, and until its HPAs are removed."""
    return snapshot.hpa.spec.mode == DISTRIBUTED or snapshot.blocked is not None


def _last_seen(now: float, cluster: ClusterSnapshot, before: ClusterMemory) -> float | None:
    """Returns when a cluster that does not answer was seen last; None if it never was."""
    if before.seen is None and before.state not in ANSWERED_STATES:
        return None
    if cluster.absence is None or cluster.absence.back is not None:
        return now // 1  # it answered at the last reconcile
    # It was seen until the loss began, or later if it answered in between.
    return max(before.seen or 0.0, cluster.absence.since)


def _answered_since(before: ClusterMemory, state: str, now: float) -> float | None:
    """Returns when the cluster's data came back after a gap; None if it is missing, or that is long ago."""
    if state == ANSWERED != before.state:
        return now // 1
    since = before.answered_since
    return since if state == ANSWERED and since is not None and 0 <= now - since < QUIET_SECONDS else None


def _state(decision: Decision, cluster: ClusterSnapshot, *, answers: bool) -> str:
    if cluster.name in decision.coverage.lost:
        return METRICS_LOST if answers else LOST
    if not answers:
        return MISSING
    return METRICS_MISSING if cluster.name in decision.coverage.missing else ANSWERED
