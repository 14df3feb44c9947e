"""Mode Distributed goes on from its record and the members alone, and its states end."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from fedhpa.decision import read_status, record_text, to_text, with_record
from tests.support.distributed_scenarios import (
    assigned,
    bounds,
    cluster,
    decided,
    federated,
    hpa,
    preferences,
    replayed,
    scenario,
)
from tests.support.scenarios import carry_on

UID = "5f0c2f6e-93a6-4b39-a1f4-7c1e1b1f3c55"
BY_PRIORITY = preferences("priority", {"a": 2, "b": 1})


def helping() -> dict[str, Any]:
    """The nodes of `a` are full, so `b` helps."""
    raw = scenario(federated(2, 12), cluster("a", 4), cluster("b", 4))
    return assigned(raw, a={"pendingReplicas": 2})


def holding() -> dict[str, Any]:
    """The lower priority `b` runs above its minimum, so `a` is held."""
    roomy: dict[str, Any] = {"availableReplicas": 20}
    raw = scenario(
        federated(4, 16, "Prioritized", BY_PRIORITY), cluster("a", 6, **roomy), cluster("b", 5, **roomy)
    )
    return assigned(raw)


def capped() -> dict[str, Any]:
    """The nodes of `a` were full a minute ago."""
    return assigned(helping(), a={"pendingReplicas": 0})


def lost() -> dict[str, Any]:
    """The share of `b` went to `a`."""
    raw = assigned(scenario(federated(2, 12), cluster("a", 4), cluster("b", 4)), b={"error": "no answer"})
    return assigned(raw, later=301)


def at_zero() -> dict[str, Any]:
    """All clusters are at their minimum with little load, so that one goes to 0."""
    wishes = preferences("staticWeight", {"a": 1, "b": 2, "c": 3})
    obj = federated(2, 12, wishes=wishes, scalingToZero=True)
    raw = scenario(
        obj, *(cluster(name, 1, hpa(1, most, 1, 30)) for name, most in (("a", 2), ("b", 4), ("c", 6)))
    )
    for _ in range(7):
        raw = assigned(raw, usage=30)
    return raw


STATES: dict[str, tuple[Callable[[], dict[str, Any]], str, str]] = {
    "help": (helping, "b", "given"),
    "hold": (holding, "a", "held"),
    "cap": (capped, "a", "cap"),
    "lost": (lost, "b", "lost"),
    "zero": (at_zero, "a", "zero"),
}


def entry(status: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in status["clusters"] if each["name"] == name)
    return found


def from_annotation(raw: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """The scenario on a hub that drops the added fields of the last decision's status."""
    found = copy.deepcopy(raw)
    del found["record"]
    obj = found["federatedHPA"]
    obj["metadata"] |= {"uid": UID}
    text = record_text(UID, status)
    obj["metadata"]["annotations"] = {"autoscaling.karmada.io/fedhpa-record": text}
    obj["status"] = {name: status[name] for name in ("currentReplicas", "desiredReplicas")}
    found["federatedHPA"] = dict(with_record(obj))
    return found


@pytest.mark.parametrize("state", STATES)
def test_a_restart_in_the_middle_of_a_state_goes_on(state: str) -> None:
    """The pass after a restart is the one without a restart, also from the record annotation."""
    make, name, field = STATES[state]
    raw = make()
    answer = replayed(raw)
    assert field in entry(answer["status"], name)

    after = assigned(raw)
    after["federatedHPA"]["metadata"]["uid"] = UID
    going_on, annotated = replayed(after), replayed(from_annotation(after, answer["status"]))

    for key in ("assignment", "writes", "steps", "desiredReplicas"):
        assert annotated[key] == going_on[key]
    for each in going_on["status"]["clusters"]:
        assert entry(annotated["status"], each["name"]) == each
    assert annotated["status"]["assignedFor"] == going_on["status"]["assignedFor"]


@pytest.mark.parametrize("count", [100, 400])
def test_a_record_of_many_clusters_keeps_the_help(count: int) -> None:
    """It has no room for all clusters. Bounds are read from the members again, help is not."""
    names = [f"member-{index:04}" for index in range(count)]
    last = names[-1]
    first = scenario(federated(count, 3 * count), *(cluster(name, 2) for name in names))
    raw, status = assigned(first), replayed(first)["status"]
    raw["federatedHPA"]["metadata"]["uid"] = UID
    help_of_last = {"given": 2, "givenShare": 2, "givenSince": raw["now"], "readySince": raw["now"]}
    raw["record"]["clusters"][last] |= help_of_last
    entry(status, last).update(help_of_last)
    raw["clusters"][-1]["hpa"]["spec"]["minReplicas"] += 2

    going_on, annotated = replayed(raw), replayed(from_annotation(raw, status))

    assert entry(going_on["status"], last)["given"] == 2
    assert annotated["assignment"] == going_on["assignment"]
    assert annotated["writes"] == going_on["writes"] == []


@pytest.mark.parametrize("state", STATES)
def test_a_second_controller_decides_the_same(state: str) -> None:
    """Between two passes nothing is written. A new leader makes a pass at once, and it changes nothing.

    The members have the bounds, and nothing else has changed.
    """
    raw = STATES[state][0]()
    answer = replayed(raw)
    again = copy.deepcopy(raw)
    carry_on(again, answer)
    for each in again["clusters"]:
        least, most = bounds(answer)[each["name"]]
        if each.get("hpa") and most:
            each["hpa"]["spec"] |= {"minReplicas": least, "maxReplicas": most}

    second = replayed(again)

    assert second["writes"] == []
    assert bounds(second) == bounds(answer)


@pytest.mark.parametrize(
    ("state", "passes", "usage", "gone"),
    [
        ("help", 20, 50, ("given", "givenSince", "givenShare", "readySince", "deficitBefore")),
        ("hold", 20, 40, ("held",)),
        ("cap", 45, 50, ("cap",)),
    ],
)
def test_a_state_ends_and_leaves_the_status(
    state: str, passes: int, usage: int, gone: tuple[str, ...]
) -> None:
    """Help, a hold and a remembered full cluster end in a quiet fleet. The status forgets them.

    The held cluster has too little load for what it runs.
    """
    make, name, _ = STATES[state]
    raw = assigned(make(), a={"pendingReplicas": 0})
    for _ in range(passes):
        raw = assigned(raw, usage=usage)

    final = replayed(raw)

    assert not set(gone) & set(entry(final["status"], name))
    shares = {each["cluster"]: each for each in final["assignment"]}
    assert (shares[name]["assist"], shares[name]["held"], shares[name]["cappedUntil"]) == (0, 0, None)
    assert final["writes"] == []


def test_a_cluster_that_is_back_is_no_longer_lost() -> None:
    raw = assigned(lost())
    assert raw["record"]["clusters"]["b"]["lost"] is True
    for each in raw["clusters"]:
        each.pop("error", None)
    for _ in range(6):
        raw = assigned(raw)

    final = entry(replayed(raw)["status"], "b")

    assert "lost" not in final
    assert final["maxReplicas"] >= 1


def test_a_cap_that_is_over_is_not_shown() -> None:
    """The status keeps the memory for its doubling, but it limits nothing any more."""
    raw = capped()
    for _ in range(3):
        raw = assigned(raw)

    answer = replayed(raw)

    assert "cap" in entry(answer["status"], "a")
    assert next(each for each in answer["assignment"] if each["cluster"] == "a")["cappedUntil"] is None


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("help", "a: 1 to 2 replicas, 4 run, 2 of them wait for a node, its nodes were full at 2 replicas"),
        ("help", "minReplicas is 5 higher to help other clusters"),
        ("hold", "holds 6 replicas until lower priorities have scaled down"),
        ("cap", "its nodes were full at 2 replicas, which limits it until 2026-03-11T13:26:17Z"),
        ("lost", "b: lost, so the others have its share; its HPA keeps its last bounds"),
        ("zero", "scaled to 0 by scalingToZero"),
        ("zero", "distribute: maxReplicas 12 -> 12 ("),
        ("hold", "assist: minReplicas 7 -> 7 ("),
    ],
)
def test_the_explanation_names_the_state(state: str, expected: str) -> None:
    """`fedhpa replay -o text` shows it from the members, `fedhpa explain` from the status alone."""
    decision = decided(STATES[state][0]())
    stored = read_status(decision.status).last_decision()

    assert expected in to_text(decision)
    assert stored is not None
    part = expected if state != "help" or expected.startswith("minReplicas") else "a: 1 to 2 replicas, 4 run"
    assert part in to_text(stored)


def test_the_shares_of_a_stored_decision_are_those_of_the_decision() -> None:
    for make, _, _ in STATES.values():
        decision = decided(make())
        stored = read_status(decision.status).last_decision()

        assert stored is not None
        assert [(each.cluster, each.min_replicas, each.max_replicas) for each in stored.bounds] == [
            (each.cluster, each.min_replicas, each.max_replicas) for each in decision.bounds
        ]
