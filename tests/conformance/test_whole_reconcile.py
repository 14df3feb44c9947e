"""Whole reconciles over one cluster, worked out by hand from Kubernetes HPA 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.scenarios import CPU, NOW, answered, cluster, external, scenario

BY_TARGET = "cpu resource utilization (percentage of request) above target"
BELOW = "All metrics below target"
A_MINUTE = [{"type": "Pods", "value": 5, "periodSeconds": 60}]
HALF = [{"type": "Percent", "value": 50, "periodSeconds": 15}]
BY_US = {"conditions": [{"type": "ScaledToZero", "status": "True"}]}


def queue(kind: str) -> dict[str, Any]:
    target = {"type": "Value", "value": "10"} if kind == "Value" else {"averageValue": "10"}
    return {"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}


def queued(pods: int, *values: str, status: int | None = None) -> dict[str, Any]:
    scale = {
        "specReplicas": pods,
        "statusReplicas": pods if status is None else status,
        "selector": "app=web",
    }
    return cluster("m", [1] * pods, scale=scale, externalMetrics=[external("queue", v) for v in values])


def up(**rules: Any) -> dict[str, Any]:
    return {"behavior": {"scaleUp": rules}}


def down(**rules: Any) -> dict[str, Any]:
    return {"behavior": {"scaleDown": rules}}


def recommended(time: str, replicas: int) -> dict[str, Any]:
    return {"recommendations": [{"time": f"2026-03-11T{time}Z", "replicas": replicas}]}


@pytest.mark.parametrize(
    ("member", "spec", "history", "expected", "reason", "limited"),
    [
        (cluster("m", [55, 56]), {}, None, 2, "", "DesiredWithinRange"),
        (cluster("m", [56, 56]), {}, None, 3, BY_TARGET, "DesiredWithinRange"),
        (cluster("m", [44] * 10), {}, None, 9, BELOW, "DesiredWithinRange"),
        (cluster("m", [400]), {}, None, 4, BY_TARGET, "ScaleUpLimit"),
        (cluster("m", [400]), {"maxReplicas": 4}, None, 4, BY_TARGET, "TooManyReplicas"),
        (cluster("m", [1] * 4), {"minReplicas": 2}, None, 2, BELOW, "TooFewReplicas"),
        (cluster("m", [1] * 5), down(policies=HALF), None, 2, BELOW, "ScaleDownLimit"),
        (cluster("m", [1] * 5), down(selectPolicy="Disabled"), None, 5, BELOW, "ScaleDownLimit"),
        (cluster("m", [100] * 10), up(policies=A_MINUTE), None, 15, BY_TARGET, "ScaleUpLimit"),
        (
            cluster("m", [100] * 4),
            up(stabilizationWindowSeconds=60),
            recommended("13:23:00", 5),
            5,
            BY_TARGET,
            "DesiredWithinRange",
        ),
        (cluster("m", [10] * 4), {}, recommended("13:18:17", 3), 3, BELOW, "DesiredWithinRange"),
        (cluster("m", [10] * 4), {}, recommended("13:18:16", 3), 1, BELOW, "DesiredWithinRange"),
        (cluster("m", [50] * 4), {}, recommended("13:22:16", 7), 7, "", "DesiredWithinRange"),
        (queued(2, "20"), {"metrics": [CPU, queue("Value")]}, None, 4, "queue", "DesiredWithinRange"),
        (queued(3, "31"), {"metrics": [queue("Average")]}, None, 3, "", "DesiredWithinRange"),
        (queued(3, "60", status=2), {"metrics": [queue("Average")]}, None, 6, "queue", "DesiredWithinRange"),
        (queued(3, "20", status=2), {"metrics": [queue("Average")]}, None, 2, BELOW, "DesiredWithinRange"),
        (queued(2, "9E", "9E"), {"metrics": [queue("Value")]}, None, 4, "queue", "ScaleUpLimit"),
    ],
)
def test_size_reason_and_limit(
    member: dict[str, Any],
    spec: dict[str, Any],
    history: dict[str, Any] | None,
    expected: int,
    reason: str,
    limited: str,
) -> None:
    """Size, reason of the rescale and reason of ScalingLimited are Kubernetes'."""
    answer = answered(scenario([member], spec=spec, history=history or {"recommendations": []}))

    found = {condition["type"]: condition["reason"] for condition in answer["conditions"]}
    whole = "external metric queue(nil) above target" if reason == "queue" else reason
    assert (answer["desiredReplicas"], answer["reason"]) == (expected, whole)
    assert found["ScalingLimited"] == limited
    assert answer["rescale"] is (expected != answer["currentReplicas"])


@pytest.mark.parametrize(
    ("stored", "spec", "value", "expected", "active", "to_zero"),
    [
        ({}, {"minReplicas": 0}, "30", 0, "ScalingDisabled", None),
        (BY_US, {"minReplicas": 0}, "31", 4, "ValidMetricFound", "NotScaledToZero"),
        (BY_US, {"minReplicas": 0}, "310", 4, "ValidMetricFound", "NotScaledToZero"),
        (BY_US, {"minReplicas": 0}, "0", 0, "ValidMetricFound", ""),
        (BY_US, {"minReplicas": 6}, "10", 6, "ValidMetricFound", "NotScaledToZero"),
        (BY_US, {"minReplicas": 2, "metrics": [CPU]}, "10", 0, "FailedGetResourceMetric", ""),
        (BY_US, {"minReplicas": 0, "metrics": [CPU]}, "10", 0, "ScalingDisabled", ""),
    ],
)
def test_what_is_at_zero(
    stored: dict[str, Any], spec: dict[str, Any], value: str, expected: int, active: str, to_zero: str | None
) -> None:
    """A workload is scaled from zero only if the autoscaler put it there and a metric can wake it."""
    given = scenario([queued(0, value)], spec={"metrics": [queue("Average")], **spec})
    given["federatedHPA"]["status"] = stored

    answer = answered(given)

    found = {condition["type"]: condition["reason"] for condition in answer["conditions"]}
    assert answer["desiredReplicas"] == expected
    assert (found["ScalingActive"], found.get("ScaledToZero")) == (active, to_zero)


def test_outdated_scale_events_are_reused_in_place() -> None:
    """A new event replaces the last one older than the longest period; younger ones limit."""
    events = [("13:20:17", 4), ("13:23:00", 1), ("13:20:18", 3)]
    ups = [{"time": f"2026-03-11T{time}Z", "change": change} for time, change in events]

    answer = answered(
        scenario(
            [cluster("m", [100] * 10)],
            spec=up(policies=A_MINUTE),
            history={"recommendations": [], "scaleUps": ups},
        )
    )

    assert answer["desiredReplicas"] == 14
    assert answer["history"]["scaleUps"] == [*ups[:2], {"time": NOW, "change": 4}]


@pytest.mark.parametrize(
    ("change", "pods", "expected"),
    [
        ({"status": {"phase": "Pending"}}, (2, 1, 0, 0), 4),
        ({"status": {"phase": "Failed"}}, (2, 0, 0, 1), 4),
        ({"status": {}}, (2, 1, 0, 0), 4),
        ({"metadata": {"name": "web-9", "labels": {"app": "web"}}}, (2, 0, 1, 0), 6),
        (
            {
                "metadata": {
                    "name": "web-2",
                    "labels": {"app": "web"},
                    "deletionTimestamp": "2026-03-11T13:20:00Z",
                }
            },
            (2, 0, 0, 1),
            4,
        ),
    ],
)
def test_how_pods_are_told_apart(change: dict[str, Any], pods: tuple[int, ...], expected: int) -> None:
    """Pods are ready, unready, missing or ignored; usage of an unlisted pod counts in the second pass."""
    member = cluster("m", [100] * 3)
    member["pods"][2] |= change

    answer = answered(scenario([member]))

    assert tuple(answer["metrics"][0]["pods"].values()) == pods
    assert answer["desiredReplicas"] == expected
