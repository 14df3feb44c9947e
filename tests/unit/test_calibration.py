"""Clusters that answer speak for the missing ones by known shares, and never for propagation that lags."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.decision import decode_scenario, encode_scenario
from tests.support.scenarios import answered, cluster, external, remembered, scenario

STEEP = {"scaleUpLimitFactor": 1000}
AWAY: dict[str, Any] = {"ready": False, "error": "unreachable", "scale": {"error": "unreachable"}}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}


def away(name: str, **known: int) -> dict[str, Any]:
    """A cluster that does not answer."""
    return {**AWAY, "name": name, **known}


def size(clusters: list[dict[str, Any]], **changes: Any) -> int:
    """The decided size."""
    found = answered(scenario(clusters, controller=STEEP, **changes))["desiredReplicas"]
    assert isinstance(found, int)
    return found


def test_propagation_that_lags_is_not_extrapolated() -> None:
    """With members fixed at 5 + 5 and twice the target, the template goes to 20 and stays there."""
    members = [cluster("m1", [100] * 5), cluster("m2", [100] * 5)]
    sizes = [10]
    for _ in range(7):
        sizes.append(size(members, target={"replicas": sizes[-1]}, spec={"maxReplicas": 1000}))

    assert sizes == [10, 20, 20, 20, 20, 20, 20, 20]


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        # Shares 5 of 5 + 5: 5 pods at twice the target stand for 10, whatever the template says.
        ([cluster("m1", [100] * 5), away("m2", lastReplicas=5)], 20),
        # 4 of 4 + 8: 8 x 3.
        ([cluster("m1", [100] * 4), away("m2", lastReplicas=8)], 24),
        # Without a known share the missing cluster has what is lacking to the template's 20: 5 of 20.
        ([cluster("m1", [100] * 5), away("m2")], 40),
        # Of two missing clusters one is known, the other has the rest: 5 of 5 + 5 + 10.
        ([cluster("m1", [100] * 5), away("m2", lastReplicas=5), away("m3")], 40),
        # More is known than the template has: nothing lacks.
        ([cluster("m1", [100] * 5), away("m2", lastReplicas=25), away("m3")], 60),
        # A sum of 0 is no share.
        ([cluster("m1", [100] * 5), away("m2", lastReplicas=0)], 10),
    ],
)
def test_the_known_shares_decide(clusters: list[dict[str, Any]], expected: int) -> None:
    """The answering clusters' part of all known shares."""
    spec = {"maxReplicas": 1000, "partialMetrics": {"policy": "Proceed"}}

    assert size(clusters, target={"replicas": 20, "scheduling": "Divided"}, spec=spec) == expected


@pytest.mark.parametrize(
    ("decision", "expected"),
    [({}, 24), ({"rescale": True}, 12), ({"moved": True}, 12)],
)
def test_the_record_knows_the_share_of_a_missing_cluster(decision: dict[str, Any], expected: int) -> None:
    """Without lastReplicas the stored share counts: the one after the write, if the decision wrote."""
    given = scenario(
        [cluster("m1", [100] * 4), away("m2")],
        controller=STEEP,
        target={"replicas": 90, "scheduling": "Divided"},
    )
    stored = {"state": "Missing", "currentReplicas": 8, "desiredReplicas": 2}
    given["record"] = remembered({"clusters": {"m2": stored}, **decision})
    given["federatedHPA"]["spec"] |= {"partialMetrics": {"policy": "Proceed"}}

    assert answered(given)["desiredReplicas"] == expected


def test_lost_clusters_count_with_a_template() -> None:
    """Karmada divides the template over a lost cluster as well: the others speak for it."""
    given = scenario(
        [cluster("m1", [100] * 5), away("m2", lastReplicas=5)], target={"replicas": 10}, controller=STEEP
    )
    given["record"] = remembered({"absences": {"m2": {"since": "2026-03-11T13:00:00Z"}}})

    answer = answered(given)

    assert list(answer["coverage"]["lost"]) == ["m2"]
    assert answer["desiredReplicas"] == 20


def test_a_duplicated_template_counts_its_copies() -> None:
    """Three clusters with the template's four each, at twice the target, want eight each."""
    clusters = [cluster(f"m{i}", [100] * 4) for i in range(3)]

    assert size(clusters, target={"replicas": 4}) == 8
    assert size(clusters, target={"replicas": 4, "scheduling": "Duplicated"}) == 8
    assert size(clusters, target={"replicas": 4, "scheduling": "Divided"}) == 24


def test_copies_that_lag_are_not_extrapolated() -> None:
    """Members that still run two of the template's four: six pods at twice the target want four each."""
    clusters = [cluster(f"m{i}", [100] * 2) for i in range(3)]

    assert size(clusters, target={"replicas": 4, "scheduling": "Duplicated"}) == 4


def test_a_missing_copy_changes_nothing() -> None:
    """The shares of copies are equal: two of three clusters give the same size."""
    clusters = [cluster("m1", [100] * 4), cluster("m2", [100] * 4), away("m3", lastReplicas=1)]

    assert size(clusters, target={"replicas": 4, "scheduling": "Duplicated"}) == 8


def test_a_single_cluster_is_its_own_copy() -> None:
    """One cluster with the template's number is the same under both."""
    for scheduling in ("Divided", "Duplicated"):
        assert size([cluster("m1", [100] * 4)], target={"replicas": 4, "scheduling": scheduling}) == 8


@pytest.mark.parametrize(("scheduling", "expected"), [("Divided", 6), ("Duplicated", 3)])
def test_a_value_of_the_hub_is_that_of_all_clusters(scheduling: str, expected: int) -> None:
    """A queue of 60 at 10 a pod needs six pods, whoever answers; or three in each of two clusters."""
    given = scenario(
        [cluster("m1", [1] * 2), away("m2", lastReplicas=2)],
        target={"replicas": 2, "scheduling": scheduling},
        hubMetrics={"externalMetrics": [external("queue", "60")]},
        spec={"metrics": [QUEUE]},
        controller=STEEP,
    )

    assert answered(given)["desiredReplicas"] == expected


def test_direct_propagation_counts_the_expected_clusters() -> None:
    """A lost cluster has no share of the size, so nobody speaks for it."""
    given = scenario([cluster("m1", [100] * 5), away("m2", lastReplicas=5)], target=None, controller=STEEP)
    assert answered(given)["desiredReplicas"] == 20
    given["record"] = remembered({"absences": {"m2": {"since": "2026-03-11T13:00:00Z"}}})
    assert answered(given)["currentReplicas"] == 5
    assert answered(given)["desiredReplicas"] == 10


def test_an_unknown_scheduling_is_an_error() -> None:
    """The message names the field."""
    given = scenario([cluster("m1", [1])], target={"replicas": 1, "scheduling": "Sometimes"})

    with pytest.raises(InvalidObject, match=r"^target\.scheduling: "):
        decode_scenario(json.dumps(given).encode())


@pytest.mark.parametrize(("pods", "scheduling"), [(4, "Duplicated"), (2, "Divided")])
def test_a_recording_names_the_scheduling(pods: int, scheduling: str) -> None:
    """A recorded scenario says what was inferred from the members' numbers."""
    given = scenario([cluster(f"m{i}", [1] * pods) for i in range(2)], target={"replicas": 4})
    decoded = decode_scenario(json.dumps(given).encode())

    written = encode_scenario(
        given["federatedHPA"], decoded.snapshot, decoded.history, decoded.now, decoded.settings
    )

    assert written["target"] == {"replicas": 4, "scheduling": scheduling}
