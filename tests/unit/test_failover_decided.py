"""The share of a lost cluster goes to the others for as long as the status has it (direct propagation)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fedhpa.api.times import parse_time
from fedhpa.decision import decide, decode_scenario
from tests.support.scenarios import NOW, answered, carry_on, cluster, condition, decided, remembered, scenario

LOST = "2026-03-11T13:10:00Z"
BEHAVIORS: list[dict[str, Any]] = [
    {},
    {"behavior": {}},
    {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 600}}},
    {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1800}]}}},
    {"behavior": {"scaleUp": {"selectPolicy": "Disabled"}}},
]
RECENT = {"recommendations": [{"time": "2026-03-11T13:23:00Z", "replicas": 20}]}


def gone(
    *present: dict[str, Any],
    shares: dict[str, int],
    desired: int | None = 20,
    state: str = "Missing",
    since: str = LOST,
    **changes: Any,
) -> dict[str, Any]:
    """Clusters that answer, and lost ones whose shares the record has."""
    away = [
        {"name": name, "ready": False, "error": "unreachable", "scale": {"error": "unreachable"}}
        for name in shares
    ]
    given = scenario([*present], target=None, **changes)
    given["clusters"] = [*present, *away]
    given["federatedHPA"]["status"] = {"desiredReplicas": desired}
    given["record"] = remembered(
        {
            "clusters": {name: {"state": state, "currentReplicas": share} for name, share in shares.items()},
            "absences": {name: {"since": since} for name in shares},
        }
    )
    return given


def steps(answer: dict[str, Any]) -> list[str]:
    """The steps in short."""
    return [f"{step['step']} {step['from']} -> {step['to']}" for step in answer["steps"]]


def told(answer: dict[str, Any], reason: str) -> list[str]:
    """The messages of the events with a reason."""
    return [event["message"] for event in answer["events"] if event["reason"] == reason]


def status_of(answer: dict[str, Any], name: str) -> dict[str, Any]:
    """One cluster's entry of the status."""
    found: dict[str, Any] = next(one for one in answer["status"]["clusters"] if one["name"] == name)
    return found


@pytest.mark.parametrize("spec", BEHAVIORS)
@pytest.mark.parametrize("history", [RECENT, {"recommendations": []}])
def test_the_share_goes_to_the_others(spec: dict[str, Any], history: dict[str, Any]) -> None:
    """Ten replicas at the target become twenty again, whatever `behavior` and the window say."""
    given = gone(cluster("m1", [50] * 10), shares={"m2": 10}, spec=spec, history=history)

    answer = answered(given)

    assert (answer["currentReplicas"], answer["desiredReplicas"], answer["rescale"]) == (10, 20, True)
    assert answer["reason"] == "lost cluster m2 had 10 replicas"
    assert steps(answer)[:3] == ["metrics 10 -> 10", "coverage 10 -> 10", "failover 10 -> 20"]
    assert [step.split()[0] for step in steps(answer)] == [
        *("metrics", "coverage", "failover", "stabilization", "rateLimit", "bounds")
    ]
    assert told(answer, "FailedOver") == ["lost cluster m2 had 10 replicas: the others have 20 now"]
    assert status_of(answer, "m2")["currentReplicas"] == 0
    assert status_of(answer, "m2")["state"] == "Lost"
    assert [(share["cluster"], share["replicas"]) for share in answer["assignment"]] == [("m1", 20)]


def test_the_share_of_a_cluster_is_taken_over_once() -> None:
    """Once the record has 0 for the lost cluster, the metrics alone decide."""
    given = gone(cluster("m1", [50] * 10), shares={"m2": 10})
    first = answered(given)
    following = scenario([cluster("m1", [25] * 20)], target=None)
    following["clusters"].append(given["clusters"][1])
    carry_on(following, first)

    second = answered(following)

    assert (second["currentReplicas"], second["desiredReplicas"]) == (20, 10)
    assert "failover 10 -> 10" not in steps(second)
    assert told(second, "FailedOver") == []


@pytest.mark.parametrize(
    ("desired", "load", "expected"),
    [
        (None, 50, 10),  # nothing was decided before
        (14, 50, 14),  # the size was 14 when the cluster was lost
        (40, 50, 20),  # no more than what ran
        (20, 125, 25),  # the metrics want more
        (20, 1, 20),  # the others do not shrink before they have taken over
    ],
)
def test_the_level(desired: int | None, load: int, expected: int) -> None:
    """The size is at least what was desired and ran, and at least what the metrics propose."""
    given = gone(
        cluster("m1", [load] * 10), shares={"m2": 10}, desired=desired, controller={"scaleUpLimitFactor": 10}
    )

    assert answered(given)["desiredReplicas"] == expected


def test_the_bounds_apply() -> None:
    """maxReplicas limits a failover, and minReplicas does not hide it."""
    above = answered(gone(cluster("m1", [50] * 10), shares={"m2": 10}, spec={"maxReplicas": 15}))
    below = answered(gone(cluster("m1", [50] * 10), shares={"m2": 10}, spec={"minReplicas": 12}))

    assert (above["desiredReplicas"], steps(above)[-1]) == (15, "bounds 20 -> 15")
    assert condition(above, "ScalingLimited")[:2] == ("True", "TooManyReplicas")
    assert (below["desiredReplicas"], steps(below)) == (20, ["bounds 10 -> 12", "failover 12 -> 20"])
    assert status_of(below, "m2")["currentReplicas"] == 0


@pytest.mark.parametrize("policy", ["Hold", "ScaleUpOnly", "Proceed"])
def test_a_missing_cluster_does_not_stop_it(policy: str) -> None:
    """The step comes after coverage: Hold holds the metrics' proposal, not the lost share."""
    missing = cluster("m3", [50] * 10, ready=False, lastReplicas=10)
    given = gone(
        cluster("m1", [50] * 10),
        missing,
        shares={"m2": 10},
        desired=30,
        spec={"partialMetrics": {"policy": policy}},
    )

    answer = answered(given)

    assert (answer["currentReplicas"], answer["desiredReplicas"]) == (20, 30)


@pytest.mark.parametrize("spec", BEHAVIORS)
def test_most_replicas_are_not_failed_over(spec: dict[str, Any]) -> None:
    """If lost clusters have more than 55 % of the replicas, the hub may be the one that is cut off."""
    given = gone(cluster("m1", [50] * 8), shares={"m2": 10}, spec=spec, history=RECENT)

    answer = answered(given)

    assert (answer["desiredReplicas"], answer["rescale"]) == (8, False)
    assert told(answer, "FailedOver") == []
    assert told(answer, "FailoverHeld") == [
        "lost clusters have 10 of 18 replicas, more than 55 %: nothing is failed over (m2 10)"
    ]
    assert "failover 8 -> 8" in steps(answer)
    assert status_of(answer, "m2")["currentReplicas"] == 10


def test_a_held_failover_is_told_once() -> None:
    """The stored state says Lost already."""
    answer = answered(gone(cluster("m1", [50] * 8), shares={"m2": 10}, state="Lost"))

    assert told(answer, "FailoverHeld") == []


@pytest.mark.parametrize(("share", "expected"), [(11, 20), (12, 9)])
def test_the_bound_is_55_per_cent(share: int, expected: int) -> None:
    """11 of 20 are 55 %, 12 of 21 are more."""
    assert answered(gone(cluster("m1", [50] * 9), shares={"m2": share}))["desiredReplicas"] == expected


def test_several_lost_clusters_count_together() -> None:
    """Three of five clusters have 60 % of the replicas; two have 40 %."""
    three = gone(*(cluster(f"m{i}", [50] * 4) for i in range(2)), shares={"x": 4, "y": 4, "z": 4})
    two = gone(*(cluster(f"m{i}", [50] * 4) for i in range(3)), shares={"x": 4, "y": 4})

    assert answered(three)["desiredReplicas"] == 8
    assert answered(two)["desiredReplicas"] == 20
    assert told(answered(two), "FailedOver") == ["lost clusters x, y had 8 replicas: the others have 20 now"]


def test_a_failed_write_leaves_the_level() -> None:
    """The status keeps the lost share until the others' writes have succeeded."""
    decoded = decode_scenario(json.dumps(gone(cluster("m1", [50] * 10), shares={"m2": 10})).encode())

    decision = decide(
        decoded.snapshot, decoded.history, decoded.now, decoded.settings, write_error="HTTP 503"
    )

    entries = {one["name"]: one for one in decision.status["clusters"]}  # type: ignore[attr-defined]  # JSON
    assert entries["m2"]["currentReplicas"] == 10
    assert "FailedOver" not in [event.reason for event in decision.events]
    assert decision.failed_over == frozenset()


def test_a_dry_run_leaves_the_level() -> None:
    """Nothing is written, so nothing was taken over."""
    decision = decided(gone(cluster("m1", [50] * 10), shares={"m2": 10}, spec={"dryRun": True}))

    assert (decision.desired_replicas, decision.rescale, decision.failed_over) == (20, False, frozenset())


def test_a_failover_uses_up_no_policy() -> None:
    """The replicas that are replaced are no growth; those above are."""
    spec = {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 15, "periodSeconds": 1800}]}}}

    only = answered(gone(cluster("m1", [50] * 10), shares={"m2": 10}, spec=spec))
    more = answered(gone(cluster("m1", [150] * 10), shares={"m2": 10}, spec=spec))

    assert (only["desiredReplicas"], only["history"]["scaleUps"]) == (20, [])
    assert (more["desiredReplicas"], [one["change"] for one in more["history"]["scaleUps"]]) == (25, [5])


@pytest.mark.parametrize(
    "changes",
    [
        {"target": {"replicas": 20, "scheduling": "Divided"}},
        {"duplicated": True},
        {"shares": {"m2": 0}},
        {"since": "2026-03-11T13:22:00Z"},
    ],
)
def test_what_is_not_failed_over(changes: dict[str, Any]) -> None:
    """Karmada divides a template itself, copies replace nothing, and a missing cluster is not lost."""
    fields: dict[str, Any] = {"shares": {"m2": 10}}
    for key in ("shares", "since"):
        if key in changes:
            fields[key] = changes[key]
    if "duplicated" in changes:
        fields["spec"] = {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Duplicated"}}
    given = gone(cluster("m1", [50] * 10), **fields)
    if "target" in changes:
        given["target"] = changes["target"]

    answer = answered(given)

    assert "failover" not in [step["step"] for step in answer["steps"]]
    assert told(answer, "FailedOver") == told(answer, "FailoverHeld") == []


def test_a_cluster_that_lost_only_its_metrics_is_never_failed_over() -> None:
    """Its scale is believed: its replicas count."""
    second = cluster("m2", [50] * 10, podMetrics=[])
    given = scenario([cluster("m1", [50] * 10), second], target=None)
    given["federatedHPA"]["status"] = {"desiredReplicas": 20}
    given["record"] = remembered(
        {
            "clusters": {"m2": {"state": "MetricsMissing", "currentReplicas": 10}},
            "absences": {"m2": {"since": LOST}},
        }
    )

    answer = answered(given)

    assert status_of(answer, "m2")["state"] == "MetricsLost"
    assert (answer["currentReplicas"], answer["desiredReplicas"]) == (20, 20)
    assert "failover" not in [step["step"] for step in answer["steps"]]


@pytest.mark.parametrize(("behavior", "size"), [(None, 30), ({"stabilizationWindowSeconds": 0}, 15)])
def test_a_returning_cluster_counts_again(behavior: dict[str, int] | None, size: int) -> None:
    """The surplus leaves by ordinary scale-down: the size with it is a recommendation of the window."""
    given = scenario([cluster("m1", [25] * 20), cluster("m2", [25] * 10)], target=None)
    given["federatedHPA"]["status"] = {"desiredReplicas": 20}
    if behavior is not None:
        given["federatedHPA"]["spec"]["behavior"] = {"scaleDown": behavior}
    given["record"] = remembered(
        {
            "clusters": {"m2": {"state": "Lost", "currentReplicas": 0}},
            "absences": {"m2": {"since": LOST}},
        }
    )

    answer = answered(given)

    assert (answer["currentReplicas"], answer["desiredReplicas"]) == (30, size)


def test_memory_of_the_share_comes_before_the_status() -> None:
    """The status that a controller read may be older than its last write."""
    given = gone(cluster("m1", [50] * 10), shares={"m2": 10})
    decoded = decode_scenario(json.dumps(given).encode())
    first, second = decoded.snapshot.clusters
    clusters = (first, msgspec.structs.replace(second, last_replicas=0))
    snapshot = msgspec.structs.replace(decoded.snapshot, clusters=clusters)

    decision = decide(snapshot, decoded.history, decoded.now, decoded.settings)

    assert decision.desired_replicas == 10


# --- the clock of a loss ------------------------------------------------------------------------------


def clocked(absence: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Twenty replicas in two clusters, the second missed now, its clock as given."""
    given = gone(cluster("m1", [20] * 10), shares={"m2": 10}, **changes)
    given["record"] |= {"absences": remembered({"absences": {"m2": absence}})["absences"]}
    return given


def test_one_more_missed_reconcile_gives_no_cluster_up() -> None:
    """A cluster that was missing for 15 s ten minutes ago, and again now, stays expected: 20 stay."""
    answer = answered(clocked({"since": "2026-03-11T13:13:00Z", "back": "2026-03-11T13:13:15Z"}))

    assert answer["coverage"]["missing"] == {"m2": "unreachable"}
    assert (answer["currentReplicas"], answer["desiredReplicas"]) == (20, 20)
    clock = answer["record"]["absences"]["m2"]
    since, now = map(parse_time, ("2026-03-11T13:13:00Z", NOW))
    assert clock == {"since": since, "answered": 602.0, "gone": now}


@pytest.mark.parametrize(
    ("absence", "lost"),
    [
        ({"since": "2026-03-11T13:18:18Z"}, False),
        ({"since": "2026-03-11T13:18:17Z"}, True),
        ({"since": "2026-03-11T13:08:17Z", "answeredSeconds": 601}, False),
        ({"since": "2026-03-11T13:08:17Z", "answeredSeconds": 600}, True),
        ({"since": "2026-03-11T13:00:00Z", "back": "2026-03-11T13:22:00Z"}, True),
        ({"since": "2026-03-11T13:00:00Z", "back": "2026-03-11T13:22:00Z", "answeredSeconds": 1200}, False),
        ({"since": "2026-03-11T14:00:00Z"}, False),
    ],
)
def test_the_clock_runs_while_the_cluster_is_missing(absence: dict[str, Any], lost: bool) -> None:
    """Times at which it answered do not count."""
    assert (list(answered(clocked(absence))["coverage"].get("lost", ())) == ["m2"]) is lost


@pytest.mark.parametrize("seconds", ["many", -1])
def test_a_clock_that_another_program_wrote_counts_no_answers(seconds: Any) -> None:
    """A status whose answeredSeconds cannot be read is read without it."""
    absence = {"since": "2026-03-11T13:00:00Z", "answeredSeconds": seconds}
    given = clocked(absence)
    del given["record"]
    given["federatedHPA"]["status"] |= {
        "clusters": [{"name": "m2", "state": "Missing", "currentReplicas": 10}],
        "decision": {"absences": {"m2": absence}},
    }

    assert list(answered(given)["coverage"]["lost"]) == ["m2"]


def test_a_clock_from_the_future_starts_now() -> None:
    """A former leader's clock may have been an hour ahead."""
    absences = answered(clocked({"since": "2026-03-11T14:23:17Z"}))["record"]["absences"]

    assert absences["m2"]["since"] == parse_time("2026-03-11T13:23:17Z")
