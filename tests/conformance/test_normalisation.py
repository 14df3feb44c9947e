"""Stabilization, rate limits and scale events reproduce Kubernetes' HPA controller."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedhpa.api.autoscaling import Behavior
from fedhpa.api.decode import decode
from fedhpa.decision import History, decode_object, history_after_scale
from fedhpa.decision.spec import ScalingBehavior, behavior_with_defaults
from fedhpa.scaling.limits import (
    MESSAGES,
    Bounds,
    Recommendation,
    ScaleEvent,
    ScalingPolicy,
    ScalingRules,
    change_within,
    down_limit,
    limit,
    limit_legacy,
    stabilize,
    stabilize_legacy,
    up_limit,
)
from tests.conformance.facts import NOW, at, params
from tests.conformance.tables import table

TABLE = table("k8s_behavior")


SPEC = decode_object({"spec": {"maxReplicas": 1000}}).spec


def rules_of(given: dict[str, Any] | None) -> ScalingRules:
    raw = given or {}
    return ScalingRules(
        policies=tuple(
            ScalingPolicy(policy["type"], policy["value"], policy["periodSeconds"])
            for policy in raw.get("policies", ())
        ),
        select_policy=raw.get("selectPolicy", "Max"),
        stabilization_seconds=raw.get("stabilizationWindowSeconds"),
    )


def events_of(given: list[dict[str, Any]]) -> list[ScaleEvent]:
    return [ScaleEvent(at(event["time"]) or 0.0, event["replicaChange"]) for event in given]


def recommendations_of(given: list[dict[str, Any]]) -> list[Recommendation]:
    return [Recommendation(at(entry["time"]) or 0.0, entry["recommendation"]) for entry in given]


def after(given: list[dict[str, Any]]) -> list[tuple[float, int]]:
    return [(at(entry["time"]) if entry["time"] else NOW, entry["recommendation"]) for entry in given]  # type: ignore[misc]  # no time is None here


@pytest.mark.parametrize("case", params(TABLE["convert_with_rules_legacy"]))
def test_limits_without_behavior(case: dict[str, Any]) -> None:
    """Without behavior the bounds and max(factor x current, minimum) limit the size."""
    limited = limit_legacy(
        case["current_replicas"],
        case["desired_replicas"],
        Bounds(case["min_replicas"], case["max_replicas"]),
        case["scale_up_limit_factor"],
        case["scale_up_limit_minimum"],
    )

    assert {"reason": limited.reason, "replicas": limited.replicas} == case["expect"]
    assert MESSAGES[limited.reason] == case["observed_message"]


@pytest.mark.parametrize("case", params(TABLE["scale_limit"]))
def test_limit_of_one_direction(case: dict[str, Any]) -> None:
    """The policies of a direction give its limit."""
    compute = up_limit if case["direction"] == "up" else down_limit

    allowed = compute(
        case["current_replicas"],
        rules_of(case["rules"]),
        events_of(case["scale_up_events"]),
        events_of(case["scale_down_events"]),
        NOW,
    )

    assert {"limit": allowed} == case["expect"]


@pytest.mark.parametrize("case", params(TABLE["stabilize_legacy"]))
def test_stabilizes_without_behavior(case: dict[str, Any]) -> None:
    """The highest recommendation of the window wins, and the log is kept entry by entry."""
    stabilized = stabilize_legacy(
        case["desired_replicas"],
        recommendations_of(case["recommendations"]),
        NOW,
        case["downscale_stabilization_s"],
    )

    assert stabilized.replicas == case["expect"]["replicas"]
    assert len(stabilized.recommendations) == case["expect"]["log_length"]
    kept = [(entry.time, entry.replicas) for entry in stabilized.recommendations]
    assert kept == after(case["observed_recommendations_after"])


@pytest.mark.parametrize("case", params(TABLE["convert_with_behavior_rate"]))
def test_limits_with_behavior(case: dict[str, Any]) -> None:
    """Policies, past scale events and bounds limit the size, with the reason and message."""
    limited = limit(
        case["current_replicas"],
        case["desired_replicas"],
        Bounds(case["min_replicas"], case["max_replicas"]),
        rules_of(case["scale_up_rules"]),
        rules_of(case["scale_down_rules"]),
        events_of(case["scale_up_events"]),
        events_of(case["scale_down_events"]),
        NOW,
    )

    observed = case["observed"]
    assert (limited.replicas, limited.reason) == (observed["replicas"], observed["reason"])
    assert MESSAGES[limited.reason] == observed["message"]


@pytest.mark.parametrize("case", params(TABLE["store_scale_events"]))
def test_stores_scale_events(case: dict[str, Any]) -> None:
    """A scale takes the place of the last outdated event, else is appended; without behavior none is kept."""
    before = events_of(case["prev_events"])
    change = change_within(before, case["change_period_s"], NOW)

    assert change == case["expect"]["change_in_period_before"]
    expected = [event["replicaChange"] for event in case["expect"]["events_after"]]
    for up in (True, False):
        rules = None if case["rules"] is None else rules_of(case["rules"])
        behavior = None if rules is None else ScalingBehavior(rules, rules)
        spec = msgspec.structs.replace(SPEC, behavior=behavior)
        history = History((), tuple(before), ()) if up else History((), (), tuple(before))
        change = case["replica_change"] if up else -case["replica_change"]

        stored = history_after_scale(spec, history, change, NOW)

        assert [event.change for event in (stored.scale_ups if up else stored.scale_downs)] == expected


@pytest.mark.parametrize("case", params(TABLE["stabilize_with_behaviors"]))
def test_stabilizes_with_behavior(case: dict[str, Any]) -> None:
    """Each direction's window holds back a change, and the log is kept entry by entry."""
    stabilized = stabilize(
        case["current_replicas"],
        case["desired_replicas"],
        recommendations_of(case["recommendations"]),
        NOW,
        case["scale_up_window_s"],
        case["scale_down_window_s"],
    )

    assert stabilized.replicas == case["expect"]["replicas"]
    kept = [(entry.time, entry.replicas) for entry in stabilized.recommendations]
    assert kept == after(case["observed"]["recommendationsAfter"])


def as_rules(expected: dict[str, Any]) -> ScalingRules:
    rules = rules_of(expected)
    tolerance = expected.get("tolerance")
    return msgspec.structs.replace(
        rules, tolerance=None if tolerance is None else float(tolerance.removesuffix("m")) / 1000
    )


@pytest.mark.parametrize("case", params(TABLE["generate_rules_defaults"]))
def test_fills_the_rules_of_a_direction(case: dict[str, Any]) -> None:
    """Given fields win, and a list of policies replaces the default list."""
    up = case["direction"] == "up"
    given = {"scaleUp" if up else "scaleDown": case["given"]}

    behavior = behavior_with_defaults(decode(Behavior, given))

    assert (behavior.scale_up if up else behavior.scale_down) == as_rules(case["expect"])


@pytest.mark.parametrize(
    "case", [case for case in params(TABLE["set_behavior_defaults"]) if case.values[0]["given"] is not None]
)
def test_fills_both_directions(case: dict[str, Any]) -> None:
    """With behavior, both directions have rules."""
    behavior = behavior_with_defaults(decode(Behavior, case["given"]))

    assert behavior.scale_up == as_rules(case["expect"]["scaleUp"])
    assert behavior.scale_down == as_rules(case["expect"]["scaleDown"])
