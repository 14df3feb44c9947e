"""Mode Distributed goes on from its record and the members alone, and its states end."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fedhpa.api.identity import short_uid
from fedhpa.decision import decode_stored, encode_stored, to_text
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


def stuck() -> dict[str, Any]:
    """The nodes of `a` are full, so `b` gets its share, and holds its part of minReplicas."""
    raw = scenario(federated(6, 12), cluster("a", 4), cluster("b", 4))
    return assigned(raw, a={"pendingReplicas": 3})


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
    "stuck": (stuck, "b", "floor"),
    "lost": (lost, "b", "lost"),
    "zero": (at_zero, "a", "zeroSince"),
}


def assignment(answer: dict[str, Any], name: str) -> dict[str, Any]:
    """The part of the record about one cluster."""
    found: dict[str, Any] = answer["record"]["clusters"][name]["assignment"]
    return found


@pytest.mark.parametrize("state", STATES)
def test_a_restart_in_the_middle_of_a_state_goes_on(state: str) -> None:
    """The record that the API server gives back is the memory of the decision."""
    make, name, field = STATES[state]
    decision = decided(make())
    stored = json.loads(json.dumps(encode_stored(decision.memory, decision)))

    assert decode_stored(stored).state == decision.memory
    assert stored["state"]["clusters"][name]["assignment"][field]


@pytest.mark.parametrize(("count", "most"), [(300, 48), (1_000, 160)])
def test_the_memory_of_many_clusters_is_small(count: int, most: int) -> None:
    """All clusters help and were full. Together with the explanation of 300, it stays below 64 KiB."""
    names = [f"member-{index:04}" for index in range(count)]
    decision = decided(scenario(federated(count, 3 * count), *(cluster(name, 2) for name in names)))
    known = decision.memory.clusters
    full = {
        name: msgspec.structs.replace(
            one, assignment=msgspec.structs.replace(one.assignment, floor=2), uid=short_uid(name)
        )
        for name, one in known.items()
    }
    memory = msgspec.structs.replace(decision.memory, clusters=full)

    content = encode_stored(memory, decision)

    assert len(msgspec.json.encode(memory)) <= most * 1024
    assert ("decision" in content) is (count == 300)
    assert count > 300 or len(msgspec.json.encode(content)) <= 64 * 1024
    assert decode_stored(content).state == memory


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


def test_a_state_ends_and_leaves_the_record() -> None:
    """Once its pods are ready, the cluster holds its own part again, and nobody else does."""
    raw = assigned(stuck(), a={"pendingReplicas": 0})
    for _ in range(20):
        raw = assigned(raw)

    final = replayed(raw)

    assert "floor" not in assignment(final, "b")
    assert final["writes"] == []


def test_a_cluster_that_is_back_is_no_longer_lost() -> None:
    raw = assigned(lost())
    assert raw["record"]["clusters"]["b"]["assignment"]["lost"] is True
    for each in raw["clusters"]:
        each.pop("error", None)
    for _ in range(6):
        raw = assigned(raw)

    final = assignment(replayed(raw), "b")

    assert "lost" not in final
    assert final["maximum"] >= 1


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("stuck", "b: 4 to 10 replicas, 4 run, 3 of minReplicas are its own part"),
        ("lost", "b: lost, so the others have its share; its HPA keeps its last bounds"),
        ("zero", "scaled to 0 by scalingToZero"),
        ("zero", "distribute: maxReplicas 12 -> 12 ("),
    ],
)
def test_the_explanation_names_the_state(state: str, expected: str) -> None:
    """`fedhpa replay -o text` shows it from the members, `fedhpa explain` from the record alone."""
    decision = decided(STATES[state][0]())
    stored = decode_stored(encode_stored(decision.memory, decision)).last_decision()

    assert expected in to_text(decision)
    assert stored is not None
    assert expected in to_text(stored)


def test_the_shares_of_a_stored_decision_are_those_of_the_decision() -> None:
    for make, _, _ in STATES.values():
        decision = decided(make())
        stored = decode_stored(encode_stored(decision.memory, decision)).last_decision()

        assert stored is not None
        assert [(each.cluster, each.min_replicas, each.max_replicas) for each in stored.bounds] == [
            (each.cluster, each.min_replicas, each.max_replicas) for each in decision.bounds
        ]
