"""Clusters that are drained, tainted, deselected or stuck: their replicas move, and no ready pod is missed.

The real controller, mode Centralized, runs in emulated fleets in virtual time. Second by second, at most one
step more than the maximum runs, and as many pods are ready as before, but for one step.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest

from benchmarks.closed_loop.actions import (
    Action,
    changes,
    controller_killed,
    labelled,
    raced,
    reachable,
    releases,
    tainted,
    unreachable,
)
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.ways import CENTRALIZED, simulate
from benchmarks.closed_loop.worlds import DEFAULT_LEASES, DRAIN, World, limited, several, steps
from benchmarks.world.cluster import Cluster, ClusterPlan
from tests.support.nightly import only_at_night

# A load of 5.8 at a target of 50 % is served by 12 pods, within the tolerance.
CALM: Final = steps((0, 5.8))
NO_EXECUTE: Final = {"key": "maintenance", "effect": "NoExecute"}
NO_SCHEDULE: Final = {"key": "maintenance", "effect": "NoSchedule"}
Sizes = dict[str, int]


def slow(number: int = 3, replicas: int = 12, **more: Any) -> tuple[ClusterPlan, ...]:
    """Clusters whose pods need a minute to get ready."""
    return several(number, replicas, start_seconds=60.0, **more)


def fleet(*events: tuple[float, Action], **more: Any) -> World:
    """12 replicas in three clusters, which are all that the object allows."""
    given: dict[str, Any] = {"clusters": slow(), "load": CALM, "minimum": 3, "maximum": 12}
    given |= {"spec": {"federatedHPAAssignment": {}}, "flags": DEFAULT_LEASES, **more}
    return World("fleet", "", events=events, **given)


class Watched:
    """A run in which replicas, ready pods and the status are read each second."""

    def __init__(self, world: World, minutes: float) -> None:
        self.world = world
        self.sizes: list[Sizes] = []
        self.ready: list[int] = []
        # The pods that a rollout may take at a time, and the last one that each cluster has ended.
        self.spared: list[int] = []
        self._rolled: Sizes = {}
        self.shown: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.member_writes = 0
        looks = tuple((float(second), self._look) for second in range(int(minutes * 60) - 1))
        self.figures = simulate(
            replace(world, events=(*world.events, *looks)), CENTRALIZED, minutes / 60
        ).figures()

    def _look(self, run: Running) -> None:
        assert run.hub is not None
        clusters = run.fleet.clusters
        self.sizes.append({name: one.replicas for name, one in clusters.items()})
        self.ready.append(sum(one.ready for one in clusters.values()))
        self.spared.append(sum(self._spared(one) for one in clusters.values()))
        self.shown.append(run.hub.status)
        self.events = run.hub.store.all("v1", "events")
        self.member_writes = sum(sum(one.writes.values()) for one in clusters.values())

    def _spared(self, cluster: Cluster) -> int:
        """The pods that a rollout may take at a time, by its strategy; 0 once it has ended."""
        workload, name = cluster.workload, cluster.plan.name
        if (
            all(pod.revision == workload.newest for pod in workload.active)
            and cluster.ready >= cluster.replicas
        ):
            self._rolled[name] = workload.newest
        if self._rolled.get(name) == workload.newest:
            return 0
        return 1 if cluster.plan.ordered else cluster.replicas // 4

    def at(self, minute: float) -> tuple[int, ...]:
        """The replicas of all clusters at a minute."""
        return tuple(self.sizes[int(minute * 60)].values())

    def status(self, minute: float, cluster: str) -> dict[str, Any] | None:
        """The entry of a cluster in the status at a minute."""
        entries: list[dict[str, Any]] = self.shown[int(minute * 60)]["clusters"]
        return next((one for one in entries if one["name"] == cluster), None)

    def reasons(self) -> list[str]:
        """The reasons of all events."""
        return [event["reason"] for event in self.events]

    def assert_kind(self, since: float = 5.0) -> None:
        """No second has a step more than the maximum, or a step less ready pods than at minute `since`.

        Pods that a rollout may take by its strategy do not count as lacking.
        """
        most, step = self.world.maximum, max(self.world.maximum // 10, 1)
        begin = int(since * 60)
        assert max(sum(sizes.values()) for sizes in self.sizes) <= most + step
        ready = [ready + spared for ready, spared in zip(self.ready, self.spared, strict=True)]
        assert min(ready[begin:]) >= self.ready[begin] - step


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(tainted("m2", DRAIN), id="drained"),
        pytest.param(changes(clusterAffinity={"exclude": ["m2"]}), id="excluded"),
        pytest.param(tainted("m2", NO_EXECUTE), id="a taint NoExecute"),
        pytest.param(labelled("m2", tier="old"), id="labels"),
    ],
)
def test_a_cluster_that_leaves_is_emptied(leave: Action) -> None:
    """Its 4 replicas move to the others one by one, at the maximum and with slow pods."""
    clusters = slow(labels=(("tier", "gold"),))
    affinity = {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}
    found = Watched(
        fleet((300, leave), clusters=clusters, spec={"federatedHPAAssignment": {}, **affinity}), 16
    )

    found.assert_kind()
    assert found.at(5) == (4, 4, 4)
    assert found.at(15) == (6, 0, 6)
    assert found.status(15, "m2") is None
    entry = found.status(7, "m2")
    assert entry is not None
    assert entry["membership"] == "Leaving"
    assert entry["waitsFor"].endswith((": 1 pod is not ready in m1", ": 1 pod is not ready in m3"))
    assert found.shown[-1]["currentReplicas"] == 12
    assert found.reasons().count("ClusterLeaves") == 1


def test_the_status_counts_what_runs() -> None:
    """While replicas move, currentReplicas is what runs, and desiredReplicas is the decided size."""
    found = Watched(fleet((300, tainted("m2", DRAIN))), 9)

    assert [found.shown[400][key] for key in ("currentReplicas", "desiredReplicas")] == [13, 12]


def test_a_cordoned_cluster_gets_nothing_more() -> None:
    """With a taint NoSchedule it keeps its replicas, and the growth goes to the others."""
    events = ((300, tainted("m3", NO_SCHEDULE)), (480, changes(maxReplicas=21)))
    found = Watched(fleet(*events, load=steps((0, 5.8), (9, 10.2))), 16)

    assert found.at(15)[2] == 4
    assert sum(found.at(15)) >= 20
    entry = found.status(15, "m3")
    assert entry is not None
    assert (entry["membership"], entry["waitsFor"]) == ("Cordoned", "taint maintenance:NoSchedule")


def test_a_toleration_counts_from_the_taint() -> None:
    """A taint NoExecute that is tolerated for ten minutes moves nothing before."""
    spec = {
        "federatedHPAAssignment": {},
        "clusterTolerations": [
            {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}
        ],
    }
    found = Watched(fleet((300, tainted("m2", NO_EXECUTE)), spec=spec), 28)

    assert found.at(14.9) == (4, 4, 4)
    assert found.at(27) == (6, 0, 6)


@pytest.mark.parametrize("what", ["taint", "label"])
def test_what_comes_and_goes_within_a_minute_moves_nothing(what: str) -> None:
    """A taint or a label that flaps every 30 s causes no write, also over restarts."""
    events: list[tuple[float, Action]] = []
    for second in range(300, 1500, 60):
        if what == "taint":
            events += [(second, tainted("m2", NO_EXECUTE)), (second + 30, tainted("m2"))]
        else:
            events += [
                (second, labelled("m2")),
                (second + 30, labelled("m2", tier="gold")),
            ]
    events.append((800, controller_killed()))
    clusters = slow(labels=(("tier", "gold"),))
    affinity = {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}
    found = Watched(fleet(*events, clusters=clusters, spec={"federatedHPAAssignment": {}, **affinity}), 26)

    assert found.member_writes == 0


def test_two_clusters_leave_at_once() -> None:
    """Both are emptied into the third."""
    found = Watched(fleet((300, tainted("m1", DRAIN)), (310, tainted("m2", DRAIN))), 25)

    found.assert_kind()
    assert found.at(24) == (0, 0, 12)


def test_where_all_leave_nothing_moves() -> None:
    """No cluster could take the replicas of another, so all keep theirs, and the status says so."""
    events = [(300.0 + number, tainted(f"m{number}", DRAIN)) for number in (1, 2, 3)]
    found = Watched(fleet(*events), 15)

    assert sum(found.at(14)) == 12
    entry = found.status(14, "m1")
    assert entry is not None
    reason = "no cluster stays that could take its replicas"
    assert (entry["membership"], entry["waitsFor"]) == ("Cordoned", reason)


def test_where_all_are_cordoned_they_grow_all_the_same() -> None:
    """Load is served, a condition says why, and it is over once there is a Member again."""
    events = [(300.0 + number, tainted(f"m{number}", NO_SCHEDULE)) for number in (1, 2, 3)]
    load = steps((0, 5.8), (8, 9.6))
    found = Watched(fleet(*events, (900.0, tainted("m3")), load=load, maximum=24), 20)

    def available(minute: float) -> list[tuple[str, str]]:
        conditions = found.shown[int(minute * 60)]["conditions"]
        return [(one["status"], one["reason"]) for one in conditions if one["type"] == "MembersAvailable"]

    assert sum(found.at(14)) >= 19
    assert [available(minute) for minute in (7, 8.5, 19)] == [
        [],
        [("False", "NoMemberCluster")],
        [("True", "MembersHaveRoom")],
    ]


def test_a_leave_without_room_waits() -> None:
    """Full nodes elsewhere hold the leave, and its status and an event after an hour say so."""
    clusters = limited(limited(slow(), "m1", 4), "m3", 4)
    found = Watched(fleet((300, tainted("m2", DRAIN)), clusters=clusters), 70)

    found.assert_kind()
    assert found.at(69)[1] == 3
    entry = found.status(69, "m2")
    assert entry is not None
    assert entry["waitsFor"].endswith(": 1 pod is not ready in m3")
    assert found.reasons().count("LeaveWaits") == 1


def test_a_limit_elsewhere_is_no_room() -> None:
    """Replicas that thresholds of the other clusters do not allow stay where they are."""
    preferences = [
        {"targetCluster": {"clusterNames": ["m1", "m3"]}, "autoscalingMaxThreshold": 5},
    ]
    spec = {"federatedHPAAssignment": {"clusterAutoscalingPreference": preferences}}
    found = Watched(fleet((300, tainted("m2", DRAIN)), spec=spec), 20)

    assert found.at(19) == (5, 2, 5)
    entry = found.status(19, "m2")
    assert entry is not None
    assert "no cluster has room for 2 of its replicas" in entry["waitsFor"]


@pytest.mark.parametrize("ordered", [False, True], ids=["Deployment", "StatefulSet"])
def test_a_rollout_ends_first(ordered: bool) -> None:
    """No replica moves while pods have two versions, and the leave goes on afterwards."""
    clusters = slow(ordered=ordered)
    found = Watched(fleet((300, releases()), (310, tainted("m2", DRAIN)), clusters=clusters), 35)

    assert all(sizes == found.sizes[300] for sizes in found.sizes[310:360])
    assert found.at(34) == (6, 0, 6)
    found.assert_kind()


@pytest.mark.parametrize("ordered", [False, True], ids=["Deployment", "StatefulSet"])
@pytest.mark.parametrize("name", ["", "m1"])
def test_a_rollout_may_begin_in_mid_drain(ordered: bool, name: str) -> None:
    """In all clusters or in one that takes replicas: the leave waits for it, and no ready pod is missed."""
    clusters = slow(ordered=ordered)
    found = Watched(fleet((300, tainted("m2", DRAIN)), (430, releases(name)), clusters=clusters), 35)

    found.assert_kind()
    assert 0 < found.sizes[430]["m2"] < 4
    assert found.at(34) == (6, 0, 6)


@pytest.mark.parametrize("ordered", [False, True], ids=["Deployment", "StatefulSet"])
def test_a_rollout_changes_no_size(ordered: bool) -> None:
    """Pods that are not ready, and the surge of a Deployment, are no reason to scale."""
    found = Watched(fleet((300, releases()), clusters=slow(ordered=ordered)), 25)

    assert all(sizes == found.sizes[290] for sizes in found.sizes[290:])
    assert set(found.ready[300:]) > {12}


def test_pods_that_start_one_after_another_move_as_well() -> None:
    """A StatefulSet starts its next pod only when the one before is ready."""
    found = Watched(fleet((300, tainted("m2", DRAIN)), clusters=slow(ordered=True)), 25)

    found.assert_kind()
    assert found.at(24) == (6, 0, 6)


def test_load_that_rises_is_served_at_once() -> None:
    """A leave holds no growth: the others grow for the load, and the cluster is emptied all the same."""
    found = Watched(fleet((300, tainted("m2", DRAIN)), load=steps((0, 5.8), (6, 9.8)), maximum=24), 25)

    found.assert_kind()
    assert sum(found.at(7)) >= 20
    assert found.at(24)[1] == 0


def test_load_that_rises_to_the_maximum_is_served_in_mid_drain() -> None:
    """The load rises step by step while pods start and end, up to what maxReplicas allows."""
    load = steps((0, 5.8), (6, 6.8), (7.5, 7.9), (9, 9.0), (10.5, 11.6))
    found = Watched(fleet((300, tainted("m2", DRAIN)), load=load, maximum=24), 25)

    found.assert_kind()
    assert found.at(24)[1] == 0
    assert sum(found.at(24)) >= 23


def test_a_cluster_that_was_emptied_may_go_away() -> None:
    """After a drain the cluster is switched off: nobody misses it, and the size still falls."""
    load = steps((0, 5.8), (18, 3.0))
    found = Watched(fleet((300, tainted("m2", DRAIN)), (960, unreachable("m2")), load=load), 28)

    assert found.at(15) == (6, 0, 6)
    assert sum(found.at(27)) <= 7
    assert "ClusterMissing" not in found.reasons()


def test_it_takes_its_share_after_uncordon() -> None:
    """The taint is removed: nothing moves back by itself, and the next growth goes there."""
    events = ((300, tainted("m2", DRAIN)), (1020, tainted("m2")))
    found = Watched(fleet(*events, load=steps((0, 5.8), (25, 8.8)), maximum=18), 32)

    assert found.at(24) == (6, 0, 6)
    assert found.at(31)[1] >= 5


def test_another_cluster_takes_over_from_zero() -> None:
    """clusterNames from m1 to m2, where the workload stands at 0: it is started there."""
    clusters = (ClusterPlan("m1", 6, start_seconds=60.0), ClusterPlan("m2", 0, start_seconds=60.0))
    spec = {"federatedHPAAssignment": {}, "clusterAffinity": {"clusterNames": ["m1"]}}
    events = ((300, changes(clusterAffinity={"clusterNames": ["m2"]})),)
    found = Watched(fleet(*events, clusters=clusters, spec=spec, load=steps((0, 2.9)), minimum=2), 25)

    found.assert_kind()
    assert found.at(24) == (0, 6)


def test_copies_shrink_by_a_step_a_minute() -> None:
    """Under Duplicated nothing grows for a leaving cluster, and each other keeps the whole size."""
    spec = {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Duplicated"}}
    found = Watched(fleet((300, tainted("m2", DRAIN)), spec=spec, load=steps((0, 5.8)), minimum=4), 14)

    left = [sizes["m2"] for sizes in found.sizes[290::60]]
    assert found.at(13)[1] == 0
    assert all(before - after <= 1 for before, after in pairwise(left))
    assert all(sizes[name] >= 4 for sizes in found.sizes for name in ("m1", "m3"))


def test_the_surge_of_a_leave_that_ends_early_goes() -> None:
    """The taint is removed in mid-drain: as many replicas run as before, and none too many."""
    found = Watched(fleet((300, tainted("m2", DRAIN)), (420, tainted("m2")), maximum=20), 15)

    assert max(sum(sizes.values()) for sizes in found.sizes) > 12
    assert sum(found.at(14)) == 12


def forget_record(run: Running) -> None:
    """The ScalingRecord is deleted, and another process takes over."""
    assert run.hub is not None
    for record in run.hub.store.all("fedhpa.io/v1alpha1", "scalingrecords"):
        run.hub.store.remove(
            "fedhpa.io/v1alpha1",
            "scalingrecords",
            record["metadata"]["name"],
            record["metadata"]["namespace"],
        )
    run.restart_controller()


def test_a_lost_record_does_not_matter() -> None:
    """Three times during a leave the record is deleted and the controller killed: the size stays."""
    lost = [(second, forget_record) for second in (345.0, 430.0, 520.0)]
    found = Watched(fleet((300, changes(clusterAffinity={"exclude": ["m2"]})), *lost), 25)

    found.assert_kind()
    assert found.at(24) == (6, 0, 6)
    assert all(shown.get("desiredReplicas") == 12 for shown in found.shown[60:])


def test_writes_that_meet_other_clients_are_decided_again() -> None:
    """Each of many writes to hub and members finds a changed object: they are refused, and the drain ends."""
    left: list[int] = []
    races = [(second, raced(name, 5)) for name in ("m1", "m2", "m3", "hub") for second in (300.0, 420.0)]

    def look(run: Running) -> None:
        assert run.hub is not None
        left.extend(store.races for store in (run.hub.store, *(c.store for c in run.fleet.clusters.values())))

    found = Watched(fleet(*races, (300, tainted("m2", DRAIN)), (1000, look)), 25)

    found.assert_kind()
    assert sum(left) < 10
    assert found.at(24) == (6, 0, 6)


def random_world(number: int) -> World:
    """A leave in a random fleet, with what may come in between."""
    chance = random.Random(number)
    count = chance.randint(2, 4)
    replicas = chance.randint(count, 20)
    clusters = several(count, replicas, start_seconds=chance.choice((5.0, 30.0, 60.0)))
    if chance.random() < 0.3:
        clusters = limited(clusters, f"m{count}", replicas)
    leave = chance.choice(
        (tainted("m1", DRAIN), tainted("m1", NO_EXECUTE), changes(clusterAffinity={"exclude": ["m1"]}))
    )
    events: list[tuple[float, Action]] = [(300.0, leave)]
    conflicts = raced(chance.choice(("m1", "m2", "hub")), chance.randint(1, 8))
    between = (controller_killed, lambda: forget_record, lambda: releases("m2"), lambda: conflicts)
    for _ in range(chance.randint(0, 5)):
        events.append((chance.uniform(310, 900), chance.choice(between)()))
    if chance.random() < 0.4:
        # Shorter than the time after which its replicas are run elsewhere.
        gone = chance.uniform(310, 700)
        events += [(gone, unreachable("m1")), (gone + chance.uniform(10, 200), reachable("m1"))]
    return fleet(
        *events,
        clusters=clusters,
        load=steps((0, replicas * 0.485)),
        minimum=1,
        maximum=replicas + chance.choice((0, 0, 1, 5)),
    )


def check_random(number: int) -> None:
    """Checks the invariants in a random world, and that it ends."""
    world = random_world(number)
    most, step = world.maximum, max(world.maximum // 10, 1)
    # A step takes as long as a pod needs to start, and rollouts and losses in between delay the move.
    moved = world.clusters[0].replicas / step * (world.clusters[0].start_seconds + 30) / 60
    found = Watched(world, 22 + moved)
    # A rollout may take a quarter of the pods of one cluster.
    rollout = max(plan.replicas for plan in world.clusters)

    assert max(sum(sizes.values()) for sizes in found.sizes) <= most + step
    assert min(found.ready[300:]) >= found.ready[300] - step - rollout // 2
    assert found.sizes[-1]["m1"] == 0
    assert found.sizes[-1] == found.sizes[-300]


@pytest.mark.parametrize("number", range(5))
def test_a_random_leave(number: int) -> None:
    """The cluster is emptied and the fleet comes to rest, with any changes in between."""
    check_random(number)


@only_at_night
@pytest.mark.parametrize("number", range(5, 60))
def test_many_random_leaves(number: int) -> None:
    """The same in more worlds."""
    check_random(number)


@pytest.mark.parametrize(
    ("excluded", "lost"), [(800, 300), (300, 380)], ids=["lost, then excluded", "lost in mid-leave"]
)
@pytest.mark.parametrize("restarts", [False, True])
def test_an_excluded_cluster_that_was_lost_is_emptied_when_it_comes_back(
    excluded: float, lost: float, restarts: bool
) -> None:
    """The others run its replicas meanwhile; also after a restart it leaves once it answers with them."""
    events = [
        (lost, unreachable("m2")),
        (excluded, changes(clusterAffinity={"exclude": ["m2"]})),
        (1300, reachable("m2")),
    ]
    if restarts:
        events.append((1200, controller_killed()))
    found = Watched(fleet(*sorted(events, key=lambda event: event[0])), 35)

    assert found.at(21)[1] == 4
    lost_entry = found.status(21, "m2")
    assert lost_entry is not None
    assert (lost_entry["state"], lost_entry["membership"]) == ("Lost", "Leaving")
    entry = found.status(22.5, "m2")
    assert entry is not None
    assert entry["membership"] == "Leaving"
    assert found.at(34)[1] == 0
    assert 11 <= sum(found.at(34)) <= 12
    assert found.status(34, "m2") is None


def test_a_cluster_that_is_selected_again_is_no_new_host() -> None:
    """The object knew it before it was excluded, and nobody deployed anything."""
    events = ((300, changes(clusterAffinity={"exclude": ["m2"]})), (1020, changes(clusterAffinity=None)))
    found = Watched(fleet(*events, load=steps((0, 5.8), (25, 8.8)), maximum=18), 32)

    assert found.at(16) == (6, 0, 6)
    assert found.at(31) == (6, 6, 6)
    assert "ClusterBeganHosting" not in found.reasons()


def test_a_drain_waits_for_pods_that_end() -> None:
    """Pods with a long grace period still run when their cluster has no replica, so its entry stays."""
    found = Watched(fleet((300, tainted("m2", DRAIN)), clusters=slow(stop_seconds=240.0)), 18)

    empty = next(second for second, sizes in enumerate(found.sizes) if sizes["m2"] == 0)
    entry = found.status(empty / 60 + 3, "m2")
    assert entry is not None
    assert (entry["membership"], entry["currentReplicas"]) == ("Leaving", 0)
    assert entry["waitsFor"].endswith(": its last pods end")
    assert found.status(empty / 60 + 4.6, "m2") is None
    assert found.at(17) == (6, 0, 6)
    found.assert_kind()
