"""Bounds of member HPAs in mode Distributed; the examples are those of docs/explanation/distributed.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedhpa.assignment.distribute import Distribution, distribute, eased_total
from fedhpa.assignment.initial import Preference, assigned_for, initial, starting_replicas
from fedhpa.assignment.policies import (
    AGGREGATED,
    DUPLICATED,
    DYNAMIC_WEIGHTED,
    PRIORITIZED,
    STATIC_WEIGHTED,
    Policy,
)
from fedhpa.assignment.shares import Bounds, MemberState

Pair = tuple[int, int]


def weighing(*weights: int) -> list[MemberState]:
    """Empty clusters m1, m2, ... with weights."""
    return [MemberState(cluster=f"m{i}", weight=weight) for i, weight in enumerate(weights, 1)]


def holding(*capacities: int) -> list[MemberState]:
    """Empty clusters m1, m2, ... with capacities."""
    return [MemberState(cluster=f"m{i}", capacity=most) for i, most in enumerate(capacities, 1)]


def ranked(*clusters: Pair) -> list[MemberState]:
    """Empty clusters m1, m2, ... with priorities and capacities."""
    return [
        MemberState(cluster=f"m{i}", priority=priority, capacity=most)
        for i, (priority, most) in enumerate(clusters, 1)
    ]


def first(
    minimum: int, maximum: int, members: list[MemberState], policy: Policy = None, *, exact: bool = False
) -> list[Pair | None]:
    """Returns the first bounds as pairs of minimum and maximum."""
    found = initial(minimum, maximum, members, policy, exact=exact)
    return [None if bounds is None else (bounds.minimum, bounds.maximum) for bounds in found.values()]


def m(
    running: int,
    *,
    least: int | None = 1,
    pending: int = 0,
    need: int | None = None,
    capacity: int | None = None,
    weight: int = 1,
    priority: int = 0,
    high: int | None = None,
    most: int | None = None,
    cap: int | None = None,
    low: int = 0,
) -> MemberState:
    """Returns a cluster that `spread` names. A cluster of which `most` is given is unreachable."""
    return MemberState(
        cluster="",
        minimum=least,
        maximum=running if most is None else most,
        running=running,
        pending=pending,
        need=need,
        capacity=capacity,
        weight=weight,
        priority=priority,
        high=high,
        reachable=most is None,
        cap=cap,
        low=low,
    )


def named(members: tuple[MemberState, ...]) -> list[MemberState]:
    """Returns the clusters with the names m1, m2, ..."""
    return [replace(member, cluster=f"m{i}") for i, member in enumerate(members, 1)]


def spread(total: int, *members: MemberState, policy: Policy = None) -> Distribution:
    """Distributes a total over clusters m1, m2, ..."""
    return distribute(total, named(members), policy)


def maxima(total: int, *members: MemberState, policy: Policy = None) -> tuple[int, ...]:
    """Returns the largest size of each cluster."""
    return tuple(spread(total, *members, policy=policy).maxima.values())


def test_example_01_static_weights() -> None:
    """Every cluster with a maximum has a minimum of at least 1, so the minima add up to more than 2."""
    assert first(2, 10, weighing(1, 2, 3), STATIC_WEIGHTED) == [(1, 1), (1, 4), (1, 5)]


def test_example_02_dynamic_weights() -> None:
    """Both numbers are divided by capacity."""
    assert first(8, 24, holding(1, 5, 2), DYNAMIC_WEIGHTED) == [(1, 3), (5, 15), (2, 6)]


def test_example_03_aggregated() -> None:
    """Each cluster is filled up to its capacity, and the rest goes to the first."""
    assert first(8, 24, holding(8, 2, 2), AGGREGATED) == [(8, 20), (1, 2), (1, 2)]


def test_example_04_prioritized() -> None:
    """The cluster of the highest priority gets the rest."""
    assert first(8, 24, ranked((2, 20), (1, 1)), PRIORITIZED) == [(8, 23), (1, 1)]


def test_example_05_duplicated() -> None:
    """Every cluster gets both numbers, and what runs is brought between them."""
    found = initial(3, 10, weighing(1, 1, 1, 1), DUPLICATED)

    assert list(found.values()) == [Bounds(minimum=3, maximum=10)] * 4
    assert [
        starting_replicas(present, bounds)
        for present, bounds in zip((1, 4, 20, None), found.values(), strict=True)
    ] == [3, 4, 10, 3]


def test_example_06_more_clusters_than_the_maximum() -> None:
    """A cluster that gets no maximum gets no HPA."""
    assert first(1, 2, weighing(1, 1, 1)) == [(1, 1), (1, 1), None]


def test_example_07_exact_with_equal_weights() -> None:
    """The minima add up to 2, and the maximum is divided over the clusters that got a minimum."""
    assert first(2, 10, weighing(1, 1, 1), exact=True) == [(1, 5), (1, 5), None]


def test_example_08_exact_with_static_weights() -> None:
    """The cluster of the smallest weight gets no HPA."""
    assert first(2, 10, weighing(1, 2, 3), STATIC_WEIGHTED, exact=True) == [None, (1, 4), (1, 6)]


def test_example_09_a_threshold_cuts_off() -> None:
    """The others divide the replicas above autoscalingMaxThreshold by their weights."""
    members = [
        MemberState(cluster="m1", weight=6, high=3),
        MemberState(cluster="m2", weight=2),
        MemberState(cluster="m3", weight=1),
    ]

    assert first(3, 12, members, STATIC_WEIGHTED) == [(2, 3), (1, 6), (1, 3)]


def test_example_10_all_capacities_are_zero() -> None:
    """Weights that are all 0 count as equal."""
    assert first(3, 9, holding(0, 0, 0), DYNAMIC_WEIGHTED) == [(1, 3), (1, 3), (1, 3)]


def test_example_11_three_priorities() -> None:
    """Each priority is filled before the next one."""
    assert first(4, 12, ranked((3, 2), (2, 3), (1, 9)), PRIORITIZED) == [(2, 2), (2, 3), (1, 7)]


def test_example_12_equal_priorities() -> None:
    """The name decides between equal priorities of an object without a UID."""
    assert first(3, 8, ranked((1, 5), (1, 5)), PRIORITIZED) == [(3, 5), (1, 3)]


def test_example_13_the_rest_goes_by_weight_on_top_of_what_runs() -> None:
    """Four replicas above 6, 6 and 6 are divided 2:1:1."""
    assert maxima(22, m(6, weight=2), m(6), m(6), policy=STATIC_WEIGHTED) == (8, 7, 7)


def test_example_14_pending_pods_give_their_share_to_the_next_priority() -> None:
    """A cluster with pending pods keeps what runs."""
    found = maxima(24, m(10, least=8, pending=6, priority=2), m(1, priority=1), policy=PRIORITIZED)

    assert found == (10, 14)


def test_example_15_the_rest_goes_to_the_highest_priority() -> None:
    """The lower priority keeps what runs."""
    assert maxima(8, m(4, priority=3), m(1, priority=1), policy=PRIORITIZED) == (7, 1)


def test_example_16_a_need_goes_first() -> None:
    """A pinned cluster gets what it needs before the rest is divided."""
    assert maxima(12, m(4, need=8), m(1), m(2)) == (9, 1, 2)


def test_example_17_a_need_that_does_not_fit() -> None:
    """A need takes nothing from replicas that run."""
    assert maxima(12, m(4, need=8), m(4), m(2)) == (6, 4, 2)


def test_example_18_a_lowered_maximum_with_equal_weights() -> None:
    """A lowered maximum lowers what runs, by policy."""
    assert maxima(10, m(6), m(6), m(6)) == (4, 3, 3)


def test_example_19_a_lowered_maximum_with_priorities() -> None:
    """The lower priority loses replicas first."""
    assert maxima(10, m(8, priority=2), m(6, priority=1), policy=PRIORITIZED) == (8, 2)


def test_example_20_pending_pods_and_a_need() -> None:
    """The cluster with pending pods gets no part of the rest."""
    assert maxima(12, m(2, pending=2), m(4, need=6), m(2)) == (2, 7, 3)


def test_example_21_an_unreachable_cluster_holds_its_maximum() -> None:
    """The others divide the total without it."""
    assert maxima(12, m(4, need=8), m(3, most=4), m(2)) == (6, 4, 2)


def test_example_22_a_lost_cluster_gives_up_its_share() -> None:
    """A cluster that was failed over is no candidate."""
    assert maxima(12, m(4, least=2), m(2)) == (7, 5)


def test_example_23_a_lost_cluster_returns() -> None:
    """Its replicas count again."""
    assert maxima(12, m(4), m(4), m(3)) == (5, 4, 3)


def test_example_24_a_pinned_low_priority_gets_nothing() -> None:
    """Its load goes to the higher priority while that has room."""
    members = (m(8, least=8, capacity=40, priority=2), m(1, need=2, priority=1))

    assert maxima(24, *members, policy=PRIORITIZED) == (23, 1)


def test_example_25_the_highest_priority_is_full() -> None:
    """The next priority gets the rest."""
    members = (m(20, least=8, pending=3, priority=2), m(1, priority=1))

    assert maxima(24, *members, policy=PRIORITIZED) == (20, 4)


def test_example_26_aggregated_keeps_its_initial_bounds() -> None:
    """The result is that of example 3."""
    members = (m(8, least=8, capacity=8), m(1, capacity=2), m(1, capacity=2))

    assert maxima(24, *members, policy=AGGREGATED) == (20, 2, 2)


def test_example_27_dynamic_weights_of_full_clusters() -> None:
    """The weight of a full cluster is what runs."""
    members = (m(1, capacity=1), m(5, least=5, capacity=5), m(2, least=2, capacity=2))

    assert maxima(24, *members, policy=DYNAMIC_WEIGHTED) == (3, 15, 6)


def test_example_28_a_need_above_the_threshold() -> None:
    """A need above autoscalingMaxThreshold is not met; the others get the rest by weight."""
    members = (m(3, need=9, high=3, weight=6), m(1, weight=2), m(1, weight=1))

    assert maxima(12, *members, policy=STATIC_WEIGHTED) == (3, 6, 3)


def test_example_29_pending_pods_everywhere() -> None:
    """Replicas that no cluster may take stay unassigned."""
    found = spread(12, m(2, pending=1), m(2, pending=1))

    assert list(found.maxima.values()) == [2, 2]
    assert found.unassigned == 8


def test_example_30_switched_on_over_running_replicas() -> None:
    """Running replicas are kept, and a selected cluster without replicas gets one. `initial` agrees."""
    assert maxima(12, m(9), m(1), m(0)) == (10, 1, 1)
    assert first(3, 12, named((m(9, least=None), m(1, least=None), m(0, least=None)))) == [
        (1, 10),
        (1, 1),
        (1, 1),
    ]


def test_clusters_without_an_hpa_come_last() -> None:
    """They get replicas only when the others can take no more."""
    assert maxima(12, m(4, high=9), m(0, least=None), m(0, least=None)) == (9, 2, 1)
    assert maxima(12, m(4), m(0, least=None)) == (12, 0)


def test_a_maximum_below_the_number_of_clusters_takes_an_hpa_away() -> None:
    """The clusters that keep an HPA are chosen by policy."""
    assert maxima(2, m(3, weight=1), m(3, weight=5), m(3, weight=2), policy=STATIC_WEIGHTED) == (0, 1, 1)


def test_an_unreachable_cluster_takes_no_minimum_away() -> None:
    """If it holds more than a lowered total leaves, the others keep their minima above the total."""
    found = spread(10, m(9, most=9), m(4, least=2), m(1))

    assert list(found.maxima.values()) == [9, 2, 1]
    assert (found.unassigned, found.exceeded) == (0, 2)


def test_a_full_cluster_keeps_what_runs_and_no_more() -> None:
    """A remembered full cluster is no longer pending. Replicas above the remembered size are not cut."""
    assert maxima(12, m(4, cap=6), m(2)) == (6, 6)
    assert maxima(12, m(8, cap=6), m(2)) == (8, 4)
    assert spread(12, m(4, cap=6), m(2, high=3)).unassigned == 3


def test_a_minimum_stands_above_a_full_cluster_and_below_the_threshold() -> None:
    """Pending pods do not lower a maximum below the minimum; autoscalingMaxThreshold does."""
    assert maxima(12, m(2, least=4, pending=2), m(1)) == (4, 8)
    assert maxima(12, m(5, least=4, high=3), m(1)) == (3, 9)


def test_a_remembered_full_cluster_ranks_by_its_size() -> None:
    """A full cluster is first under Aggregated only if what it runs is more than others could run."""
    members = (m(3, cap=3, capacity=50), m(1, capacity=8))

    assert maxima(12, *members, policy=AGGREGATED) == (3, 9)


def test_a_kept_maximum_is_not_lowered() -> None:
    """A cluster whose HPA scaled just now keeps its maximum, and may get more."""
    members = [
        MemberState(cluster="m1", minimum=1, maximum=8, running=2),
        MemberState(cluster="m2", minimum=1, maximum=4, running=4, need=9),
    ]

    assert distribute(12, members).maxima == {"m1": 3, "m2": 9}
    assert distribute(12, members, kept={"m1"}).maxima == {"m1": 8, "m2": 4}
    assert distribute(20, members, kept={"m1"}).maxima == {"m1": 10, "m2": 10}


def test_duplicated_gives_the_whole_maximum_to_each() -> None:
    """Only thresholds lower it: pending pods of one cluster do not help the others."""
    found = spread(9, m(2, pending=2), m(2, high=5), m(3, most=7), policy=DUPLICATED)

    assert list(found.maxima.values()) == [9, 5, 7]
    assert (found.unassigned, found.exceeded) == (0, 0)


@pytest.mark.parametrize(("running", "expected"), [(60, 57), (34, 31), (31, 30), (30, 30), (0, 30)])
def test_a_surplus_leaves_in_steps(running: int, expected: int) -> None:
    """After a return, a surplus over the maximum of 30 shrinks by 3 a pass."""
    assert eased_total(30, running) == expected


def test_a_small_surplus_leaves_by_one() -> None:
    """10 % of a small maximum is less than one replica."""
    assert eased_total(4, 7) == 6


def test_switching_on_cuts_nothing_that_runs() -> None:
    """With few replicas for many clusters, those that run some go first. Exact gives them an HPA, too."""
    running = named((m(0, least=None), m(0, least=None), m(2, least=None)))

    assert first(1, 2, running) == [None, None, (1, 2)]
    assert first(1, 4, running) == [(1, 1), (1, 1), (1, 2)]
    assert first(1, 9, running, exact=True) == [(1, 4), None, (1, 5)]


def test_switching_on_cuts_no_running_replica_for_a_minimum() -> None:
    """Minima are raised only as far as room is left beside what runs."""
    running = named((m(9, least=None), m(1, least=None), m(0, least=None)))

    assert first(9, 12, running) == [(6, 9), (2, 2), (1, 1)]


def test_switching_on_beside_pending_pods() -> None:
    """A cluster with only pending pods keeps an HPA."""
    assert first(1, 9, named((m(0, least=None, pending=3), m(2, least=None)))) == [(1, 1), (1, 8)]


def test_lowest_shares_are_minima() -> None:
    """A minimum is at least autoscalingMinThreshold. Under Exact the minima still add up."""
    members = named((m(0, least=None, low=4), m(0, least=None)))

    assert first(2, 12, members) == [(4, 6), (1, 6)]
    assert first(2, 12, members, exact=True) == [(2, 12), None]
    assert first(6, 12, members, exact=True) == [(4, 6), (2, 6)]


def test_dividing_anew_holds_unreachable_clusters() -> None:
    """They keep their bounds, and the others divide the rest."""
    gone = MemberState(cluster="gone", minimum=2, maximum=9, running=9, reachable=False)
    never = MemberState(cluster="never", reachable=False)

    assert initial(3, 12, [gone, never, *weighing(1, 1)]) == {
        "gone": Bounds(minimum=2, maximum=9),
        "never": None,
        "m1": Bounds(minimum=1, maximum=2),
        "m2": Bounds(minimum=1, maximum=1),
    }
    assert initial(1, 9, [gone, *weighing(1, 1)])["m2"] == Bounds(minimum=1, maximum=1)


def test_a_selected_cluster_without_replicas_starts_at_its_minimum() -> None:
    """Under scalingToZero it starts with none. A cluster without an HPA has no replicas."""
    bounds = Bounds(minimum=2, maximum=5)

    assert starting_replicas(0, bounds) == 2
    assert starting_replicas(None, bounds, scaling_to_zero=True) == 0
    assert starting_replicas(1, bounds, scaling_to_zero=True) == 2
    assert starting_replicas(7, None) == 0


def test_ties_differ_between_objects() -> None:
    """The single replicas of 500 objects are spread over all clusters; one object always chooses alike."""
    clusters = weighing(*[1] * 10)
    chosen = [
        next(name for name, bounds in initial(1, 1, clusters, uid=f"uid-{i}").items() if bounds)
        for i in range(500)
    ]

    assert len(set(chosen)) == 10
    assert max(chosen.count(name) for name in chosen) < 100
    assert initial(1, 1, clusters, uid="uid-1") == initial(1, 1, clusters[::-1], uid="uid-1")


def test_minima_are_divided_anew_only_after_a_change() -> None:
    """The hash differs for each input, and does not depend on the order of clusters."""
    known: dict[str, Preference] = {"m1": (1, 0, None), "m2": (2, 0, None)}

    def of(minimum: int = 2, policy: Policy = None, *, exact: bool = False, **changed: Preference) -> str:
        return assigned_for(minimum, policy, exact=exact, preferences={**known, **changed})

    hashes = [
        of(), of(3), of(policy=AGGREGATED), of(exact=True), of(m3=(1, 0, None)), of(m2=(3, 0, None)),
        of(m2=(2, 0, 0)), of(m2=(2, 0, None, 0.5)),
    ]  # fmt: skip
    assert len(set(hashes)) == len(hashes)
    assert assigned_for(2, None, exact=False, preferences=dict(reversed(known.items()))) == of()
    assert all(len(text) == 16 for text in hashes)
