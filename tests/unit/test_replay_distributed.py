"""Scenarios of mode Distributed: bounds, writes in order, conditions, and the status for a restart."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from controller.federatedhpa.recording import worth_writing
from fedhpa.api.times import format_time, parse_time
from fedhpa.assignment.writes import Outcome, Result
from fedhpa.decision import to_json, to_text
from tests.support.distributed_scenarios import (
    assigned,
    bounds,
    cluster,
    condition,
    decided,
    federated,
    hpa,
    replayed,
    scenario,
)
from tests.support.scenarios import carry_on


def test_a_pass_over_its_own_result_writes_nothing() -> None:
    raw = scenario(federated(2, 12), cluster("a", 4), cluster("b", 1), cluster("c", 2))

    again = replayed(assigned(raw))

    assert again["writes"] == []
    assert again["rescale"] is False
    assert bounds(again) == bounds(replayed(raw))
    assert again["record"]["assignedFor"] == replayed(raw)["record"]["assignedFor"]


def test_a_cluster_that_was_away_from_the_beginning_gets_its_part_when_it_answers() -> None:
    """It becomes a candidate then, so minReplicas is divided anew."""
    away = {**cluster("c", 0), "ready": False, "error": "no answer"}
    first = scenario(federated(3, 12), cluster("a", 4), cluster("b", 2), away)
    answer = replayed(first)
    back = copy.deepcopy(first)
    carry_on(back, answer)
    for each in back["clusters"][:2]:
        each["hpa"] = hpa(*bounds(answer)[each["name"]], each["scale"]["specReplicas"])
    back["clusters"][2] = cluster("c", 0)
    got = bounds(replayed(back))

    assert "c" not in {each["cluster"] for each in answer["writes"]}
    assert got["c"][0] == 1


def test_a_pinned_cluster_gets_what_another_does_not_run() -> None:
    """As example 16: 12 over three equal clusters, one is pinned. Maxima fall before others rise.

    All maxima together stay as they are, and the event names the reason.
    """
    raw = scenario(federated(3, 12), cluster("a", 4), cluster("b", 1), cluster("c", 2))
    pinned = hpa(1, bounds(replayed(raw))["a"][1], bounds(replayed(raw))["a"][1], usage=100)
    after = assigned(raw, later=600, a={"hpa": pinned})
    most = pinned["spec"]["maxReplicas"]
    after["clusters"][0]["scale"] = {"specReplicas": most, "statusReplicas": most, "selector": "app=web"}

    answer = replayed(after)
    maxima = [(each["cluster"], each["after"]["maxReplicas"]) for each in answer["writes"]]

    assert bounds(answer)["a"][1] > most
    assert sum(each for _, each in bounds(answer).values()) == 12
    assert maxima[-1][0] == "a"
    assert condition(answer, "ScalingLimited")["reason"] == "TooManyReplicas"
    (event,) = (each for each in answer["events"] if each["reason"] == "BoundsAssigned")
    assert f"reason: a: at its maximum of {most} and needs {2 * most}" in event["message"]
    assert answer["reason"] in event["message"]


def test_a_full_cluster_keeps_one_replica_more_than_is_ready() -> None:
    """It shows when more get ready. The rest goes to the other cluster."""
    raw = scenario(federated(2, 12), cluster("a", 4), cluster("b", 4))
    answer = replayed(assigned(raw, a={"pendingReplicas": 2}))
    status = next(each for each in answer["status"]["clusters"] if each["name"] == "a")

    assert bounds(answer) == {"a": (1, 3), "b": (1, 9)}
    said = "the scenario says so: it keeps 2 ready pods and one more"
    assert (status["membership"], status["waitsFor"]) == ("Stuck", said)


def test_an_unreachable_cluster_keeps_the_bounds_of_the_status() -> None:
    """Data beside its failure does not count. Nothing is written to it, and it is named."""
    raw = scenario(federated(2, 12), cluster("a", 4), cluster("b", 4))
    gone = assigned(raw, b={"error": "no answer", "hpa": hpa(1, 99, 50)})

    answer = replayed(gone)

    assert bounds(answer)["b"] == bounds(replayed(raw))["b"]
    assert "b" not in [each["cluster"] for each in answer["writes"]]
    assert "b: no answer" in condition(answer, "MetricsComplete")["message"]


def test_a_lost_clusters_share_goes_to_the_others_after_the_time_out() -> None:
    """The share is held for five minutes, and what fails over is said."""
    raw = scenario(federated(2, 12), cluster("a", 4), cluster("b", 4))
    gone = assigned(raw, b={"error": "no answer"})
    first = replayed(gone)
    lost = copy.deepcopy(gone)
    carry_on(lost, first)
    lost["now"] = format_time((parse_time(gone["now"]) or 0) + 301)

    answer = replayed(lost)

    assert first["writes"] == []
    assert bounds(answer)["a"][1] == 12
    assert [each["cluster"] for each in answer["writes"]] == ["a"]
    assert answer["record"]["clusters"]["b"]["assignment"]["lost"] is True
    assert "ClusterLost" in [each["reason"] for each in answer["events"]]


def test_an_hpa_of_somebody_else_is_left_alone() -> None:
    tenant = hpa(1, 5, 4) | {"metadata": {"name": "web", "uid": "t", "labels": {}}}
    raw = scenario(federated(2, 12), cluster("a", 4, tenant), cluster("b", 4))

    answer = replayed(raw)

    assert [each["cluster"] for each in answer["writes"]] == ["b"]
    assert (condition(answer, "Assigned")["status"], condition(answer, "Assigned")["reason"]) == (
        "False",
        "NotOwned",
    )
    assert "a: " in condition(answer, "Assigned")["message"]


def test_an_hpa_that_cannot_be_read_is_not_written() -> None:
    raw = scenario(federated(2, 12), cluster("a", 4, {"error": "HTTP 503"}), cluster("b", 4))

    answer = replayed(raw)

    assert [each["cluster"] for each in answer["writes"]] == ["b"]
    assert answer["coverage"]["missing"] == {"a": "HTTP 503"}


def test_failed_writes_are_said_and_not_stored() -> None:
    """The status keeps the maximum that the member has; the next pass writes again."""
    raw = scenario(federated(2, 12), cluster("a", 4), cluster("b", 4))
    first = decided(raw)
    assert first.plan is not None
    outcomes = [
        Outcome(
            write=write,
            result=Result.CONFIRMED if write.cluster == "a" else Result.REFUSED,
            reason="" if write.cluster == "a" else "HTTP 403",
        )
        for write in first.plan.next_writes()
    ]

    after = decided(raw, outcomes=outcomes)
    answer = json.loads(json.dumps(to_json(after)))
    stored = {each["name"]: each.get("maxReplicas") for each in answer["status"]["clusters"]}

    assert condition(answer, "Assigned")["reason"] == "WriteFailed"
    assert "b: HTTP 403" in condition(answer, "Assigned")["message"]
    assert stored == {"a": 6, "b": None}


def test_a_dry_run_shows_bounds_and_stores_none() -> None:
    raw = scenario(federated(2, 12, dryRun=True), cluster("a", 4), cluster("b", 4))

    answer = replayed(raw)

    assert bounds(answer) == {"a": (1, 6), "b": (1, 6)}
    assert (answer["rescale"], answer["writes"]) == (False, [])
    assert "assignedFor" not in answer["status"]
    assert [each["reason"] for each in answer["events"]] == ["DryRun"]


@pytest.mark.parametrize(
    "status",
    [
        {"clusters": [{"name": "a", "maxReplicas": "many", "cap": 7, "zero": [], "lost": "yes"}]},
        {"assignedFor": 7},
        {"assignedFor": "x" * 10_000, "clusters": [{"name": "a", "minReplicas": -1, "maxReplicas": 2**40}]},
        {"clusters": [{"name": "a", "givenSince": "tomorrow", "cap": {"replicas": 1, "until": "never"}}]},
    ],
)
def test_a_status_that_somebody_wrote_stops_no_pass(status: Any) -> None:
    obj = federated(2, 12) | {"status": status}

    answer = replayed(scenario(obj, cluster("a", 4), cluster("b", 4)))

    assert sum(most for _, most in bounds(answer).values()) == 12


@pytest.mark.parametrize(
    "status",
    [
        {"currentReplicas": "4", "currentMetrics": 5, "conditions": {"a": 1}, "lastScaleTime": 3},
        {"currentReplicas": -1, "desiredReplicas": True, "conditions": [None, 4, {"type": []}]},
        {"currentMetrics": [{"type": "Resource", "resource": {"current": {"averageUtilization": 1e300}}}]},
    ],
)
def test_a_lying_member_hpa_is_no_number(status: Any) -> None:
    lying = hpa(1, 6, 4)
    lying["status"] = status

    answer = replayed(scenario(federated(2, 12), cluster("a", 4, lying), cluster("b", 4)))

    assert answer["error"] is None
    assert answer["status"]["currentMetrics"] is None
    assert answer["desiredReplicas"] == 8


def test_a_decision_without_members_keeps_the_assignment() -> None:
    """While the hub gives no target, or no cluster answers, the status keeps what a restart needs."""
    raw = assigned(scenario(federated(2, 12), cluster("a", 4), cluster("b", 4)))
    stored = raw["record"]
    blocked = {**raw, "target": {"error": "no hub"}}
    nobody = copy.deepcopy(raw)
    for each in nobody["clusters"]:
        each["error"] = "no answer"

    for answer in (replayed(blocked), replayed({**blocked, "clusters": []}), replayed(nobody)):
        assert answer["record"]["assignedFor"] == stored["assignedFor"]
        assert [each["maxReplicas"] for each in answer["status"]["clusters"]] == [6, 6]
        assert answer.get("writes", []) == []


def test_the_mean_usage_of_all_members_is_shown() -> None:
    """Three replicas at 40 % and one at 80 % are 50 %."""
    raw = scenario(federated(2, 12), cluster("a", 3, hpa(1, 6, 3, 40)), cluster("b", 1, hpa(1, 6, 1, 80)))

    answer = replayed(raw)

    assert answer["status"]["summary"]["targets"] == "cpu: 50%/50%"


def test_a_quiet_status_is_not_written_again() -> None:
    """It is as the hub gave it back, but for the times of answers."""
    raw = assigned(scenario(federated(2, 12), cluster("a", 3, hpa(1, 6, 3)), cluster("b", 1, hpa(1, 6, 1))))
    first, later = decided(raw), decided({**raw, "now": format_time((parse_time(raw["now"]) or 0) + 60)})
    stored = json.loads(json.dumps(first.status))

    assert first.status["currentMetrics"]
    assert worth_writing(stored, later.status, first.now, later.now) is False


def test_text_names_each_members_bounds() -> None:
    raw = assigned(scenario(federated(2, 12), cluster("a", 4), cluster("b", 4)))
    again = decided(raw)

    text = to_text(again, "shop/web")

    assert "8 replicas run, the members scale on their own" in text
    assert "    a: 1 to 6 replicas" in text


def test_a_long_text_of_a_member_is_cut() -> None:
    """The hub would refuse the whole status for one text that is too long."""
    lying = hpa(1, 6, 4)
    lying["status"]["conditions"] = [{"type": "ScalingActive", "status": "False", "reason": "R" * 600}]

    answer = replayed(scenario(federated(2, 12), cluster("a", 4, lying)))

    assert len(condition(answer, "ScalingActive")["message"]) < 300


def test_members_that_want_more_than_their_maximum_add_up_to_what_they_may() -> None:
    """The sum of two lies would not fit into the status."""
    lying = hpa(1, 6, 4, desiredReplicas=2**31 - 1)

    answer = replayed(scenario(federated(2, 12), cluster("a", 4, lying), cluster("b", 4, lying)))

    assert answer["desiredReplicas"] == 12


def test_a_time_of_a_member_that_is_ahead_is_not_stored() -> None:
    ahead = hpa(1, 6, 4, lastScaleTime="2027-01-01T00:00:00Z")
    past = hpa(1, 6, 4, lastScaleTime="2026-03-11T14:00:00.25+01:00")

    answer = replayed(scenario(federated(2, 12), cluster("a", 4, ahead), cluster("b", 4, past)))

    assert "lastScaleTime" not in answer["status"]["clusters"][0]
    assert answer["status"]["lastScaleTime"] == "2026-03-11T13:00:00Z"


def test_the_status_of_a_thousand_clusters_fits_into_etcd() -> None:
    """Each member sends as much as it may."""
    large = hpa(1, 6, 1)
    large["status"]["currentMetrics"] = [{"type": "Resource", "resource": {"name": "x" * 900}}] * 4
    large["status"]["conditions"] = [{"type": kind, "status": "True", "reason": "R" * 500} for kind in "abcd"]
    raw = scenario(federated(2, 3000), *(cluster(f"member-{index:04}", 1, large) for index in range(1000)))

    status = replayed(raw)["status"]

    assert len(status["clusters"]) == 1000
    assert len(json.dumps(status)) < 1024 * 1024


def test_a_dry_run_explains_the_state_that_it_would_lead_to() -> None:
    raw = scenario(federated(2, 12), cluster("a", 4), cluster("b", 4))
    full = assigned(raw, a={"pendingReplicas": 2})
    full["federatedHPA"]["spec"]["dryRun"] = True

    answer = replayed(full)

    assert bounds(answer) == {"a": (1, 3), "b": (1, 9)}
    assert answer["record"]["clusters"]["a"]["assignment"]["maximum"] == 6


def test_text_names_what_a_cluster_lacks() -> None:
    """Which bounds, what runs, who needs more, what is not ours, and what cannot be read."""
    tenant = hpa(1, 5, 4) | {"metadata": {"name": "web", "uid": "t", "labels": {}}}
    raw = scenario(
        federated(3, 20),
        cluster("a", 4, hpa(1, 4, 4, usage=100)),
        cluster("b", 4, tenant),
        cluster("c", 1, {"error": "HTTP 503"}),
        cluster("d", 1, hpa(1, 1, 1)),
    )

    lines = to_text(decided(raw)).splitlines()

    assert "    a: 1 to 12 replicas, 4 run, its HPA is at maxReplicas and needs 8 replicas" in lines
    assert "    b: 1 to 5 replicas, 4 run, its HPA is not ours and is never written" in lines
    assert "    c: no HPA, 1 last known, the cluster cannot be read, so nothing is written there" in lines
    assert "    d: 1 to 4 replicas, 1 runs" in lines
