"""The FederatedHPA status of mode Distributed, and the memory that the next pass needs.

Source: docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.api.quantity import format_milli
from fedhpa.assignment import HpaReport, Previous
from fedhpa.decision.context import Context
from fedhpa.decision.distributed.bounds_view import BoundsView
from fedhpa.decision.metrics import status_entry
from fedhpa.decision.model import Decision, api_time
from fedhpa.decision.outcome import memory_of
from fedhpa.decision.status import bounds_entry, cluster_entries, status_of
from fedhpa.metric_types.metric import ScalingMetric

JSON = object

# A member's clock may be ahead of the hub's by so many seconds.
_CLOCK_SKEW: Final = 60


def with_bounds(decision: Decision, context: Context, view: BoundsView, left: Previous) -> Decision:
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
    if report is not None and report.scaled_at is not None and report.scaled_at <= now + _CLOCK_SKEW:
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
