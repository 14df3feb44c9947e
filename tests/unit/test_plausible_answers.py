"""An empty answer never becomes a number: what cannot be true of a cluster makes it missing, not idle."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fedhpa.decision import Decision, decide, decode_scenario, to_json
from tests.support.scenarios import (
    CPU,
    answered,
    carry_on,
    cluster,
    condition,
    decided,
    external,
    remembered,
    scenario,
)

AVERAGE = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageValue": "50m"}}}
CONTAINER = {
    "type": "ContainerResource",
    "containerResource": {"name": "cpu", "container": "web", "target": {"averageUtilization": 50}},
}
PODS = {
    "type": "Pods",
    "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "50m"}},
}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
EMPTIED: dict[str, Any] = {"pods": []}


def rps(usages: list[int]) -> list[dict[str, Any]]:
    """One value of the metric `rps` for each pod."""
    return [
        {
            "describedObject": {"kind": "Pod", "namespace": "shop", "name": f"web-{i}"},
            "metric": {"name": "rps"},
            "timestamp": "2026-03-11T13:23:00Z",
            "value": f"{milli}m",
        }
        for i, milli in enumerate(usages)
    ]


def two(second: dict[str, Any], *, load: int = 1, **changes: Any) -> dict[str, Any]:
    """Twenty pods, ten of them nearly idle; those of the second cluster are at twice the target."""
    first = cluster("m1", [load] * 10, customMetrics=rps([load] * 10))
    other = {**cluster("m2", [100] * 10, customMetrics=rps([100] * 10)), **second}
    steep = {"scaleUpLimitFactor": 100}
    return (
        scenario([first, other], target={"replicas": 20, "scheduling": "Divided"}, controller=steep) | changes
    )


def names(answer: dict[str, Any]) -> list[str]:
    """The reasons of the decision's events."""
    return [event["reason"] for event in answer["events"]]


@pytest.mark.parametrize("direct", [False, True])
def test_no_pods_beside_a_scale_with_replicas(direct: bool) -> None:
    """Twenty stay twenty: a cluster with ten replicas and no pod is missing, and its scale is believed."""
    given = two(EMPTIED)
    if direct:
        del given["target"]

    answer = answered(given)

    assert (answer["desiredReplicas"], answer["rescale"]) == (20, False)
    assert answer["coverage"]["missing"] == {"m2": "its scale has 10 replicas, and no pod is selected"}
    assert answer["coverage"]["answered"] == ["m1", "m2"]
    assert {one["name"]: one.get("state", "Answered") for one in answer["status"]["clusters"]} == {
        "m1": "Answered",
        "m2": "MetricsMissing",
    }
    assert condition(answer, "MetricsComplete")[:2] == ("False", "ClustersMissing")
    assert "ClusterMissing" in names(answer)
    assert list(answer["record"]["absences"]) == ["m2"]


@pytest.mark.parametrize(
    ("metric", "second"),
    [
        (CPU, {"podMetrics": []}),
        (AVERAGE, {"podMetrics": []}),
        (CONTAINER, {"podMetrics": []}),
        (PODS, {"customMetrics": []}),
        (PODS, {"customMetrics": {"byMetric": {"0": []}}}),
        (CONTAINER, {"podMetrics": "another container"}),
        (CPU, {"podMetrics": "others"}),
    ],
)
def test_ready_pods_without_any_sample(metric: dict[str, Any], second: dict[str, Any]) -> None:
    """Twenty stay twenty: no sample of ten pods that have been ready for an hour is no answer."""
    if second.get("podMetrics") == "another container":
        items = cluster("m2", [100] * 10)["podMetrics"]
        for item in items:
            item["containers"][0]["name"] = "sidecar"
        second = {"podMetrics": items}
    if second.get("podMetrics") == "others":
        items = cluster("m2", [100] * 10)["podMetrics"]
        for item in items:
            item["metadata"]["name"] = f"gone-{item['metadata']['name']}"
        second = {"podMetrics": items}
    given = two(second)
    given["federatedHPA"]["spec"]["metrics"] = [metric]

    answer = answered(given)

    assert (answer["desiredReplicas"], answer["rescale"]) == (20, False)
    assert list(answer["coverage"]["missing"]) == ["m2"]
    assert "none of its ready pods" in answer["coverage"]["missing"]["m2"]
    assert answer["status"]["clusters"][1]["state"] == "MetricsMissing"
    assert condition(answer, "MetricsComplete")[:2] == ("False", "ClustersMissing")


@pytest.mark.parametrize(
    "second",
    [
        {"scale": {"specReplicas": 10, "statusReplicas": 0, "selector": "app=web"}, "pods": []},
        {
            "scale": {"specReplicas": 0, "statusReplicas": 0, "selector": "app=web"},
            "pods": [],
            "podMetrics": [],
        },
        {
            "scale": {"specReplicas": 0, "statusReplicas": 3, "selector": "app=web"},
            "pods": [],
            "podMetrics": [],
        },
    ],
)
def test_a_workload_without_pods_may_be_empty(second: dict[str, Any]) -> None:
    """A scale whose pods do not run yet, or any more, makes nothing implausible."""
    assert answered(two(second))["coverage"]["missing"] == {}


@pytest.mark.parametrize(
    ("since", "plausible"), [("13:22:17", True), ("13:22:16", False), ("13:30:00", True)]
)
def test_new_pods_may_have_no_sample_yet(since: str, plausible: bool) -> None:
    """Pods that have been ready for at most a minute need no sample."""
    second = cluster("m2", [100] * 10, podMetrics=[])
    for one in second["pods"]:
        one["status"]["conditions"][0]["lastTransitionTime"] = f"2026-03-11T{since}Z"

    assert (answered(two(second))["coverage"]["missing"] == {}) is plausible


def test_one_sample_of_a_cluster_is_an_answer() -> None:
    """Pods without a sample beside one with a sample count as Kubernetes counts them."""
    second = cluster("m2", [100] * 10)
    second["podMetrics"] = second["podMetrics"][7:8]

    assert answered(two(second))["coverage"]["missing"] == {}


def test_pods_of_a_metric_that_the_hub_serves() -> None:
    """A cluster needs no sample where the hub has samples of its pods."""
    hub = {"customMetrics": rps([100] * 10)}
    given = scenario([cluster("m1", [1] * 10)], spec={"metrics": [PODS]}, hubMetrics=hub)

    assert answered(given)["coverage"]["missing"] == {}


def test_a_queue_needs_no_pods_in_a_single_cluster() -> None:
    """One cluster with an AverageValue of its own is decided as Kubernetes does, whatever its pods."""
    one = cluster("m1", [1] * 10, externalMetrics=[external("queue", "30")], **EMPTIED)

    answer = answered(scenario([one], spec={"metrics": [QUEUE]}))

    assert (answer["desiredReplicas"], answer["coverage"]["missing"]) == (3, {})


def test_a_single_cluster_keeps_the_conditions_of_kubernetes() -> None:
    """ScalingActive names Kubernetes' reason, and no event of ours repeats it."""
    answer = answered(scenario([cluster("m1", [100] * 3, podMetrics=[])]))

    assert condition(answer, "ScalingActive")[:2] == ("False", "FailedGetResourceMetric")
    assert "ClusterMissing" not in names(answer)
    assert (answer["rescale"], answer["coverage"]["missing"]) == (
        False,
        {"m1": answer["coverage"]["missing"]["m1"]},
    )


def after(given: dict[str, Any], since: str) -> dict[str, Any]:
    """The decision while the second cluster's clock has run since then."""
    given["record"] = remembered({"absences": {"m2": {"since": since}}})
    return answered(given)


def test_an_empty_answer_stops_blocking_but_nobody_speaks_for_its_pods() -> None:
    """After lostAfterSeconds the nearly idle cluster shrinks; the ten pods without samples count as busy."""
    answer = after(two({"podMetrics": []}), "2026-03-11T13:10:00Z")

    assert answer["status"]["clusters"][1]["state"] == "MetricsLost"
    assert list(answer["coverage"]["lost"]) == ["m2"]
    assert answer["coverage"]["missing"] == {}
    # 10 pods at 1 % and 10 that count with their whole request are 50.5 %: at target.
    assert answer["metrics"][0]["pods"] == {"ready": 10, "unready": 0, "missing": 10, "ignored": 0}
    assert answer["desiredReplicas"] == 20


def test_an_emptied_list_of_pods_is_not_extrapolated() -> None:
    """The ten busy pods of the first cluster do not stand for those of the second."""
    given = two(EMPTIED, load=100)

    answer = after(given, "2026-03-11T13:10:00Z")

    assert (answer["coverage"]["missing"], answer["desiredReplicas"]) == ({}, 20)


def in_a_process(given: dict[str, Any], seconds: float) -> Decision:
    """The decision of a controller to which the second cluster has been implausible for `seconds`."""
    decoded = decode_scenario(json.dumps(given).encode())
    first, second = decoded.snapshot.clusters
    clusters = (first, msgspec.structs.replace(second, implausible_for=seconds))
    snapshot = msgspec.structs.replace(decoded.snapshot, clusters=clusters)
    return decide(snapshot, decoded.history, decoded.now, decoded.settings)


@pytest.mark.parametrize(
    ("second", "seconds", "told"),
    [
        (EMPTIED, 0, False),
        (EMPTIED, 29, False),
        (EMPTIED, 30, True),
        ({"podMetrics": []}, 59, False),
        ({"podMetrics": []}, 60, True),
        ({"podMetrics": {"error": "HTTP 503"}}, 0, True),
    ],
)
def test_a_moment_without_data_is_not_reported(second: dict[str, Any], seconds: float, told: bool) -> None:
    """Policy at once; event, condition and clock begin after 30 s without pods, 60 s without samples."""
    decision = in_a_process(two(second), seconds)

    states = [one.get("state", "Answered") for one in decision.status["clusters"]]  # type: ignore[attr-defined]  # JSON
    complete = next(one for one in decision.conditions if one.type == "MetricsComplete")
    assert list(decision.coverage.missing) == ["m2"]
    assert (decision.rescale, states) == (False, ["Answered", "MetricsMissing"])
    assert (complete.status == "False") is told
    assert ("ClusterMissing" in [event.reason for event in decision.events]) is told
    assert ("m2" in decision.memory.absences) is told


def test_the_event_comes_when_the_moment_is_over() -> None:
    """The stored state has been MetricsMissing since the first implausible answer. The event follows later,
    once.
    """
    given = two(EMPTIED)
    given["record"] = remembered({"clusters": {"m2": {"state": "MetricsMissing"}}})
    first = in_a_process(given, 45)
    carry_on(given, json.loads(msgspec.json.encode(to_json(first))))
    second = in_a_process(given, 60)

    assert "ClusterMissing" in [event.reason for event in first.events]
    assert "ClusterMissing" not in [event.reason for event in second.events]


def test_a_condition_does_not_change_during_the_moment() -> None:
    """A cluster that was missing with an error and then answers emptily does not look complete."""
    given = two(EMPTIED)
    given["federatedHPA"]["status"] = {
        "conditions": [
            {
                "type": "MetricsComplete",
                "status": "False",
                "reason": "ClustersMissing",
                "message": "m2: HTTP 503",
            }
        ]
    }

    complete = next(one for one in in_a_process(given, 5).conditions if one.type == "MetricsComplete")

    assert complete.status == "False"


def test_a_decision_names_the_implausible_clusters() -> None:
    """The controller remembers from them how long an answer has been implausible."""
    assert decided(two(EMPTIED)).implausible == frozenset(("m2",))
    assert decided(two({})).implausible == frozenset()


SHORT = "its scale has 10 replicas, and 5 pods are listed"


@pytest.mark.parametrize(
    ("waited", "missing", "reported"), [(None, False, False), (29, False, False), (30, True, True)]
)
def test_list_of_half_the_pods_is_implausible_after_half_a_minute(
    waited: float | None, missing: bool, reported: bool
) -> None:
    """Scale and pods come from two watches, so for a moment they may differ."""
    changes = {} if waited is None else {"implausibleSeconds": waited}
    half = cluster("m2", [1] * 5, scale={"specReplicas": 10, "statusReplicas": 10, "selector": "app=web"})
    given = two({**half, **changes})

    answer = answered(given)

    assert answer["coverage"]["missing"] == ({"m2": SHORT} if missing else {})
    assert answer["desiredReplicas"] == (20 if missing else 1)
    assert (condition(answer, "MetricsComplete")[0] == "False") is reported
    assert ("ClusterMissing" in names(answer)) is reported


def test_clock_of_a_short_list_runs_before_it_counts() -> None:
    """The decision names the cluster from the first short list on, so that the next one knows since when."""
    half = cluster("m2", [1] * 5, scale={"specReplicas": 10, "statusReplicas": 10, "selector": "app=web"})

    assert decided(two({**half, "implausibleSeconds": 0})).implausible == frozenset({"m2"})
    assert decided(two({**half, "pods": cluster("m2", [1] * 10)["pods"]})).implausible == frozenset()
