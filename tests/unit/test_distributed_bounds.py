"""Bounds of member HPAs in mode Distributed; the examples are those of docs/explanation/distributed.md."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.api.assignment_policies import (
    AGGREGATED,
    DUPLICATED,
    EQUAL,
    PRIORITIZED,
    STATIC_WEIGHTED,
    AssignmentPolicy,
)
from fedhpa.assignment import Member, Rules
from fedhpa.assignment.divide import Division
from fedhpa.assignment.divide import divide as divide_by
from fedhpa.assignment.minima import Initial, Preference, assigned_for
from fedhpa.assignment.minima import initial as initial_of
from tests.support.distributed import member as m
from tests.support.distributed import named

Pair = tuple[int, int]


def divide(total: int, members: list[Member], policy: AssignmentPolicy = EQUAL, **fields: Any) -> Division:
    """The division of a maxReplicas."""
    return divide_by(Rules(minimum=1, maximum=total, policy=policy), members, **fields)


def initial(
    least: int, most: int, members: list[Member], policy: AssignmentPolicy = EQUAL, **fields: Any
) -> Initial:
    """The first division of a minReplicas and a maxReplicas."""
    return initial_of(Rules(minimum=least, maximum=most, policy=policy, **fields), members)


def empty(*fields: dict[str, Any]) -> list[Member]:
    """Empty clusters m1, m2, ..."""
    return named([Member(cluster="", **each) for each in fields])


def weighing(*weights: int) -> list[Member]:
    """Empty clusters with weights."""
    return empty(*[{"weight": weight} for weight in weights])


def first(running: int, **fields: Any) -> Member:
    """The first priority."""
    return m(running, priority=2, **fields)


def away(most: int, seconds: float) -> Member:
    """A Missing cluster with its maximum."""
    return m(most, maximum=most, answers=False, missing_for=seconds)


# The total, the clusters, the policy, and the maxima. After a trigger, what is not needed stays.
# The other examples are scenarios (test_replay_of_numbered_examples.py).
AFTER_A_PERIOD: dict[str, tuple[int, list[Member], AssignmentPolicy, tuple[int, ...]]] = {
    "22": (12, [m(8), away(4, 75), m(2)], EQUAL, (8, 4, 2)),
    "25": (24, [first(8, least=8, now=12, room=32), m(1, need=2, pinned=30)], PRIORITIZED, (23, 1)),
}
AFTER_A_TRIGGER: dict[str, tuple[int, list[Member], AssignmentPolicy, tuple[int, ...]]] = {
    "31": (24, [m(16, now=6, maximum=16), m(8, need=12, maximum=8)], EQUAL, (12, 12)),
    "32": (24, [m(16, now=15, maximum=16), m(8, need=12, maximum=8)], EQUAL, (16, 8)),
    "33": (24, [first(20, now=9, maximum=20), m(4, need=8, maximum=4, pinned=30)], PRIORITIZED, (16, 8)),
}


@pytest.mark.parametrize("number", [*AFTER_A_PERIOD, *AFTER_A_TRIGGER])
def test_an_example_of_maxima(number: str) -> None:
    """The numbers are those of the page."""
    keep = number in AFTER_A_TRIGGER
    total, members, policy, expected = (AFTER_A_TRIGGER if keep else AFTER_A_PERIOD)[number]
    found = divide(total, named(members), policy, keep=keep)

    assert tuple(found.maxima.values()) == expected


def test_the_rest_stays_where_it_is_after_a_trigger() -> None:
    """Only the pinned cluster gets more, from the one with most room above what it runs."""
    members = named([m(5, maximum=5, need=8), m(10, maximum=20), m(3, maximum=5)])

    assert tuple(divide(30, members, keep=True).maxima.values()) == (8, 17, 5)
    assert tuple(divide(30, members).maxima.values()) == (11, 13, 6)


def test_what_nobody_can_take_goes_back_to_stuck_clusters() -> None:
    """Else their HPAs would delete the pods for which nodes may come."""
    members = named([m(6, ready=3, membership="Stuck", maximum=8), m(2, high=3, maximum=3)])

    assert tuple(divide(12, members, keep=True).maxima.values()) == (8, 3)
    assert tuple(divide(9, members, keep=True).maxima.values()) == (6, 3)


def test_a_cordoned_cluster_grows_last() -> None:
    """It keeps what runs, and its minimum; where no Member can take more, it gets the rest."""
    members = named([m(4, membership="Cordoned", maximum=9), m(2, maximum=3)])
    full = named([m(4, membership="Cordoned", maximum=9), m(2, high=3, maximum=3)])

    assert tuple(divide(12, members, keep=True).maxima.values()) == (4, 8)
    assert divide(12, members).cordoned_grow is False
    assert tuple(divide(12, full, keep=True).maxima.values()) == (9, 3)
    assert divide(12, full).cordoned_grow is True


def test_a_foreign_hpa_counts_what_it_runs() -> None:
    """Its own maximum is of no interest, and ours is never cut below running for it."""
    foreign = m(5, least=None, maximum=5, answers=False, foreign=True)

    assert tuple(divide(12, named([foreign, m(4)])).maxima.values()) == (5, 7)
    assert tuple(divide(12, named([foreign, m(9)])).maxima.values()) == (5, 9)


def test_a_missing_cluster_cuts_nothing_that_runs() -> None:
    """M is exceeded before that. A lowered M still counts."""
    assert tuple(divide(12, named([away(6, 10), m(8), m(1)])).maxima.values()) == (6, 8, 1)
    assert tuple(divide(8, named([away(6, 10), m(8), m(2)])).maxima.values()) == (6, 6, 2)


def test_take_back_leaves_a_margin_and_the_minimum() -> None:
    """The largest surplus gives first, and only as much as the needs require."""
    members = named([m(9, now=1, least=5, maximum=9), m(8, now=2, maximum=8), m(3, need=9, maximum=3)])

    assert tuple(divide(20, members, keep=True).maxima.values()) == (5, 6, 9)


def test_idle_replicas_go_first() -> None:
    """Of a lowered total, those that the metrics ask for stay longest."""
    assert tuple(divide(10, named([m(6), m(6, now=2)])).maxima.values()) == (6, 4)


def test_a_surplus_stays_as_far_as_it_is_let() -> None:
    """After a return more may run than the total."""
    members = named([m(8, maximum=8), m(8, maximum=8, back=True)])

    assert tuple(divide(12, members, keep=True, most=100).maxima.values()) == (8, 8)
    assert tuple(divide(12, members, keep=True, most=15).maxima.values()) == (8, 7)


def test_duplicated_gives_the_whole_maximum_to_each() -> None:
    """Only thresholds and a cordon lower it."""
    members = named([m(2), m(2, high=5), away(7, 90), m(3, membership="Cordoned")])

    assert list(divide(9, members, DUPLICATED).maxima.values()) == [9, 5, 7, 3]


def test_an_hpa_has_at_least_one_replica() -> None:
    """A total below the number of clusters takes HPAs away, by policy."""
    members = named([m(3, weight=1), m(3, weight=5), m(3, weight=2)])

    assert tuple(divide(2, members, STATIC_WEIGHTED).maxima.values()) == (0, 1, 1)


def test_switching_on_starts_no_cluster_in_place_of_a_running_replica() -> None:
    """With few replicas for many clusters, those that run some go first. Exact gives them an HPA, too."""
    running = named([m(0, least=None), m(0, least=None), m(2, least=None)])

    assert list(initial(1, 2, running).minima.values()) == [None, None, 1]
    assert list(initial(1, 4, running).minima.values()) == [1, 1, 1]
    assert list(initial(1, 9, running, exact=True).minima.values()) == [1, None, 1]


def test_lowest_shares_are_minima() -> None:
    """A minimum is at least autoscalingMinThreshold. Under Exact the minima still add up."""
    members = empty({"low": 4}, {})

    assert initial(2, 12, members).minima == {"m1": 4, "m2": 1}
    assert initial(6, 12, members, exact=True).minima == {"m1": 4, "m2": 2}


def test_a_cluster_that_does_not_answer_keeps_its_part() -> None:
    """The others divide the rest. One that leaves has none."""
    gone = Member(cluster="gone", minimum=2, maximum=9, running=9, answers=False)
    leaves = Member(cluster="leaves", minimum=2, maximum=2, running=2, membership="Leaving")

    assert initial(3, 12, [gone, leaves, *weighing(1, 1)]).minima == {
        "gone": 2, "leaves": 0, "m1": 1, "m2": 1
    }  # fmt: skip


def test_ties_differ_between_objects() -> None:
    """The single replicas of 500 objects are spread over all clusters; one object always chooses alike."""
    clusters = weighing(*[1] * 10)
    chosen = [
        next(name for name, low in initial(1, 1, clusters, uid=f"uid-{i}").minima.items() if low)
        for i in range(500)
    ]

    assert len(set(chosen)) == 10
    assert max(chosen.count(name) for name in chosen) < 100
    again = initial(1, 1, clusters[::-1], uid="uid-1")
    assert dict(again.minima) == dict(initial(1, 1, clusters, uid="uid-1").minima)


def test_minima_are_divided_anew_only_after_a_change() -> None:
    """The hash differs for each input, and does not depend on the order of clusters."""
    known: dict[str, Preference] = {"m1": (1, 0, None), "m2": (2, 0, None)}

    def of(
        minimum: int = 2, policy: AssignmentPolicy = EQUAL, *, exact: bool = False, **changed: Preference
    ) -> str:
        return assigned_for(minimum, policy, exact=exact, preferences={**known, **changed})

    hashes = [
        of(), of(3), of(policy=AGGREGATED), of(exact=True), of(m3=(1, 0, None)), of(m2=(3, 0, None)),
        of(m2=(2, 0, 0)), of(m2=(2, 0, None, 0.5)),
    ]  # fmt: skip
    assert len(set(hashes)) == len(hashes)
    assert assigned_for(2, EQUAL, exact=False, preferences=dict(reversed(known.items()))) == of()
    assert all(len(text) == 16 for text in hashes)
