"""Clusters where pods get no node or do not become ready: the others run what can run there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.closed_loop.actions import (
    Action,
    controller_killed,
    quota,
    reachable,
    starts_nothing,
    tainted,
    unreachable,
)
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.worlds import DRAIN, growing, limited, several, steps
from benchmarks.world.cluster import ClusterPlan
from fedhpa.api.rebalance import REBALANCE_ANNOTATION
from tests.virtual.test_clusters_leave import Watched, fleet, slow

# 12 replicas over three clusters, of which m2 has nodes for four pods.
RISING = steps((0, 5.8), (6, 9.6))


def full(*events: tuple[float, Action], **more: Any) -> Watched:
    """Half an hour in which the load rises from 12 replicas to 20, and m2 has nodes for four pods."""
    return Watched(fleet(*events, clusters=limited(slow(), "m2", 4), load=RISING, maximum=24, **more), 30)


def test_pods_without_a_node_run_elsewhere_after_three_minutes() -> None:
    """Their cluster keeps what runs, and one that waits: nothing else is written until nodes come."""
    found = full()

    began = next(second for second, sizes in enumerate(found.sizes) if sizes["m2"] > 5)
    moved = next(second for second, sizes in enumerate(found.sizes[began:], began) if sizes["m2"] == 5)
    assert 180 <= moved - began <= 240
    assert found.at(29) == (8, 5, 7)
    assert found.ready[-1] == 19
    entry = found.status(29, "m2")
    assert entry is not None
    assert entry["membership"] == "Stuck"
    assert entry["waitsFor"].startswith("1 of 5 replicas waits for a node there: it keeps 4 ready pods")
    assert found.reasons().count("ClusterStuck") == 1


@pytest.mark.parametrize(("delay", "least", "most"), [(0, 0, 45), (600, 600, 660)])
def test_the_delay_for_nodes(delay: int, least: int, most: int) -> None:
    """It is autoscaleMultiClusterDelay, and 0 waits for nothing."""
    found = full(spec={"federatedHPAAssignment": {}, "autoscaleMultiClusterDelay": delay})

    began = next(second for second, sizes in enumerate(found.sizes) if sizes["m2"] > 5)
    moved = next(second for second, sizes in enumerate(found.sizes[began:], began) if sizes["m2"] == 5)
    assert least <= moved - began <= most


def test_a_cluster_autoscaler_has_time() -> None:
    """Nodes that come within the delay run the pods where the policy put them."""
    (first, second, third) = slow()
    nodes = growing(4, 10.0, 100.0)
    clusters = (first, ClusterPlan(second.name, second.replicas, start_seconds=60.0, nodes=nodes), third)
    found = Watched(fleet(clusters=clusters, load=RISING, maximum=24), 30)

    assert "ClusterStuck" not in found.reasons()
    assert sorted(found.at(29)) == [6, 6, 7]


def test_nodes_that_come_end_it() -> None:
    """The replica that waits gets a node, and the cluster takes part again."""
    more = (1500.0, lambda run: run.fleet.clusters["m2"].nodes.resize("node-1", 12))
    found = full(more)

    assert found.reasons().count("ClusterMember") == 1
    assert "membership" not in (found.status(29, "m2") or {"membership": ""})


def test_a_rebalance_does_not_flip() -> None:
    """It goes to a cluster without room for its part: the part runs elsewhere, and nothing comes back."""
    sizes: Mapping[str, int] = {"m1": 8, "m2": 2, "m3": 2}
    clusters = tuple(ClusterPlan(name, replicas, start_seconds=30.0) for name, replicas in sizes.items())
    found = Watched(fleet((300, rebalance), clusters=limited(clusters, "m2", 2), maximum=24), 60)

    assert found.at(59) == (5, 3, 5)
    assert found.ready[-1] == 12
    assert found.member_writes <= 8
    assert "Rebalanced" in found.reasons()


def test_all_full_clusters_move_nothing() -> None:
    """Where no cluster has room for more, waiting pods stay, and nothing is written again and again."""
    clusters = limited(limited(limited(slow(), "m1", 4), "m2", 4), "m3", 4)
    found = Watched(fleet(clusters=clusters, load=RISING, maximum=24), 60)

    assert sum(found.at(59)) == sum(found.at(15)) >= 19
    assert found.member_writes <= 6


def test_growth_does_not_go_where_pods_never_get_ready() -> None:
    """A cluster starts no pod any more: the others serve the load, and it takes part again once it does."""
    load = steps((0, 5.8), (6, 11.6), (20, 7), (42, 11.6))
    events = ((300, starts_nothing("m2")), (2100, starts_nothing("m2", broken=False)))
    found = Watched(fleet(*events, clusters=slow(2), load=load, maximum=24), 50)

    assert found.at(12) == (16, 7)
    assert found.ready[15 * 60] == 22
    entry = found.status(12, "m2")
    assert entry is not None
    assert entry["membership"] == "Stuck"
    assert entry["waitsFor"].startswith("1 of 7 replicas is not ready there, and elsewhere they are: ")
    # Ready pods there stay when the load falls, and one replica shows that pods get ready again.
    assert found.at(30)[1] == 7
    assert "membership" not in (found.status(36, "m2") or {"membership": ""})
    assert found.at(45)[1] >= 11
    assert [found.reasons().count(reason) for reason in ("ClusterStuck", "ClusterMember")] == [1, 1]


def test_the_size_does_not_grow_by_what_comes_on_top() -> None:
    """A stuck cluster misses the hub again and again: its one more replica never becomes part of the size."""
    blips = [(900.0 + 120 * number, unreachable("m2")) for number in range(12)]
    answers = [(920.0 + 120 * number, reachable("m2")) for number in range(12)]
    load = steps((0, 5.8), (6, 11.6))
    found = Watched(
        fleet((300, starts_nothing("m2")), *blips, *answers, clusters=slow(2), load=load, maximum=24), 45
    )

    assert found.at(14) == found.at(44) == (16, 7)


def test_a_quota_is_found_by_pods_that_are_not_created() -> None:
    """A cluster may create four pods: the rest of its share runs elsewhere after three minutes."""
    load = steps((0, 5.8), (6, 9.6))
    found = Watched(fleet((300, quota("m2", 4)), (500, controller_killed()), load=load, maximum=24), 22)

    assert found.at(21) == (8, 5, 8)
    assert found.ready[-1] == 20


def test_a_release_that_gets_ready_nowhere_moves_nothing() -> None:
    """No other cluster shows that the pods could get ready, so no cluster is at fault, and Ready says so."""
    broken = [(300.0, starts_nothing(f"m{number}")) for number in (1, 2, 3)]
    found = Watched(fleet(*broken, load=steps((0, 5.8), (6, 9.6)), maximum=24), 25)

    assert "ClusterStuck" not in found.reasons()
    assert sum(found.at(24)) >= 19
    messages = [
        next(one["message"] for one in found.shown[minute * 60]["conditions"] if one["type"] == "Ready")
        for minute in (8, 24)
    ]
    assert "no cluster" not in messages[0]
    assert "pods become ready in no cluster, " in messages[1]


def test_slow_pods_are_not_stuck() -> None:
    """Most pods need four minutes and get as long, although others are ready and the delay is less."""
    clusters = (*several(2, 8, start_seconds=240.0), ClusterPlan("m3", 4, start_seconds=10.0))
    found = Watched(fleet(clusters=clusters, load=steps((0, 5.8), (6, 9.6), (21, 14)), maximum=36), 32)

    assert "ClusterStuck" not in found.reasons()
    assert found.ready[-1] >= 28


def test_a_stuck_cluster_can_be_drained() -> None:
    """It leaves like any other: replicas that never got ready wait for nobody."""
    load = steps((0, 5.8), (6, 9.6))
    events = ((300, starts_nothing("m2")), (1200, tainted("m2", DRAIN)))
    found = Watched(fleet(*events, load=load, maximum=24), 40)

    assert found.at(19)[1] == 5
    assert found.at(39)[1] == 0
    assert sum(found.at(39)) >= 19


def rebalance(run: Running) -> None:
    """The object is annotated, so that its replicas are divided anew."""
    assert run.hub is not None
    assert run.hub.object is not None
    run.hub.annotate(**{REBALANCE_ANNOTATION: run.hub.object["metadata"]["creationTimestamp"]})


def test_two_stuck_clusters_at_the_maximum() -> None:
    """The replicas that show when pods get ready again and the surge of a leave are at most one step."""
    events = ((300, starts_nothing("m2")), (300, starts_nothing("m3")), (1200, tainted("m4", DRAIN)))
    load = steps((0, 3.9), (6, 12))
    found = Watched(fleet(*events, clusters=slow(4, 8), load=load, maximum=16), 32)

    assert max(sum(sizes.values()) for sizes in found.sizes) == 16 + 1
    assert found.at(19)[1:3] == (3, 3)
    assert found.reasons().count("ClusterStuck") == 2


def test_one_stuck_cluster_holds_no_leave_at_the_maximum() -> None:
    """Its waiting replica is part of the size then, so a step fewer pods are ready."""
    events = ((300, starts_nothing("m2")), (1200, tainted("m4", DRAIN)))
    load = steps((0, 3.9), (6, 12))
    found = Watched(fleet(*events, clusters=slow(4, 8), load=load, maximum=16), 42)

    assert max(sum(sizes.values()) for sizes in found.sizes) == 16 + 1
    assert found.at(19)[3] > 2
    assert found.at(41)[3] == 0
    assert min(found.ready[1200:]) >= found.ready[1200] - 1
