"""Writing and reading a scenario keeps every field that a decision reads."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.decision import Scenario, TemplateScale, decide, decode_scenario, encode_scenario, to_json
from tests.support.scenarios import answered, cluster, external, pod, scenario

QPS = {
    "type": "Pods",
    "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
AWAY = {"name": "m2", "ready": False, "error": "gone", "scale": {"error": "gone"}, "lastReplicas": 2}


def qps(name: str, value: str) -> dict[str, Any]:
    described = {"kind": "Pod", "namespace": "default", "name": name}
    return {"describedObject": described, "metric": {"name": "qps"}, "windowSeconds": 30, "value": value}


def odd_pods() -> list[dict[str, Any]]:
    """One pod of each state that the arithmetic distinguishes."""
    waiting = pod("waiting", phase="Pending")
    since = "2026-03-11T13:20:00Z"
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waiting["status"] = {
        "phase": "Pending",
        "conditions": [{**unschedulable, "lastTransitionTime": since}],
    }
    ending = pod("ending")
    ending["metadata"]["deletionTimestamp"] = since
    large = pod("large")
    large["spec"]["resources"] = {"requests": {"cpu": "700m", "memory": "1Gi"}}
    return [waiting, ending, large, pod("failed", phase="Failed"), pod("done", phase="Succeeded")]


CASES: dict[str, dict[str, Any]] = {
    "plain": scenario([cluster("m1", [80, 80]), cluster("m2", [20])]),
    "absent": scenario(
        [cluster("m1", [80]), {"name": "m2", "ready": False, "error": "gone", "scale": {"error": "gone"}}]
    ),
    "odd pods": scenario([{**cluster("m1", [80]), "pods": [*cluster("m1", [80])["pods"], *odd_pods()]}]),
    "placed": scenario(
        [
            cluster("m1", [90, 90], labels={"tier": "gold"}, region="eu", zones=["a", "b"], held=True),
            cluster("m3", [90], overflow=2, replaced=True, readyReplicas=1),
            cluster("m4", [90], membership="Stuck"),
            cluster("m5", [90], membership="Member"),
            cluster("m2", [90], availableReplicas=3, mostReplicas=7, lastReplicas=2, provider="aws"),
        ],
        target=None,
        selection="spreadConstraints",
        evictions={"m3": "Karmada evicts it"},
    ),
    "values": scenario(
        [
            cluster(
                "m1", [80], customMetrics=[qps("m1-0", "12500m")], externalMetrics=[external("queue", "7")]
            )
        ],
        spec={"metrics": [QPS, QUEUE]},
    ),
    "answers": scenario(
        [
            cluster(
                "m1",
                [80],
                customMetrics={"byMetric": {"0": {"error": "no such metric"}}},
                externalMetrics={"byMetric": {"1": [external("queue", "70")]}},
            ),
            cluster("m2", [80], customMetrics={"error": "forbidden"}),
        ],
        spec={"metrics": [QPS, QUEUE]},
    ),
    "failed usage": scenario([cluster("m1", [80], podMetrics={"error": "HTTP 503"})]),
    "two owners": scenario([cluster("m1", [80])], ambiguousWith=["shop/web", "shop/web-2"]),
    "contested": scenario([cluster("m1", [80])], contestedBy=["HorizontalPodAutoscaler shop/web in m1"]),
    "blocked": scenario(
        [], blocked={"reason": "NotBuilt", "message": "spec.mode", "condition": "ScalingActive"}
    ),
    "no target": scenario([cluster("m1", [80])], target={"error": "not found"}),
    "store": scenario([cluster("m1", [80])], hubMetrics={"externalMetrics": [external("queue", "4")]}),
    "history": scenario(
        [cluster("m1", [10])],
        history={
            "recommendations": [{"time": "2026-03-11T13:22:00.25Z", "replicas": 5}],
            "scaleUps": [{"time": "2026-03-11T13:22:00Z", "change": 2}],
        },
        controller={"tolerance": 0.2, "clusterLostTimeout": "1m30s", "newHosts": "cordon"},
    ),
}


def read(given: dict[str, Any]) -> Scenario:
    return decode_scenario(msgspec.json.encode(given))


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_read_back(name: str) -> None:
    """Snapshot, history, settings and decision are the same."""
    given = CASES[name]
    first = read(given)
    raw = given["federatedHPA"]

    again = read(encode_scenario(raw, first.snapshot, first.history, first.now, first.settings))

    target = first.snapshot.target
    if isinstance(target, TemplateScale):  # a recording names what was inferred
        target = msgspec.structs.replace(target, scheduling=again.snapshot.target.scheduling)  # type: ignore[union-attr]  # the same
    assert again.snapshot == msgspec.structs.replace(first.snapshot, target=target)
    assert (again.history, again.now, again.settings) == (first.history, first.now, first.settings)
    both = [decide(one.snapshot, one.history, one.now, one.settings) for one in (first, again)]
    assert to_json(both[0]) == to_json(both[1])


def test_the_memory_of_an_old_status_is_written_as_a_record() -> None:
    """The record has the history, too. The status stays, because a decision reads more of it."""
    given = scenario([cluster("m1", [50]), AWAY], history={"recommendations": []})
    given["federatedHPA"]["status"] = {
        "desiredReplicas": 7,
        "clusters": [{"name": "m2", "state": "Missing", "lastSeen": "2026-03-11T13:23:00Z"}],
    }
    first = read(given)

    written = encode_scenario(given["federatedHPA"], first.snapshot, first.history, first.now, first.settings)

    seen = first.now - 17
    assert written["record"]["absences"] == {"m2": {"since": seen}}
    assert written["record"]["clusters"] == {"m2": {"state": "Missing", "seen": seen}}
    assert written["record"]["history"] == {"recommendations": []}
    assert "history" not in written
    assert answered(written | {"name": "test"}) == answered(given)


def test_nothing_private_is_written() -> None:
    """Annotations and managed fields of the object are left out."""
    given = CASES["plain"]
    first = read(given)
    metadata = {"name": "web", "annotations": {"token": "s3cret"}, "managedFields": [{"manager": "kubectl"}]}
    raw = {**given["federatedHPA"], "metadata": metadata}

    written = encode_scenario(raw, first.snapshot, first.history, first.now, first.settings)

    assert written["federatedHPA"]["metadata"] == {"name": "web"}


@pytest.mark.parametrize(
    ("answers", "path"),
    [
        ({"byMetric": {"1": []}}, "clusters[0].customMetrics.byMetric.1"),
        ({"byMetric": {"first": []}}, "clusters[0].customMetrics.byMetric.first"),
        ({}, "clusters[0].customMetrics"),
    ],
)
def test_answers_to_nothing_are_refused(answers: dict[str, Any], path: str) -> None:
    """The message names the path."""
    with pytest.raises(InvalidObject, match=re.escape(path)):
        read(scenario([cluster("m1", [80], customMetrics=answers)], spec={"metrics": [QPS]}))
