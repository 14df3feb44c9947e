"""Any scenario of mode Distributed: a repeated pass changes nothing, and no input from outside stops it."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

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
from tests.support.nightly import examples
from tests.support.scenarios import carry_on

POLICIES = ("StaticWeighted", "DynamicWeighted", "Aggregated", "Prioritized", "Duplicated")
MAX_INT32 = 2**31 - 1
# Any JSON, and numbers at the edges of what replicas can be.
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.sampled_from((MAX_INT32, MAX_INT32 + 1, -1, 0, 1e300))
    | st.text(max_size=6)
    | st.sampled_from(
        ("True", "False", "TooManyReplicas", "2026-03-11T13:00:00Z", "9999-12-31T23:59:59+14:00")
    )
    | st.text("x", min_size=500, max_size=1500)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
CONDITION_FIELDS = ("type", "status", "reason", "message", "lastTransitionTime")
HPA_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "currentReplicas": ANYTHING,
        "desiredReplicas": ANYTHING,
        "lastScaleTime": ANYTHING,
        "currentMetrics": ANYTHING
        | st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.just("Resource"),
                    "resource": st.fixed_dictionaries(
                        {
                            "name": st.just("cpu"),
                            "current": st.dictionaries(st.just("averageUtilization"), ANYTHING),
                        }
                    ),
                }
            ),
            max_size=2,
        ),
        "conditions": ANYTHING
        | st.lists(
            st.fixed_dictionaries({}, optional=dict.fromkeys(CONDITION_FIELDS, ANYTHING))
            | st.fixed_dictionaries(
                {"type": st.sampled_from(("ScalingLimited", "ScalingActive")), "status": st.just("True")},
                optional={"reason": ANYTHING, "lastTransitionTime": ANYTHING},
            ),
            max_size=6,
        ),
    },
)
# Those that an old status has.
ASSIGNMENT_FIELDS = (
    "minReplicas",
    "maxReplicas",
    "given",
    "givenSince",
    "held",
    "lowerReplicas",
    "cap",
    "zero",
    "lost",
    "overSince",
)
STATE_FIELDS = (*ASSIGNMENT_FIELDS, "state", "message", "currentReplicas", "desiredReplicas")
STORED_CLUSTER = st.fixed_dictionaries(
    {"name": st.sampled_from("abc")}, optional=dict.fromkeys(STATE_FIELDS, ANYTHING)
)


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, Any]:
    """A scenario whose members have no HPA yet."""
    names = "abcd"[: draw(st.integers(1, 4))]
    policy = draw(st.sampled_from(POLICIES))
    most = draw(st.integers(1, 30))
    least = draw(st.integers(1, most))
    field = "priority" if policy == "Prioritized" else "staticWeight"
    wishes = preferences(field, {name: draw(st.integers(1, 3)) for name in names})
    obj = federated(least, most, policy, wishes)
    if draw(st.booleans()):
        obj["spec"]["federatedHPAAssignment"]["minimumPolicy"] = "Exact"
    clusters = [
        cluster(
            name,
            draw(st.integers(0, 12)),
            pendingReplicas=draw(st.integers(0, 3)),
            availableReplicas=draw(st.none() | st.integers(0, 20)),
        )
        for name in names
    ]
    for each in clusters:
        if each["availableReplicas"] is None:
            del each["availableReplicas"]
    return scenario(obj, *clusters)


def one_full_of_two() -> dict[str, Any]:
    """A scenario in which the first pass finds that the only cluster with an HPA is full."""
    obj = federated(1, 2, "Aggregated", preferences("staticWeight", {"a": 1, "b": 1}))
    obj["spec"]["federatedHPAAssignment"]["minimumPolicy"] = "Exact"
    return scenario(obj, cluster("a", 0), cluster("b", 2, pendingReplicas=1))


@example(one_full_of_two())
@given(fleets())
@settings(max_examples=examples(40, 2_000), deadline=None)
def test_a_repeated_pass_over_its_own_record_writes_nothing(raw: dict[str, Any]) -> None:
    """All writes were made, the members have not acted on them yet, and no time has passed."""
    first = replayed(raw)
    again = copy.deepcopy(raw)
    carry_on(again, first)
    shares = bounds(first)
    for each in again["clusters"]:
        least, most = shares[each["name"]]
        running = each["scale"]["specReplicas"]
        each["hpa"] = hpa(least, most, running) if most else None

    second = replayed(again)

    assert second["writes"] == []
    assert bounds(second) == shares
    assert second["record"]["assignedFor"] == first["record"]["assignedFor"]


@given(fleets())
@settings(max_examples=examples(8, 300), deadline=None)
def test_a_quiet_fleet_comes_to_rest(raw: dict[str, Any]) -> None:
    """Once all pods run and all usage is at target, writes end within an hour and a half."""
    for each in raw["clusters"]:
        each["pendingReplicas"] = 0
    for _ in range(45):
        raw = assigned(raw, later=120)

    answer = replayed(raw)

    assert answer["writes"] == []
    assert answer["rescale"] is False


@given(
    st.lists(HPA_STATUS, min_size=2, max_size=2), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**31 - 1)
)
@settings(max_examples=examples(25, 2_000), deadline=None)
def test_a_hostile_hpa_harms_only_its_cluster(statuses: list[dict[str, Any]], least: int, most: int) -> None:
    """It never raises, the bounds keep to maxReplicas, and the status is one that the CRD admits."""
    one, two = hpa(least, most, 4), hpa(1, 6, 4)
    one["status"], two["status"] = statuses
    raw = scenario(federated(2, 12), cluster("a", 4, one), cluster("b", 4, two), cluster("c", 2))

    answer = replayed(raw)

    assert sum(high for _, high in bounds(answer).values()) <= 12
    assert all(0 <= low <= high for low, high in bounds(answer).values())
    assert 0 <= answer["desiredReplicas"] <= MAX_INT32
    for each in answer["status"]["clusters"]:
        assert 0 <= each.get("desiredReplicas", 0) <= MAX_INT32
        for found in each.get("conditions", ()):
            assert found
            assert all(isinstance(text, str) and len(text) <= 512 for text in found.values())
        assert len(each.get("conditions", ())) <= 4
        assert len(each.get("currentMetrics", ())) <= 4
        assert all(isinstance(metric, dict) for metric in each.get("currentMetrics", ()))


@given(st.lists(STORED_CLUSTER, max_size=4), ANYTHING)
@settings(max_examples=examples(25, 2_000), deadline=None)
def test_a_hostile_status_stops_no_pass(clusters: list[dict[str, Any]], divided_for: Any) -> None:
    """Any fields of the assignment: the pass is made, and the bounds keep to maxReplicas."""
    known = {each["name"]: each for each in clusters}
    for each in known.values():
        for name in ("state", "message"):
            if not isinstance(each.get(name, ""), str):
                del each[name]
    status = {"assignedFor": divided_for, "clusters": list(known.values())}
    obj = federated(2, 12) | {"status": status}
    raw = scenario(obj, cluster("a", 4, hpa(1, 6, 4)), cluster("b", 4, hpa(1, 6, 4)), cluster("c", 0))

    decision = decided(raw)

    assert decision.error is None
    assert sum(share.max_replicas for share in decision.bounds if not share.is_lost) <= 12
    assert len(json.dumps(decision.status)) < 64 * 1024
