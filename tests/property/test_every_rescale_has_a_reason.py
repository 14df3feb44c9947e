"""Events and log lines say why a size was written, whatever led to it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.scenarios import CPU, cluster, decided, external, remembered, scenario

QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
LOST = "2026-03-11T13:00:00Z"
STATES = (
    "here",
    "here",
    "here",
    "here",
    "here",
    "here",
    "away",
    "unmeasured",
    "lost",
    "held",
    "without a selector",
)

loads = st.lists(st.sampled_from((0, 45, 50, 50, 50, 55, 400)), max_size=6)
clusters = st.lists(st.tuples(loads, st.sampled_from(STATES)), min_size=1, max_size=4)
behaviors: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {},
        {"behavior": {}},
        {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 300}}},
        {"behavior": {"scaleUp": {"selectPolicy": "Disabled"}}},
        {"behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}},
    )
)
placements: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {},
        {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Duplicated"}},
        {"federatedHPAAssignment": {"federatedHPAAssignmentType": "LoadWeighted"}},
        {
            "federatedHPAAssignment": {
                "federatedHPAAssignmentType": "StaticWeighted",
                "clusterAutoscalingPreference": [
                    {
                        "targetCluster": {"clusterNames": ["m0"]},
                        "autoscalingMinThreshold": 4,
                        "autoscalingMaxThreshold": 5,
                    }
                ],
            }
        },
    )
)
policies = st.sampled_from(("ScaleUpOnly", "Hold", "Fallback", "Proceed"))
sizes = st.integers(0, 30)
recommendations = st.lists(st.sampled_from((0, 3, 20, 30)), max_size=2)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Scenarios with bounds, windows, policies, missing and lost clusters, and workloads at zero."""
    built, shares = [], {}
    for index, (usages, state) in enumerate(draw(clusters)):
        member = cluster(f"m{index}", usages, lastReplicas=len(usages))
        shares[member["name"]] = len(usages)
        member |= {"ready": False} if state in ("away", "lost") else {}
        member |= {"held": True} if state == "held" else {}
        member |= {"podMetrics": {"error": "HTTP 503"}} if state == "unmeasured" else {}
        if state == "without a selector":
            member["scale"] = {**member["scale"], "selector": ""}
        member["lost"] = state == "lost"
        built.append(member)
    lost = [member["name"] for member in built if member.pop("lost")]
    low, span = draw(st.tuples(st.integers(0, 8), st.integers(0, 12)))
    queue = draw(st.none() | st.integers(0, 200))
    if queue is not None:
        built[0]["externalMetrics"] = [external("queue", str(queue))]
    spec = {
        "minReplicas": low,
        "maxReplicas": max(low + span, 1),
        "metrics": [CPU, QUEUE] if queue is not None else [CPU],
        "partialMetrics": {"policy": draw(policies), "fallbackReplicas": draw(sizes)},
        **draw(behaviors),
        **draw(placements),
    }
    changes: dict[str, Any] = {"target": None} if draw(st.booleans()) else {}
    changes["history"] = {
        "recommendations": [
            {"time": "2026-03-11T13:22:00Z", "replicas": size} for size in draw(recommendations)
        ]
    }
    found = scenario(built, spec=spec, **changes)
    found["federatedHPA"]["status"] = {
        "desiredReplicas": sum(shares.values()),
        "conditions": [{"type": "ScaledToZero", "status": draw(st.sampled_from(("True", "False")))}],
    }
    found["record"] = remembered(
        {
            "clusters": {
                name: {"state": "Lost" if name in lost else "Answered", "currentReplicas": share}
                for name, share in shares.items()
            },
            "absences": {name: {"since": LOST} for name in lost},
        }
    )
    return found


@given(scenarios())
def test_every_written_size_has_a_reason(given_scenario: dict[str, Any]) -> None:
    """Neither the decision nor an event about a new size has an empty reason."""
    decision = decided(given_scenario)

    if decision.writes:
        assert decision.why
    for event in decision.events:
        _, found, reason = event.message.partition("; reason: ")
        assert not found or reason.partition("; ")[0].strip()


@given(scenarios())
def test_the_reason_is_never_about_the_other_direction(given_scenario: dict[str, Any]) -> None:
    """Low usage never adds replicas, and high usage never removes any."""
    decision = decided(given_scenario)

    if decision.writes and decision.desired_replicas > decision.current_replicas:
        assert decision.why != "All metrics below target"
    if decision.writes and decision.desired_replicas < decision.current_replicas:
        assert not decision.why.endswith("above target")


@given(scenarios())
def test_the_split_is_the_difference_between_shares(given_scenario: dict[str, Any]) -> None:
    """The event about a new size names each cluster whose share changes, with both numbers."""
    decision = decided(given_scenario)

    before = {name: entry.get("replicas", 0) for name, entry in given_scenario["record"]["clusters"].items()}
    changed = [
        f"{cluster} {before[cluster]} -> {share}"
        for cluster, share in decision.assignment.items()
        if share != before[cluster]
    ]
    if decision.writes and "target" not in given_scenario:
        assert decision.split == ", ".join(changed)
    told = [event.message for event in decision.events if event.reason == "SuccessfulRescale"]
    for message in told:
        several = len(decision.assignment) > 1 and bool(changed)
        assert message.endswith(f"; {decision.split}") is several
