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


def ranked(*available: int) -> list[Place]:
    """Empty places of falling priorities with these available replicas."""
    return [Place(priority=-rank, available=replicas) for rank, replicas in enumerate(available)]


def beside(*others: Place) -> list[Place]:
    """A place of which half the pods are pending, and others."""
    return [Place(present=8, pending=4, weight=4, priority=3), *others]


Sizes = dict[int, tuple[int, ...]]
BY_WEIGHT: Sizes = {10: (1, 4, 5), 2: (0, 1, 1)}
BY_RANK = [Place(present=5, priority=3), Place(present=5, priority=2, low=2), Place(present=5, priority=1)]
PENDING_BY_RANK = [*(Place(present=5, pending=2, priority=rank) for rank in (3, 2, 1)), Place(available=3)]
ONE_PENDS = Place(present=6, pending=3)
UNKNOWN = [Place(priority=2, present=16, pending=6), Place(priority=1, present=1)]
APART = [Place(present=0), Place(present=1), Place(present=5)]
CAPPED = [Place(weight=6, high=3), Place(weight=2), Place(weight=1)]
FLOORED = [Place(weight=6), Place(weight=2), Place(weight=1, low=4)]

# The places, the policy, and the shares of each size.
SPLITS: dict[str, tuple[list[Place], AssignmentPolicy, Sizes]] = {
    "StaticWeighted is Apportion by the weights": (weighing(1, 2, 3), STATIC_WEIGHTED, BY_WEIGHT),
    "LoadWeighted is Apportion by the loads": (weighing(1, 2, 3), LOAD_WEIGHTED, BY_WEIGHT),
    "three weights": (weighing(1, 5, 2), STATIC_WEIGHTED, {24: (3, 15, 6)}),
    "two weights": (weighing(3, 1), STATIC_WEIGHTED, {4: (3, 1)}),
    "DynamicWeighted is Apportion by the available replicas": (
        free(1, 5, 2),
        DYNAMIC_WEIGHTED,
        {8: (1, 5, 2), 24: (3, 15, 6)},
    ),
    "equal capacities": (free(50, 50), DYNAMIC_WEIGHTED, {4: (2, 2)}),
    "no capacity anywhere is equal weights": (free(0, 0, 0), DYNAMIC_WEIGHTED, {3: (1, 1, 1)}),
    "no known capacity is equal weights": (
        [Place(present=6), Place(present=1)],
        DYNAMIC_WEIGHTED,
        {12: (6, 6)},
    ),
    "no capacity beside some": ([Place(present=6, available=0), *free(6)], DYNAMIC_WEIGHTED, {12: (6, 6)}),
    "Aggregated fills the largest capacity first, and the rest goes to the first": (
        free(8, 2, 2),
        AGGREGATED,
        {8: (8, 0, 0), 24: (20, 2, 2)},
    ),
    "Aggregated fills each up to its capacity": (free(3, 1), AGGREGATED, {4: (3, 1)}),
    "Aggregated goes by capacity": (free(2, 2, 8), AGGREGATED, {11: (2, 1, 8)}),
    "Prioritized fills the first rank first, and the rest goes to the first": (
        ranked(20, 1),
        PRIORITIZED,
        {8: (8, 0), 24: (23, 1)},
    ),
    "Prioritized fills each up to its capacity": (ranked(3, 1), PRIORITIZED, {4: (3, 1)}),
    "Prioritized with unknown capacity goes on beside pending pods": (
        UNKNOWN,
        PRIORITIZED,
        {17: (10, 7), 18: (10, 8)},
    ),
    "pending pods go by weight": (beside(*weighing(3, 1)), STATIC_WEIGHTED, {8: (4, 3, 1)}),
    "pending pods go by capacity": (beside(*free(50, 50)), DYNAMIC_WEIGHTED, {8: (4, 2, 2)}),
    "pending pods fill the largest capacity": (beside(*free(3, 1)), AGGREGATED, {8: (4, 3, 1)}),
    "pending pods fill the next rank": (beside(*ranked(3, 1)), PRIORITIZED, {8: (4, 3, 1)}),
    "pending pods are taken from the lowest rank first": (PENDING_BY_RANK, PRIORITIZED, {15: (5, 4, 3, 3)}),
    "scaling down takes from the lowest rank first, down to its lowest share": (
        BY_RANK,
        PRIORITIZED,
        {11: (5, 5, 1), 8: (5, 3, 0), 6: (4, 2, 0), 1: (0, 1, 0)},
    ),
    "pending pods go first in a scale-down": ([ONE_PENDS, Place(present=6)], EQUAL, {9: (3, 6), 8: (3, 5)}),
    "an unknown capacity is tried": ([ONE_PENDS, Place(present=6)], EQUAL, {12: (3, 9)}),
    "a known capacity limits the move": ([ONE_PENDS, Place(present=6, available=2)], EQUAL, {12: (4, 8)}),
    "more goes to others even beyond their capacity, which no move does": (
        [ONE_PENDS, Place(present=6, available=0)],
        EQUAL,
        {12: (6, 6), 15: (6, 9)},
    ),
    # Pending pods may make a cluster autoscaler add nodes.
    "a size that fits nowhere is written by policy": ([Place(present=3, pending=1)] * 2, EQUAL, {9: (5, 4)}),
    "the difference goes to those furthest below": (
        APART,
        EQUAL,
        {8: (2, 1, 5), 12: (4, 3, 5), 4: (0, 1, 3)},
    ),
    "the rest above a highest share goes to others": (CAPPED, STATIC_WEIGHTED, {12: (3, 6, 3)}),
    "a lowest share is taken from others": (FLOORED, STATIC_WEIGHTED, {12: (6, 2, 4)}),
}


@pytest.mark.parametrize("case", SPLITS)
def test_each_size_is_split_by_policy(case: str) -> None:
    """The names of the cases say what must be true."""
    places, policy, expected = SPLITS[case]

    assert {size: shares(size, places, policy) for size in expected} == expected


def test_equal_weights_come_back_to_equal_sizes() -> None:
    """Three pods over three clusters end as one each after a scale-up to 15 and back to 3."""
    grown = shares(15, [Place(present=1)] * 3)
    back = shares(3, [Place(present=share) for share in grown])

    assert grown == (5, 5, 5)
    assert back == (1, 1, 1)


def test_missing_clusters_hold() -> None:
    """The share of a missing cluster never changes."""
    places = [Place(present=4, reachable=False), Place(present=2), Place(present=1)]

    assert shares(13, places) == (4, 5, 4)
    assert shares(4, places) == (4, 0, 0)
    assert shares(2, places) == (4, 0, 0)
    assert limits({f"m{i}": place for i, place in enumerate(places)}) == (4, None)


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
