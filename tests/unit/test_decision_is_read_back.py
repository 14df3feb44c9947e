"""status.decision holds enough to explain the decision later."""

import json

import pytest

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.cli.explain import ExplainFormat, render
from fedhpa.cli.hub import parse_target
from fedhpa.decision import Decision, decide, decode_scenario, read_status, to_text

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


def through_json(status: object) -> dict[str, object]:
    """A status as the API server gives it back."""
    loaded: dict[str, object] = json.loads(json.dumps(status))
    return loaded


def test_explanation_survives_the_status() -> None:
    """The stored decision and the decision itself have the same explanation, without events."""
    decision = decided()
    stored = read_status(through_json(decision.status)).last_decision()
    assert stored is not None

    expected = [line for line in to_text(decision).splitlines() if "event:" not in line]

    assert to_text(stored).splitlines() == expected


def test_fields_of_a_newer_release_are_skipped() -> None:
    """A decision that a newer release stored has the explanation that this release would give it."""

    def extended(value: object, *, keys: bool = False) -> object:
        if isinstance(value, dict):
            maps = ("missing", "clusters", "absences", "current", "target")
            found = {name: extended(inner, keys=name in maps) for name, inner in value.items()}
            return found if keys else {**found, "addedLater": {"nested": [1]}}
        return [extended(inner) for inner in value] if isinstance(value, list) else value

    stored = through_json(decided().status)
    newer = through_json(extended(stored))

    assert render(newer, "shop/web", ExplainFormat.TEXT) == render(stored, "shop/web", ExplainFormat.TEXT)
    assert read_status(newer).decision.history() == read_status(stored).decision.history()


def test_explanation_says_what_matters() -> None:
    """Sizes, usage, the missing cluster with its reason and the conditions are in the text."""
    text = render(through_json(decided().status), "shop/web", ExplainFormat.TEXT)

    for part in (
        "2 -> ",
        "averageUtilization 90",
        "member2 is missing: unreachable",
        "MetricsComplete=False",
    ):
        assert part in text


def test_no_decision_yet() -> None:
    """An object that was never reconciled has no decision."""
    assert read_status(None).last_decision() is None
    assert read_status({"currentReplicas": 1}).last_decision() is None


@pytest.mark.parametrize(
    ("decision", "message"),
    [({"version": 99}, "version 99"), ({"version": 1, "time": 5}, "time"), ({"version": 1}, "missing")],
)
def test_unreadable_decision_is_named(decision: dict[str, object], message: str) -> None:
    """The error names what is wrong with a decision of another version or with foreign fields."""
    with pytest.raises(InvalidObject, match=message):
        read_status({"decision": decision}).last_decision()


@pytest.mark.parametrize("text", ["fhpa/web", "FederatedHPA/web", "federatedhpas/web", "web"])
def test_target_forms(text: str) -> None:
    """The command accepts the forms of names that kubectl accepts."""
    assert parse_target(text) == "web"


@pytest.mark.parametrize("text", ["deployment/web", "fhpa/", ""])
def test_other_targets_are_refused(text: str) -> None:
    """Another kind or an empty name is refused."""
    with pytest.raises(ConfigError, match="expected fhpa/NAME"):
        parse_target(text)
