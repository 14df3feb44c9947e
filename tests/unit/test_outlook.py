"""The outlook says which replicas would have no room if one cluster were lost."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.decision import to_text
from fedhpa.decision.placement import ClusterHeadroom, cluster_headroom, worst_loss
from tests.support.scenarios import answered, cluster, condition, decided, scenario

LOSS = "SurvivesClusterLoss"
AGGREGATED = {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Aggregated"}}


def headroom(name: str, replicas: int, available: int | None, **more: Any) -> ClusterHeadroom:
    """A cluster with so many replicas and so much headroom."""
    return cluster_headroom(name, replicas=replicas, available=available, **more)


@pytest.mark.parametrize(
    ("clusters", "maximum", "expected"),
    [
        # Each cluster has room for the other's replicas.
        ([headroom("m1", 10, 5), headroom("m2", 5, 10)], 30, ("m1", 0, 0)),
        # 12 replicas of m2 meet 5 free places.
        ([headroom("m1", 18, 5), headroom("m2", 12, 40)], 30, ("m2", 7, 7)),
        # Above the maximum nothing needs room.
        ([headroom("m1", 18, 5), headroom("m2", 12, 40)], 25, ("m2", 2, 2)),
        # Unknown nodes may take everything, or nothing.
        ([headroom("m1", 4, None), headroom("m2", 6, 4)], 30, ("m2", 0, 6)),
        # The limit of a cluster bounds also unknown nodes.
        ([headroom("m1", 4, None, high=6), headroom("m2", 6, 9)], 30, ("m2", 4, 6)),
        # Known room beyond the limit does not count.
        ([headroom("m1", 4, 50, high=6), headroom("m2", 6, 9)], 30, ("m2", 4, 4)),
        # Where pods are pending the nodes are full, and the pending pods need room, too.
        ([headroom("m1", 6, 9, pending=2), headroom("m2", 4, 3)], 30, ("m2", 6, 6)),
        # The largest of three losses that nobody can take.
        ([headroom("m1", 3, 0), headroom("m2", 8, 0), headroom("m3", 5, 0)], 30, ("m2", 8, 8)),
        # The only cluster.
        ([headroom("m1", 3, 5)], 30, ("m1", 3, 3)),
    ],
)
def test_worst_loss(clusters: list[ClusterHeadroom], maximum: int, expected: tuple[str, int, int]) -> None:
    """The worst cluster is named, with the replicas that have no room at least and at most."""
    found = worst_loss(clusters, maximum)

    assert found is not None
    assert (found.cluster, found.lacking, found.at_most) == expected
    assert worst_loss(reversed(clusters), maximum) == found


def test_nothing_runs() -> None:
    """Without a replica there is no loss."""
    assert worst_loss([headroom("m1", 0, 5), headroom("m2", 0, 5)], 10) is None
    assert worst_loss([], 10) is None


def outlook(*clusters: dict[str, Any], **changes: Any) -> tuple[str, str, str] | None:
    """Returns the condition of a decision with direct propagation; None without one."""
    answer = answered(scenario(list(clusters), **{"target": None, **changes}))
    return condition(answer, LOSS) if any(c["type"] == LOSS for c in answer["conditions"]) else None


def pods(name: str, count: int, available: int | None = None, **changes: Any) -> dict[str, Any]:
    """A cluster with so many pods at their target."""
    more = {} if available is None else {"availableReplicas": available}
    return cluster(name, [50] * count, **more, **changes)


def test_the_condition_names_the_worst_cluster() -> None:
    """The message has the cluster, and how many of all replicas lack room."""
    found = outlook(pods("m1", 16, 5), pods("m2", 14, 40), spec=AGGREGATED)

    assert found == ("False", "NoRoom", "without m2, 9 of 30 replicas have no room")


def test_room_for_each() -> None:
    """With room for any one cluster the condition is True. Its message has no number, so it never changes."""
    found = outlook(pods("m1", 5, 9), pods("m2", 5, 9))

    assert found is not None
    assert found[:2] == ("True", "RoomElsewhere")
    assert not any(letter.isdigit() for letter in found[2])


def test_unknown_capacity_is_said() -> None:
    """A cluster of unknown capacity neither passes nor fails the outlook."""
    found = outlook(pods("m1", 5), pods("m2", 5, 5))

    text = "without m2, up to 5 of 10 replicas have no room; the capacity of m1 is unknown"
    assert found == ("Unknown", "CapacityUnknown", text)


def test_nothing_is_said_where_nothing_is_known() -> None:
    """Without any known capacity there is no condition."""
    assert outlook(pods("m1", 5), pods("m2", 5)) is None


def test_the_only_cluster() -> None:
    """One cluster alone has nobody to take its replicas."""
    found = outlook(pods("m1", 5, 90))

    assert found is not None
    assert found[:2] == ("False", "OnlyCluster")


def test_duplicated_runs_everywhere() -> None:
    """Under Duplicated the other clusters run the whole size already."""
    spec = {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Duplicated"}}

    found = outlook(pods("m1", 5, 0), pods("m2", 5, 0), spec=spec)

    assert found is not None
    assert found[:2] == ("True", "RunsEverywhere")


def test_with_a_template_too() -> None:
    """With propagation karmada the capacity counts where the hub reports it."""
    found = outlook(pods("m1", 6, 1), pods("m2", 4, 9), target={"replicas": 10, "scheduling": "Divided"})

    assert found == ("False", "NoRoom", "without m2, 3 of 10 replicas have no room")


def test_a_cluster_with_most_replicas_is_not_failed_over() -> None:
    """The controller holds the failover of more than 55 % of the replicas, and the message says so."""
    found = outlook(pods("m1", 8, 50), pods("m2", 2, 50))

    assert found is not None
    assert found[2].endswith(
        "; m1 runs more than 55 % of the replicas, so after its loss the others grow only as usage asks"
    )


def test_while_a_cluster_is_missing_the_condition_stays() -> None:
    """Replicas and room of a missing cluster are not known, so nothing is judged."""
    away = {"name": "m2", "ready": False, "error": "unreachable", "scale": {"error": "unreachable"}}

    assert outlook(pods("m1", 5, 9), {**away, "availableReplicas": 9, "lastReplicas": 3}) is None


def stored(status: str, since: str) -> dict[str, Any]:
    """A stored status with the condition."""
    entry = {"type": LOSS, "status": status, "reason": "Before", "message": "m", "lastTransitionTime": since}
    return {"status": {"conditions": [entry]}}


@pytest.mark.parametrize(
    ("before", "since", "available", "expected"),
    [
        ("True", "2026-03-11T13:23:10Z", 0, "NoRoom"),  # worse: at once
        ("False", "2026-03-11T13:20:00Z", 9, "Before"),  # better: not within ten minutes
        ("False", "2026-03-11T13:10:00Z", 9, "RoomElsewhere"),
        ("True", "2026-03-11T13:20:00Z", None, "Before"),  # unknown: not within ten minutes either
        ("True", "2026-03-11T13:10:00Z", None, "CapacityUnknown"),
        ("False", "2026-03-11T14:00:00Z", 9, "RoomElsewhere"),  # a clock that was ahead
        ("False", "soon", 9, "RoomElsewhere"),
    ],
)
def test_a_better_outlook_waits(before: str, since: str, available: int | None, expected: str) -> None:
    """Free capacity comes and goes, so the condition improves at most once in ten minutes."""
    given = scenario([pods("m1", 5, available), pods("m2", 5, available)], target=None)
    given["federatedHPA"] |= stored(before, since)

    assert condition(answered(given), LOSS)[1] == expected


def test_the_outlook_never_makes_an_object_unready() -> None:
    """A workload whose clusters are full is scaled all the same."""
    answer = answered(scenario([pods("m1", 5, 0), pods("m2", 5, 0)], target=None))

    assert condition(answer, LOSS)[0] == "False"
    ready = next(c for c in answer["status"]["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "True"


def test_people_see_it() -> None:
    """`fedhpa explain` and `preview` print the outlook as a line."""
    text = to_text(decided(scenario([pods("m1", 5, 0), pods("m2", 5, 0)], target=None)))

    assert "  outlook: without m1, 5 of 10 replicas have no room\n" in text


@pytest.mark.parametrize(("available", "status"), [(9, "True"), (0, "False")])
def test_in_mode_distributed_too(available: int, status: str) -> None:
    """Mode Distributed has the same condition, from the same function."""
    spec = {"mode": "Distributed", "federatedHPAAssignment": {"federatedHPAAssignmentType": "StaticWeighted"}}

    found = outlook(pods("m1", 5, available), pods("m2", 5, available), spec=spec)

    assert found is not None
    assert found[0] == status
