"""The FederatedHPA status of mode Distributed.

It has what the next pass needs, so a restarted controller goes on from the status and the members alone.
Source: docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.quantity import format_milli, parse_milli
from fedhpa.assignment import ClusterState, written_state
from fedhpa.decision.context import Context
from fedhpa.decision.distributed.fleet import BoundsView, time_of
from fedhpa.decision.metrics.evaluate import status_entry
from fedhpa.decision.model import Decision
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.decision.status import cluster_entries, status_of

JSON = object

# A status holds up to a thousand clusters, and a member may send anything.
_MAX_CONDITIONS: Final = 4
_MAX_METRICS: Final = 4
_MAX_ENTRY: Final = 1024


def with_bounds(
    decision: Decision,
    context: Context,
    view: BoundsView,
    states: Mapping[str, ClusterState],
    assigned_for: str,
) -> Decision:
    """Returns the decision with its status: assignment, HPA and state of each cluster."""
    values = tuple(_mean(metric, index, view) for index, metric in enumerate(context.spec.metrics))
    entries = [
        {**entry, **_hpa(view.hpas.get(str(entry["name"]))), **written_state(states[str(entry["name"])])}
        for entry in cluster_entries(decision, context.snapshot, context.fleet)
    ]
    status = dict(status_of(decision, context.snapshot, entries, values if any(values) else None))
    if assigned_for:
        status["assignedFor"] = assigned_for
    scaled = [time for entry in entries if isinstance(time := entry.get("lastScaleTime"), str)]
    if scaled:
        status["lastScaleTime"] = max(scaled)
    return msgspec.structs.replace(decision, status=status)


def _hpa(hpa: MemberHpa | None) -> dict[str, JSON]:
    """Returns what a status entry shows of a member HPA. A part that is too large is left out."""
    if hpa is None:
        return {}
    wanted, scaled = hpa.status.get("desiredReplicas"), hpa.status.get("lastScaleTime")
    entry: dict[str, JSON] = {}
    if isinstance(wanted, int) and not isinstance(wanted, bool) and 0 <= wanted < 2**31:
        entry["desiredReplicas"] = wanted
    if isinstance(scaled, str) and time_of(scaled) is not None:
        entry["lastScaleTime"] = scaled
    conditions = [
        {key: one[key] for key in ("type", "status", "reason") if isinstance(one.get(key), str)}
        for one in _small(hpa.status.get("conditions"), _MAX_CONDITIONS)
    ]
    metrics = _small(hpa.status.get("currentMetrics"), _MAX_METRICS)
    return (
        entry
        | ({"conditions": conditions} if conditions else {})
        | ({"currentMetrics": metrics} if metrics else {})
    )


def _small(values: JSON, most: int) -> list[dict[str, JSON]]:
    """Returns the first objects of a list, without those that are too large."""
    found = [one for one in values[:most] if isinstance(one, dict)] if isinstance(values, list) else []
    return [one for one in found if len(msgspec.json.encode(one)) <= _MAX_ENTRY]


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
        metrics = hpa.status.get("currentMetrics")
        entry = metrics[index] if isinstance(metrics, list) and index < len(metrics) else None
        source = entry.get(field) if isinstance(entry, dict) else None
        current = source.get("current") if isinstance(source, dict) else None
        yield replicas, _numbers(current) if isinstance(current, dict) else None


def _numbers(current: Mapping[str, JSON]) -> Mapping[str, int] | None:
    found = {}
    for name in ("averageUtilization", "averageValue", "value"):
        raw = current.get(name)
        if isinstance(raw, str | int) and not isinstance(raw, bool):
            try:
                found[name] = parse_milli(raw)
            except InvalidObject:
                return None
    return found or None
