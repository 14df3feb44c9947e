"""Annotations of an object, its namespace or the controller's namespace hold scaling in mode Centralized."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.api.taints import DRAIN_TAINT
from fedhpa.api.times import format_time, parse_time
from fedhpa.decision import to_text
from tests.support.scenarios import NOW, answered, carry_on, cluster, condition, decided, scenario

HOLD, UNTIL = "autoscaling.karmada.io/hold", "autoscaling.karmada.io/hold-until"
START = parse_time(NOW) or 0.0
# Milli-cores of a pod whose request is 100m and whose target is 50 %.
IDLE, AT_TARGET, BUSY = 10, 50, 100
WHY = "hold {} on the object"
DRAIN = [{"key": DRAIN_TAINT, "effect": "NoSchedule"}]


def held(
    direction: str, *replicas: int, usage: int = IDLE, until: str = "", **changes: Any
) -> dict[str, Any]:
    """A workload of some replicas in each cluster, whose object holds a direction."""
    clusters = [cluster(f"m{i + 1}", [usage] * count) for i, count in enumerate(replicas)]
    given = scenario(clusters, **{"target": None, **changes})
    annotations = {HOLD: direction} | ({UNTIL: until} if until else {})
    given["federatedHPA"]["metadata"]["annotations"] = annotations
    return given


def step(answer: dict[str, Any]) -> dict[str, Any]:
    """The step of the hold."""
    found: dict[str, Any] = next(each for each in answer["steps"] if each["step"] == "hold")
    return found


def shares(answer: dict[str, Any]) -> dict[str, int]:
    """The replicas of each cluster."""
    return {each["cluster"]: each["replicas"] for each in answer["assignment"]}


@pytest.mark.parametrize(
    ("direction", "usage", "expected"),
    [
        ("down", IDLE, 8),
        ("down", BUSY, 16),
        ("up", IDLE, 2),
        ("up", BUSY, 8),
        ("all", IDLE, 8),
        ("all", BUSY, 8),
    ],
)
def test_a_hold_stops_its_direction_alone(direction: str, usage: int, expected: int) -> None:
    """A hold of one direction leaves the other one to the metrics, and `all` keeps the size."""
    answer = answered(held(direction, 4, 4, usage=usage))

    assert answer["desiredReplicas"] == expected
    assert step(answer)["to"] == expected


@pytest.mark.parametrize("target", [None, {"replicas": 8}])
def test_the_step_says_what_the_size_would_be(target: Any) -> None:
    """The step of the hold goes from the size without it, with both ways of propagation."""
    answer = answered(held("down", 4, 4, target=target))

    assert (step(answer)["from"], step(answer)["to"]) == (2, 8)
    assert not answer["rescale"]
    assert answer["events"] == [
        {
            "type": "Normal",
            "reason": "Held",
            "message": "nothing is scaled down until somebody ends the hold: hold down on the object",
        }
    ]


def test_ready_and_explain_name_the_hold() -> None:
    """Ready stays True with reason Held, and its message names direction, end and place of the hold."""
    until = "2026-03-11T15:00:00Z"
    given = held("up", 4, 4, usage=AT_TARGET, until=until)
    text = f"nothing is scaled up until {until}: hold up on the object"

    assert condition(answered(given), "Held") == ("True", "HoldUp", text)
    assert answered(given)["status"]["conditions"][0]["reason"] == "Held"
    assert answered(given)["status"]["conditions"][0]["message"].endswith(f"; {text}")
    assert f"  hold: {text}\n" in to_text(decided(given))
    assert "to move it: " in to_text(decided(given))


def test_explain_says_what_would_move_a_held_size() -> None:
    """Where the hold is what keeps the size, explain names the end of the hold."""
    text = to_text(decided(held("down", 4, 4)))

    assert "to move it: the end of the hold" in text
    assert text.splitlines()[0] == (
        "stay at 8 replicas; reason: nothing is scaled down until somebody ends the hold: "
        "hold down on the object"
    )


@pytest.mark.parametrize(
    ("own", "namespace", "controller", "expected"),
    [
        ("down", "up", "all", "HoldDown"),
        ("", "up", "all", "HoldUp"),
        ("", "", "all", "HoldAll"),
        ("DOWN", "up", "", "HoldUnreadable"),
    ],
)
def test_the_narrowest_hold_wins(own: str, namespace: str, controller: str, expected: str) -> None:
    """The object's annotation comes before that of its namespace, and that of the controller's is last."""
    given = held(own or "down", 4, 4)
    if not own:
        del given["federatedHPA"]["metadata"]["annotations"]
    places = {"shop": namespace, "fedhpa-system": controller}
    given["holds"] = [{"namespace": name, "hold": value} for name, value in places.items() if value]

    assert condition(answered(given), "Held")[1] == expected


def test_a_hold_that_has_ended_leaves_wider_ones_in_force() -> None:
    """At its end a hold counts as absent, so the hold of the namespace is in force."""
    given = held("down", 4, 4, until=NOW)
    given["holds"] = [{"namespace": "shop", "hold": "up"}]
    expected = "nothing is scaled up until somebody ends the hold: hold up on namespace shop"

    assert condition(answered(given), "Held") == ("True", "HoldUp", expected)
    assert answered(given)["desiredReplicas"] == 2


@pytest.mark.parametrize(
    ("value", "until", "text"),
    [
        ("Down", "", "annotation autoscaling.karmada.io/hold='Down' is none of down, up, all"),
        ("", "", "annotation autoscaling.karmada.io/hold='' is none of down, up, all"),
        (
            "down",
            "tomorrow",
            "annotation autoscaling.karmada.io/hold-until='tomorrow' is no RFC 3339 time",
        ),
        (
            "down",
            "1970-01-01",
            "annotation autoscaling.karmada.io/hold-until='1970-01-01' is no RFC 3339 time",
        ),
    ],
)
def test_an_unreadable_hold_holds_everything(value: str, until: str, text: str) -> None:
    """A value or a time that cannot be read holds everything, with one Warning that names it."""
    given = held(value, 4, 4, usage=BUSY, until=until)
    answer = answered(given)
    carry_on(given, answer)

    assert not answer["rescale"]
    assert [(each["type"], each["reason"]) for each in answer["events"]] == [("Warning", "HoldUnreadable")]
    assert text in answer["events"][0]["message"]
    assert answered(given)["events"] == []


def test_what_cannot_be_read_is_shown_bounded() -> None:
    """Only the first characters of an annotation are shown, in one line."""
    message = condition(answered(held("x\n" * 1000, 4, 4)), "Held")[2]

    assert len(message) < 300
    assert "\n" not in message


def test_a_lowered_maximum_waits() -> None:
    """Replicas above maxReplicas stay under `down`, and go when the hold ends."""
    given = held("down", 8, 8, usage=AT_TARGET, spec={"maxReplicas": 10})
    after = answered(given)
    carry_on(given, after)
    del given["federatedHPA"]["metadata"]["annotations"]
    released = answered(given)

    assert (after["desiredReplicas"], step(after)["from"]) == (16, 10)
    assert released["desiredReplicas"] == 10
    assert "HoldEnded" in [each["reason"] for each in released["events"]]
    assert condition(released, "Held") == ("False", "NotHeld", "no hold is in force")


@pytest.mark.parametrize("direction", ["up", "all"])
def test_a_hold_lets_the_size_grow_to_the_minimum(direction: str) -> None:
    """minReplicas is reached under every hold, and usage above target adds nothing to it."""
    given = held(direction, 2, 2, usage=BUSY, spec={"minReplicas": 6})

    assert answered(given)["desiredReplicas"] == 6


@pytest.mark.parametrize("direction", ["up", "all"])
def test_a_hold_lets_lost_replicas_be_replaced(direction: str) -> None:
    """A failover replaces exactly the replicas of the lost cluster, although usage asks for more."""
    given = held(direction, 4, 4, 4, usage=BUSY)
    lost = {"name": "m3", "ready": False, "error": "unreachable", "scale": {}, "lastReplicas": 4}
    given["clusters"][2] = lost
    given["federatedHPA"]["status"] = {"desiredReplicas": 12}
    given["record"] = {
        "size": 12,
        "absences": {"m3": {"since": START - 1000}},
        "clusters": {name: {"replicas": 4} for name in ("m1", "m2", "m3")},
    }
    del given["history"]

    assert answered(given)["desiredReplicas"] == 12
    assert shares(answered(given)) == {"m1": 6, "m2": 6}


def test_recommendations_go_on_under_a_hold() -> None:
    """After a hold the window still applies: a peak of two minutes ago keeps the size, as without a hold."""
    given = held("down", 4, 4, usage=AT_TARGET)
    for seconds, usage in ((60, AT_TARGET), (120, IDLE), (180, IDLE)):
        carry_on(given, answered(given))
        given["now"] = format_time(START + seconds)
        given["clusters"] = [cluster(name, [usage] * 4) for name in ("m1", "m2")]
    del given["federatedHPA"]["metadata"]["annotations"]
    early = answered(given)
    given["now"] = format_time(START + 361)

    assert early["desiredReplicas"] == 8
    assert condition(early, "AbleToScale")[1] == "ScaleDownStabilized"
    assert answered(given)["desiredReplicas"] == 2


@pytest.mark.parametrize(("direction", "waits"), [("down", False), ("up", True), ("all", True)])
def test_a_drain_waits_where_nothing_may_grow(direction: str, waits: bool) -> None:
    """A drain goes on under `down`, and waits under the others, because it first grows elsewhere."""
    given = held(direction, 4, 4, usage=AT_TARGET)
    given["clusters"][1]["taints"] = DRAIN
    answer = answered(given)
    shown = answer["status"]["clusters"][1]

    assert shares(answer) == ({"m1": 4, "m2": 4} if waits else {"m1": 8, "m2": 4})
    assert shown["membership"] == ("Cordoned" if waits else "Leaving")
    assert (f"hold {direction} on the object" in shown["waitsFor"]) is waits


def test_a_drain_that_waits_keeps_its_surge() -> None:
    """A drain that has begun stops where it is: nothing shrinks and nothing grows under `all`."""
    given = held("down", 4, 4, usage=AT_TARGET)
    given["clusters"][1]["taints"] = DRAIN
    carry_on(given, answered(given))
    given["clusters"][0] = cluster("m1", [AT_TARGET] * 5)
    given["federatedHPA"]["metadata"]["annotations"] = {HOLD: "all"}
    answer = answered(given)

    assert shares(answer) == {"m1": 5, "m2": 4}
    assert (answer["currentReplicas"], answer["desiredReplicas"], answer["rescale"]) == (8, 8, False)


@pytest.mark.parametrize("direction", ["down", "up", "all"])
def test_no_rebalance_begins_under_a_hold(direction: str) -> None:
    """A rebalance that is asked for waits for the end of the hold, and then begins."""
    given = held(direction, 9, 1, usage=AT_TARGET)
    annotations = given["federatedHPA"]["metadata"]["annotations"]
    annotations["autoscaling.karmada.io/rebalance"] = "2026-03-11T13:00:00Z"
    waiting = answered(given)
    carry_on(given, waiting)
    del annotations[HOLD]

    assert shares(waiting) == {"m1": 9, "m2": 1}
    assert condition(waiting, "Rebalanced")[:2] == ("False", "Waiting")
    assert condition(answered(given), "Rebalanced")[1] == "Rebalancing"


def test_a_rebalance_under_way_outlasts_a_long_hold() -> None:
    """Hours of a hold do not count as time of a rebalance: it goes on after them."""
    given = held("down", 9, 1, usage=AT_TARGET)
    annotations = given["federatedHPA"]["metadata"]["annotations"]
    annotations["autoscaling.karmada.io/rebalance"] = "2026-03-11T13:00:00Z"
    del annotations[HOLD]
    carry_on(given, answered(given))
    annotations[HOLD] = "all"
    for minutes in range(10, 200, 10):
        given["now"] = format_time(START + minutes * 60)
        held_now = answered(given)
        assert shares(held_now) == {"m1": 9, "m2": 1}
        carry_on(given, held_now)
    del annotations[HOLD]

    assert condition(answered(given), "Rebalanced")[1] == "Rebalancing"


@pytest.mark.parametrize(
    ("direction", "expected"),
    [("down", {"m1": 9, "m2": 8}), ("up", {"m1": 8, "m2": 7}), ("all", {"m1": 9, "m2": 7})],
)
def test_copies_change_only_as_the_hold_allows(direction: str, expected: dict[str, int]) -> None:
    """Under Duplicated, a cluster that somebody scaled is set back only in a direction that is free."""
    given = held(direction, 9, 7, usage=AT_TARGET)
    spec = given["federatedHPA"]["spec"]
    spec["federatedHPAAssignment"] = {"federatedHPAAssignmentType": "Duplicated"}
    given["record"] = {"size": 8, "clusters": {"m1": {"replicas": 8}, "m2": {"replicas": 8}}}
    del given["history"]

    assert shares(answered(given)) == expected


@pytest.mark.parametrize(
    ("direction", "field", "number"),
    [("down", "autoscalingMaxThreshold", 6), ("up", "autoscalingMinThreshold", 10)],
)
def test_a_changed_threshold_waits(direction: str, field: str, number: int) -> None:
    """Under Duplicated, thresholds that would cut or raise each copy act when the hold ends."""
    given = held(direction, 8, 8, usage=AT_TARGET)
    wish = {field: number, "targetCluster": {"clusterNames": ["m1", "m2"]}}
    assignment = {"federatedHPAAssignmentType": "Duplicated", "clusterAutoscalingPreference": [wish]}
    given["federatedHPA"]["spec"]["federatedHPAAssignment"] = assignment
    given["record"] = {"size": 8, "clusters": {"m1": {"replicas": 8}, "m2": {"replicas": 8}}}
    del given["history"]
    during = answered(given)
    carry_on(given, during)
    del given["federatedHPA"]["metadata"]["annotations"]

    assert (during["desiredReplicas"], during["rescale"], shares(during)) == (8, False, {"m1": 8, "m2": 8})
    assert shares(answered(given)) == {"m1": number, "m2": number}


def test_a_workload_at_zero_is_not_woken() -> None:
    """Under `up` a queue does not wake a workload that was scaled to zero."""
    queue = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    given = held("up", 0, spec={"minReplicas": 0, "metrics": [{"type": "External", "external": queue}]})
    sample = {"metricName": "queue", "metricLabels": {}, "timestamp": NOW, "value": "100"}
    given["clusters"][0]["externalMetrics"] = [sample]
    zero = {"type": "ScaledToZero", "status": "True", "reason": "ScaledToZero", "message": ""}
    given["federatedHPA"]["status"] = {"conditions": [zero]}
    del given["history"]
    freed = held("down", 0)
    freed["federatedHPA"] |= {
        "spec": given["federatedHPA"]["spec"],
        "status": given["federatedHPA"]["status"],
    }
    freed["clusters"] = given["clusters"]

    assert answered(given)["desiredReplicas"] == 0
    assert answered(freed)["desiredReplicas"] > 0


def test_a_recorded_scenario_carries_the_holds() -> None:
    """A scenario that is written from a decision's input decides the same under a hold."""
    import msgspec

    from fedhpa.decision import decode_scenario
    from fedhpa.decision.record.scenario import encode_scenario

    given = held("down", 4, 4, until="2026-03-12T00:00:00Z")
    given["holds"] = [{"namespace": "shop", "hold": "all", "until": ""}]
    found = decode_scenario(msgspec.json.encode(given))
    written = encode_scenario(given["federatedHPA"], found.snapshot, found.history, found.now, found.settings)
    again = decode_scenario(msgspec.json.encode(written))

    assert again.snapshot.hpa.hold == found.snapshot.hpa.hold
    assert again.snapshot.holds == found.snapshot.holds
