"""The FederatedHPA status that a decision writes, and the memory that it leaves.

Source: Kubernetes HPA 1.36, reconcile 4.12 (which fields stay if nothing was computed);
docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.assignment import NO_STATE
from fedhpa.decision.absence import (
    ANSWERED,
    ANSWERED_STATES,
    LOST,
    METRICS_LOST,
    METRICS_MISSING,
    MISSING,
)
from fedhpa.decision.builder import api_time, condition_json, shortened
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.history import bounded_history
from fedhpa.decision.memory import ClusterMemory, MemoryState
from fedhpa.decision.messages import READY
from fedhpa.decision.model import Decision, StatusCondition
from fedhpa.decision.snapshot import ClusterSnapshot, Snapshot
from fedhpa.decision.spec.federatedhpa import DISTRIBUTED
from fedhpa.decision.summary import ready_condition, sentence, summary

JSON = object

# There may be a thousand clusters, each with a reason.
_MAX_REASON: Final = 512


def with_status(decision: Decision, snapshot: Snapshot, fleet: FleetView, *, have_scale: bool) -> Decision:
    """Returns the decision with its status and memory. Without the target's scale the stored metrics stay."""
    stored = snapshot.hpa.status
    if have_scale:
        values: Sequence[Mapping[str, JSON]] | None = [metric.status for metric in decision.metrics] or None
    else:
        values = stored.current_metrics
    memory = memory_of(decision, snapshot, fleet, have_scale=have_scale)
    entries = cluster_entries(decision, snapshot, fleet, memory)
    if _keeps_assignment(snapshot):
        entries = entries or [_kept(name, one) for name, one in memory.clusters.items()]
        entries = [{**entry, **bounds_entry(memory, str(entry["name"]))} for entry in entries]
    status = status_of(decision, snapshot, fleet, entries, values)
    return msgspec.structs.replace(decision, status=status, memory=memory)


def status_of(
    decision: Decision,
    snapshot: Snapshot,
    fleet: FleetView,
    entries: Sequence[Mapping[str, JSON]],
    values: Sequence[Mapping[str, JSON]] | None,
) -> Mapping[str, JSON]:
    """Returns the status with these entries of status.clusters and of status.currentMetrics."""
    stored = snapshot.hpa.status
    status: dict[str, JSON] = {}
    if snapshot.hpa.generation:
        status["observedGeneration"] = snapshot.hpa.generation
    if scaled := _last_scale_time(decision, entries) or stored.last_scale_time:
        status["lastScaleTime"] = scaled
    status["currentReplicas"] = decision.current_replicas
    status["desiredReplicas"] = decision.desired_replicas
    status["currentMetrics"] = values
    conditions = (_ready(decision, snapshot), *decision.conditions)
    status["conditions"] = [condition_json(condition) for condition in conditions]
    status["summary"] = summary(decision, snapshot.hpa.spec, values)
    if fleet.answered:
        status["lastSeen"] = api_time(decision.now)
    status["clusters"] = [_without_defaults(entry, scaled) for entry in entries]
    return status


def _last_scale_time(decision: Decision, entries: Sequence[Mapping[str, JSON]]) -> str:
    """Returns when this decision, or in mode Distributed a member, changed the replicas; "" if none did."""
    if decision.distributed:
        times = [time for entry in entries if isinstance(time := entry.get("lastScaleTime"), str)]
        return max(times, default="")
    return api_time(decision.now) if decision.rescale else ""


def memory_of(
    decision: Decision, snapshot: Snapshot, fleet: FleetView, *, have_scale: bool = True
) -> MemoryState:
    """Returns what the next decision needs of this one."""
    before = snapshot.memory
    size = decision.desired_replicas if decision.writes else decision.current_replicas
    shares = {share.cluster: share.replicas for share in decision.assignment}
    keeps = _keeps_assignment(snapshot)
    clusters = {
        cluster.name: _remembered(
            decision, cluster, before.clusters.get(cluster.name), shares.get(cluster.name), fleet, keeps=keeps
        )
        for cluster in snapshot.clusters
    }
    return MemoryState(
        size=size if have_scale else before.size,
        history=bounded_history(decision.history),
        absences=dict(decision.absences),
        rebalance=decision.rebalance,
        clusters=clusters or before.clusters,
        assigned_for=before.assigned_for if keeps else "",
    )


def _remembered(
    decision: Decision,
    cluster: ClusterSnapshot,
    before: ClusterMemory | None,
    share: int | None,
    fleet: FleetView,
    *,
    keeps: bool,
) -> ClusterMemory:
    before = before or ClusterMemory(state=MISSING)
    known = 0 if cluster.name in decision.failed_over else fleet.known_share(cluster)
    scaled = decision.writes and share is not None and share != fleet.known_replicas(cluster)
    answers = fleet.answers(cluster.name)
    return ClusterMemory(
        replicas=share if share is not None and decision.writes else known,
        state=_state(decision, cluster, answers=answers),
        seen=None if answers else _last_seen(decision.now, cluster, before),
        scaled=decision.now // 1 if scaled else before.scaled,
        assignment=before.assignment if keeps else NO_STATE,
        holds_hpa=before.holds_hpa and keeps,
    )


def _ready(decision: Decision, snapshot: Snapshot) -> StatusCondition:
    stored = (one for one in snapshot.hpa.status.conditions if one.type == READY)
    return ready_condition(
        decision.conditions,
        next(stored, None),
        decision.now,
        snapshot.hpa.generation,
        message=sentence(decision),
        failed=decision.error is not None,
        record_problem=snapshot.record_problem,
        dry_run=snapshot.hpa.spec.dry_run,
    )


def cluster_entries(
    decision: Decision, snapshot: Snapshot, fleet: FleetView, memory: MemoryState
) -> list[Mapping[str, JSON]]:
    """Returns status.clusters, without the bounds of mode Distributed."""
    views = {view.name: view for view in fleet.answered}
    shares = {share.cluster: share for share in decision.assignment}
    entries: list[Mapping[str, JSON]] = []
    for cluster in snapshot.clusters:
        view, known = views.get(cluster.name), memory.clusters[cluster.name]
        entry: dict[str, JSON] = {"name": cluster.name, "state": known.state}
        present = 0 if cluster.name in decision.failed_over else fleet.known_share(cluster)
        if present is not None:
            entry["currentReplicas"] = present
        share = shares.get(cluster.name)
        if share is not None:
            entry["desiredReplicas"] = share.replicas
        if view is not None:
            entry["readyReplicas"] = view.ready_pods
        if known.scaled is not None:
            entry["lastScaleTime"] = api_time(known.scaled)
        if known.seen is not None:
            entry["lastSeen"] = api_time(known.seen)
        message = decision.coverage.missing.get(cluster.name) or decision.coverage.lost.get(cluster.name)
        if message:
            entry["message"] = shortened(message, _MAX_REASON)
        entries.append(entry)
    return entries


def _without_defaults(entry: Mapping[str, JSON], scaled: str | None) -> Mapping[str, JSON]:
    """Returns an entry of status.clusters without the fields that say nothing new.

    People read the status: `kubectl describe` has a line for each field. A cluster whose replicas are as
    wanted and ready has one number. `scaled` is the object's lastScaleTime.
    """
    current = entry.get("currentReplicas")
    said = {
        "state": ANSWERED,
        "desiredReplicas": current,
        "readyReplicas": current,
        "lastScaleTime": scaled,
    }
    return {name: value for name, value in entry.items() if name not in said or said[name] != value}


def _keeps_assignment(snapshot: Snapshot) -> bool:
    """True while members may have our HPAs: in mode Distributed, and until its HPAs are removed."""
    return snapshot.hpa.spec.mode == DISTRIBUTED or snapshot.blocked is not None


def bounds_entry(memory: MemoryState, cluster: str) -> dict[str, JSON]:
    """Returns the bounds of a cluster's HPA as status.clusters has them."""
    bounds = memory.assignment(cluster).bounds
    return {} if bounds is None else {"minReplicas": bounds.minimum, "maxReplicas": bounds.maximum}


def _kept(name: str, known: ClusterMemory) -> Mapping[str, JSON]:
    """Returns the entry of a known cluster for a status of a decision that read no cluster."""
    fields = {
        "name": name,
        "state": known.state or None,
        "currentReplicas": known.replicas,
        "lastScaleTime": None if known.scaled is None else api_time(known.scaled),
        "lastSeen": None if known.seen is None else api_time(known.seen),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _last_seen(now: float, cluster: ClusterSnapshot, before: ClusterMemory) -> float | None:
    """Returns when a cluster that does not answer was seen last; None if it never was."""
    if before.seen is None and before.state not in ANSWERED_STATES:
        return None
    if cluster.absence is None or cluster.absence.back is not None:
        return now // 1  # it answered at the last reconcile
    # It was seen until the loss began, or later if it answered in between.
    return max(before.seen or 0.0, cluster.absence.since)


def _state(decision: Decision, cluster: ClusterSnapshot, *, answers: bool) -> str:
    if cluster.name in decision.coverage.lost:
        return METRICS_LOST if answers else LOST
    if not answers:
        return MISSING
    return METRICS_MISSING if cluster.name in decision.coverage.missing else ANSWERED
