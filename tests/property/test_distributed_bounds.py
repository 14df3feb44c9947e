"""Properties of the bounds of member HPAs in mode Distributed, under every policy."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.assignment.distribute import Distribution, distribute
from fedhpa.assignment.initial import initial
from fedhpa.assignment.policies import (
    AGGREGATED,
    BY_RANK,
    DUPLICATED,
    DYNAMIC_WEIGHTED,
    PRIORITIZED,
    STATIC_WEIGHTED,
    Policy,
)
from fedhpa.assignment.shares import Bounds, MemberState
from tests.support.costs import least_cpu_seconds

DIVIDING = (None, STATIC_WEIGHTED, DYNAMIC_WEIGHTED, AGGREGATED, PRIORITIZED)


def fleet(size: int, seed: int) -> list[MemberState]:
    """Returns clusters with or without an HPA: full, pinned, limited and unreachable ones among them.

    One drawn seed is many times faster than a drawn number for each field.
    """
    chance = random.Random(seed)

    def maybe(number: int) -> int | None:
        return chance.choice((None, number))

    found = []
    for index in range(size):
        least = chance.choice((None, 1, 2, 4))
        running = chance.randrange(13)
        found.append(
            MemberState(
                cluster=f"m{index}",
                minimum=least,
                maximum=None if least is None else least + chance.randrange(13),
                running=running,
                pending=chance.choice((0, 0, 0, 1, 5)),
                capacity=maybe(running + chance.randrange(13)),
                need=maybe(chance.randrange(20)),
                low=chance.choice((0, 0, 2)),
                high=maybe(chance.randrange(13)),
                reachable=chance.random() < 0.8,
                weight=chance.randrange(10),
                priority=chance.randrange(-1, 3),
                cap=chance.choice((None, None, chance.randrange(13))),
            )
        )
    return found


fleets = st.builds(fleet, st.integers(1, 7), st.integers(0, 2**32))
totals = st.integers(1, 90)
dividing = st.sampled_from(DIVIDING)
policies = st.sampled_from((*DIVIDING, DUPLICATED))
uids = st.sampled_from(["", "2f1c"])


def with_hpa(members: Sequence[MemberState]) -> list[MemberState]:
    """Returns the reachable clusters that have an HPA."""
    return [member for member in members if member.reachable and member.minimum is not None]


@given(totals, fleets, dividing)
def test_sums_are_exact(total: int, members: list[MemberState], policy: Policy) -> None:
    """Nothing is left while a cluster could take it, and only unreachable clusters lead above the total."""
    found = distribute(total, members, policy)

    assert sum(found.maxima.values()) == total - found.unassigned + found.exceeded
    assert not (found.unassigned and found.exceeded)
    if found.unassigned:
        assert all(not at_limit_missing(member, found) for member in members if member.reachable)
    if found.exceeded:
        held = sum(member.maximum or 0 for member in members if not member.reachable)
        assert held
        assert all(found.maxima[member.cluster] <= (member.minimum or 0) for member in with_hpa(members))


def at_limit_missing(member: MemberState, found: Distribution) -> bool:
    """True if the cluster could take more."""
    return member.limit is None or found.maxima[member.cluster] < member.limit


@given(totals, fleets, policies)
def test_limits_and_minima_are_kept(total: int, members: list[MemberState], policy: Policy) -> None:
    """Nothing exceeds a threshold, and nothing but a minimum exceeds what a full cluster runs."""
    found = distribute(total, members, policy)

    for member in members:
        most, least = found.maxima[member.cluster], member.minimum or 0
        if not member.reachable:
            assert most == (member.maximum or 0)
            continue
        if member.high is not None:
            assert most <= member.high
        if policy != DUPLICATED and member.full is not None:
            assert most <= max(member.full, least)
    floors = {member.cluster: min_of(member) for member in members}
    if policy != DUPLICATED and sum(floors.values()) <= total:
        assert all(
            found.maxima[member.cluster] >= floors[member.cluster] for member in members if member.reachable
        )


def min_of(member: MemberState) -> int:
    """Returns the share that a cluster keeps while the total suffices for all."""
    least = member.minimum or 0
    return least if member.high is None else min(least, member.high)


@given(totals, fleets, dividing)
def test_what_runs_is_cut_only_if_it_does_not_fit(
    total: int, members: list[MemberState], policy: Policy
) -> None:
    """While the total suffices, each cluster with an HPA keeps what runs, up to its threshold."""
    members = [replace(member, reachable=True) for member in with_hpa(members)]
    running = {
        member.cluster: max(
            min_of(member),
            member.running if member.high is None else min(member.running, member.high),
        )
        for member in members
    }
    found = distribute(total, members, policy)

    if sum(running.values()) <= total:
        assert all(found.maxima[cluster] >= share for cluster, share in running.items())
    else:
        assert all(found.maxima[cluster] <= share for cluster, share in running.items())


@given(totals, fleets, policies, uids, st.randoms(use_true_random=False))
def test_order_is_irrelevant(
    total: int, members: list[MemberState], policy: Policy, uid: str, shuffler: random.Random
) -> None:
    """The same clusters in another order get the same."""
    shuffled = shuffler.sample(members, len(members))

    assert distribute(total, shuffled, policy, uid=uid) == distribute(total, members, policy, uid=uid)
    assert initial(1, total, shuffled, policy, uid=uid) == initial(1, total, members, policy, uid=uid)


@given(totals, fleets, dividing, uids)
def test_one_more_replica_changes_one_cluster(
    total: int, members: list[MemberState], policy: Policy, uid: str
) -> None:
    """With one more replica to place, one cluster gets one more and the others the same."""
    before = distribute(total, members, policy, uid=uid)
    after = distribute(total + 1, members, policy, uid=uid)

    changes = [after.maxima[cluster] - share for cluster, share in before.maxima.items()]
    assert min(changes) >= 0
    assert sum(changes) <= 1


@given(totals, fleets, policies)
def test_applied_again_it_changes_nothing(total: int, members: list[MemberState], policy: Policy) -> None:
    """A second run over a fleet that took over the first result gives the same."""
    once = distribute(total, members, policy)
    after = [applied(member, once.maxima[member.cluster], policy) for member in members]

    assert distribute(total, after, policy).maxima == once.maxima


def applied(member: MemberState, most: int, policy: Policy) -> MemberState:
    """Returns a cluster after its HPA took over a maximum: it runs no more, and a full one is remembered."""
    if not member.reachable:
        return member
    return replace(
        member,
        minimum=None if member.minimum is None or not most else min(member.minimum, most),
        maximum=most or None,
        running=min(member.running, most),
        pending=member.pending if policy == DUPLICATED else 0,
        cap=member.full,
    )


@given(totals, fleets, st.sampled_from(sorted(BY_RANK)))
def test_no_lower_rank_gets_what_a_higher_one_could_take(
    total: int, members: list[MemberState], policy: Policy
) -> None:
    """A cluster above its minimum and what it runs leaves no room in any cluster of higher rank."""
    found = distribute(total, members, policy)

    ranked = with_hpa(members)
    for lower in ranked:
        base = max(min_of(lower), lower.running)
        if found.maxima[lower.cluster] <= base:
            continue
        for higher in ranked:
            if rank(higher, policy) > rank(lower, policy):
                room = [limit for limit in (higher.room, higher.limit) if limit is not None]
                assert room
                assert found.maxima[higher.cluster] >= min(room)


def rank(member: MemberState, policy: Policy) -> int:
    """Returns the number by which a policy orders the clusters."""
    return member.priority if policy == PRIORITIZED else member.rank


@given(st.integers(1, 30), st.integers(0, 60), fleets, policies, st.booleans(), uids)
def test_first_bounds_are_exact(
    minimum: int, more: int, members: list[MemberState], policy: Policy, exact: bool, uid: str
) -> None:
    """1 <= min <= max; the maxima add up to the whole, and under Exact the minima to theirs."""
    maximum = minimum + more
    found = initial(minimum, maximum, members, policy, exact=exact, uid=uid)

    changed = {member.cluster: found[member.cluster] for member in members if member.reachable}
    for member in members:
        bounds = found[member.cluster]
        if bounds is not None:
            assert 1 <= bounds.minimum <= bounds.maximum
            if member.reachable and member.high is not None:
                assert bounds.maximum <= member.high
        elif member.reachable and member.high != 0 and policy == DUPLICATED:
            raise AssertionError("every cluster gets the whole number")
    if policy == DUPLICATED or len(changed) < len(members):
        return
    held = [bounds for bounds in changed.values() if bounds]
    assert sum(bounds.maximum for bounds in held) <= maximum
    if not exact and all(member.limit is None for member in members):
        assert sum(bounds.maximum for bounds in held) == maximum
        assert sum(bounds.minimum for bounds in held) >= minimum
    if exact and not any(member.present for member in members):
        limits = [minimum if member.limit is None else member.limit for member in members]
        assert sum(bounds.minimum for bounds in held) == min(minimum, sum(limits))


@given(st.integers(1, 8), fleets, dividing, st.booleans())
def test_switching_on_changes_no_replica(
    minimum: int, members: list[MemberState], policy: Policy, exact: bool
) -> None:
    """Where room is left for one replica in each cluster, what runs stays, up to the thresholds."""
    members = [replace(member, reachable=True, minimum=None, maximum=None) for member in members]
    present = sum(max(member.running, 1) for member in members)
    found = initial(minimum, max(present, minimum), members, policy, exact=exact)

    for member in members:
        bounds = found[member.cluster]
        kept = member.running if member.high is None else min(member.running, member.high)
        if kept:
            assert bounds is not None
            assert bounds.maximum >= kept


@given(st.integers(1, 30), st.integers(0, 60), fleets, dividing, st.booleans())
def test_first_bounds_are_kept_by_the_next_pass(
    minimum: int, more: int, members: list[MemberState], policy: Policy, exact: bool
) -> None:
    """`distribute` lowers no cluster below what runs under its first bounds."""
    members = [replace(member, reachable=True) for member in members]
    found = initial(minimum, minimum + more, members, policy, exact=exact)
    after = [started(member, found[member.cluster]) for member in members]
    maxima = distribute(minimum + more, after, policy).maxima

    for member in after:
        assert maxima[member.cluster] >= member.running


def started(member: MemberState, bounds: Bounds | None) -> MemberState:
    """Returns a cluster whose HPA has these bounds and keeps between them what runs."""
    least, most = (None, None) if bounds is None else (bounds.minimum, bounds.maximum)
    running = min(max(member.running, least or 0), most or 0)
    return replace(member, minimum=least, maximum=most, running=running, pending=0, cap=None, need=None)


@pytest.mark.parametrize("policy", [*DIVIDING, DUPLICATED])
def test_a_thousand_clusters(policy: Policy) -> None:
    """A thousand clusters are distributed in 10 ms of CPU time; 4 ms are usual.

    Their first bounds may take 20 ms; at most 9 ms are usual.
    """
    chance = random.Random(7)
    members = [
        MemberState(
            cluster=f"member{i}",
            minimum=1,
            maximum=20,
            running=chance.randrange(1, 20),
            pending=chance.choice([0, 0, 0, 2]),
            capacity=chance.choice([None, 20, 40]),
            need=chance.choice([None, None, 30]),
            high=chance.choice([None, None, 25]),
            weight=chance.randrange(1, 100),
            priority=chance.randrange(5),
        )
        for i in range(1000)
    ]
    empty = [replace(member, minimum=None, maximum=None, running=0, pending=0) for member in members]

    assert least_cpu_seconds(lambda: distribute(20_000, members, policy, uid="2f1c"), 0.01) < 0.01
    for around in (empty, members):
        first = partial(initial, 2_000, 20_000, around, policy, uid="2f1c")
        assert least_cpu_seconds(first, 0.02) < 0.02
