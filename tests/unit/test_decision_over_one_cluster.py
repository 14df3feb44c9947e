"""Over one cluster a decision equals that of Kubernetes' own controller."""

from __future__ import annotations

from typing import Any

from tests.support.scenarios import answered, cluster, condition, external, scenario

QUEUE = {
    "type": "External",
    "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"q": "a"}}},
        "target": {"type": "AverageValue", "averageValue": "10"},
    },
}
UNREADABLE = (
    "couldn't convert selector into a corresponding internal selector object: unable to parse "
    "requirement: found 'cheese', expected: in, notin, =, ==, !=, gt, lt"
)
SCALED_TO_ZERO = {"conditions": [{"type": "ScaledToZero", "status": "True"}]}


def with_status(given: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    given["federatedHPA"]["status"] = status
    return given


def test_load_above_target_scales_up() -> None:
    """Usage at 160 % of the target scales 2 replicas to 4; conditions, events and status agree."""
    answer = answered(scenario([cluster("member1", [80, 80])]))

    assert (answer["currentReplicas"], answer["desiredReplicas"], answer["rescale"]) == (2, 4, True)
    assert answer["reason"] == "cpu resource utilization (percentage of request) above target"
    assert answer["events"] == [
        {
            "type": "Normal",
            "reason": "SuccessfulRescale",
            "message": "New size: 4; reason: cpu resource utilization (percentage of request) above target",
        }
    ]
    assert condition(answer, "AbleToScale") == (
        "True",
        "SucceededRescale",
        "the HPA controller was able to update the target scale to 4",
    )
    assert condition(answer, "ScalingActive")[1] == "ValidMetricFound"
    assert condition(answer, "ScaledToZero") == (
        "False",
        "NotScaledToZero",
        "the HPA controller did not scale the workload to zero",
    )
    status = answer["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4)
    assert status["lastScaleTime"] == "2026-03-11T13:23:17Z"
    assert status["observedGeneration"] == 2
    assert status["currentMetrics"] == [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": 80, "averageValue": "80m"}},
        }
    ]


def test_a_fresh_start_holds_the_present_size() -> None:
    """Without a history the present size is the first recommendation and prevents a scale-down."""
    given = scenario([cluster("member1", [10, 10])], history=None)

    answer = answered(given)

    assert answer["desiredReplicas"] == 2
    assert condition(answer, "AbleToScale")[1] == "ScaleDownStabilized"
    assert answer["history"]["recommendations"] == [
        {"time": "2026-03-11T13:23:17Z", "replicas": 2},
        {"time": "2026-03-11T13:23:17Z", "replicas": 1},
    ]


def test_bounds_need_no_metrics() -> None:
    """A size above the maximum is corrected without evaluating metrics."""
    answer = answered(scenario([cluster("member1", [80] * 5)], spec={"maxReplicas": 3}))

    assert (answer["desiredReplicas"], answer["metrics"]) == (3, [])
    assert answer["reason"] == "Current number of replicas above Spec.MaxReplicas"
    assert answer["status"]["currentMetrics"] is None
    assert [c["type"] for c in answer["conditions"]] == ["AbleToScale", "ScaledToZero", "MetricsComplete"]


def test_a_correction_by_bounds_is_a_scale_event() -> None:
    """With behavior, a scale to the minimum is kept in the history."""
    answer = answered(scenario([cluster("member1", [80])], spec={"minReplicas": 3, "behavior": {}}))

    assert answer["desiredReplicas"] == 3
    assert answer["history"]["scaleUps"] == [{"time": "2026-03-11T13:23:17Z", "change": 2}]


def test_wakes_what_it_put_to_zero() -> None:
    """A queue of 25 at 10 a pod scales from zero to three, and ScaledToZero becomes False."""
    given = scenario(
        [cluster("member1", [], externalMetrics=[external("queue", "25", q="a")])],
        spec={"minReplicas": 0, "metrics": [QUEUE]},
    )

    answer = answered(with_status(given, SCALED_TO_ZERO))

    assert answer["desiredReplicas"] == 3
    name = (
        "external metric queue(&LabelSelector{MatchLabels:map[string]string{q: a,},"
        "MatchExpressions:[]LabelSelectorRequirement{},})"
    )
    assert answer["reason"] == f"{name} above target"
    assert condition(answer, "ScaledToZero")[0] == "False"


def test_failed_metrics_keep_the_stored_size() -> None:
    """If every metric failed, the stored size stays and events name the reason."""
    given = scenario([cluster("member1", [80, 80], podMetrics=[])])

    answer = answered(with_status(given, {"desiredReplicas": 7}))

    text = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: "
        "no metrics returned from resource metrics API"
    )
    assert (answer["desiredReplicas"], answer["rescale"]) == (7, False)
    whole = f"failed to get cpu resource metric value: {text}"
    assert answer["error"] == f"invalid metrics (1 invalid out of 1), first error is: {whole}"
    assert answer["events"] == [
        {"type": "Warning", "reason": "FailedGetResourceMetric", "message": text},
        {"type": "Warning", "reason": "FailedComputeMetricsReplicas", "message": answer["error"]},
    ]
    assert condition(answer, "ScalingActive") == (
        "False",
        "FailedGetResourceMetric",
        f"the HPA was unable to compute the replica count: {text}",
    )
    assert answer["status"]["currentMetrics"] == [{"type": ""}]
    assert (answer["metrics"][0]["proposal"], answer["metrics"][0]["error"]) == (None, whole)


def test_an_unknown_metric_type_is_named() -> None:
    """An unknown metric type fails with its own reason."""
    answer = answered(scenario([cluster("member1", [80])], spec={"metrics": [{"type": "CheddarCheese"}]}))

    assert condition(answer, "ScalingActive") == (
        "False",
        "InvalidMetricSourceType",
        'the HPA was unable to compute the replica count: unknown metric source type "CheddarCheese"',
    )


def test_a_target_without_scale_is_no_decision() -> None:
    """If the scale cannot be read, the stored status stays."""
    given = scenario([cluster("member1", [80])], target={"error": "not found"})

    answer = answered(with_status(given, {"currentReplicas": 3, "desiredReplicas": 4}))

    assert (answer["error"], answer["currentReplicas"], answer["desiredReplicas"]) == ("not found", 3, 4)
    assert condition(answer, "AbleToScale") == (
        "False",
        "FailedGetScale",
        "the HPA controller was unable to get the target's current scale: not found",
    )
    assert answer["history"]["recommendations"] == []


def test_a_missing_selector_is_named() -> None:
    """Without a selector ScalingActive is False with reason InvalidSelector."""
    scale = {"specReplicas": 2, "statusReplicas": 2, "selector": ""}

    answer = answered(scenario([cluster("member1", [80, 80], scale=scale)]))

    assert condition(answer, "ScalingActive") == (
        "False",
        "InvalidSelector",
        "the HPA target's scale is missing a selector",
    )
    assert [(e["reason"], e["message"]) for e in answer["events"]] == [
        ("SelectorRequired", "selector is required"),
        ("FailedComputeMetricsReplicas", "selector is required"),
    ]


def test_an_unreadable_selector_is_quoted() -> None:
    """The message about an invalid selector is Go's."""
    scale = {"specReplicas": 2, "statusReplicas": 2, "selector": "cheddar cheese"}

    answer = answered(scenario([cluster("member1", [80, 80], scale=scale)]))

    assert condition(answer, "ScalingActive") == (
        "False",
        "InvalidSelector",
        UNREADABLE,
    )


def test_conditions_keep_their_place_and_time() -> None:
    """A condition keeps its transition time until its status changes. Ready comes first."""
    given = scenario([cluster("member1", [50, 50])])
    stored = [
        {
            "type": "ScalingActive",
            "status": "True",
            "reason": "old",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
        {"type": "AbleToScale", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]

    answer = answered(with_status(given, {"conditions": stored}))

    times = {c["type"]: c["lastTransitionTime"] for c in answer["status"]["conditions"]}
    assert list(times)[:3] == ["Ready", "ScalingActive", "AbleToScale"]
    assert times["ScalingActive"] == "2026-01-01T00:00:00Z"
    assert times["AbleToScale"] == "2026-03-11T13:23:17Z"


def test_dry_run_decides_and_writes_nothing() -> None:
    """A dry run shows the size in status and event, writes nothing and keeps no scale event."""
    answer = answered(scenario([cluster("member1", [80, 80])], spec={"dryRun": True, "behavior": {}}))

    assert (answer["desiredReplicas"], answer["rescale"]) == (4, False)
    assert [event["reason"] for event in answer["events"]] == ["DryRun"]
    assert answer["steps"][-1]["step"] == "dryRun"
    assert answer["history"]["scaleUps"] == []
    assert "lastScaleTime" not in answer["status"]


def test_dry_run_tells_of_a_size_once() -> None:
    """An event is not repeated once the stored status shows the size."""
    given = scenario([cluster("member1", [80, 80])], spec={"dryRun": True})
    given["federatedHPA"]["status"] = {"currentReplicas": 2, "desiredReplicas": 4}

    assert answered(given)["events"] == []


def test_negative_values_count_as_nothing() -> None:
    """A negative external sum proposes the minimum, not the largest int32."""
    given = scenario(
        [cluster("member1", [1, 1], externalMetrics=[external("queue", "-5", q="a")])],
        spec={"metrics": [QUEUE]},
    )

    assert answered(given)["desiredReplicas"] == 1


def test_pods_of_another_namespace_or_selector_do_not_count() -> None:
    """Pods and usage of other namespaces or other labels do not count."""
    mine = cluster("member1", [80, 80])
    stranger = {"metadata": {"name": "db-0", "namespace": "shop", "labels": {"app": "db"}}}
    elsewhere = {"metadata": {"name": "web-9", "namespace": "other", "labels": {"app": "web"}}}
    for foreign in (stranger, elsewhere):
        mine["pods"].append({**mine["pods"][0], **foreign})
        mine["podMetrics"].append({**mine["podMetrics"][0], **foreign})

    answer = answered(scenario([mine]))

    assert answer["metrics"][0]["clusters"] == {"member1": {"pods": 2, "value": "160m"}}


def test_the_labels_of_a_series_are_its_selector() -> None:
    """The metric's selector picks one of several series with the same name."""
    given = scenario(
        [
            cluster(
                "member1",
                [1],
                externalMetrics=[external("queue", "20", q="a"), external("queue", "99", q="b")],
            )
        ],
        spec={"metrics": [QUEUE]},
    )

    assert answered(given)["desiredReplicas"] == 2


def test_usage_of_unlisted_pods_counts_if_it_is_the_workloads() -> None:
    """Usage of an unlisted pod counts in averages unless its labels do not match."""
    spec = {
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "100m"}},
            }
        ]
    }
    mine = cluster("member1", [100, 100])
    gone = {**mine["podMetrics"][0], "metadata": {"name": "web-7", "namespace": "shop"}}
    other = {"name": "db-1", "namespace": "shop", "labels": {"app": "db"}}
    mine["podMetrics"] += [gone, {**gone, "metadata": other}]

    answer = answered(scenario([mine], spec=spec))

    assert answer["metrics"][0]["clusters"] == {"member1": {"pods": 3, "value": "300m"}}
    assert answer["metrics"][0]["pods"]["ready"] == 2
