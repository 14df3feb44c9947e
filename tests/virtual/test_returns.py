"""Replicas return to the division of the policy: only where they serve there, and no ready pod is missed.

The real controller, mode Centralized, runs in emulated fleets in virtual time.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from benchmarks.closed_loop.actions import (
    Action,
    changes,
    controller_killed,
    dies,
    reachable,
    tainted,
    unreachable,
)
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.worlds import DRAIN, World, steps, tied
from benchmarks.world.cluster import Cluster, ClusterPlan
from tests.virtual.test_clusters_leave import Watched, fleet

RECORDS: Final = "fedhpa.io/v1alpha1"


def prioritized(**more: Any) -> dict[str, Any]:
    """A spec by which m1 comes first, then m2, then m3."""
    names = ("m1", "m2", "m3")
    preferences = [
        {"targetCluster": {"clusterNames": [name]}, "priority": 3 - index} for index, name in enumerate(names)
    ]
    assignment = {
        "federatedHPAAssignmentType": "Prioritized",
        "clusterAutoscalingPreference": preferences,
        **more,
    }
    return {"federatedHPAAssignment": assignment}


def plans(*replicas: int) -> tuple[ClusterPlan, ...]:
    """Clusters m1, m2, ... whose pods need a minute to get ready."""
    return tuple(
        ClusterPlan(f"m{number}", count, start_seconds=60.0) for number, count in enumerate(replicas, 1)
    )


def cloudy(*events: tuple[float, Action], **more: Any) -> World:
    """10 of 11 replicas run in m2, although m1 comes first."""
    given: dict[str, Any] = {"clusters": plans(1, 10), "load": steps((0, 5.3)), "maximum": 20}
    return fleet(*events, **{**given, "spec": prioritized(), **more})


def rebuilt(name: str) -> Action:
    """A cluster that died is there again, with the workload, which runs nothing."""

    def act(cluster: Cluster) -> None:
        cluster.resize(0)
        cluster.workload.pods.clear()
        cluster.revive()

    return lambda run: run.on(name, act)


def without_record() -> Action:
    """The record of the object is deleted, and the controller starts anew."""

    def act(run: Running) -> None:
        assert run.hub is not None
        for record in run.hub.store.all(RECORDS, "scalingrecords"):
            meta = record["metadata"]
            run.hub.store.delete(RECORDS, "scalingrecords", meta["name"], meta["namespace"], {})
        run.restart_controller()

    return act


def condition(found: Watched, minute: float) -> tuple[str, str, str]:
    """Status, reason and message of the condition Rebalanced at a minute; all "" without it."""
    for one in found.shown[int(minute * 60)]["conditions"]:
        if one["type"] == "Rebalanced":
            return one["status"], one["reason"], one["message"]
    return "", "", ""


def began(found: Watched, since: float = 0) -> list[float]:
    """The minutes at which m1 got more replicas."""
    sizes = [sizes["m1"] for sizes in found.sizes]
    return [
        second / 60 for second in range(int(since * 60) + 1, len(sizes)) if sizes[second] > sizes[second - 1]
    ]


def test_a_data_centre_that_was_rebuilt_gets_its_replicas_back() -> None:
    """Prioritized, and the first cluster is lost and rebuilt empty: nothing stays in the cloud for ever."""
    world = cloudy((300, dies("m1")), (1800, rebuilt("m1")), clusters=plans(10, 1))
    found = Watched(world, 75)

    assert found.at(29)[1] == 11
    assert found.at(74) == (10, 1)
    # Ten minutes pass after its first answer, and no ready pod is missed.
    assert 40 <= began(found, 30)[0] <= 41
    assert min(found.ready[30 * 60 :]) >= found.ready[30 * 60] - 2
    assert max(sum(sizes.values()) for sizes in found.sizes[30 * 60 :]) <= 11 + 2
    assert "Rebalanced" in found.reasons()


def test_a_return_says_what_it_waits_for_and_how_far_it_is() -> None:
    """The condition names the number, the time at which it begins, the goal, and the end."""
    found = Watched(cloudy((120, changes(minReplicas=4))), 40)

    status, reason, message = condition(found, 5)
    assert (status, reason) == ("False", "ReturnWaits")
    assert message.startswith(
        "9 of 11 replicas run in other clusters than the policy says; the return begins at "
    )
    begin = int(began(found)[0] * 60)
    status, reason, message = condition(found, begin / 60 + 0.5)
    assert (status, reason) == ("False", "Returning")
    assert message.startswith("the return to the division of the policy goes on to m1 10, m2 1")
    assert condition(found, 39)[:2] == ("True", "Rebalanced")
    assert found.at(39) == (10, 1)


def test_load_that_is_tied_to_its_cluster_stays() -> None:
    """New pods in the first cluster take no load, so a few go back, and no attempt is made for a day."""
    load = tied(m1=steps((0, 0.2)), m2=steps((0, 5.0)))
    found = Watched(cloudy(clusters=plans(1, 10), load=load), 150)

    assert found.at(149)[1] >= 9
    assert sum(found.at(149)) == 11
    # One step, and one replica that m2 can do without.
    assert len([minute for minute in began(found) if minute > 1]) <= 2
    assert found.reasons().count("RebalanceServesNothing") == 1
    assert found.figures["unserved %"] == 0
    status, reason, message = condition(found, 149)
    assert (status, reason) == ("False", "ReturnWaits")
    assert "the return rests until " in message


def test_the_rest_survives_a_restart() -> None:
    """Another process does not begin again, either."""
    load = tied(m1=steps((0, 0.2)), m2=steps((0, 5.0)))
    found = Watched(cloudy((3600, controller_killed()), clusters=plans(1, 10), load=load), 150)

    assert found.reasons().count("RebalanceServesNothing") == 1


@pytest.mark.parametrize("lost", [False, True])
def test_a_restart_in_between(lost: bool) -> None:
    """Another process goes on. One without the record takes the surge for the size, and begins anew later."""
    act = without_record() if lost else controller_killed()
    found = Watched(cloudy((900, act), (960, controller_killed())), 110)

    assert found.at(15) != (1, 10)
    assert found.at(109)[1] <= 2
    assert min(found.ready[60:]) >= 11 - 2
    assert max(sum(sizes.values()) for sizes in found.sizes) <= 11 + 2


def test_a_cluster_that_is_missing_in_between() -> None:
    """The others go on, and nothing goes that serves."""
    events = [(690.0, unreachable("m3")), (840.0, reachable("m3"))]
    found = Watched(cloudy(*events, clusters=plans(1, 9, 1)), 40)

    assert found.at(39) == (9, 1, 1)
    assert min(found.ready[60:]) >= 11 - 2
    assert max(sum(sizes.values()) for sizes in found.sizes) <= 11 + 2


def test_a_size_that_changes_in_between() -> None:
    """Load doubles while replicas return: it is served, and the goal follows."""
    found = Watched(cloudy(load=steps((0, 5.3), (13, 9.3))), 45)

    assert began(found)[0] < 13
    assert found.at(44)[1] == 1
    assert found.at(44)[0] >= 16
    assert max(sum(sizes.values()) for sizes in found.sizes) <= 20 + 2
    assert found.figures["unserved %"] == 0


def test_at_most_once_an_hour() -> None:
    """Replicas that are misplaced again soon wait for the rest of the hour."""

    def moved_by_hand(run: Running) -> None:
        run.fleet.clusters["m1"].resize(1)
        run.fleet.clusters["m2"].resize(10)

    found = Watched(cloudy((2400, moved_by_hand)), 90)

    assert found.at(35) == (10, 1)
    again = [minute for minute in began(found) if minute > 41]
    assert 60 <= again[0] - began(found)[0] <= 62
    assert found.at(89) == (10, 1)


@pytest.mark.parametrize(
    ("world", "size"),
    [
        pytest.param(cloudy(clusters=plans(9, 2)), (9, 2), id="one of eleven is too few"),
        pytest.param(
            cloudy(clusters=plans(28, 3), load=steps((0, 15)), maximum=40), (28, 3), id="less than 10 %"
        ),
        pytest.param(cloudy(spec=prioritized(rebalance="Never")), (1, 10), id="Never"),
        pytest.param(
            cloudy(spec={"federatedHPAAssignment": {"federatedHPAAssignmentType": "StaticWeighted"}}),
            (1, 10),
            id="another policy",
        ),
        pytest.param(cloudy(spec={**prioritized(), "dryRun": True}), (1, 10), id="a dry run"),
    ],
)
def test_nothing_returns(world: World, size: tuple[int, ...]) -> None:
    """Not for so little, and not where nobody asks for it."""
    found = Watched(world, 30)

    assert found.at(29) == size
    assert found.member_writes == 0


def test_any_policy_may_ask_for_it() -> None:
    """With rebalance: WhenQuiet, equal weights come back to equal parts."""
    found = Watched(cloudy(spec={"federatedHPAAssignment": {"rebalance": "WhenQuiet"}}), 30)

    assert sorted(found.at(29)) == [5, 6]


def test_never_ends_a_return() -> None:
    """The surge goes, and the rest stays where it is."""
    never = prioritized(rebalance="Never")["federatedHPAAssignment"]
    found = Watched(cloudy((700, changes(federatedHPAAssignment=never))), 40)

    assert max(sum(sizes.values()) for sizes in found.sizes) > 11
    assert found.at(39)[1] >= 7
    assert sum(found.at(39)) == 11


@pytest.mark.parametrize("mode", ["Centralized", "Distributed"])
def test_where_it_cannot_be_the_condition_says_so(mode: str) -> None:
    """Duplicated divides nothing in both modes. An event says it once."""
    assignment = {"federatedHPAAssignmentType": "Duplicated", "rebalance": "WhenQuiet"}
    found = Watched(cloudy(spec={"federatedHPAAssignment": assignment, "mode": mode}), 5)
    gone = (150.0, changes(federatedHPAAssignment={"federatedHPAAssignmentType": "Duplicated"}))
    removed = Watched(cloudy(gone, spec={"federatedHPAAssignment": assignment, "mode": mode}), 5)

    assert condition(removed, 4)[:2] == ("True", "NotAsked")
    status, reason, message = condition(found, 4)
    assert (status, reason) == ("False", "NotSupported")
    assert message.startswith("spec.federatedHPAAssignment.rebalance: WhenQuiet: ")
    assert message.endswith("remove the field")
    assert found.reasons().count("RebalanceRefused") == 1


def test_a_receiver_that_is_lost_in_between() -> None:
    """The return ends without a verdict, and no reconcile fails."""
    spec = {
        "federatedHPAAssignment": {"rebalance": "WhenQuiet"},
        "partialMetrics": {"lostAfterSeconds": 60},
    }
    world = cloudy((800, dies("m1")), clusters=plans(1, 14, 1), load=steps((0, 7.76)), spec=spec)
    found = Watched(world, 25)

    assert "RebalanceInterrupted" in found.reasons()
    assert not {"ReconcileFailed", "RebalanceServesNothing"} & set(found.reasons())
    assert max(sum(sizes.values()) for sizes in found.sizes) <= 20 + 2


def test_a_receiver_that_is_drained_in_between() -> None:
    """The leave goes first, step by step, and no return rests for a day."""
    found = Watched(cloudy((760, tainted("m1", DRAIN)), clusters=plans(1, 10)), 25)

    assert found.at(12.6)[0] > 1
    assert found.at(15.5) == (0, 11)
    assert "RebalanceServesNothing" not in found.reasons()
    assert found.reasons().count("RebalanceInterrupted") == 1
    entry = found.status(14, "m1")
    assert entry is not None
    assert entry["membership"] == "Leaving"
    moves = [event["message"] for event in found.events if event["reason"] == "ReplicasMoved"]
    assert any(text.startswith("m1 leaves: ") for text in moves)
    assert min(found.ready[60:]) >= 11 - 2


def test_a_receiver_that_is_missing_in_between() -> None:
    """The return waits for its answer and goes on: it is not done before, and no replica goes meanwhile."""
    events = [(760.0, unreachable("m1")), (880.0, reachable("m1"))]
    found = Watched(cloudy(*events, clusters=plans(1, 10)), 40)

    assert {sizes["m2"] for sizes in found.sizes[790:870]} == {found.sizes[790]["m2"]}
    message = condition(found, 14)[2]
    assert message.endswith("; it waits for m1: no answer, or a refused write")
    assert found.at(39) == (10, 1)
    assert found.reasons().count("Rebalanced") == 1
    assert min(found.ready[60:]) >= 11 - 2
