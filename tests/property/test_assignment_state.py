"""State of mode Distributed: any state is borne, and help, holds and caps stay within their bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.assignment.assist import assist, deficits
from fedhpa.assignment.caps import caps
from fedhpa.assignment.hold import hold
from fedhpa.assignment.policies import (
    AGGREGATED,
    DUPLICATED,
    DYNAMIC_WEIGHTED,
    PRIORITIZED,
    STATIC_WEIGHTED,
)
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import NO_STATE, Cap, ClusterState
from fedhpa.assignment.zero import zero
from tests.support.distributed import NOW

POLICIES = (None, DUPLICATED, AGGREGATED, STATIC_WEIGHTED, DYNAMIC_WEIGHTED, PRIORITIZED)
policies = st.sampled_from(POLICIES)
small = st.integers(0, 30)
maybe = st.none() | small
# Whole seconds are exact in RFC 3339.
times = st.none() | st.integers(0, 7200).map(lambda ago: NOW - ago)
replicas = st.integers(0, 2**31 - 1)

states = st.builds(
    ClusterState,
    minimum=st.none() | replicas,
    maximum=st.none() | replicas,
    given=small,
    given_since=times,
    given_share=small,
    ready_since=times,
    deficit_before=maybe,
    ineffective_since=times,
    held=small,
    held_since=times,
    lower_replicas=maybe,
    cap=st.none()
    | st.builds(
        Cap,
        replicas=small,
        since=st.integers(0, 7200).map(lambda ago: NOW - ago),
        until=st.none() | st.integers(-3600, 60).map(lambda ahead: NOW + ahead),
        minutes=st.integers(1, 30),
        room_seen=st.integers(0, 1),
        ended_early=st.booleans(),
    ),
    zero_since=times,
    at_min_since=times,
    lost=st.booleans(),
    over_since=times,
    away=st.booleans(),
    starting=st.booleans(),
    spare=st.booleans(),
    idle_since=times,
)


@st.composite
def members(draw: st.DrawFn) -> list[MemberState]:
    """Clusters with bounds that fit each other, some pinned, pending, unreachable or without an HPA."""
    found = []
    for name in draw(st.lists(st.sampled_from("abcdefg"), unique=True, max_size=6)):
        minimum = draw(st.integers(1, 10))
        maximum = minimum + draw(small)
        running = draw(st.integers(0, maximum))
        pinned = running == maximum and draw(st.booleans())
        exists = draw(st.sampled_from([True, True, True, False]))
        found.append(
            MemberState(
                cluster=name,
                minimum=minimum if exists else None,
                maximum=maximum if exists else None,
                running=running,
                pending=draw(st.sampled_from([0, 0, 0, 1, 9])),
                capacity=draw(st.none() | st.integers(running, running + 20)),
                need=running + draw(st.integers(1, 20)) if pinned and exists else None,
                high=maximum if draw(st.booleans()) else None,
                reachable=draw(st.sampled_from([True, True, True, False])),
                weight=draw(st.integers(1, 5)),
                priority=draw(st.integers(0, 3)),
                cap=draw(st.none() | st.integers(0, 20)),
            )
        )
    return found


stored = st.dictionaries(st.sampled_from("abcdefg"), states, max_size=7)


@given(states)
def test_a_state_survives_its_record(state: ClusterState) -> None:
    """A restarted controller reads the state that its predecessor wrote."""
    assert msgspec.json.decode(msgspec.json.encode(state), type=ClusterState) == state


@given(states, st.integers(-7200, 7200))
def test_no_time_is_ahead(state: ClusterState, later: int) -> None:
    """Times of a leader whose clock was ahead count as now, and so they stay."""
    now = NOW + later
    found = state.at(now)

    for since in (found.given_since, found.ready_since, found.held_since, found.at_min_since):
        assert since is None or since <= now
    if found.cap is not None:
        assert found.cap.since <= now
        assert found.cap.until is None or found.cap.until <= now + 1800
    assert found.at(now) is found


@given(states, members(), policies)
def test_any_states_are_borne(state: ClusterState, around: list[MemberState], policy: str | None) -> None:
    """One pass over any stored state ends, and gives no minimum above its maximum."""
    known = {member.cluster: state.at(NOW) for member in around}

    known = dict(caps(known, around, NOW).states)
    known = dict(assist(known, around, policy, 1, NOW, {}).states)
    known = dict(hold(known, around, policy, 1, NOW, {}).states)
    known = dict(zero(known, around, policy, 1, NOW, {}).states)

    for member in around:
        if member.minimum is not None and member.maximum is not None:
            floor = known.get(member.cluster, NO_STATE).floor(member.minimum, member.maximum)
            assert member.minimum <= floor <= member.maximum


@given(stored, members(), policies, st.integers(1, 5))
def test_new_help_never_exceeds_the_deficit(
    known: dict[str, ClusterState], around: list[MemberState], policy: str | None, step: int
) -> None:
    """All new help together is at most what is lacking, and each helper stays within its maximum."""
    lacking = sum(deficits(known, around).values())

    found = assist(known, around, policy, step, NOW, {})

    added = 0
    for member in around:
        after = found.states.get(member.cluster, NO_STATE)
        before = known.get(member.cluster, NO_STATE)
        if after.given > before.given:
            assert member.minimum is not None
            assert member.maximum is not None
            assert member.minimum + after.given <= member.maximum
            added += after.given - max(before.given, member.running - member.minimum)
    assert added <= lacking
    assert found.deficit <= lacking
    assert added == 0 or found.deficit > 0


@given(stored, members(), policies, st.integers(1, 5))
def test_help_is_taken_back_completely(
    known: dict[str, ClusterState], around: list[MemberState], policy: str | None, step: int
) -> None:
    """Once nothing is lacking, each pass takes some back of what was given more than seven minutes ago."""
    calm = [
        replace(member, pending=0, need=None, reachable=True, minimum=member.minimum or 1, maximum=40)
        for member in around
    ]
    for number in range(7, 47):
        found = assist(known, calm, policy, step, NOW + 60 * number, {})
        for member in calm:
            before = known.get(member.cluster, NO_STATE).given
            after = found.states.get(member.cluster, NO_STATE).given
            assert after < before or (before, after) == (0, 0)
        known = dict(found.states)

    assert all(known.get(member.cluster, NO_STATE).given == 0 for member in calm)


@given(stored, members(), policies, st.randoms(use_true_random=False))
def test_the_order_of_the_input_is_irrelevant(
    known: dict[str, ClusterState], around: list[MemberState], policy: str | None, random: Any
) -> None:
    """A list of clusters in another order gives the same states."""
    shuffled = around[:]
    random.shuffle(shuffled)
    loads = {member.cluster: member.running * 0.4 for member in around}

    for one, other in (
        (assist(known, around, policy, 1, NOW, {}), assist(known, shuffled, policy, 1, NOW, {})),
        (hold(known, around, policy, 1, NOW, loads), hold(known, shuffled, policy, 1, NOW, loads)),
        (caps(known, around, NOW), caps(known, shuffled, NOW)),
        (zero(known, around, policy, 1, NOW, loads), zero(known, shuffled, policy, 1, NOW, loads)),
    ):
        assert one.states == other.states


@given(members(), policies)
def test_a_cap_never_goes_below_what_runs_when_it_begins(
    around: list[MemberState], policy: str | None
) -> None:
    """A cap is made only of replicas that run, so it never lowers a maximum below them."""
    found = caps({}, around, NOW)

    for member in around:
        assert found.sizes.get(member.cluster, member.running) == member.running
