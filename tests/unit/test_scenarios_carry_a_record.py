"""`record` of a scenario is the memory of the decision before; without it, the status is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedhpa.api.times import parse_time
from fedhpa.cli.replay import answer
from tests.support.distributed_scenarios import assigned, federated, replayed
from tests.support.distributed_scenarios import cluster as distributed_cluster
from tests.support.distributed_scenarios import scenario as distributed_scenario
from tests.support.scenarios import NOW, answered, cluster, scenario

AWAY = {"ready": False, "error": "unreachable", "scale": {"error": "unreachable"}, "lastReplicas": 2}
LONG_AGO = "2026-03-11T13:00:00Z"
LOST = {"m2": {"since": LONG_AGO}}
SECONDS = parse_time(LONG_AGO)
HIGH = {"recommendations": [{"time": NOW, "replicas": 9}]}
STORED_HIGH = {"recommendations": [{"time": parse_time(NOW), "replicas": 9}]}


def missing(**changes: Any) -> dict[str, Any]:
    """The second of two clusters is missing."""
    return scenario([cluster("m1", [50, 50]), {"name": "m2", **AWAY}], **changes)


def lost(given: dict[str, Any]) -> list[str]:
    return list(answered(given)["coverage"].get("lost", ()))


def test_the_record_is_read_instead_of_the_status() -> None:
    """An empty record is a fresh start, whatever the status remembers."""
    given = missing()
    given["federatedHPA"]["status"] = {
        "clusters": [{"name": "m2", "state": "Missing", "lastSeen": LONG_AGO}],
        "decision": {"absences": LOST},
    }

    assert lost(given) == ["m2"]
    assert lost(given | {"record": {}}) == []
    assert lost(missing(record={"absences": {"m2": {"since": SECONDS}}})) == ["m2"]


def test_null_is_no_record() -> None:
    """As anywhere in a scenario, null counts as absent."""
    given = missing(record=None)
    given["federatedHPA"]["status"] = {"decision": {"absences": LOST}}
    given["record"] = None

    assert lost(given) == ["m2"]
    recorded = {"clusters": None, "history": None, "absences": {"m2": {"since": SECONDS, "back": None}}}
    assert lost(missing(record=recorded)) == ["m2"]


def test_fields_that_earlier_releases_recorded_are_passed_over() -> None:
    """A scenario that somebody kept replays as without them."""
    kept = {"m1": {"state": "Answered", "assignment": {"minimum": 1, "maximum": 4}}}
    earlier = {"m1": {"state": "Answered", "assignment": {"minimum": 1, "maximum": 4, "waits": True}}}
    course = {"excessSince": SECONDS, "stepped": SECONDS}

    assert answered(missing(record={"clusters": earlier, "course": course})) == answered(
        missing(record={"clusters": kept, "course": {}})
    )


def test_the_rest_of_the_status_is_read_beside_a_record() -> None:
    """Conditions keep their times, and an error keeps the stored size."""
    given = missing(record={}, target={"error": "no hub"})
    able = {"type": "AbleToScale", "status": "False", "lastTransitionTime": LONG_AGO}
    given["federatedHPA"]["status"] = {"desiredReplicas": 7, "conditions": [able]}

    found = answered(given)

    assert found["desiredReplicas"] == 7
    stored = next(one for one in found["status"]["conditions"] if one["type"] == "AbleToScale")
    assert stored["lastTransitionTime"] == LONG_AGO


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"record": {"history": STORED_HIGH}}, 9),
        ({"record": {"history": STORED_HIGH}, "history": {"recommendations": []}}, 2),
        ({"record": {}, "history": HIGH}, 9),
    ],
    ids=["of the record", "both", "of the scenario"],
)
def test_the_history_of_the_scenario_comes_first(changes: dict[str, Any], expected: int) -> None:
    """A scale-down waits for the highest recommendation of the history that counts."""
    given = scenario([cluster("m1", [10] * 10)])
    del given["history"]

    assert answered(given | changes)["desiredReplicas"] == expected


def test_a_record_without_history_is_a_fresh_start() -> None:
    """The present size is then the first recommendation."""
    given = scenario([cluster("m1", [10] * 10)], record={})
    del given["history"]

    assert answered(given)["desiredReplicas"] == 10


@pytest.mark.parametrize(
    ("record", "path"),
    [
        ({"oops": 1}, "record.oops"),
        ([], "record"),
        ({"clusters": []}, "record.clusters"),
        ({"clusters": {"m1": 5}}, "record.clusters.m1"),
        ({"clusters": {"m1": {"oops": 1}}}, "record.clusters.m1.oops"),
        ({"clusters": {"m1": {"message": "text for people"}}}, "record.clusters.m1.message"),
        ({"clusters": {"m1": {"replicas": "3"}}}, "record.clusters.m1.replicas"),
        ({"clusters": {"m1": {"replicas": -3}}}, "record.clusters.m1.replicas"),
        ({"clusters": {"m1": {"seen": NOW}}}, "record.clusters.m1.seen"),
        ({"clusters": {"m1": {"assignment": {"oops": 1}}}}, "record.clusters.m1.assignment.oops"),
        ({"clusters": {"m1": {"assignment": {"floor": -1}}}}, "record.clusters.m1.assignment.floor"),
        ({"course": {"size": -1}}, "record.course.size"),
        ({"course": {"oops": 1}}, "record.course.oops"),
        ({"absences": {"m1": {"since": LONG_AGO}}}, "record.absences.m1.since"),
        ({"absences": {"m1": {"since": -5}}}, "record.absences.m1.since"),
        ({"absences": {"m1": {"since": 5, "oops": 1}}}, "record.absences.m1.oops"),
        ({"absences": {"m1": {"since": 5, "answered": -1}}}, "record.absences.m1.answered"),
        ({"rebalance": {"requested": NOW}}, "record.rebalance.since"),
        ({"rebalance": {"requested": NOW, "since": 5, "oops": 1}}, "record.rebalance.oops"),
        ({"clusters": {"m1": {"standing": {"since": -5}}}}, "record.clusters.m1.standing.since"),
        ({"history": {"scaleUps": [{"time": "x", "change": 1}]}}, "record.history.scaleUps[0].time"),
        ({"history": {"scaleUps": [{"time": 5, "change": 1, "by": 2}]}}, "record.history.scaleUps[0].by"),
        ({"assignedFor": 7}, "record.assignedFor"),
    ],
)
def test_the_field_that_cannot_be_read_is_named(record: Any, path: str) -> None:
    """No field of a record is passed over: the error begins with its path."""
    line, readable = answer(json.dumps(missing(record=record)).encode())

    assert not readable
    assert json.loads(line)["error"].startswith(f"{path}: ")


def test_a_decision_prints_its_record() -> None:
    """It names what the next decision needs, and nothing that only people read."""
    raw = distributed_scenario(
        federated(2, 12), distributed_cluster("a", 4, pendingReplicas=2), distributed_cluster("b", 4)
    )

    found = replayed(raw)

    assert list(found["record"]) == ["size", "history", "clusters", "assignedFor", "course"]
    assert found["record"]["clusters"]["a"] == {
        "replicas": 4,
        "assignment": {"minimum": 1, "maximum": 3},
        "standing": {"stuck_since": 1773235397.0},
    }
    assert found["record"]["course"] == {"written": parse_time(raw["now"])}


def test_the_record_of_a_decision_leads_to_the_next() -> None:
    """Bounds, help and the clocks of losses go on without any memory in the status."""
    raw = distributed_scenario(federated(2, 12), distributed_cluster("a", 4), distributed_cluster("b", 4))
    gone = assigned(raw, b={"error": "no answer"})

    after = assigned(gone, later=301)

    assert replayed(after)["record"]["clusters"]["b"]["assignment"]["lost"] is True
