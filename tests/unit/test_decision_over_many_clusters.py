"""Several clusters count as one workload, and partialMetrics decides about missing ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedhpa.decision import Absence, decide, decode_scenario
from tests.support.scenarios import answered, cluster, condition, external, remembered, scenario

AWAY: dict[str, Any] = {
    "name": "member2",
    "ready": False,
    "error": "unreachable",
    "scale": {"error": "unreachable"},
}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}},
}


def test_the_clusters_that_answer_speak_for_the_others() -> None:
    """Three of six replicas at twice the target want twelve, not six."""
    given = scenario([cluster("member1", [100] * 3), AWAY], target={"replicas": 6})

    answer = answered(given)

    assert answer["desiredReplicas"] == 12
    assert answer["coverage"] == {
        "expected": ["member1", "member2"],
        "answered": ["member1"],
        "missing": {"member2": "unreachable"},
        "policy": "ScaleUpOnly",
        "applied": True,
    }
    since = "since 2026-03-11T13:23:17Z"
    message = f"member2: unreachable, {since}"
    assert condition(answer, "MetricsComplete") == ("False", "ClustersMissing", message)


def test_calibration_does_not_round_up_its_own_rounding() -> None:
    """Three of five replicas at 1.6 times the target want eight, not nine."""
    given = scenario([cluster("member1", [80] * 3), AWAY], target={"replicas": 5})

    assert answered(given)["desiredReplicas"] == 8


@pytest.mark.parametrize(
    ("aggregation", "expected"), [("Max", 30), ("Min", 30), ("Average", 30), ("Sum", 90)]
)
def test_a_missing_cluster_is_no_part_of_a_value_that_each_cluster_sees(
    aggregation: str, expected: int
) -> None:
    """A queue of 300 at 10 a pod wants 30 replicas, whether two or three clusters see it."""
    seen = external("queue", "300")
    queue = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    metric = {"type": "External", "external": {**queue, "aggregation": aggregation}}
    answering = [cluster(name, [50] * 10, externalMetrics=[seen]) for name in ("member1", "member3")]
    away = {**AWAY, "lastReplicas": 10}

    answer = answered(scenario([*answering, away], spec={"metrics": [metric]}, target=None))

    assert answer["metrics"][0]["proposal"] == expected


@pytest.mark.parametrize(
    ("partial", "load", "expected"),
    [
        ({}, 10, 6),
        ({}, 100, 12),
        ({"policy": "ScaleUpOnly"}, 10, 6),
        ({"policy": "Hold"}, 10, 6),
        ({"policy": "Hold"}, 100, 6),
        ({"policy": "Proceed"}, 10, 2),
        ({"policy": "Fallback", "fallbackReplicas": 9}, 10, 9),
        ({"policy": "Fallback", "fallbackReplicas": 9}, 100, 9),
        ({"policy": "Fallback", "fallbackReplicas": 500}, 100, 12),
        ({"policy": "Fallback"}, 100, 6),
    ],
)
def test_policy_of_a_missing_cluster(partial: dict[str, Any], load: int, expected: int) -> None:
    """Each partialMetrics policy gives its own size while a cluster is missing."""
    given = scenario(
        [cluster("member1", [load] * 3), AWAY], target={"replicas": 6}, spec={"partialMetrics": partial}
    )

    assert answered(given)["desiredReplicas"] == expected


def test_hold_is_not_moved_by_older_recommendations() -> None:
    """Hold keeps the size although an older recommendation was higher."""
    given = scenario(
        [cluster("member1", [50] * 3), AWAY],
        target={"replicas": 6},
        spec={"partialMetrics": {"policy": "Hold"}},
        history={"recommendations": [{"time": "2026-03-11T13:22:17Z", "replicas": 11}]},
    )

    assert answered(given)["desiredReplicas"] == 6


def test_failed_metrics_of_a_cluster_count_its_pods_as_missing() -> None:
    """Its pods count as idle going up and as at target going down; coverage names the cluster."""
    failed = cluster("member2", [0, 0], podMetrics={"error": "metrics-server is down"})

    up = answered(scenario([cluster("member1", [100, 100]), failed]))
    down = answered(scenario([cluster("member1", [10, 10]), failed]))

    assert up["coverage"]["answered"] == ["member1", "member2"]
    assert up["coverage"]["missing"] == {"member2": "metrics-server is down"}
    assert up["metrics"][0]["pods"] == {"ready": 2, "unready": 0, "missing": 2, "ignored": 0}
    # 200 m used of 400 m requested is the target: with the silent pods idle there is nothing to do.
    assert up["desiredReplicas"] == 4
    assert down["desiredReplicas"] == 4


def test_fallback_needs_no_metrics() -> None:
    """If every metric failed, Fallback still sets its size."""
    failed = cluster("member1", [10, 10], podMetrics={"error": "down"})
    policy = {"policy": "Fallback", "fallbackReplicas": 4}

    answer = answered(scenario([failed], spec={"partialMetrics": policy}))

    assert (answer["error"], answer["desiredReplicas"]) == (None, 4)
    assert answer["reason"] == "Fallback while missing member1: down"
    assert condition(answer, "ScalingActive")[0] == "False"


@pytest.mark.parametrize(
    "change",
    [
        {"ready": False},
        {"error": "listing pods failed"},
        {"scale": {"error": "not found"}},
        {"scale": {"specReplicas": 3, "statusReplicas": 3, "selector": ""}},
    ],
)
def test_a_cluster_that_does_not_answer_contributes_nothing(change: dict[str, Any]) -> None:
    """The other data of a cluster that did not answer does not count."""
    silent = cluster("member2", [100] * 3, **change)

    answer = answered(scenario([cluster("member1", [50] * 3), silent], target={"replicas": 6}))

    assert answer["coverage"]["answered"] == ["member1"]
    assert list(answer["coverage"]["missing"]) == ["member2"]
    assert list(answer["metrics"][0]["clusters"]) == ["member1"]


@pytest.mark.parametrize(("known", "expected"), [({}, 3), ({"lastReplicas": 0}, 3), ({"lastReplicas": 2}, 5)])
@pytest.mark.parametrize(
    "silence",
    [
        {"ready": False},
        {"error": "listing pods failed"},
        {"scale": {"specReplicas": 9, "statusReplicas": 9, "selector": ""}},
    ],
)
def test_an_absent_share_is_the_last_known_one(
    silence: dict[str, Any], known: dict[str, Any], expected: int
) -> None:
    """Without a template, only lastReplicas of a missing cluster counts."""
    silent = cluster("member2", [100] * 9, **{**silence, **known})

    answer = answered(scenario([cluster("member1", [50] * 3), silent], target=None))

    assert answer["currentReplicas"] == expected


@pytest.mark.parametrize("selector", ["", "cheddar cheese"])
@pytest.mark.parametrize("target", [None, {"replicas": 3}])
@pytest.mark.parametrize("partial", [{}, {"policy": "Fallback", "fallbackReplicas": 2}])
def test_without_a_selector_nothing_is_decided(
    selector: str, target: dict[str, Any] | None, partial: dict[str, Any]
) -> None:
    """If all selectors are empty or invalid, the reason is InvalidSelector under every policy."""
    scale = {"specReplicas": 3, "statusReplicas": 3, "selector": selector}
    clusters = [cluster(name, [80] * 3, scale=scale) for name in ("member1", "member2")]

    answer = answered(scenario(clusters, target=target, spec={"partialMetrics": partial}))

    assert condition(answer, "ScalingActive")[:2] == ("False", "InvalidSelector")
    assert condition(answer, "AbleToScale")[:2] == ("True", "SucceededGetScale")
    assert (answer["rescale"], answer["desiredReplicas"], answer["steps"]) == (False, 0, [])
    assert answer["events"][-1]["reason"] == "FailedComputeMetricsReplicas"


@pytest.mark.parametrize(
    ("state", "seen", "spec", "expected"),
    [
        ("Missing", "13:18:16Z", {}, ["member1"]),
        ("Missing", "13:18:18Z", {}, ["member1", "member2"]),
        ("Missing", "13:23:00Z", {"partialMetrics": {"lostAfterSeconds": 10}}, ["member1"]),
        ("Answered", "13:00:00Z", {}, ["member1", "member2"]),
    ],
)
def test_the_record_knows_how_long_a_cluster_is_away(
    state: str, seen: str, spec: dict[str, Any], expected: list[str]
) -> None:
    """A cluster missing for lostAfterSeconds is no longer expected, and an event says so."""
    given = scenario([cluster("member1", [10] * 3), AWAY], target={"replicas": 6}, spec=spec)
    given["record"] = remembered(
        {"clusters": {"member2": {"state": state, "lastSeen": f"2026-03-11T{seen}"}}}
    )

    answer = answered(given)

    assert answer["coverage"]["expected"] == expected
    lost = [event["message"] for event in answer["events"] if event["reason"] == "ClusterLost"]
    assert len(lost) == 2 - len(expected)
    assert answer["desiredReplicas"] == (2 if lost else 6)


@pytest.mark.parametrize(
    ("state", "told"),
    [(None, True), ("Answered", True), ("Missing", False), ("MetricsMissing", False), ("Lost", False)],
)
def test_a_missing_cluster_is_told_of_once(state: str | None, told: bool) -> None:
    """The event names the cluster and the reason. It is not repeated once the record has it."""
    given = scenario([cluster("member1", [50] * 3), AWAY], target={"replicas": 6})
    if state is not None:
        given["record"] = remembered(
            {"clusters": {"member2": {"state": state, "lastSeen": "2026-03-11T13:23:00Z"}}}
        )

    events = [event for event in answered(given)["events"] if event["reason"] == "ClusterMissing"]

    expected = {"type": "Warning", "reason": "ClusterMissing"}
    message = f"cluster member2 is missing: {AWAY['error']}"
    assert events == ([{**expected, "message": message}] if told else [])


@pytest.mark.parametrize(
    ("state", "told"),
    [(None, False), ("Answered", False), ("Missing", True), ("MetricsMissing", True), ("Lost", True)],
)
def test_a_cluster_that_answers_again_is_told_of(state: str | None, told: bool) -> None:
    """The event follows each event that told of its loss, and no other."""
    given = scenario([cluster("member1", [50] * 3), cluster("member2", [50] * 3)], target={"replicas": 6})
    if state is not None:
        known = {"state": state, "lastSeen": "2026-03-11T13:23:00Z"}
        clock = {} if state == "Answered" else {"member2": {"since": "2026-03-11T13:20:00Z"}}
        given["record"] = remembered({"clusters": {"member2": known}, "absences": clock})

    events = [event for event in answered(given)["events"] if event["reason"] == "ClusterAnswers"]

    expected = {"type": "Normal", "reason": "ClusterAnswers", "message": "cluster member2 answers again"}
    assert events == [expected] * told


def test_pods_whose_first_samples_come_are_not_told_of() -> None:
    """Nobody was told that they lacked, because the clock of a loss had not begun."""
    given = scenario([cluster("member1", [50] * 3), cluster("member2", [50] * 3)], target={"replicas": 6})
    given["record"] = remembered({"clusters": {"member2": {"state": "MetricsMissing"}}})

    assert [one for one in answered(given)["events"] if one["reason"] == "ClusterAnswers"] == []


def test_events_of_clusters_without_metrics() -> None:
    """One cluster without metrics gets Kubernetes' events; of several clusters each is named."""
    one = answered(scenario([cluster("member1", [50], podMetrics={"error": "out of order"})]))
    of_two = answered(
        scenario(
            [cluster("member1", [50], podMetrics={"error": "out of order"}), cluster("member2", [50])],
            target={"replicas": 2},
        )
    )

    assert "ClusterMissing" not in [event["reason"] for event in one["events"]]
    assert [event["message"] for event in of_two["events"] if event["reason"] == "ClusterMissing"] == [
        "cluster member1 answered without all data: out of order"
    ]


def test_an_empty_error_is_none() -> None:
    """An empty error in a scenario counts as absent."""
    member = cluster("member1", [80, 80], error="")
    member["scale"]["error"] = ""

    answer = answered(scenario([member], target={"replicas": 2, "error": ""}))

    assert (answer["desiredReplicas"], answer["coverage"]["missing"]) == (4, {})


def test_nobody_answers() -> None:
    """If no cluster answers, the scale cannot be read."""
    answer = answered(scenario([AWAY], target={"replicas": 6}))

    assert condition(answer, "AbleToScale")[:2] == ("False", "FailedGetScale")
    assert answer["desiredReplicas"] == 0
    assert answer["rescale"] is False


def test_the_hub_serves_what_no_cluster_serves() -> None:
    """The hub serves a metric only if no cluster serves it."""
    hub = {"externalMetrics": [external("queue", "40")]}
    own = [cluster("member1", [1, 1], externalMetrics=[external("queue", "10")])]

    from_hub = answered(scenario([cluster("member1", [1, 1])], spec={"metrics": [QUEUE]}, hubMetrics=hub))
    from_cluster = answered(scenario(own, spec={"metrics": [QUEUE]}, hubMetrics=hub))

    assert from_hub["metrics"][0]["current"] == {"value": "40"}
    assert from_hub["desiredReplicas"] == 4
    assert from_cluster["metrics"][0]["current"] == {"value": "10"}


def test_object_average_is_calibrated_once() -> None:
    """Calibration applies once: 40 at 10 a pod from one of two replicas give 8, not 16."""
    metric = {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Service", "name": "web"},
            "metric": {"name": "rps"},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    }
    sample = {
        "describedObject": {"kind": "Service", "namespace": "shop", "name": "web"},
        "metric": {"name": "rps"},
        "timestamp": "2026-03-11T13:23:00Z",
        "value": "40",
    }
    given = scenario(
        [cluster("member1", [1], customMetrics=[sample]), AWAY],
        target={"replicas": 2},
        spec={"metrics": [metric]},
        controller={"scaleUpLimitMinimum": 100},
    )

    assert answered(given)["desiredReplicas"] == 8


def test_direct_counts_and_splits_over_the_members() -> None:
    """Without a template the clusters' scales add up, and only the difference is divided."""
    given = scenario(
        [
            cluster("member1", [100] * 3),
            cluster("member2", [100]),
            {**AWAY, "name": "member3", "lastReplicas": 2},
        ],
        target=None,
    )

    answer = answered(given)

    assert (answer["currentReplicas"], answer["desiredReplicas"]) == (6, 12)
    assert [(share["cluster"], share["replicas"]) for share in answer["assignment"]] == [
        ("member1", 5),
        ("member2", 5),
        ("member3", 2),
    ]


def test_with_a_template_nothing_is_assigned() -> None:
    """With a template there is no assignment: Karmada divides it."""
    assert answered(scenario([cluster("member1", [100] * 3)]))["assignment"] == []


def test_a_lost_cluster_is_no_longer_waited_for() -> None:
    """A lost cluster no longer blocks a scale-down, and one event names it."""
    decoded = decode_scenario(
        msgspec.json.encode(scenario([cluster("member1", [10] * 3), AWAY], target={"replicas": 6}))
    )
    present, away = decoded.snapshot.clusters
    lost = msgspec.structs.replace(away, absence=Absence(decoded.now - 301))
    snapshot = msgspec.structs.replace(decoded.snapshot, clusters=(present, lost))

    decision = decide(snapshot, decoded.history, decoded.now, decoded.settings)

    assert decision.desired_replicas == 2
    assert (decision.coverage.expected, list(decision.coverage.lost)) == (("member1",), ["member2"])
    assert "ClusterLost" in [event.reason for event in decision.events]


def test_two_autoscalers_of_the_same_pods_stop_both() -> None:
    """The error about ambiguous selectors names both autoscalers."""
    decoded = decode_scenario(msgspec.json.encode(scenario([cluster("member1", [80])])))
    snapshot = msgspec.structs.replace(decoded.snapshot, ambiguous_with=("shop/web", "shop/other"))

    decision = decide(snapshot, decoded.history, decoded.now, decoded.settings)

    assert decision.error == "pods by selector app=web are controlled by multiple HPAs: [shop/web shop/other]"
    assert [event.reason for event in decision.events] == [
        "AmbiguousSelector",
        "FailedComputeMetricsReplicas",
    ]


def test_an_unknown_mode_writes_nothing() -> None:
    """A mode of a later version gives a condition and no decision."""
    answer = answered(scenario([cluster("member1", [80])], spec={"mode": "Predictive"}))

    assert answer["rescale"] is False
    assert condition(answer, "AbleToScale")[:2] == ("False", "InvalidObject")
    assert "spec.mode" in answer["error"]


def test_condition_of_mode_distributed_ends_with_the_mode() -> None:
    """Assigned is about member HPAs, which mode Centralized does not have. Ready would stay False by it."""
    given = scenario([cluster("member1", [50, 50])])
    removing = {"type": "Assigned", "status": "False", "reason": "RemovingMemberHPAs", "message": "member1"}
    given["federatedHPA"]["status"] = {"conditions": [removing]}

    answer = answered(given)

    assert "Assigned" not in [one["type"] for one in answer["conditions"]]
    assert [one["status"] for one in answer["status"]["conditions"] if one["type"] == "Ready"] == ["True"]


def test_a_failed_write_counts_as_nothing_scaled() -> None:
    """A write error gives no event of success and no scale event in the history."""
    decoded = decode_scenario(
        msgspec.json.encode(scenario([cluster("member1", [80, 80])], spec={"behavior": {}}))
    )

    decision = decide(
        decoded.snapshot, decoded.history, decoded.now, decoded.settings, write_error="conflict"
    )

    assert decision.rescale is False
    assert decision.history.scale_ups == ()
    assert [event.reason for event in decision.events] == ["FailedRescale"]


def test_the_condition_says_who_is_missing_why_and_since_when() -> None:
    """The loss is counted from now, or from the time that the record holds."""
    away: dict[str, Any] = {"ready": False, "error": "unreachable", "scale": {"error": "unreachable"}}
    given = scenario([cluster("m1", [50]), cluster("m2", [50]) | away, cluster("m3", [50]) | away])
    given["record"] = remembered({"absences": {"m2": {"since": "2026-03-11T13:20:00.5Z"}}})

    message = condition(answered(given), "MetricsComplete")[2]

    assert message == (
        "m2: unreachable, since 2026-03-11T13:20:00Z; m3: unreachable, since 2026-03-11T13:23:17Z"
    )
