"""Conditions with their events, such as MetricsComplete, SoleOwner, HubCompatible and SurvivesClusterLoss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

from fedhpa.api.hold import ALL, DOWN, UP
from fedhpa.api.texts import listed
from fedhpa.decision.context import MAX_LOST_PER_CENT, Context, describe
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.memory import (
    ANSWERED,
    LOST_STATES,
    METRICS_MISSING,
    QUIET_SECONDS,
    TOLD_STATES,
    Absence,
    SizeChange,
)
from fedhpa.decision.messages import (
    HELD,
    HUB_COMPATIBLE,
    METRICS_COMPLETE,
    PLACEMENT_UNREADABLE,
    SOLE_OWNER,
    SURVIVES_CLUSTER_LOSS,
)
from fedhpa.decision.model import NORMAL, WARNING, Coverage, DecisionBuilder, Event
from fedhpa.decision.placement import ClusterHeadroom, worst_loss
from fedhpa.decision.snapshot import ClusterSnapshot

# People read events and conditions, so they name only so many autoscalers.
_MAX_NAMED: Final = 4
UNREADABLE: Final = "HoldUnreadable"
_REASONS: Final = {DOWN: "HoldDown", UP: "HoldUp", ALL: "HoldAll"}
# Where the part of a message begins that differs each time.
_LAST: Final = ": last"


def report_others(context: Context) -> None:
    """Set SoleOwner, HubCompatible and PlacementUnreadable, where somebody else has or had a part in it."""
    snapshot, found = context.snapshot, context.builder.found
    if snapshot.competitors or context.memory.resets or found(SOLE_OWNER):
        _report_owners(context)
    if snapshot.hub_findings or found(HUB_COMPATIBLE):
        _report_hub(context)
    if snapshot.unfollowed or found(PLACEMENT_UNREADABLE):
        _report_followed(context)


def _report_owners(context: Context) -> None:
    """Set SoleOwner once another owner was found, with one event for each new set of them.

    That is an autoscaler, or else a client that keeps changing the size. An autoscaler that is named already
    explains such changes.
    """
    others, resets, builder = context.snapshot.competitors, context.memory.resets, context.builder
    before = builder.found(SOLE_OWNER)
    if others:
        reason = "AnotherAutoscaler"
        message = f"the target is also scaled by {listed(others, _MAX_NAMED)}: remove either"
    elif resets is not None and resets.is_conflict:
        reason, message = "AnotherWriter", _conflict(resets.last)
    else:
        if before is not None:
            text = "no other autoscaler of the target was found"
            builder.condition(SOLE_OWNER, True, "NoOtherAutoscaler", text)
        return
    # The numbers of a client that keeps changing the size differ each time.
    if before is None or before.reason != reason or _owner(before.message) != _owner(message):
        builder.warn(reason, message)
    builder.condition(SOLE_OWNER, False, reason, message)


def _conflict(last: SizeChange) -> str:
    where = f" in {last.cluster}" if last.cluster else ""
    return (
        f"{last.by or 'another client'} keeps changing the size{_LAST}{where} to {last.found} replicas, "
        f"where the controller had left {last.left}; stop it, or leave spec.replicas out of what it applies"
    )


def _owner(message: str) -> str:
    """Returns the part of a message of SoleOwner that names the other owner."""
    return message.partition(_LAST)[0]


def _report_hub(context: Context) -> None:
    """Set HubCompatible, where a problem is or was found, with events for each new set of problems."""
    findings, builder = context.snapshot.hub_findings, context.builder
    if not findings:
        text = "the hub keeps all fields, and nobody else was found to act on FederatedHPAs"
        builder.condition(HUB_COMPATIBLE, True, "NothingFound", text)
        return
    message = "; ".join(finding.message for finding in findings)
    if builder.message(HUB_COMPATIBLE) != message:
        for finding in findings:
            builder.warn(finding.reason, finding.message)
    builder.condition(HUB_COMPATIBLE, False, findings[0].reason, message)


def _report_followed(context: Context) -> None:
    """Set PlacementUnreadable, where a PlacementDecision cannot or could not be followed, with its event."""
    why, builder = context.snapshot.unfollowed, context.builder
    if why:
        if not builder.has(PLACEMENT_UNREADABLE):
            builder.warn(PLACEMENT_UNREADABLE, why)
        builder.condition(PLACEMENT_UNREADABLE, True, "SelectionKept", why)
    elif not context.spec.follows:
        builder.forget(PLACEMENT_UNREADABLE)
    elif why is not None and builder.has(PLACEMENT_UNREADABLE):
        builder.condition(PLACEMENT_UNREADABLE, False, "Followed", "the PlacementDecision is followed")


def report_hold(context: Context) -> None:
    """Set Held, with an event when a hold begins, changes or ends. Without any hold ever, it is absent."""
    hold, builder = context.hold, context.builder
    before = builder.found(HELD)
    if hold is None:
        if before is not None and before.status == "True":
            builder.event("HoldEnded", "the hold ended: scaling goes on")
            builder.condition(HELD, False, "NotHeld", "no hold is in force")
        return
    reason = UNREADABLE if hold.problem else _REASONS[hold.direction]
    if before is None or before.status != "True" or before.message != str(hold):
        (builder.warn if hold.problem else builder.event)(reason if hold.problem else HELD, str(hold))
    builder.condition(HELD, True, reason, str(hold))


def report(
    builder: DecisionBuilder,
    fleet: FleetView,
    coverage: Coverage,
    states: Mapping[str, str],
    absences: Mapping[str, Absence],
    unreported: Set[str] = frozenset(),
) -> None:
    """Set MetricsComplete, and add an event when a cluster goes missing, is lost, and answers again.

    `states` are the clusters' states in the stored status: they show which events were sent before.
    `unreported` are clusters that are missing for a moment only.
    """
    missing = coverage.missing
    if unreported:
        missing = {name: reason for name, reason in missing.items() if name not in unreported}
    if missing:
        builder.condition(METRICS_COMPLETE, False, "ClustersMissing", describe(missing, absences))
    elif unreported and builder.message(METRICS_COMPLETE) is not None:
        pass  # a moment changes no condition
    elif coverage.lost and not coverage.expected:
        builder.condition(METRICS_COMPLETE, False, "ClustersLost", describe(coverage.lost, absences))
    elif not coverage.expected:
        builder.condition(METRICS_COMPLETE, False, "NoClusters", "no cluster was found that has the workload")
    else:
        count = len(coverage.expected)
        noun = "cluster" if count == 1 else "clusters"
        builder.condition(METRICS_COMPLETE, True, "AllClustersAnswered", f"{count} expected {noun} answered")
    events = [
        Event(WARNING, "ClusterMissing", f"cluster {absent_text(coverage, cluster.name)}")
        for cluster in fleet.expected
        if cluster.name in missing
        and _is_new(cluster, states.get(cluster.name, ANSWERED), fleet.implausible)
        # If the only cluster answers, Kubernetes' own events name the problem.
        and (len(coverage.expected) > 1 or not cluster.ready or cluster.error is not None)
    ]
    unregistered = {one.name: one.gone for one in fleet.snapshot.clusters if one.gone is not None}
    held = dict[str, None]()
    for name, reason in coverage.lost.items():
        if states.get(name) not in LOST_STATES:
            absence = absences.get(name)
            ago = "" if absence is None else f" {builder.now - absence.since:.0f} s ago"
            text = f"cluster {name} went missing{ago} and is no longer expected: {reason}"
            if name in unregistered:
                events.append(Event(WARNING, "SourceGone", f"cluster {name} is lost at once: {reason}"))
                held[unregistered[name]] = None
                continue
            events.append(Event(WARNING, "ClusterLost", text))
    events += [Event(WARNING, "FailoverHeld", why) for why in held if why]
    # The data of an only cluster goes missing with Kubernetes' own events.
    told = TOLD_STATES if len(coverage.expected) > 1 else TOLD_STATES - {METRICS_MISSING}
    for name in [name for name in coverage.answered if name in states and states[name] in told]:
        state = states[name]
        if state == METRICS_MISSING and absences.get(name) is None:
            continue  # its pods had no samples yet, which nobody was told
        if name not in missing and name not in unreported:
            events.append(Event(NORMAL, "ClusterAnswers", f"cluster {name} answers again"))
    builder.events[:0] = events  # the cause comes before its effects


def absent_text(coverage: Coverage, cluster: str) -> str:
    """Returns that a cluster is missing, or that it answered without all data, with the reason."""
    verb = "answered without all data" if cluster in coverage.answered else "is missing"
    return f"{cluster} {verb}: {coverage.missing[cluster]}"


def _is_new(cluster: ClusterSnapshot, state: str, implausible: Set[str]) -> bool:
    """True without an event about a missing cluster. An implausible one is missing before its clock runs."""
    waited = state == METRICS_MISSING and cluster.name in implausible
    return state == ANSWERED or (waited and (cluster.absence is None or cluster.absence.back is not None))


ROOM_ELSEWHERE: Final = "if any one cluster is lost, the others have room for its replicas"
COPIES: Final = "if any one cluster is lost, each of the others still runs the whole size"
NOTHING_KNOWN: Final = "the capacity of no cluster is known any more"
_MAX_UNKNOWN: Final = 8


def report_outlook(
    context: Context, clusters: Sequence[ClusterHeadroom], *, copies: bool = False, held_above: bool = False
) -> None:
    """Sets the condition from the headroom of all `clusters`.

    With `copies` each cluster runs the whole size. With `held_above` the controller fails a cluster with a
    large part of the replicas over only as usage asks for it.
    """
    # While a cluster is missing, its replicas and its room are those of some time ago.
    if context.coverage.missing or not clusters:
        return
    unknown = [one.cluster for one in clusters if not one.known]
    if len(unknown) == len(clusters):
        if context.builder.message(SURVIVES_CLUSTER_LOSS) is not None:
            _set(context, None, "CapacityUnknown", NOTHING_KNOWN)
        return
    worst = worst_loss(clusters, context.spec.max_replicas)
    if worst is None:
        return
    if len(clusters) == 1:
        text = f"without {worst.cluster}, no replica has room, because no other cluster takes part"
        _set(context, False, "OnlyCluster", text)
    elif copies:
        _set(context, True, "RunsEverywhere", COPIES)
    elif worst.survives:
        _set(context, True, "RoomElsewhere", ROOM_ELSEWHERE + _failover(clusters, held_above=held_above))
    elif worst.survives is None:
        text = f"without {worst.cluster}, up to {worst.at_most} of {worst.total} replicas have no room"
        others = [name for name in unknown if name != worst.cluster]
        names = listed(others, _MAX_UNKNOWN)
        _set(context, None, "CapacityUnknown", f"{text}; the capacity of {names} is unknown")
    else:
        verb = "has" if worst.lacking == 1 else "have"
        text = f"without {worst.cluster}, {worst.lacking} of {worst.total} replicas {verb} no room"
        _set(context, False, "NoRoom", text + _failover(clusters, held_above=held_above))


def _failover(clusters: Sequence[ClusterHeadroom], *, held_above: bool) -> str:
    """Returns what happens to the replicas of a cluster that has most of them; "" without such a cluster."""
    total = sum(one.replicas for one in clusters)
    for one in clusters:
        if held_above and one.replicas * 100 > MAX_LOST_PER_CENT * total:
            part = f"more than {MAX_LOST_PER_CENT} % of the replicas"
            return f"; {one.cluster} runs {part}, so after its loss the others grow only as usage asks"
    return ""


def _set(context: Context, status: bool | None, reason: str, message: str) -> None:
    """Sets the condition. A worse status is set at once, a better one only after a quiet time.

    Free capacity changes all the time.
    """
    before = context.builder.found(SURVIVES_CLUSTER_LOSS)
    if before is not None and status is not False and before.status != str(status or "Unknown"):
        since = before.since
        if since is not None and 0 <= context.now - since < QUIET_SECONDS:
            return
    context.builder.condition(SURVIVES_CLUSTER_LOSS, status, reason, message)
