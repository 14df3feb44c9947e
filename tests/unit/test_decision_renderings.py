"""A decision is rendered as JSON, as text, and as a record that survives a restart."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.decision import (
    History,
    Recommendation,
    ScaleEvent,
    decode_stored,
    encode_stored,
    to_text,
)
from fedhpa.decision.memory import bounded_history
from fedhpa.decision.record.memory import decode_history, encode_history
from tests.support.scenarios import answered, cluster, decided, scenario

KEYS = [
    "name",
    "now",
    "currentReplicas",
    "desiredReplicas",
    "rescale",
    "reason",
    "error",
    "coverage",
    "metrics",
    "steps",
    "conditions",
    "events",
    "status",
    "history",
    "record",
    "assignment",
]


def test_json_has_the_keys_in_order() -> None:
    """Keys of decision, metric and step have the documented names and order."""
    answer = answered(scenario([cluster("member1", [80, 80])]))

    assert list(answer) == KEYS
    assert list(answer["metrics"][0]) == [
        "index",
        "type",
        "name",
        "current",
        "target",
        "usageRatio",
        "proposal",
        "error",
        "pods",
        "clusters",
    ]
    assert [step["step"] for step in answer["steps"]] == [
        "metrics",
        "coverage",
        "stabilization",
        "rateLimit",
        "bounds",
    ]
    assert list(answer["steps"][0]) == ["step", "from", "to", "reason"]


def test_steps_lead_from_the_present_size_to_the_decided_one() -> None:
    """Each step starts with the result of the previous one."""
    answer = answered(scenario([cluster("member1", [500] * 3)], spec={"maxReplicas": 5}))

    sizes = [(step["from"], step["to"]) for step in answer["steps"]]
    assert sizes[0][0] == 3
    assert all(before[1] == after[0] for before, after in itertools.pairwise(sizes))
    assert sizes[-1][1] == answer["desiredReplicas"] == 5


def test_a_step_of_the_rate_limit_names_it_though_the_bounds_are_narrower() -> None:
    """maxReplicas holds the size in the end. The step before is about the rate."""
    given = scenario([cluster("member1", [500] * 6)], spec={"maxReplicas": 10})
    steps = {step["step"]: step for step in answered(given)["steps"]}

    rate = steps["rateLimit"]
    assert (rate["from"], rate["to"], steps["bounds"]["to"]) == (60, 12, 10)
    assert rate["reason"] == "the desired replica count is increasing faster than the maximum scale rate"


def test_a_cluster_that_answered_is_not_called_missing() -> None:
    """It answers, but its metrics do not."""
    failing = cluster("member1", [50] * 3, podMetrics={"error": "out of order"})
    text = to_text(decided(scenario([failing, cluster("member2", [50] * 3)], target={"replicas": 6})))

    assert "2 of 2 expected clusters answered" in text
    assert "member1 answered without all data: out of order" in text
    assert "is missing" not in text


def test_text_says_what_why_and_what_would_change_it() -> None:
    """The explanation names sizes, reason, metric, share, coverage, steps and what would change the size."""
    text = to_text(decided(scenario([cluster("member1", [80, 80])])), "web")

    for part in (
        "web: scale 2 -> 4 replicas",
        "reason: cpu resource utilization (percentage of request) above target",
        "averageUtilization 80, averageValue 80m (target averageUtilization 50, 1.6 of the target)",
        "member1: 160m from 2 pods",
        "1 of 1 expected clusters answered",
        "stabilization: 4 -> 4",
        "to move it:",
    ):
        assert part in text


def test_text_of_a_size_that_waits_for_pods_says_so() -> None:
    """If pods without metrics prevent a scale-up, the explanation says so."""
    given = cluster("member1", [80, 80, 80, 80])
    given["podMetrics"] = given["podMetrics"][:2]

    text = to_text(decided(scenario([given])))

    assert "stay at 4 replicas" in text
    assert "metrics: 4 -> 4 (usage calls for no other size)" in text
    assert "to move it: metrics of the 2 pods that do not count yet" in text


def test_text_of_a_held_size_names_what_holds_it() -> None:
    """The explanation names the stabilization window as the reason for a kept size."""
    given = scenario(
        [cluster("member1", [10, 10])],
        history={"recommendations": [{"time": "2026-03-11T13:22:17Z", "replicas": 2}]},
    )

    assert "older recommendations must leave the stabilization window" in to_text(decided(given))


def test_the_record_carries_the_history_over_a_restart() -> None:
    """It has what later decisions need."""
    decision = decided(scenario([cluster("member1", [80, 80])], spec={"behavior": {}}))
    stored = msgspec.json.decode(msgspec.json.encode(encode_stored(decision.memory, decision)))

    restored = decode_stored(stored).state.history

    assert restored == decision.history
    assert restored.scale_ups == (ScaleEvent(decision.now, 2),)


def test_history_that_cannot_be_read_is_named() -> None:
    """The error names the field of the bad entry."""
    with pytest.raises(InvalidObject, match=r"history.scaleUps\[0\]"):
        decode_history({"scaleUps": [{"time": "noon", "change": 1}]})


def test_history_round_trips() -> None:
    """Encoding and decoding keep order, fractions of seconds, and None apart from an empty list."""
    history = History((Recommendation(1_773_235_397.25, 5), Recommendation(1_773_235_300.0, 4)), (), ())

    for one in (history, History(), History(())):
        assert decode_history(encode_history(one)) == one


def test_the_envelope_is_bounded_and_keeps_what_counts() -> None:
    """Of thousands of recommendations the extremes are kept, of thousands of scale events the sum."""
    many = tuple(Recommendation(float(i), (i * 7919) % 997) for i in range(5000))
    events = tuple(ScaleEvent(float(i), 1) for i in range(5000))

    kept = bounded_history(History(many, events, ()))

    assert kept.recommendations is not None
    assert len(kept.recommendations) <= 120
    for since in (0.0, 2500.0, 4990.0):
        later = [r.replicas for r in many if r.time >= since]
        kept_later = [r.replicas for r in kept.recommendations if r.time >= since]
        assert (max(kept_later), min(kept_later)) == (max(later), min(later))
    assert sum(event.change for event in kept.scale_ups) == 5000
    assert len(kept.scale_ups) <= 120


@pytest.mark.parametrize(
    ("behavior", "told"),
    [
        ({}, "usage above 1.1 of some target, or below 0.9 of all (now at most 1)"),
        (
            {"behavior": {"scaleUp": {"tolerance": "0.5"}, "scaleDown": {"tolerance": "0.25"}}},
            "usage above 1.5 of some target, or below 0.75 of all (now at most 1)",
        ),
    ],
)
def test_text_says_at_which_usage_it_would_move(behavior: dict[str, Any], told: str) -> None:
    """The object's tolerance overrides the controller's in each direction."""
    decision = decided(scenario([cluster("member1", [50, 50])], spec=behavior))

    assert told in to_text(decision)
    stored = decode_stored(encode_stored(decision.memory, decision)).last_decision()
    assert told in to_text(stored or decision)
