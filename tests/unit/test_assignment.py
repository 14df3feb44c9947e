"""Replicas are split over clusters by policy; the examples are those of docs/explanation/placement.md."""

from __future__ import annotations

import pytest

from fedhpa.api.assignment_policies import (
    AGGREGATED,
    DUPLICATED,
    DYNAMIC_WEIGHTED,
    EQUAL,
    LOAD_WEIGHTED,
    PRIORITIZED,
    STATIC_WEIGHTED,
    AssignmentPolicy,
)
from fedhpa.assignment.direct import Place, limits, size_of_each, split


def shares(desired: int, places: list[Place], policy: AssignmentPolicy = EQUAL) -> tuple[int, ...]:
    """Returns the shares of the places m1, m2, ..."""
    found = split(desired, {f"m{i}": place for i, place in enumerate(places, 1)}, policy)
    return tuple(found.values())


def weighing(*weights: int) -> list[Place]:
    """Empty places with weights."""
    return [Place(weight=weight) for weight in weights]


def free(*available: int) -> list[Place]:
    """Empty places with these available replicas."""
    return [Place(available=replicas) for replicas in available]


@pytest.mark.parametrize(
    ("desired", "weights", "expected"),
    [(10, (1, 2, 3), (1, 4, 5)), (2, (1, 2, 3), (0, 1, 1)), (24, (1, 5, 2), (3, 15, 6)), (4, (3, 1), (3, 1))],
)
def test_weights_of_empty_clusters(desired: int, weights: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """StaticWeighted is Apportion by the preferences' weights, LoadWeighted by the loads."""
    assert shares(desired, weighing(*weights), STATIC_WEIGHTED) == expected
    assert shares(desired, weighing(*weights), LOAD_WEIGHTED) == expected


@pytest.mark.parametrize(
    ("desired", "available", "expected"),
    [
        (8, (1, 5, 2), (1, 5, 2)),
        (24, (1, 5, 2), (3, 15, 6)),
        (4, (50, 50), (2, 2)),
        (3, (0, 0, 0), (1, 1, 1)),
    ],
)
def test_weights_by_capacity(desired: int, available: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """DynamicWeighted is Apportion by the available replicas; all zero are equal weights."""
    assert shares(desired, free(*available), DYNAMIC_WEIGHTED) == expected


def test_unknown_capacity_is_no_weight() -> None:
    """If no available replicas are known, DynamicWeighted gives equal weights."""
    assert shares(12, [Place(present=6), Place(present=1)], DYNAMIC_WEIGHTED) == (6, 6)
    assert shares(12, [Place(present=6, available=0), Place(available=6)], DYNAMIC_WEIGHTED) == (6, 6)


@pytest.mark.parametrize(
    ("desired", "available", "expected"),
    [(8, (8, 2, 2), (8, 0, 0)), (24, (8, 2, 2), (20, 2, 2)), (4, (3, 1), (3, 1)), (11, (2, 2, 8), (2, 1, 8))],
)
def test_aggregated(desired: int, available: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Clusters are filled in order of capacity, each up to its own; the rest goes to the first."""
    assert shares(desired, free(*available), AGGREGATED) == expected


@pytest.mark.parametrize(
    ("desired", "room", "expected"), [(8, (20, 1), (8, 0)), (24, (20, 1), (23, 1)), (4, (3, 1), (3, 1))]
)
def test_prioritized(desired: int, room: tuple[int, int], expected: tuple[int, int]) -> None:
    """Clusters are filled in order of priority, each up to its capacity; the rest goes to the first."""
    places = [Place(priority=2, available=room[0]), Place(priority=1, available=room[1])]

    assert shares(desired, places, PRIORITIZED) == expected


def test_prioritized_with_unknown_capacity_goes_on_beside_pending_pods() -> None:
    """With 10 running and 6 pending in the first and 1 in the second, one more gives 10 and 7."""
    places = [Place(priority=2, present=16, pending=6), Place(priority=1, present=1)]

    assert shares(17, places, PRIORITIZED) == (10, 7)
    assert shares(18, places, PRIORITIZED) == (10, 8)


@pytest.mark.parametrize(
    ("policy", "others", "expected"),
    [
        (STATIC_WEIGHTED, [Place(weight=3), Place(weight=1)], (3, 1)),
        (DYNAMIC_WEIGHTED, free(50, 50), (2, 2)),
        (AGGREGATED, free(3, 1), (3, 1)),
        (PRIORITIZED, [Place(priority=2, available=3), Place(priority=1, available=1)], (3, 1)),
    ],
)
def test_pending_pods_go_to_the_others(
    policy: AssignmentPolicy, others: list[Place], expected: tuple[int, int]
) -> None:
    """Four pending pods are divided over the other clusters by policy."""
    short = Place(present=8, pending=4, weight=4, priority=3)

    assert shares(8, [short, *others], policy) == (4, *expected)


def test_pending_pods_are_taken_from_the_lowest_priority_first() -> None:
    """With capacity for three elsewhere, two come from the lowest priority and one from the next."""
    places = [
        Place(present=5, pending=2, priority=3),
        Place(present=5, pending=2, priority=2),
        Place(present=5, pending=2, priority=1),
        Place(available=3, priority=0),
    ]

    assert shares(15, places, PRIORITIZED) == (5, 4, 3, 3)


def test_scaling_down_takes_from_the_lowest_priority_first() -> None:
    """Higher priorities are touched only when the lower ones have nothing left, thresholds included."""
    places = [Place(present=5, priority=3), Place(present=5, priority=2, low=2), Place(present=5, priority=1)]

    assert shares(11, places, PRIORITIZED) == (5, 5, 1)
    assert shares(8, places, PRIORITIZED) == (5, 3, 0)
    assert shares(6, places, PRIORITIZED) == (4, 2, 0)
    assert shares(1, places, PRIORITIZED) == (0, 1, 0)


def test_pending_pods_go_first_in_a_scale_down() -> None:
    """A scale-down takes pending pods before running ones."""
    places = [Place(present=6, pending=3), Place(present=6)]

    assert shares(9, places) == (3, 6)
    assert shares(8, places) == (3, 5)


@pytest.mark.parametrize(("room", "expected"), [(None, (3, 9)), (2, (4, 8)), (0, (6, 6))])
def test_pending_pods_move_within_the_capacity(room: int | None, expected: tuple[int, int]) -> None:
    """Known capacity limits the move; with unknown capacity the other cluster is tried."""
    places = [Place(present=6, pending=3), Place(present=6, available=room)]

    assert shares(12, places) == expected


def test_a_cluster_with_pending_pods_takes_no_more() -> None:
    """More replicas go elsewhere, even beyond the known capacity."""
    places = [Place(present=6, pending=3), Place(present=6, available=0)]

    assert shares(15, places) == (6, 9)


def test_with_pending_pods_everywhere_more_is_given_by_policy() -> None:
    """A size that fits nowhere is still written: pending pods may make a cluster autoscaler add nodes."""
    assert shares(9, [Place(present=3, pending=1), Place(present=3, pending=1)]) == (5, 4)


def test_equal_weights_come_back_to_equal_sizes() -> None:
    """Three pods over three clusters end as one each after a scale-up to 15 and back to 3."""
    grown = shares(15, [Place(present=1)] * 3)
    back = shares(3, [Place(present=share) for share in grown])

    assert grown == (5, 5, 5)
    assert back == (1, 1, 1)


def test_the_difference_goes_to_those_furthest_below() -> None:
    """The difference brings the shares nearer to each other, and lowers none."""
    assert shares(8, [Place(present=0), Place(present=1), Place(present=5)]) == (2, 1, 5)
    assert shares(12, [Place(present=0), Place(present=1), Place(present=5)]) == (4, 3, 5)
    assert shares(4, [Place(present=0), Place(present=1), Place(present=5)]) == (0, 1, 3)


def test_missing_clusters_hold() -> None:
    """The share of a missing cluster never changes."""
    places = [Place(present=4, reachable=False), Place(present=2), Place(present=1)]

    assert shares(13, places) == (4, 5, 4)
    assert shares(4, places) == (4, 0, 0)
    assert shares(2, places) == (4, 0, 0)
    assert limits({f"m{i}": place for i, place in enumerate(places)}) == (4, None)


def test_thresholds_pass_on_what_they_cut_off() -> None:
    """The rest above a highest share goes to the others by policy; a lowest share is taken from them."""
    capped = [Place(weight=6, high=3), Place(weight=2), Place(weight=1)]
    floored = [Place(weight=6), Place(weight=2), Place(weight=1, low=4)]

    assert shares(12, capped, STATIC_WEIGHTED) == (3, 6, 3)
    assert shares(12, floored, STATIC_WEIGHTED) == (6, 2, 4)


def test_thresholds_limit_the_size() -> None:
    """If every cluster has a highest share, their sum is the largest size."""
    places = {"m1": Place(high=3), "m2": Place(high=2, present=4), "m3": Place(present=1, reachable=False)}

    assert limits(places) == (1, 8)
    assert split(50, places) == {"m1": 3, "m2": 4, "m3": 1}


def test_duplicated_gives_the_whole_number_to_each() -> None:
    """Each cluster gets the size within its thresholds; missing ones keep their share."""
    places = [
        Place(present=1),
        Place(present=9, pending=3),
        Place(high=2),
        Place(low=6),
        Place(present=3, reachable=False),
    ]

    assert shares(5, places, DUPLICATED) == (5, 5, 2, 6, 3)
    assert limits({"m1": Place(low=2, high=4), "m2": Place(low=1, high=9)}, DUPLICATED) == (1, 9)


@pytest.mark.parametrize(
    ("present", "lows", "expected"),
    [
        ({"a": 3, "b": 4}, {}, 4),
        ({"a": 6, "b": 4}, {"a": 6}, 4),
        ({"a": 6, "b": 8}, {"a": 6, "b": 8}, 6),
        ({}, {}, 0),
    ],
)
def test_the_size_under_duplicated(present: dict[str, int], lows: dict[str, int], expected: int) -> None:
    """It is the largest share, without clusters at their lowest share."""
    assert size_of_each(present, lows) == expected


def test_huge_numbers_cost_no_more() -> None:
    """The largest int32 is split quickly over weights of any size."""
    places = [Place(weight=2**31 - 1, high=5), Place(weight=1), Place(weight=1, low=7)]

    assert shares(2**31 - 1, places, STATIC_WEIGHTED) == (5, 1073741821, 1073741821)
