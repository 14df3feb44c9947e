"""The FederatedHPA status of mode Distributed, and the memory that the next pass needs.

Source: docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.free_json import time_at
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.quantity import format_milli, parse_milli
from fedhpa.assignment import ClusterState, Plan
from fedhpa.decision.context import Context
from fedhpa.decision.distributed.bounds_view import BoundsView
from fedhpa.decision.metrics import status_entry
from fedhpa.decision.model import Decision, api_time
from fedhpa.decision.outcome import memory_of
from fedhpa.decision.status import bounds_entry, cluster_entries, status_of
from fedhpa.metric_types.metric import ScalingMetric

JSON = object

MAX_REPLICAS: Final = 2**31 - 1
# A member's clock may be ahead of the hub's by so many seconds.
_CLOCK_SKEW: Final = 60


def with_bounds(
    decision: Decision,
    context: Context,
    view: BoundsView,
    states: Mapping[str, ClusterState],
    made: Plan | None,
) -> Decision:
    """Returns the decision with its status and memory: assignment, HPA and state of each cluster.

    `made` is the plan whose writes are to be remembered, None if nothing is. A cluster that answers that it
    has no HPA, and is to have none, holds none any more.
    """
    values = tuple(_mean(metric, index, view) for index, metric in enumerate(context.spec.metrics))
    known = memory_of(decision, context.snapshot, context.fleet)
    empty = {one.cluster for one in view.members if one.foreign or (one.answers and one.written is None)}
    clusters = {
        name: one.with_assignment(
            states[name],
            # An HPA that goes holds it until the cluster answers without one.
            holds_hpa=name not in empty and (one.holds_hpa or bool(view.states[name].maximum)),
        )
        for name, one in known.clusters.items()
        if name in states
    }
    memory = msgspec.structs.replace(
        known,
        clusters=clusters,
        assigned_for=view.previous.assigned_for if made is None else made.assigned_for,
        course=view.previous.course if made is None else made.course,
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
            **_hpa(view.hpas.get(str(entry["name"])), context.now),
        }
        for entry in cluster_entries(decision, context.snapshot, context.fleet, memory)
        if entry["name"] not in out
    ]
    status = status_of(decision, context.snapshot, context.fleet, entries, values if any(values) else None)
    return msgspec.structs.replace(decision, status=status, memory=memory)


def _hpa(hpa: MemberHpa | None, now: float) -> dict[str, JSON]:
    """Returns what a status entry shows of a member HPA."""
    if hpa is None:
        return {}
    wanted, scaled = whole_number(hpa.status.get("desiredReplicas")), hpa.derived(_scaled_at)
    entry: dict[str, JSON] = {}
    if wanted is not None:
        entry["desiredReplicas"] = wanted
    if scaled is not None and scaled <= now + _CLOCK_SKEW:
        entry["lastScaleTime"] = api_time(scaled)
    return entry


def _scaled_at(hpa: MemberHpa) -> float | None:
    return time_at(hpa.status.get("lastScaleTime"))


def whole_number(value: JSON) -> int | None:
    """Returns a number of replicas from a member; None if it cannot be one."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_REPLICAS
    return value if known else None  # type: ignore[return-value]  # a number


def _mean(metric: ScalingMetric, index: int, view: BoundsView) -> Mapping[str, JSON]:
    """Returns one entry of status.currentMetrics: the mean over all members, weighted by their replicas.

    Empty if the value of a member with replicas is unknown, because the others do not speak for it.
    """
    field = metric.metric_type.field
    totals: dict[str, int] = {}
    weight = 0
    for replicas, value in _values(field, index, view):
        if value is None:
            return {}
        weight += replicas
        for name, number in value.items():
            totals[name] = totals.get(name, 0) + number * replicas
    if not weight or not totals:
        return {}
    current: dict[str, JSON] = {
        name: total // weight // 1000 if name == "averageUtilization" else format_milli(total // weight)
        for name, total in totals.items()
    }
    return status_entry(metric, current)


def _values(field: str, index: int, view: BoundsView) -> Iterator[tuple[int, Mapping[str, int] | None]]:
    """Yields the replicas of each member HPA of ours and its values in milli-units, None if unknown."""
    for hpa in view.hpas.values():
        replicas = hpa.status.get("currentReplicas")
        if not hpa.ours or not isinstance(replicas, int) or isinstance(replicas, bool) or replicas <= 0:
            continue
        yield replicas, hpa.derived(_numbers, field, index)


def _numbers(hpa: MemberHpa, field: str, index: int) -> Mapping[str, int] | None:
    metrics = hpa.status.get("currentMetrics")
    entry = metrics[index] if isinstance(metrics, list) and index < len(metrics) else None
    source = entry.get(field) if isinstance(entry, dict) else None
    current = source.get("current") if isinstance(source, dict) else None
    if not isinstance(current, dict):
        return None
    found = {}
    for name in ("averageUtilization", "averageValue", "value"):
        raw = current.get(name)
        if isinstance(raw, str | int) and not isinstance(raw, bool):
            try:
                found[name] = parse_milli(raw)
            except InvalidObject:
                return None
    return found or None
