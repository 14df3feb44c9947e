"""The record holds enough to explain the decision later."""

import json
from typing import Any

import pytest

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.cli.explain import Explanation, explained_parts, render
from fedhpa.cli.hub_client import parse_target
from fedhpa.decision import Decision, decide, decode_scenario, decode_stored, encode_stored, to_text

SCENARIO = {
    "name": "two clusters, one away",
    "now": "2026-03-11T13:23:17Z",
    "federatedHPA": {
        "metadata": {"name": "web", "namespace": "shop", "generation": 2},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    },
    "target": {"replicas": 2},
    "clusters": [
        {
            "name": "member1",
            "ready": True,
            "scale": {"specReplicas": 2, "statusReplicas": 2, "selector": "app=web"},
            "pods": [
                {
                    "metadata": {"name": f"web-{number}", "namespace": "shop", "labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
                    "status": {
                        "phase": "Running",
                        "startTime": "2026-03-11T10:00:00Z",
                        "conditions": [
                            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-11T10:00:05Z"}
                        ],
                    },
                }
                for number in range(2)
            ],
            "podMetrics": [
                {
                    "metadata": {"name": f"web-{number}", "namespace": "shop", "labels": {"app": "web"}},
                    "timestamp": "2026-03-11T13:23:00Z",
                    "window": "15s",
                    "containers": [{"name": "c", "usage": {"cpu": "900m"}}],
                }
                for number in range(2)
            ],
        },
        {"name": "member2", "ready": False, "error": "unreachable", "scale": {"error": "unreachable"}},
    ],
}


def decided() -> Decision:
    """The decision on the scenario."""
    scenario = decode_scenario(json.dumps(SCENARIO).encode())
    return decide(scenario.snapshot, scenario.history, scenario.now, scenario.settings)


def through_json(decision: Decision) -> dict[str, Any]:
    """The content of the record as the API server gives it back."""
    loaded: dict[str, Any] = json.loads(json.dumps(encode_stored(decision.memory, decision)))
    return loaded


def explained(content: dict[str, Any], decision: Decision) -> str:
    """The text of `fedhpa explain`."""
    found = Explanation("shop/web", decode_stored(content), decision.status)
    return render(found, decision.now)


def test_explanation_survives_the_record() -> None:
    """The stored decision and the decision itself have the same explanation, without events."""
    decision = decided()
    stored = decode_stored(through_json(decision)).last_decision(decision.conditions)
    assert stored is not None

    expected = [line for line in to_text(decision).splitlines() if "event:" not in line]

    assert to_text(stored).splitlines() == expected


def test_fields_of_a_newer_release_are_skipped() -> None:
    """A decision that a newer release stored has the explanation that this release would give it."""

    def extended(value: object, *, keys: bool = False) -> object:
        if isinstance(value, dict):
            maps = ("missing", "clusters", "absences", "current", "target", "lost")
            found = {name: extended(inner, keys=name in maps) for name, inner in value.items()}
            return found if keys else {**found, "addedLater": {"nested": [1]}}
        return [extended(inner) for inner in value] if isinstance(value, list) else value

    decision = decided()
    stored = through_json(decision)
    newer: Any = extended(stored)

    assert explained(newer, decision) == explained(stored, decision)
    assert decode_stored(newer).state == decode_stored(stored).state == decision.memory


def test_explanation_says_what_matters() -> None:
    """Sizes, usage, the missing cluster with its reason and the conditions are in the text."""
    decision = decided()
    text = explained(through_json(decision), decision)

    for part in (
        "2 -> ",
        "averageUtilization 90",
        "member2 is missing: unreachable",
        "MetricsComplete=False",
    ):
        assert part in text


def test_a_decision_may_be_left_out() -> None:
    """A record without one explains nothing."""
    assert decode_stored({"version": 1}).last_decision() is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"version": 99}, "version 99"),
        ({}, "no readable version"),
        ({"version": 1, "state": {"size": -1}}, "size"),
        ({"version": 1, "state": []}, "state"),
        ({"version": 1, "decision": 5}, "decision"),
    ],
)
def test_an_unreadable_record_is_named(content: dict[str, Any], message: str) -> None:
    """The error names what is wrong with a record of another version or with foreign fields."""
    with pytest.raises(InvalidObject, match=message):
        decode_stored(content)


def test_an_unreadable_decision_is_named() -> None:
    """The memory beside it is read all the same."""
    with pytest.raises(InvalidObject, match="time"):
        decode_stored({"version": 1, "decision": {"time": 5}}).last_decision()


@pytest.mark.parametrize("text", ["fhpa/web", "FederatedHPA/web", "federatedhpas/web", "web"])
def test_target_forms(text: str) -> None:
    """The command accepts the forms of names that kubectl accepts."""
    assert parse_target(text) == "web"


@pytest.mark.parametrize("text", ["deployment/web", "fhpa/", ""])
def test_other_targets_are_refused(text: str) -> None:
    """Another kind or an empty name is refused."""
    with pytest.raises(ConfigError, match="expected fhpa/NAME"):
        parse_target(text)


def test_a_record_cannot_control_the_terminal() -> None:
    """The owner of a namespace may write its records and conditions, and an administrator explains them."""
    decision = decided()
    hostile = json.dumps(through_json(decision)).replace("member1", "\\u001b]0;x\\u0007\\u202e")
    condition = {"type": "Ready", "status": "False", "reason": "A\x1b[2J", "message": "b\x9b\r\x08c"}
    found = Explanation("shop/web", decode_stored(json.loads(hostile)), {"conditions": [condition]})

    text = render(found, decision.now)

    assert "?]0;x??" in text
    assert "Ready=False A?[2J: b???c" in text
    assert text.replace("\n", "").isprintable()


def test_clusters_that_are_no_member_are_named() -> None:
    """Their replicas and what they wait for stand in the status, which is younger than the record."""
    decision = decided()
    entry = {"name": "m2", "currentReplicas": 1, "membership": "Leaving", "waitsFor": "1 new pod in m1"}
    found = Explanation("shop/web", decode_stored(through_json(decision)), {"clusters": [entry]})

    text = render(found, decision.now)

    assert (
        "clusters that are no Member:\n  m2 (Leaving): 1 replica there, 1 new pod in m1\nconditions:" in text
    )
    assert "Member" not in explained(through_json(decision), decision)
    assert explained_parts(found) != explained_parts(found._replace(status={}))


def test_the_first_line_is_of_the_last_decision() -> None:
    """A later decision that changed nothing is not recorded, but the condition Ready has it."""
    decision = decided()
    message = "stay at 4 replicas; reason: usage calls for no other size"
    ready = {"type": "Ready", "status": "True", "message": message}
    found = Explanation("shop/web", decode_stored(through_json(decision)), {"conditions": [ready]})

    first, second, *_ = render(found, decision.now).splitlines()

    assert first == f"shop/web: {message}"
    assert second.startswith("the last recorded decision: scale 2 -> ")
