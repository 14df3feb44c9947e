"""A decision has each cluster's share, and moves pods that stay pending."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.decision import decide, decode_object, decode_scenario, to_text
from tests.support.scenarios import answered, cluster, decided, external, pod, scenario

AWAY: dict[str, Any] = {"ready": False, "error": "unreachable", "scale": {"error": "unreachable"}}


def policy(kind: str, *preferences: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A spec with an assignment."""
    assignment = {
        "federatedHPAAssignmentType": kind,
        "minimumPolicy": "Exact",
        "clusterAutoscalingPreference": list(preferences),
    }
    return {"federatedHPAAssignment": {**assignment, **changes}}


def preference(names: str, **fields: Any) -> dict[str, Any]:
    """A preference for clusters by name."""
    return {"targetCluster": {"clusterNames": names.split()}, **fields}


def short(name: str, usages: list[int], waiting: int, since: str, **changes: Any) -> dict[str, Any]:
    """A cluster with some more unschedulable pods."""
    found = cluster(name, usages, **changes)
    for index in range(waiting):
        pending = pod(f"waits-{index}", phase="Pending")
        pending["status"] = {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "lastTransitionTime": since,
                }
            ],
        }
        found["pods"].append(pending)
    replicas = len(usages) + waiting
    found["scale"] = {"specReplicas": replicas, "statusReplicas": replicas, "selector": "app=web"}
    return found


def shares(given: dict[str, Any]) -> dict[str, int]:
    """Returns each cluster's share."""
    return {share["cluster"]: share["replicas"] for share in answered(given)["assignment"]}


def test_load_weighted_follows_the_usage() -> None:
    """A cluster whose pods use three times as much gets three times as many."""
    given = scenario(
        [cluster("m1", [150, 150]), cluster("m2", [50, 50])], target=None, spec=policy("LoadWeighted")
    )

    assert shares(given) == {"m1": 6, "m2": 2}


def test_load_that_is_tied_to_clusters_stays_there() -> None:
    """80:20 traffic on 8 + 2 pods at 75 % of 50 % gives 12 + 3: equal usage per pod is no equal load."""
    given = scenario(
        [cluster("m1", [75] * 8), cluster("m2", [75] * 2)], target=None, spec=policy("LoadWeighted")
    )

    assert shares(given) == {"m1": 12, "m2": 3}


def test_load_of_a_cluster_without_pods_is_the_usual_one() -> None:
    """The mean load of the others stands in for an unknown load."""
    given = scenario(
        [cluster("m1", [150]), cluster("m2", [50]), cluster("m3", [])],
        target=None,
        spec=policy("LoadWeighted"),
    )

    assert shares(given) == {"m1": 2, "m2": 1, "m3": 1}


def test_loads_are_those_of_metrics_that_pods_have() -> None:
    """An External metric has no load by cluster: the weights are equal."""
    metric = {
        "type": "External",
        "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}},
    }
    clusters = [
        cluster("m1", [1], externalMetrics=[external("queue", "15")]),
        cluster("m2", [1], externalMetrics=[external("queue", "5")]),
    ]

    assert shares(scenario(clusters, target=None, spec={**policy("LoadWeighted"), "metrics": [metric]})) == {
        "m1": 2,
        "m2": 2,
    }


def test_at_least_one_keeps_a_replica_in_each_cluster() -> None:
    """By default each cluster gets a replica if there are enough; Exact allows none."""
    clusters = [cluster("m1", [100, 100], availableReplicas=9), cluster("m2", [], availableReplicas=9)]
    rank = preference("m1", priority=1)

    default = shares(scenario(clusters, target=None, spec=policy("Prioritized", rank, minimumPolicy=None)))
    exact = shares(scenario(clusters, target=None, spec=policy("Prioritized", rank)))

    assert default == {"m1": 3, "m2": 1}
    assert exact == {"m1": 4, "m2": 0}


def test_preferences_select_by_labels_too() -> None:
    """The first preference that selects a cluster applies to it."""
    given = scenario(
        [
            cluster("m1", [100], labels={"tier": "gold"}),
            cluster("m2", [100], region="eu"),
            cluster("m3", [100]),
        ],
        target=None,
        spec=policy(
            "StaticWeighted",
            {"targetCluster": {"labelSelector": {"matchLabels": {"tier": "gold"}}}, "staticWeight": 3},
            {
                "targetCluster": {
                    "fieldSelector": {
                        "matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]
                    }
                },
                "staticWeight": 2,
            },
            {"staticWeight": 1},
        ),
    )

    assert shares(given) == {"m1": 3, "m2": 2, "m3": 1}


def test_pods_that_stay_pending_are_placed_elsewhere() -> None:
    """The size stays and the pods move but one; event, step and the clusters' scale times show it."""
    given = scenario(
        [short("m1", [50, 50], 3, "2026-03-11T13:20:00Z"), cluster("m2", [50, 50], availableReplicas=5)],
        target=None,
    )

    decision = decided(given)

    assert (decision.rescale, decision.moves, decision.writes) == (False, True, True)
    assert (decision.current_replicas, decision.desired_replicas) == (7, 7)
    assert decision.assignment == {"m1": 3, "m2": 5}
    assert decision.reason == "m1 is stuck"
    said = "m1 is stuck: m1 5 -> 3, m2 2 -> 5"
    stuck = "m1: 3 of 5 replicas wait for a node there"
    assert [event.message for event in decision.events if event.reason == "ClusterStuck"] == [stuck]
    assert [event.message for event in decision.events if event.reason == "ReplicasMoved"] == [said]
    assert [
        (step.before, step.after, step.reason) for step in decision.steps if step.step == "assignment"
    ] == [(7, 7, said)]
    assert {entry["name"]: entry["lastScaleTime"] for entry in decision.status["clusters"]} == {  # type: ignore[attr-defined]  # JSON
        "m1": "2026-03-11T13:23:17Z",
        "m2": "2026-03-11T13:23:17Z",
    }
    assert "lastScaleTime" not in decision.status
    assert decision.history.scale_ups == decision.history.scale_downs == ()
    assert "stay at 7 replicas, in other clusters" in to_text(decision)


@pytest.mark.parametrize(
    ("since", "spec", "moved"),
    [
        ("13:20:18", {}, False),
        ("13:20:17", {}, True),
        ("13:23:17", {"autoscaleMultiClusterDelay": 0}, True),
        ("13:20:00", {"autoscaleMultiClusterDelay": 198}, False),
        ("13:20:00", {"autoscaleMultiClusterDelay": 197}, True),
        ("13:20:00", {"scaleAssist": False}, False),
        ("13:20:00", {"dryRun": True}, False),
    ],
)
def test_how_long_pods_may_wait(since: str, spec: dict[str, Any], moved: bool) -> None:
    """Pods move after autoscaleMultiClusterDelay or three minutes, with scaleAssist, and without dryRun."""
    given = scenario(
        [short("m1", [50, 50], 2, f"2026-03-11T{since}Z"), cluster("m2", [50, 50])], target=None, spec=spec
    )

    assert decided(given).moves is moved


def test_a_pending_surge_pod_is_not_moved() -> None:
    """The surge pod of a rolling update is not moved, nor is a new pod."""
    surge = short("m1", [50, 50], 1, "2026-03-11T13:20:00Z")
    surge["scale"]["specReplicas"] = 2
    creating = cluster("m1", [50, 50])
    creating["pods"].append({**pod("new", phase="Pending"), "status": {"phase": "Pending"}})
    creating["scale"]["specReplicas"] = 3

    for first in (surge, creating):
        assert decided(scenario([first, cluster("m2", [50, 50])], target=None)).moves is False


def test_a_move_that_failed_counts_as_none() -> None:
    """A write error is in the decision, and there is no event about a move."""
    given = scenario([short("m1", [50], 1, "2026-03-11T13:20:00Z"), cluster("m2", [50])], target=None)
    decoded = decode_scenario(json.dumps(given).encode())

    decision = decide(
        decoded.snapshot, decoded.history, decoded.now, decoded.settings, write_error="conflict"
    )

    assert (decision.moves, decision.error, decision.assignment) == (False, "conflict", {})
    assert [event.reason for event in decision.events] == ["FailedRescale", "ClusterStuck"]


def test_duplicated_brings_a_cluster_back_to_the_others() -> None:
    """A returning cluster with fewer replicas gets as many as the others, without a rescale."""
    given = scenario([cluster("m1", [50] * 4), cluster("m2", [50])], target=None, spec=policy("Duplicated"))
    given["federatedHPA"]["status"] = {"currentReplicas": 4, "desiredReplicas": 4}

    decision = decided(given)

    assert (decision.rescale, decision.moves) == (False, True)
    assert list(decision.assignment.values()) == [4, 4]
    assert decision.reason == "every cluster gets the same number"


def test_thresholds_of_all_clusters_bound_the_size() -> None:
    """A size above all thresholds is not requested again and again."""
    spec = policy("StaticWeighted", preference("m1 m2", autoscalingMaxThreshold=3))
    given = scenario([cluster("m1", [100] * 2), cluster("m2", [100] * 2)], target=None, spec=spec)
    full = scenario([cluster("m1", [100] * 3), cluster("m2", [100] * 3)], target=None, spec=spec)

    assert (answered(given)["desiredReplicas"], shares(given)) == (6, {"m1": 3, "m2": 3})
    assert (answered(full)["desiredReplicas"], answered(full)["rescale"]) == (6, False)
    assert answered(full)["steps"][-1] == {
        "step": "assignment",
        "from": 12,
        "to": 6,
        "reason": "autoscalingMaxThreshold lets the clusters take no more",
    }
    assert "other thresholds in clusterAutoscalingPreference" in to_text(decided(full))


def test_shares_of_missing_clusters_limit_a_scale_down() -> None:
    """A missing cluster keeps its share: the size includes it, and no event is repeated."""
    absent = {**AWAY, "name": "m2", "lastReplicas": 6}
    spec = {
        "partialMetrics": {"policy": "Proceed"},
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    }

    answer = answered(
        scenario([cluster("m1", [1, 1])], target=None, spec=spec)
        | {"clusters": [cluster("m1", [1, 1]), absent]}
    )

    assert (answer["currentReplicas"], answer["desiredReplicas"]) == (8, 6)


def test_a_preference_that_cannot_be_read_is_named() -> None:
    """An invalid preference of a stored object is an error with the path of the field."""
    spec = {
        "maxReplicas": 3,
        **policy("StaticWeighted", {"targetCluster": {"labelSelector": {"matchLabels": {"a b": "c"}}}}),
    }
    with pytest.raises(InvalidObject, match=r"clusterAutoscalingPreference\[0\]\.targetCluster"):
        decode_object({"spec": spec})
    spec = {"maxReplicas": 3, **policy("StaticWeighted", {"targetCluster": {"clusterNames": "m1"}})}
    with pytest.raises(InvalidObject, match=r"clusterAutoscalingPreference\[0\]\.targetCluster"):
        decode_object({"spec": spec})


def test_copies_that_cannot_be_changed_keep_their_number() -> None:
    """Where every cluster refuses its share or is away, no new size is told."""
    held = cluster("m1", [100] * 3, held=True)
    given = scenario([held], target=None, spec=policy("Duplicated"))

    decision = decided(given)

    assert (decision.current_replicas, decision.desired_replicas, decision.writes) == (3, 3, False)
    assert [event.reason for event in decision.events] == []
