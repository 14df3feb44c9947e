"""status: the FederatedHPA status that a decision would write.

Source: Kubernetes HPA 1.36, reconcile 4.12 (what is kept where nothing was computed), and
docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.api.times import parse_time
from fedhpa.decision.builder import api_time, condition_json, shortened
from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.model import Decision
from fedhpa.decision.record.status import compact
from fedhpa.decision.snapshot import ClusterSnapshot, Snapshot
from fedhpa.decision.spec.federatedhpa import ANSWERED, LOST, METRICS_LOST, METRICS_MISSING, StoredCluster

JSON = object

# Of a thousand clusters each.
_MAX_REASON: Final = 512


def build_status(decision: Decision, snapshot: Snapshot, world: FleetView, *, have_scale: bool) -> Decision:
    """The decision with its status. Without the target's scale the replica fields stay as they are stored."""
    stored = snapshot.hpa.status
    status: dict[str, JSON] = {}
    if snapshot.hpa.generation:
        status["observedGeneration"] = snapshot.hpa.generation
    if decision.rescale:
        status["lastScaleTime"] = api_time(decision.now)
    elif stored.last_scale_time:
        status["lastScaleTime"] = stored.last_scale_time
    status["currentReplicas"] = decision.current_replicas
    status["desiredReplicas"] = decision.desired_replicas
    if have_scale:
        entries = [metric.status for metric in decision.metrics]
        status["currentMetrics"] = entries or None
    else:
        status["currentMetrics"] = stored.current_metrics
    status["conditions"] = [condition_json(condition) for condition in decision.conditions]
    status["clusters"] = _clusters(decision, snapshot, world)
    status["decision"] = compact(decision)
    return msgspec.structs.replace(decision, status=status)


def _clusters(decision: Decision, snapshot: Snapshot, world: FleetView) -> list[Mapping[str, JSON]]:
    members = {member.name: member for member in world.members}
    before = {cluster.name: cluster for cluster in snapshot.hpa.status.clusters}
    shares = {share.cluster: share for share in decision.assignment}
    entries: list[Mapping[str, JSON]] = []
    for cluster in snapshot.clusters:
        member = members.get(cluster.name)
        known = before.get(cluster.name)
        entry: dict[str, JSON] = {"name": cluster.name, "state": _state(decision, cluster, member)}
        if member is not None or cluster.last_replicas is not None:
            entry["currentReplicas"] = world.known_replicas(cluster)
        share = shares.get(cluster.name)
        if share is not None:
            entry["desiredReplicas"] = share.replicas
        if member is not None:
            entry["readyReplicas"] = member.ready_pods
        scaled = decision.writes and share is not None and share.replicas != world.known_replicas(cluster)
        scale_time = api_time(decision.now) if scaled else known and known.last_scale_time
        if scale_time:
            entry["lastScaleTime"] = scale_time
        seen = _last_seen(decision.now, cluster, known, answers=member is not None)
        if seen:
            entry["lastSeen"] = seen
        message = decision.coverage.missing.get(cluster.name) or decision.coverage.lost.get(cluster.name)
        if message:
            entry["message"] = shortened(message, _MAX_REASON)
        entries.append(entry)
    return entries


def _last_seen(
    now: float, cluster: ClusterSnapshot, known: StoredCluster | None, *, answers: bool
) -> str | None:
    if answers:
        return api_time(now)
    if known is None or known.last_seen is None:
        return None
    if cluster.absence is None or cluster.absence.back is not None:
        return api_time(now)  # it answered until a look ago
    # The stored time is that of the last write, and a quiet world writes seldom: it was seen until
    # the loss began, or, if it answered in between, at least as late as is stored.
    seen = parse_time(known.last_seen)
    return known.last_seen if seen and seen > cluster.absence.since else api_time(cluster.absence.since)


def _state(decision: Decision, cluster: ClusterSnapshot, member: ClusterView | None) -> str:
    if cluster.name in decision.coverage.lost:
        return LOST if member is None else METRICS_LOST
    if member is None:
        return "Missing"
    return METRICS_MISSING if cluster.name in decision.coverage.missing else ANSWERED
