"""Bounds, histories and owners that should not exist do not make a size flap or stop for an hour."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.scenarios import answered, cluster, condition, scenario

CLUSTERS = [cluster("m1", [50] * 3), cluster("m2", [50] * 3)]
NOW = "2026-03-11T13:23:17Z"


# --- two owners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(1, 5), (8, 20), (1, 100)])
@pytest.mark.parametrize("target", [{"replicas": 6}, None])
def test_two_owners_are_ambiguous_whatever_their_bounds(
    bounds: tuple[int, int], target: dict[str, Any] | None
) -> None:
    """Neither maxReplicas 5 nor minReplicas 8 scales six replicas, and both objects report it."""
    low, high = bounds
    given = scenario(
        CLUSTERS,
        target=target,
        spec={"minReplicas": low, "maxReplicas": high},
        ambiguousWith=["shop/one", "shop/web"],
    )

    answer = answered(given)

    assert answer["rescale"] is False
    assert condition(answer, "ScalingActive")[:2] == ("False", "AmbiguousSelector")
    assert [event["reason"] for event in answer["events"]] == [
        "AmbiguousSelector",
        "FailedComputeMetricsReplicas",
    ]


def test_no_policy_scales_what_two_own() -> None:
    """Fallback sets no size either."""
    partial = {"policy": "Fallback", "fallbackReplicas": 9}
    given = scenario(
        [*CLUSTERS, cluster("m3", [50], ready=False)],
        spec={"partialMetrics": partial},
        ambiguousWith=["shop/one", "shop/web"],
    )

    assert answered(given)["rescale"] is False


# --- times from the future ----------------------------------------------------------------------------

POLICY = {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}}}


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("13:23:00", 6),  # within the period: used up
        ("13:24:17", 6),  # 60 s ahead counts as now
        ("13:24:18", 10),  # further ahead: dropped
        ("14:23:17", 10),  # an hour ahead blocked scale-up for an hour
    ],
)
def test_a_scale_event_from_the_future(time: str, expected: int) -> None:
    """A skewed former leader does not block scale-up."""
    hot = [cluster("m1", [100] * 3), cluster("m2", [100] * 3)]
    history = {"recommendations": [], "scaleUps": [{"time": f"2026-03-11T{time}Z", "change": 4}]}

    assert answered(scenario(hot, spec=POLICY, history=history))["desiredReplicas"] == expected


def test_a_scale_down_event_from_the_future() -> None:
    """The same for scale-down."""
    idle = [cluster("m1", [1] * 3), cluster("m2", [1] * 3)]
    policy = {"type": "Pods", "value": 2, "periodSeconds": 60}
    spec = {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [policy]}}}
    events = [{"time": "2026-03-11T14:23:17Z", "change": 2}]
    history = {"recommendations": [], "scaleDowns": events}

    answer = answered(scenario(idle, spec=spec, history=history))

    assert answer["desiredReplicas"] == 4
    assert answer["history"]["scaleDowns"] == [{"time": NOW, "change": 2}]


@pytest.mark.parametrize("spec", [{}, {"behavior": {}}])
@pytest.mark.parametrize("time", ["13:23:18", "13:24:17", "13:24:18", "14:23:17"])
def test_a_recommendation_from_the_future_counts_as_now(spec: dict[str, Any], time: str) -> None:
    """It holds the size for one window, and not for an hour more."""
    idle = [cluster("m1", [1] * 3), cluster("m2", [1] * 3)]
    history = {"recommendations": [{"time": f"2026-03-11T{time}Z", "replicas": 5}]}

    answer = answered(scenario(idle, spec=spec, history=history))

    assert answer["desiredReplicas"] == 5
    assert {entry["time"] for entry in answer["history"]["recommendations"]} == {NOW}


# --- bounds that got past admission -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(10, 5, 5), (10, 0, 0), (-3, 5, 5), (1, -2, 0), (0, -2, 0)]
)
@pytest.mark.parametrize("target", [True, False])
def test_contradictory_bounds_do_not_flap(low: int, high: int, expected: int, target: bool) -> None:
    """maxReplicas wins, and the next reconcile changes nothing."""
    spec = {"minReplicas": low, "maxReplicas": high}
    size, sizes = 10, []
    for _ in range(4):
        changes: dict[str, Any] = {"target": {"replicas": size}} if target else {"target": None}
        answer = answered(scenario([cluster("m1", [50] * size)], spec=spec, **changes))
        size = answer["desiredReplicas"] if answer["rescale"] else size
        sizes.append(size)

    assert sizes == [expected] * 4


# --- Duplicated ---------------------------------------------------------------------------------------

COPIES = {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Duplicated"}}


def copies(
    *sizes: int, stored: dict[str, Any] | None = None, load: int = 50, **changes: Any
) -> dict[str, Any]:
    """Clusters with so many replicas each, under Duplicated."""
    members = [cluster(f"m{i}", [load] * count) for i, count in enumerate(sizes)]
    given = scenario(members, target=None, spec=COPIES, **changes)
    if stored is not None:
        given["federatedHPA"]["status"] = stored
    return given


def shares(answer: dict[str, Any]) -> list[int]:
    """Each cluster's share."""
    return [share["replicas"] for share in answer["assignment"]]


@pytest.mark.parametrize(
    ("stored", "record"),
    [
        ({"currentReplicas": 3, "desiredReplicas": 3}, {}),
        ({"currentReplicas": 2, "desiredReplicas": 3}, {"size": 3}),
    ],
)
def test_a_cluster_scaled_by_hand_is_brought_back(stored: dict[str, Any], record: dict[str, Any]) -> None:
    """10, 3, 3 with a decided size of 3 become 3, 3, 3."""
    answer = answered(copies(10, 3, 3, stored=stored, record=record))

    assert (answer["currentReplicas"], answer["desiredReplicas"]) == (3, 3)
    assert shares(answer) == [3, 3, 3]
    assert "ReplicasMoved" in [event["reason"] for event in answer["events"]]


def test_a_fresh_start_takes_the_largest_and_moves_nothing() -> None:
    """Without a decided size the largest copy is the size, and no copy is changed to it."""
    answer = answered(copies(10, 3, 3))

    assert (answer["currentReplicas"], answer["desiredReplicas"], answer["rescale"]) == (10, 10, False)
    assert "ReplicasMoved" not in [event["reason"] for event in answer["events"]]


def test_copies_follow_a_rescale() -> None:
    """A new size goes to every cluster, also on a fresh start."""
    assert shares(answered(copies(2, 2, load=100))) == [4, 4]
