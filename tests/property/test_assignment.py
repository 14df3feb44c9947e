"""Properties of every split of replicas over clusters, under every policy."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from fedhpa.assignment.direct import Place, limits, split
from tests.support.costs import least_cpu_seconds

DIVIDING = (EQUAL, STATIC_WEIGHTED, DYNAMIC_WEIGHTED, AGGREGATED, PRIORITIZED, LOAD_WEIGHTED)

small = st.integers(0, 12)
maybe = st.one_of(st.none(), small)
places = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.builds(
        Place,
        present=st.integers(0, 30),
        reachable=st.sampled_from([True, True, True, False]),
        available=maybe,
        pending=st.sampled_from([0, 0, 0, 1, 5, 50]),
        weight=st.integers(0, 9),
        priority=st.integers(-2, 2),
        low=st.integers(0, 4),
        high=maybe,
        unproven=st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=8,
)
desired_sizes = st.integers(0, 250)
dividing = st.sampled_from(DIVIDING)


def settled(around: dict[str, Place]) -> dict[str, Place]:
    """Returns the same places without pending pods."""
    return {name: msgspec.structs.replace(place, pending=0) for name, place in around.items()}


def total(around: dict[str, Place]) -> int:
    """Returns the replicas of all clusters."""
    return sum(place.present for place in around.values())


@given(desired_sizes, places, dividing)
def test_sums_are_exact(desired: int, around: dict[str, Place], policy: AssignmentPolicy) -> None:
    """The shares add up to the size within the limits."""
    least, most = limits(around, policy)

    shares = split(desired, around, policy)

    assert sum(shares.values()) == (max(desired, least) if most is None else min(max(desired, least), most))
    assert min(shares.values()) >= 0


@given(desired_sizes, places, st.sampled_from((*DIVIDING, DUPLICATED)))
def test_shares_of_missing_clusters_are_held(
    desired: int, around: dict[str, Place], policy: AssignmentPolicy
) -> None:
    """A missing cluster keeps its share."""
    shares = split(desired, around, policy)

    assert all(shares[name] == place.present for name, place in around.items() if not place.reachable)


@given(desired_sizes, places, st.sampled_from((*DIVIDING, DUPLICATED)))
def test_thresholds_are_kept(desired: int, around: dict[str, Place], policy: AssignmentPolicy) -> None:
    """No cluster is scaled up above its highest share."""
    shares = split(desired, around, policy)

    for name, place in around.items():
        if place.reachable and place.high is not None:
            assert shares[name] <= (place.high if policy == DUPLICATED else max(place.high, place.present))


@given(desired_sizes, places, dividing)
def test_a_lowest_share_goes_first(desired: int, around: dict[str, Place], policy: AssignmentPolicy) -> None:
    """While one with capacity is below its lowest share, none exceeds its own lowest or present share."""
    around = settled(around)

    shares = split(desired, around, policy)

    short = {
        name for name, place in around.items() if place.reachable and shares[name] < lowest(place, policy)
    }
    for name, place in around.items():
        if short and place.reachable:
            assert shares[name] <= max(lowest(place, policy), place.present)
        if any(shares[other] < min(around[other].low, around[other].present) for other in short):
            assert not place.reachable or shares[name] <= place.low


def lowest(place: Place, policy: AssignmentPolicy) -> int:
    """Returns the lowest share that a place can reach; policies that fill by rank respect the capacity."""
    known = policy in (AGGREGATED, PRIORITIZED) and place.available is not None
    room = place.present + (place.available or 0) if known else place.low
    return min(place.low, room, place.low if place.high is None else place.high)


@given(desired_sizes, places, st.sampled_from((*DIVIDING, DUPLICATED)), st.randoms())
def test_order_is_irrelevant(
    desired: int, around: dict[str, Place], policy: AssignmentPolicy, shuffler: random.Random
) -> None:
    """The same clusters in another order get the same."""
    shuffled = dict(shuffler.sample(list(around.items()), len(around)))

    assert split(desired, shuffled, policy) == split(desired, around, policy)


@given(desired_sizes, places, dividing)
def test_one_more_replica_changes_one_cluster(
    desired: int, around: dict[str, Place], policy: AssignmentPolicy
) -> None:
    """With one more replica, one cluster gets one more and the others the same."""
    before, after = split(desired, around, policy), split(desired + 1, around, policy)

    changes = [after[name] - before[name] for name in around]
    assert min(changes) >= 0
    assert sum(changes) <= 1


@given(desired_sizes, places, dividing)
def test_only_the_difference_moves(desired: int, around: dict[str, Place], policy: AssignmentPolicy) -> None:
    """A scale-up lowers no cluster, a scale-down raises none, and the same size changes nothing."""
    around = settled(around)
    shares = split(desired, around, policy)
    changes = [shares[name] - place.present for name, place in around.items()]

    if desired >= total(around):
        assert min(changes) >= 0
    if desired <= total(around):
        assert max(changes) <= 0


@given(desired_sizes, places, dividing)
def test_pending_pods_lower_only_their_own_cluster(
    desired: int, around: dict[str, Place], policy: AssignmentPolicy
) -> None:
    """Without a scale-down, a cluster loses at most its pending pods, and gains none while it has some."""
    shares = split(max(desired, total(around)), around, policy)

    for name, place in around.items():
        assert shares[name] >= place.present - min(place.pending, place.present)


@given(desired_sizes, places, dividing)
def test_unproven_clusters_shrink_first(
    desired: int, around: dict[str, Place], policy: AssignmentPolicy
) -> None:
    """While an unproven cluster has replicas above its least share, no other one gives any."""
    around = {name: msgspec.structs.replace(place, high=None) for name, place in settled(around).items()}
    shares = split(min(desired, total(around)), around, policy)

    unproven = [name for name, place in around.items() if place.unproven and place.reachable]
    if any(shares[name] > around[name].low for name in unproven):
        assert all(shares[name] >= around[name].present for name in around.keys() - unproven)


@given(places, dividing)
def test_pods_pending_everywhere_stay(around: dict[str, Place], policy: AssignmentPolicy) -> None:
    """If no cluster has capacity, nothing moves."""
    full = {
        name: msgspec.structs.replace(place, pending=place.pending or 1, reachable=True)
        for name, place in around.items()
    }

    assert split(total(full), full, policy) == {name: place.present for name, place in full.items()}


@given(desired_sizes, places, dividing)
def test_applied_again_it_changes_nothing(
    desired: int, around: dict[str, Place], policy: AssignmentPolicy
) -> None:
    """A second split changes nothing."""
    once = split(desired, around, policy)
    after = {
        name: msgspec.structs.replace(place, present=once[name], pending=0) for name, place in around.items()
    }

    assert split(desired, after, policy) == once


@given(st.integers(1, 12), st.integers(0, 300), st.lists(st.integers(0, 300), max_size=6))
def test_sizes_come_to_the_fair_split(clusters: int, start: int, sizes: list[int]) -> None:
    """Unequal shares differ by at most one once all had to grow."""
    shares = {f"m{i}": start if i == 0 else 0 for i in range(clusters)}
    for size in [*sizes, start * clusters]:
        shares = split(size, {name: Place(present=share) for name, share in shares.items()})

    assert max(shares.values()) - min(shares.values()) <= (1 if sum(shares.values()) else 0)


@pytest.mark.parametrize("policy", [*DIVIDING, DUPLICATED])
def test_a_thousand_clusters(policy: AssignmentPolicy) -> None:
    """A thousand clusters with bounds are split in 100 ms of CPU time, ten times the usual for slow machines.

    Work for each pair of clusters would take seconds.
    """
    chance = random.Random(7)
    around = {
        f"member{i}": Place(
            present=chance.randrange(50),
            available=chance.choice([None, 0, 3, 100]),
            weight=chance.randrange(1, 100),
            priority=chance.randrange(5),
            low=chance.choice([0, 1, 2]),
            high=chance.choice([None, 3, 10, 100]),
        )
        for i in range(1000)
    }
    assert least_cpu_seconds(lambda: split(2 * total(around), around, policy), 0.1) < 0.1
