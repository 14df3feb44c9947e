"""The membership of a cluster in one decision: by a taint, by an eviction, or given by a scenario."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.decision import decode_scenario, to_text
from tests.support.scenarios import answered, cluster, decided, scenario

PRIORITIES = {
    "federatedHPAAssignment": {
        "federatedHPAAssignmentType": "Prioritized",
        "rebalance": "Never",
        "clusterAutoscalingPreference": [
            {"targetCluster": {"clusterNames": ["m1"]}, "priority": 3},
            {"targetCluster": {"clusterNames": ["m2"]}, "priority": 2},
        ],
    }
}
AVOID = {"key": "old-nodes", "effect": "PreferNoSchedule"}
TOLERATION = {"key": "old-nodes", "operator": "Exists"}
BUSY = [100, 100]


def direct(*clusters: dict[str, Any], spec: Any = None, **changes: Any) -> dict[str, Any]:
    """A scenario with direct propagation."""
    return scenario(list(clusters), spec=spec, target=None, **changes)


def shares(given: dict[str, Any]) -> dict[str, int]:
    """The decided replicas of each cluster."""
    return {one["cluster"]: one["replicas"] for one in answered(given)["assignment"]}


@pytest.mark.parametrize(
    ("spec", "grown"),
    [
        pytest.param(PRIORITIES, "m2", id="by priority"),
        pytest.param(
            {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Aggregated"}}, "m2", id="by capacity"
        ),
        pytest.param({**PRIORITIES, "clusterTolerations": [TOLERATION]}, "m1", id="tolerated"),
    ],
)
def test_prefer_no_schedule_comes_last_where_there_is_an_order(spec: dict[str, Any], grown: str) -> None:
    """m1 has the highest priority and the most room, and grows only if its taint is tolerated."""
    clusters = (
        cluster("m1", BUSY, availableReplicas=30, taints=[AVOID]),
        cluster("m2", BUSY, availableReplicas=20),
    )

    found = shares(direct(*clusters, spec=spec))

    assert found == {"m1": 2, "m2": 2} | {grown: 6}


def test_prefer_no_schedule_gives_first_and_is_no_membership() -> None:
    """A scale-down takes from the end of the order. Weights are no order."""
    idle = [10, 10, 10]
    clusters = (cluster("m1", idle, taints=[AVOID]), cluster("m2", idle, availableReplicas=3))
    exact = {**PRIORITIES["federatedHPAAssignment"], "minimumPolicy": "Exact"}

    ordered = answered(direct(*clusters, spec={"federatedHPAAssignment": exact}))
    weighed = shares(direct(cluster("m1", BUSY, taints=[AVOID]), cluster("m2", BUSY)))

    assert {one["cluster"]: one["replicas"] for one in ordered["assignment"]} == {"m1": 0, "m2": 2}
    assert all("membership" not in one for one in ordered["status"]["clusters"])
    assert weighed == {"m1": 4, "m2": 4}


def test_a_scenario_gives_memberships() -> None:
    """A cordoned cluster gets nothing, one that is out is not there, and a leaving one gives a replica."""
    more = {"maxReplicas": 10}
    cordoned = direct(cluster("m1", BUSY, membership="Cordoned"), cluster("m2", BUSY), spec=more)
    out = direct(cluster("m1", [], membership="Out"), cluster("m2", BUSY, membership="Member"), spec=more)
    leaving = direct(
        cluster("m1", [50, 50], membership="Leaving"), cluster("m2", [50] * 3), spec={"maxReplicas": 10}
    )

    assert shares(cordoned) == {"m1": 2, "m2": 6}
    assert shares(out) == {"m2": 4}
    assert shares(leaving) == {"m1": 2, "m2": 4}
    entry = answered(leaving)["status"]["clusters"][0]
    assert (entry["name"], entry["membership"]) == ("m1", "Leaving")
    assert entry["waitsFor"].startswith("the scenario says so: ")


def test_a_scenario_gives_a_membership_for_a_tainted_or_remembered_cluster() -> None:
    """It counts at once, whatever the record and the taints ask for."""
    given = direct(cluster("m1", BUSY, membership="Leaving"), cluster("m2", BUSY), spec={"maxReplicas": 10})
    given["record"] = answered(given)["record"]
    given["clusters"][0] |= {"membership": "Member", "taints": [{"key": "x", "effect": "NoSchedule"}]}
    del given["history"]

    found = answered(given)

    assert all("membership" not in one for one in found["status"]["clusters"])
    assert {one["cluster"] for one in found["assignment"]} == {"m1", "m2"}
    assert "standing" not in found["record"]["clusters"]["m1"]


def test_ready_replicas_stand_for_pods() -> None:
    """A stuck cluster keeps what is ready there and one replica; the others take the rest."""
    stuck = cluster("m1", [50] * 4, membership="Stuck", readyReplicas=1)
    given = direct(stuck, cluster("m2", [50] * 4), spec={"maxReplicas": 20})

    found = answered(given)

    assert {one["cluster"]: one["replicas"] for one in found["assignment"]} == {"m1": 2, "m2": 7}
    entry = found["status"]["clusters"][0]
    assert (entry["membership"], entry["readyReplicas"]) == ("Stuck", 1)
    assert "1 ready pod" in entry["waitsFor"]


def test_an_unknown_membership_is_an_error_at_its_path() -> None:
    given = direct(cluster("m1", BUSY, membership="Gone"))

    with pytest.raises(InvalidObject, match=r"clusters\[0\].membership"):
        decode_scenario(json.dumps(given).encode())


def test_an_eviction_of_karmada_is_a_leave() -> None:
    """The cluster is no candidate any more, so it changes no size; status and text name it."""
    given = scenario([cluster("m1", BUSY)], evictions={"m2": "Karmada evicts it (TaintManager: Untolerated)"})
    without = scenario([cluster("m1", BUSY)])

    found = answered(given)

    assert found["desiredReplicas"] == answered(without)["desiredReplicas"]
    assert found["coverage"]["expected"] == ["m1"]
    assert found["status"]["clusters"][1:] == [
        {
            "name": "m2",
            "membership": "Leaving",
            "waitsFor": "Karmada evicts it (TaintManager: Untolerated)",
        }
    ]
    assert "m2 is Leaving: Karmada evicts it (TaintManager: Untolerated)" in to_text(decided(given))
