"""Scenarios of mode Distributed, and the answers to them."""

from __future__ import annotations

import copy
import json
from typing import Any

from fedhpa.api.times import format_time, parse_time
from fedhpa.decision import Decision, decide, decode_scenario, to_json
from tests.support.scenarios import carry_on

NOW = "2026-03-11T13:23:17Z"
METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def preferences(field: str, numbers: dict[str, int]) -> list[dict[str, Any]]:
    return [{"targetCluster": {"clusterNames": [name]}, field: each} for name, each in numbers.items()]


def federated(
    least: int, most: int, policy: str = "StaticWeighted", wishes: Any = (), **spec: Any
) -> dict[str, Any]:
    assignment = {
        "federatedHPAAssignmentType": policy,
        "clusterAutoscalingPreference": list(wishes),
    }
    return {
        "metadata": {"name": "web", "namespace": "shop", "generation": 2},
        "spec": {
            "scaleTargetRef": TARGET,
            "minReplicas": least,
            "maxReplicas": most,
            "mode": "Distributed",
            "metrics": [METRIC],
            "federatedHPAAssignment": assignment,
            **spec,
        },
    }


def hpa(least: int, most: int, current: int, usage: int = 50, **status: Any) -> dict[str, Any]:
    """A member HPA as the member shows it. At its maximum and above target it is pinned."""
    limited = current >= most and usage > 55
    return {
        "spec": {"scaleTargetRef": TARGET, "minReplicas": least, "maxReplicas": most, "metrics": [METRIC]},
        "status": {
            "currentReplicas": current,
            "desiredReplicas": current,
            "currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": usage}}}
            ],
            "conditions": [
                {
                    "type": "ScalingLimited",
                    "status": "True" if limited else "False",
                    "reason": "TooManyReplicas" if limited else "DesiredWithinRange",
                }
            ],
            **status,
        },
    }


def cluster(
    name: str, running: int, autoscaler: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "ready": True,
        "scale": {"specReplicas": running, "statusReplicas": running, "selector": "app=web"},
        "hpa": autoscaler,
        **fields,
    }


def scenario(obj: dict[str, Any], *clusters: dict[str, Any], now: str = NOW) -> dict[str, Any]:
    return {"now": now, "federatedHPA": obj, "clusters": list(clusters)}


def decided(raw: dict[str, Any], **how: Any) -> Decision:
    found = decode_scenario(json.dumps(raw).encode())
    return decide(found.snapshot, found.history, found.now, found.settings, **how)


def replayed(raw: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(to_json(decided(raw))))  # type: ignore[no-any-return]


def bounds(answer: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {each["cluster"]: (each["minReplicas"], each["maxReplicas"]) for each in answer["assignment"]}


def condition(answer: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(each for each in answer["conditions"] if each["type"] == kind)


def assigned(
    raw: dict[str, Any], later: int = 60, usage: int = 50, **changes: dict[str, Any]
) -> dict[str, Any]:
    """The scenario after all writes of its pass: members have the bounds, the memory is stored."""
    answer = replayed(raw)
    after = copy.deepcopy(raw)
    carry_on(after, answer)
    shares = bounds(answer)
    for each in after["clusters"]:
        least, most = shares[each["name"]]
        running = min(max(each["scale"]["specReplicas"], least), most) if most else 0
        each["scale"]["specReplicas"] = each["scale"]["statusReplicas"] = running
        each["hpa"] = hpa(least, most, running, usage) if most else None
        each |= changes.get(each["name"], {})
    after["now"] = format_time((parse_time(raw["now"]) or 0) + later)
    return after
