"""The decision as JSON. Format and order of keys: docs/reference/decision-record.md."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.api.times import format_time
from fedhpa.assignment import Bounds
from fedhpa.decision.model import Decision, MetricResult
from fedhpa.decision.record.compact import metric_fields, share_fields
from fedhpa.decision.record.history import encode_history
from fedhpa.decision.record.memory import encode_memory

JSON = object


def to_json(decision: Decision, name: str = "", now_text: str = "") -> Mapping[str, JSON]:
    """Returns the decision as a JSON object; `now_text` is the time as the scenario has it."""
    coverage = decision.coverage
    return {
        "name": name,
        "now": now_text or format_time(decision.now),
        "currentReplicas": decision.current_replicas,
        "desiredReplicas": decision.desired_replicas,
        "rescale": decision.rescale,
        "reason": decision.reason,
        "error": decision.error,
        "coverage": {
            "expected": coverage.expected,
            "answered": coverage.answered,
            "missing": coverage.missing,
            "policy": coverage.policy,
            "applied": coverage.applied,
            **({"lost": coverage.lost} if coverage.lost else {}),
        },
        "metrics": [_metric(metric) for metric in decision.metrics],
        "steps": [
            {"step": step.step, "from": step.before, "to": step.after, "reason": step.reason}
            for step in decision.steps
        ],
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
            }
            for condition in decision.conditions
        ],
        "events": [
            {"type": event.type, "reason": event.reason, "message": event.message}
            for event in decision.events
        ],
        "status": decision.status,
        "history": encode_history(decision.history),
        "record": encode_memory(decision.memory),
        **(_bounds(decision) if decision.distributed else {"assignment": _shares(decision)}),
    }


def _shares(decision: Decision) -> list[Mapping[str, JSON]]:
    return [
        {
            "cluster": share.cluster,
            "replicas": share.replicas,
            "minReplicas": share.min_replicas,
            "maxReplicas": share.max_replicas,
        }
        for share in decision.assignment
    ]


def _bounds(decision: Decision) -> Mapping[str, JSON]:
    return {
        "assignment": [
            {
                "cluster": share.cluster,
                "minReplicas": share.min_replicas,
                "maxReplicas": share.max_replicas,
                "assist": share.assist,
                "held": share.held,
                "cappedUntil": share.capped_until,
                **({} if share.replicas is None else {"replicas": share.replicas}),
            }
            for share in decision.bounds
        ],
        "writes": [
            {"cluster": write.cluster, "before": _pair(write.before), "after": _pair(write.after)}
            for write in decision.hpa_writes
        ],
    }


def _pair(bounds: Bounds | None) -> Mapping[str, JSON] | None:
    if bounds is None:
        return None
    return {"minReplicas": bounds.minimum, "maxReplicas": bounds.maximum}


def to_line(decision: Decision, name: str = "", now_text: str = "") -> bytes:
    """Returns the decision as one line of compact JSON, without a newline."""
    return msgspec.json.encode(to_json(decision, name, now_text))


def _metric(metric: MetricResult) -> Mapping[str, JSON]:
    return {
        **metric_fields(metric),
        "pods": None if metric.pods is None else msgspec.to_builtins(metric.pods),
        "clusters": share_fields(metric),
        **({"missing": metric.missing} if metric.missing else {}),
    }
