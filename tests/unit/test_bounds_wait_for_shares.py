"""minReplicas waits while the replicas of an expected cluster are unknown (direct propagation)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.scenarios import answered, carry_on, cluster, scenario

# The cluster has never answered, so nobody knows what it runs.
AWAY: dict[str, Any] = {
    "name": "member3",
    "ready": False,
    "error": "unreachable",
    "scale": {"error": "unreachable"},
}
BOUNDS = {"minReplicas": 10, "maxReplicas": 12}


def direct(*clusters: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Returns a scenario with direct propagation."""
    return scenario(list(clusters), spec={**BOUNDS, **spec}, target=None)


@pytest.mark.parametrize("behavior", [None, {"scaleUp": {"stabilizationWindowSeconds": 0}}])
def test_an_unknown_share_may_satisfy_min_replicas(behavior: dict[str, Any] | None) -> None:
    """Two clusters run 4 replicas each, and a third one is away with 4: the two stay as they are."""
    spec = {} if behavior is None else {"behavior": behavior}
    answer = answered(direct(cluster("member1", [50] * 4), cluster("member2", [50] * 4), AWAY, **spec))

    assert (answer["rescale"], answer["desiredReplicas"]) == (False, 8)
    waits = {
        "step": "bounds",
        "from": 8,
        "to": 8,
        "reason": "minReplicas waits: nobody knows the replicas of member3",
    }
    assert waits in answer["steps"]


def test_usage_raises_the_size_while_a_share_is_unknown() -> None:
    """Only the bound waits: usage above the target still adds replicas."""
    answer = answered(direct(cluster("member1", [60] * 4), cluster("member2", [70] * 4), AWAY))

    assert answer["desiredReplicas"] == 11
    assert answer["reason"] == "cpu resource utilization (percentage of request) above target"


def test_max_replicas_never_waits() -> None:
    """An unknown share cannot make the size smaller, so what is known above maxReplicas is removed."""
    answer = answered(direct(cluster("member1", [50] * 7), cluster("member2", [50] * 7), AWAY))

    assert (answer["desiredReplicas"], answer["rescale"]) == (12, True)


@pytest.mark.parametrize("last", [0, 1])
def test_min_replicas_applies_to_known_shares(last: int) -> None:
    """A cluster whose last replicas are known makes nothing wait."""
    away = {**AWAY, "lastReplicas": last}
    answer = answered(direct(cluster("member1", [50] * 4), cluster("member2", [50] * 4), away))

    assert answer["desiredReplicas"] == 10
    assert answer["reason"] == "Current number of replicas below Spec.MinReplicas"


def test_min_replicas_applies_once_the_cluster_is_lost() -> None:
    """After lostAfterSeconds the cluster is no longer expected, so the others get minReplicas."""
    given = direct(cluster("member1", [50] * 4), cluster("member2", [50] * 4), AWAY)
    carry_on(given, answered(given))
    given["now"] = "2026-03-11T13:29:00Z"

    answer = answered(given)

    assert list(answer["coverage"]["lost"]) == ["member3"]
    assert answer["desiredReplicas"] == 10


def test_copies_wait_for_no_share() -> None:
    """Under Duplicated each cluster has the whole size, whatever another one runs."""
    given = direct(
        cluster("member1", [50] * 4),
        cluster("member2", [50] * 4),
        AWAY,
        federatedHPAAssignment={"federatedHPAAssignmentType": "Duplicated"},
    )

    assert answered(given)["desiredReplicas"] == 10
