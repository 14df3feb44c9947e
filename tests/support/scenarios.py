"""Builds scenarios for `fedhpa replay`."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from fedhpa.decision import Decision, StoredStatus, decide, decode_scenario, to_json
from fedhpa.decision.record.memory import encode_memory, memory_of_status

NOW = "2026-03-11T13:23:17Z"

CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def pod(name: str, *, request: str = "100m", phase: str = "Running", labels: Any = None) -> dict[str, Any]:
    """Returns a pod that has been ready for an hour."""
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": request}}}]},
        "status": {
            "phase": phase,
            "startTime": "2026-03-11T12:00:00Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-11T12:00:05Z"}],
        },
    }


def usage(name: str, cpu: str) -> dict[str, Any]:
    """The usage of a pod."""
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "timestamp": "2026-03-11T13:23:00Z",
        "window": "30s",
        "containers": [{"name": "web", "usage": {"cpu": cpu, "memory": "64Mi"}}],
    }


def cluster(name: str, usages: list[int], **changes: Any) -> dict[str, Any]:
    """Returns a cluster with one pod for each usage in milli-cores. All clusters have the same pod names."""
    count = len(usages)
    return {
        "name": name,
        "ready": True,
        "scale": {"specReplicas": count, "statusReplicas": count, "selector": "app=web"},
        "pods": [pod(f"web-{i}") for i in range(count)],
        "podMetrics": [usage(f"web-{i}", f"{milli}m") for i, milli in enumerate(usages)],
        **changes,
    }


def external(metric: str, value: str, **labels: str) -> dict[str, Any]:
    """Returns an ExternalMetricValue."""
    return {"metricName": metric, "metricLabels": labels, "timestamp": "2026-03-11T13:23:00Z", "value": value}


def scenario(clusters: list[dict[str, Any]], *, spec: Any = None, **changes: Any) -> dict[str, Any]:
    """A scenario over clusters. The template, if any, has the sum of their replicas."""
    whole = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 100,
        "metrics": [CPU],
        **(spec or {}),
    }
    hpa = {"metadata": {"name": "web", "namespace": "shop", "generation": 2}, "spec": whole}
    total = sum(c["scale"].get("specReplicas", 0) for c in clusters)
    found = {
        "name": "test",
        "now": NOW,
        "federatedHPA": hpa,
        "target": {"replicas": total},
        "clusters": clusters,
        "history": {"recommendations": []},
        **changes,
    }
    return {key: value for key, value in found.items() if value is not None}


def decided(given: dict[str, Any]) -> Decision:
    """Returns the decision of a scenario."""
    decoded = decode_scenario(json.dumps(given).encode())
    return decide(decoded.snapshot, decoded.history, decoded.now, decoded.settings)


def answered(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the decision of a scenario as JSON."""
    encoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(to_json(decided(given), "test")))
    return encoded


def remembered(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the record of these fields, which have the names and times of an old status."""
    clusters = [{"name": name, **entry} for name, entry in fields.get("clusters", {}).items()]
    status = StoredStatus(decision=fields, clusters=clusters, assigned_for=fields.get("assignedFor"))
    return encode_memory(memory_of_status(status))


def carry_on(given: dict[str, Any], answer: dict[str, Any]) -> None:
    """Gives the scenario what a decision leaves to the next one: its record, and the rest of its status."""
    given["federatedHPA"]["status"] = answer["status"]
    given["record"] = answer["record"]
    given.pop("history", None)


def condition(answer: dict[str, Any], type: str) -> tuple[str, str, str]:
    """Returns status, reason and message of a condition."""
    found = next(c for c in answer["conditions"] if c["type"] == type)
    return found["status"], found["reason"], found["message"]
