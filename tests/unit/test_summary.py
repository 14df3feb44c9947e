"""status.summary, condition Ready and the first line of `fedhpa explain` answer in the same words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.federatedhpa.recording import QUIET_SECONDS, worth_writing
from fedhpa.cli.explain import Explanation, render
from fedhpa.decision import decode_object, decode_stored, encode_stored, targets
from tests.support.scenarios import CPU, answered, cluster, decided, external, scenario

METRIC = {"name": "queue"}
POD = {"kind": "Service", "name": "web"}


def metric(kind: str, field: str, source: dict[str, Any], **target: Any) -> dict[str, Any]:
    """One entry of spec.metrics."""
    return {"type": kind, field: {**source, "target": target}}


def value(kind: str, field: str, **current: Any) -> dict[str, Any]:
    """One entry of status.currentMetrics."""
    return {"type": kind, field: {"current": current}}


CPU_60 = metric("Resource", "resource", {"name": "cpu"}, type="Utilization", averageUtilization=60)
MEMORY = metric("Resource", "resource", {"name": "memory"}, type="AverageValue", averageValue="1Gi")
OF_CONTAINER = metric(
    "ContainerResource",
    "containerResource",
    {"name": "cpu", "container": "app"},
    type="Utilization",
    averageUtilization=70,
)
PODS = metric("Pods", "pods", {"metric": METRIC}, type="AverageValue", averageValue="10")
OBJECT = metric("Object", "object", {"metric": METRIC, "describedObject": POD}, type="Value", value="2k")
OBJECT_AVERAGE = metric(
    "Object", "object", {"metric": METRIC, "describedObject": POD}, type="AverageValue", averageValue="100"
)
EXTERNAL = metric("External", "external", {"metric": METRIC}, type="Value", value="30")
EXTERNAL_AVERAGE = metric("External", "external", {"metric": METRIC}, type="AverageValue", averageValue="30")


@pytest.mark.parametrize(
    ("metrics", "values", "shown"),
    [
        ([CPU_60], [value("Resource", "resource", averageUtilization=45)], "cpu: 45%/60%"),
        ([CPU_60], [value("Resource", "resource", averageUtilization=0)], "cpu: 0%/60%"),
        ([CPU_60], [], "cpu: <unknown>/60%"),
        ([CPU_60], [{"type": ""}], "cpu: <unknown>/60%"),
        ([CPU_60], [{"type": "Resource", "resource": "damaged"}], "cpu: <unknown>/60%"),
        (
            [metric("Resource", "resource", {"name": "cpu"}, type="Utilization")],
            [value("Resource", "resource", averageUtilization=45)],
            "cpu: 45%/<auto>",
        ),
        ([MEMORY], [value("Resource", "resource", averageValue="512Mi")], "memory: 0.5Gi/1Gi"),
        ([MEMORY], [], "memory: <unknown>/1Gi"),
        (
            [OF_CONTAINER],
            [value("ContainerResource", "containerResource", averageUtilization=7)],
            "cpu: 7%/70%",
        ),
        ([PODS], [value("Pods", "pods", averageValue="7500m")], "7.5/10"),
        ([PODS], [{"type": ""}], "<unknown>/10"),
        ([OBJECT], [value("Object", "object", value="1500")], "1.5k/2k"),
        ([OBJECT], [], "<unknown>/2k"),
        ([OBJECT_AVERAGE], [value("Object", "object", averageValue="50")], "50/100 (avg)"),
        ([EXTERNAL], [value("External", "external", value="12")], "12/30"),
        ([EXTERNAL_AVERAGE], [value("External", "external", averageValue="6")], "6/30 (avg)"),
        ([EXTERNAL_AVERAGE], [], "<unknown>/30 (avg)"),
        ([{"type": "Sideways"}], [], "<unknown type>"),
        (
            [CPU_60, PODS],
            [
                value("Resource", "resource", averageUtilization=45),
                value("Pods", "pods", averageValue="5"),
            ],
            "cpu: 45%/60%, 5/10",
        ),
        ([CPU_60, PODS, EXTERNAL, OBJECT], [], "cpu: <unknown>/60%, <unknown>/10 + 2 more..."),
    ],
    ids=lambda given: given if isinstance(given, str) else None,
)
def test_both_values_of_a_target_have_one_unit(
    metrics: list[Any], values: list[dict[str, Any]], shown: str
) -> None:
    """Each metric type has the form that kubectl 1.36 prints, and two metrics at most are shown."""
    given = scenario([], spec={"metrics": metrics})["federatedHPA"]

    assert targets(decode_object(given).spec.metrics, values) == shown


def test_the_columns_of_an_object() -> None:
    """The bounds have their other names, a missing cluster does not count, and the reason is short."""
    gone = cluster("member3", [], ready=False, error="unreachable", lastReplicas=2)
    names = {"minReplicas": None, "maxReplicas": None, "federatedMinReplicas": 2, "federatedMaxReplicas": 9}
    given = scenario([cluster("member1", [10] * 3), cluster("member2", [10] * 3), gone], spec=names)

    found = answered(given)["status"]["summary"]

    assert found == {
        "targets": "cpu: 10%/50%",
        "clusters": "2/3",
        "min": "2",
        "max": "9",
        "selector": "app=web",
        "reason": "held by ScaleUpOnly while missing member3: unreachable",
        "propagation": "karmada",
    }


HELD = scenario([cluster("m1", [10] * 2), cluster("m2", [], ready=False, error="away", lastReplicas=2)])
LOW = scenario([cluster("m1", [10] * 3)], spec={"minReplicas": 3})
QUIET = scenario([cluster("m1", [50, 50])])
UP = scenario([cluster("m1", [80, 80])])
TRIED = scenario([cluster("m1", [80, 80])], spec={"dryRun": True})
NO_SCALE = scenario([cluster("m1", [50, 50])], target={"error": "the hub does not answer"})
NO_METRICS = scenario([cluster("m1", [50, 50], podMetrics={"error": "no metrics-server"})])
STOPPED = scenario([cluster("m1", [])])
OWNED = scenario([cluster("m1", [50, 50])], contestedBy=["HorizontalPodAutoscaler shop/web in m1"])
OWNED_AND_HELD = {**HELD, "contestedBy": ["HorizontalPodAutoscaler shop/web in m1"]}
UNKNOWN = scenario([cluster("m1", [50, 50])], spec={"mode": "Predictive"})


@pytest.mark.parametrize(
    ("given", "first_line", "ready"),
    [
        (UP, "scale 2 -> 4 replicas; reason: cpu resource utilization", "True/Reconciled"),
        (QUIET, "stay at 2 replicas; reason: usage calls for no other size", "True/Reconciled"),
        (
            LOW,
            "stay at 3 replicas; reason: the desired replica count is less than the minimum replica count",
            "True/Reconciled",
        ),
        (TRIED, "would scale 2 -> 4 replicas; reason: cpu resource utilization", "True/DryRun"),
        (
            HELD,
            "stay at 2 replicas; reason: held by ScaleUpOnly while missing m2: away",
            "False/ClustersMissing",
        ),
        (
            NO_SCALE,
            "no decision, 0 replicas stay; reason: the hub does not answer",
            "False/FailedGetScale",
        ),
        (
            NO_METRICS,
            "no decision, 2 replicas stay; reason: invalid metrics (1 invalid out of 1)",
            "False/FailedGetResourceMetric",
        ),
        (STOPPED, "stay at 0 replicas; reason: scaling is disabled since", "False/ScalingDisabled"),
        (OWNED, "stay at 2 replicas; reason: usage calls for no other size", "False/AnotherAutoscaler"),
        (OWNED_AND_HELD, "stay at 2 replicas; reason: held by ScaleUpOnly", "False/AnotherAutoscaler"),
        (UNKNOWN, "no decision, 0 replicas stay; reason: spec.mode: Unsupported", "False/InvalidObject"),
    ],
    ids=[
        "scaled up",
        "at target",
        "at the minimum",
        "dry run",
        "a cluster is missing",
        "no scale",
        "no metrics",
        "stopped by hand",
        "another autoscaler",
        "another autoscaler outranks a missing cluster",
        "unknown mode",
    ],
)
def test_explain_describe_and_the_column_say_the_same(
    given: dict[str, Any], first_line: str, ready: str
) -> None:
    """Ready, status.summary.reason and the first line of explain have one text; Ready shows the worst."""
    answer = answered(given)
    status = answer["status"]
    conditions = {one["type"]: one for one in status["conditions"]}
    found = conditions["Ready"]
    told = explained(given)

    assert told.startswith(f"shop/web: {first_line}")
    assert told.splitlines()[0].endswith(f"; reason: {status['summary']['reason']}")
    assert f"{found['status']}/{found['reason']}" == ready
    if found["status"] == "True":
        assert told.splitlines()[0] == f"shop/web: {found['message']}"
    else:
        others = [one for one in conditions.values() if one["type"] != "Ready"]
        assert found["message"] in [one["message"] for one in others if one["reason"] == found["reason"]]


def test_a_failure_that_no_condition_shows_makes_the_object_unready() -> None:
    """Ready is never True after a reconcile without a decision."""
    given = scenario(
        [cluster("m1", [50, 50])],
        blocked={"reason": "Odd", "message": "it is odd", "condition": "OwnCondition"},
    )
    conditions = {one["type"]: one for one in answered(given)["status"]["conditions"]}

    assert conditions["Ready"]["status"] == "False"
    assert conditions["Ready"]["reason"] == "NoDecision"
    assert conditions["Ready"]["message"].endswith("it is odd")


def test_ready_is_about_the_generation_and_keeps_its_time() -> None:
    """Ready has the generation of the spec; its time changes with its status, and it is not carried over."""
    stored = {
        "type": "Ready",
        "status": "True",
        "reason": "Reconciled",
        "message": "old",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    kept, failed = ({**given, "federatedHPA": dict(given["federatedHPA"])} for given in (QUIET, NO_SCALE))
    for given in (kept, failed):
        given["federatedHPA"]["status"] = {"conditions": [stored]}

    well, ill = answered(kept), answered(failed)
    now_well, now_ill = (
        next(one for one in found["status"]["conditions"] if one["type"] == "Ready") for found in (well, ill)
    )

    assert "Ready" not in [one["type"] for one in well["conditions"]]
    assert (now_well["observedGeneration"], now_well["lastTransitionTime"]) == (2, "2026-01-01T00:00:00Z")
    assert (now_ill["observedGeneration"], now_ill["lastTransitionTime"]) == (2, "2026-03-11T13:23:17Z")


def test_the_summary_causes_no_write_of_its_own() -> None:
    """A usage that moves changes the column; the status is written for it at most once a minute."""
    before = answered(scenario([cluster("m1", [50, 50])]))["status"]
    after = answered(scenario([cluster("m1", [51, 51])]))["status"]

    assert before["summary"]["targets"] != after["summary"]["targets"]
    assert not worth_writing(before, after, written_at=100.0, now=100.0 + QUIET_SECONDS - 1)
    assert worth_writing(before, after, written_at=100.0, now=100.0 + QUIET_SECONDS)


def test_texts_of_the_summary_fit_into_their_columns() -> None:
    """Names and reasons of any length are cut to what the CRD admits."""
    name = "q" * 400
    metrics = [
        metric("Resource", "resource", {"name": name}, type="AverageValue", averageValue="1"),
        metric("Resource", "resource", {"name": name}, type="AverageValue", averageValue="1"),
    ]
    given = scenario(
        [cluster("m1", [50], error="e" * 3_000)],
        spec={"metrics": metrics},
        hubMetrics={"externalMetrics": [external("queue", "1")]},
    )

    found = answered(given)["status"]["summary"]

    assert max(map(len, found.values())) <= 512
    assert len(json.dumps(found)) < 1_000


def test_a_condition_of_cpu_shows_what_scaled() -> None:
    """While the size changes, the reason is that of the event SuccessfulRescale."""
    answer = answered(scenario([cluster("m1", [80, 80])], spec={"metrics": [CPU]}))

    (event,) = (one for one in answer["events"] if one["reason"] == "SuccessfulRescale")
    assert event["message"] == f"New size: 4; reason: {answer['status']['summary']['reason']}"


def explained(given: dict[str, Any]) -> str:
    """The output of `fedhpa explain` after the decision."""
    decision = decided(given)
    stored = decode_stored(encode_stored(decision.memory, decision))
    return render(Explanation("shop/web", stored, decision.status), decision.now)
