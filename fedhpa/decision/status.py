"""The FederatedHPA status that a decision writes.

Source: Kubernetes HPA 1.36, reconcile 4.12 (which fields stay if nothing was computed);
docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.times import parse_time
from fedhpa.decision.builder import api_time, condition_json, shortened
from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.messages import READY
from fedhpa.decision.model import (
    ANSWERED,
    LOST,
    METRICS_LOST,
    METRICS_MISSING,
    MISSING,
    Decision,
    StatusCondition,
)
from fedhpa.decision.record.compact import compact_decision
from fedhpa.decision.record.status import StoredCluster
from fedhpa.decision.snapshot import ClusterSnapshot, Snapshot
from fedhpa.decision.spec.federatedhpa import DISTRIBUTED
from fedhpa.decision.summary import ready_condition, sentence, summary

JSON = object

# There may be a thousand clusters, each with a reason.
_MAX_REASON: Final = 512


def with_status(decision: Decision, snapshot: Snapshot, fleet: FleetView, *, have_scale: bool) -> Decision:
    """Returns the decision with its status. Without the target's scale the stored metrics stay."""
    stored = snapshot.hpa.status
    if have_scale:
        values: Sequence[Mapping[str, JSON]] | None = [metric.status for metric in decision.metrics] or None
    else:
        values = stored.current_metrics
    entries = cluster_entries(decision, snapshot, fleet)
    if _keeps_assignment(snapshot):
        entries = _with_assignment(entries, snapshot)
    return msgspec.structs.replace(decision, status=status_of(decision, snapshot, entries, values))


def status_of(
    decision: Decision,
    snapshot: Snapshot,
    entries: Sequence[Mapping[str, JSON]],
    values: Sequence[Mapping[str, JSON]] | None,
) -> Mapping[str, JSON]:
    """Returns the status with these entries of status.clusters and of status.currentMetrics."""
    stored = snapshot.hpa.status
    status: dict[str, JSON] = {}
    if snapshot.hpa.generation:
        status["observedGeneration"] = snapshot.hpa.generation
    if decision.rescale and not decision.distributed:
        status["lastScaleTime"] = api_time(decision.now)
    elif stored.last_scale_time:
        status["lastScaleTime"] = stored.last_scale_time
    status["currentReplicas"] = decision.current_replicas
    status["desiredReplicas"] = decision.desired_replicas
    status["currentMetrics"] = values
    conditions = (*decision.conditions, _ready(decision, snapshot))
    status["conditions"] = [condition_json(condition) for condition in conditions]
    status["summary"] = summary(decision, snapshot.hpa.spec, values)
    status["clusters"] = entries
    # Without a pass the assignment of mode Distributed stays.
    if _keeps_assignment(snapshot) and stored.assigned_for:
        status["assignedFor"] = stored.assigned_for
    status["decision"] = compact_decision(decision)
    return status


def _ready(decision: Decision, snapshot: Snapshot) -> StatusCondition:
    stored = (one for one in snapshot.hpa.status.conditions if one.type == READY)
    return ready_condition(
        decision.conditions,
        next(stored, None),
        decision.now,
        snapshot.hpa.generation,
        message=sentence(decision),
        failed=decision.error is not None,
        dry_run=snapshot.hpa.spec.dry_run,
    )


def cluster_entries(decision: Decision, snapshot: Snapshot, fleet: FleetView) -> Sequence[Mapping[str, JSON]]:
    """Returns status.clusters, without the assignment of mode Distributed."""
    views = {view.name: view for view in fleet.answered}
    stored = {cluster.name: cluster for cluster in snapshot.hpa.status.clusters}
    shares = {share.cluster: share for share in decision.assignment}
    entries: list[Mapping[str, JSON]] = []
    for cluster in snapshot.clusters:
        view = views.get(cluster.name)
        before = stored.get(cluster.name)
        entry: dict[str, JSON] = {"name": cluster.name, "state": _state(decision, cluster, view)}
        known = 0 if cluster.name in decision.failed_over else fleet.known_share(cluster)
        if known is not None:
            entry["currentReplicas"] = known
        share = shares.get(cluster.name)
        if share is not None:
            entry["desiredReplicas"] = share.replicas
        if view is not None:
            entry["readyReplicas"] = view.ready_pods
        scaled = decision.writes and share is not None and share.replicas != fleet.known_replicas(cluster)
        scale_time = api_time(decision.now) if scaled else before and before.last_scale_time
        if scale_time:
            entry["lastScaleTime"] = scale_time
        seen = _last_seen(decision.now, cluster, before, answers=view is not None)
        if seen:
            entry["lastSeen"] = seen
        message = decision.coverage.missing.get(cluster.name) or decision.coverage.lost.get(cluster.name)
        if message:
            entry["message"] = shortened(message, _MAX_REASON)
        entries.append(entry)
    return entries


def _keeps_assignment(snapshot: Snapshot) -> bool:
    """True while members may have our HPAs: in mode Distributed, and until its HPAs are removed."""
    return snapshot.hpa.spec.mode == DISTRIBUTED or snapshot.blocked is not None


def _with_assignment(entries: Sequence[Mapping[str, JSON]], snapshot: Snapshot) -> list[Mapping[str, JSON]]:
    """Returns the entries of a decision without a pass: the stored assignment stays."""
    stored = {cluster.name: cluster for cluster in snapshot.hpa.status.clusters}
    if not entries:
        return [_kept(cluster) for cluster in stored.values()]
    return [
        {**entry, **stored[name].assignment} if (name := str(entry["name"])) in stored else entry
        for entry in entries
    ]


def _kept(cluster: StoredCluster) -> Mapping[str, JSON]:
    """Returns a stored entry for a status of a decision that read no cluster."""
    fields = {
        "name": cluster.name,
        "state": cluster.state or None,
        "currentReplicas": cluster.current_replicas,
        "lastScaleTime": cluster.last_scale_time,
        "lastSeen": cluster.last_seen,
        **cluster.assignment,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _last_seen(
    now: float, cluster: ClusterSnapshot, before: StoredCluster | None, *, answers: bool
) -> str | None:
    if answers:
        return api_time(now)
    if before is None or before.last_seen is None:
        return None
    if cluster.absence is None or cluster.absence.back is not None:
        return api_time(now)  # it answered at the last reconcile
    # The stored time is that of the last status write, and a quiet object is rarely written. The cluster
    # was seen until the loss began, or at least until the stored time if it answered in between.
    seen = parse_time(before.last_seen)
    return before.last_seen if seen and seen > cluster.absence.since else api_time(cluster.absence.since)


def _state(decision: Decision, cluster: ClusterSnapshot, view: ClusterView | None) -> str:
    if cluster.name in decision.coverage.lost:
        return LOST if view is None else METRICS_LOST
    if view is None:
        return MISSING
    return METRICS_MISSING if cluster.name in decision.coverage.missing else ANSWERED
