"""State of mode Distributed: any JSON is read, and help, holds and caps stay within their bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedhpa.api.times import format_time
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
from fedhpa.assignment.state import NO_STATE, Cap, ClusterState, read_state, written_state
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

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
odd_times = st.sampled_from(
    ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "yesterday", format_time(NOW + 1e6)]
)
KEYS = (
    "minReplicas",
    "maxReplicas",
    "given",
    "givenSince",
    "givenShare",
    "deficitBefore",
    "readySince",
    "ineffectiveSince",
    "held",
    "heldSince",
    "lowerReplicas",
    "cap",
    "zero",
    "atMinSince",
    "lost",
    "overSince",
)
CAP_KEYS = ("replicas", "since", "until", "minutes", "roomSeen", "endedEarly")
odd = JSON | odd_times | st.integers(-(2**70), 2**70)
entries = st.dictionaries(
    st.sampled_from(KEYS), odd | st.dictionaries(st.sampled_from(CAP_KEYS), odd, max_size=6), max_size=16
)


@given(states)
def test_a_state_survives_its_status(state: ClusterState) -> None:
    """A restarted controller reads the state that its predecessor wrote."""
    kept = state if state.cap is None or state.cap.until is None else _bound(state, state.cap)

    assert read_state(json.loads(json.dumps(written_state(state))), NOW) == kept


def _bound(state: ClusterState, cap: Cap) -> ClusterState:
    until = NOW if cap.until is None else cap.until
    return replace(state, cap=replace(cap, until=min(until, NOW + cap.minutes * 60)))


@given(JSON | entries)
def test_any_json_is_read(entry: Any) -> None:
    """Counts stay replica counts, times are at most now, and nothing raises."""
    state = read_state(entry, NOW)

    for number in (state.given, state.given_share, state.held, state.minimum or 0, state.maximum or 0):
        assert type(number) is int
        assert 0 <= number < 2**31
    for since in (state.given_since, state.ready_since, state.held_since, state.at_min_since):
        assert since is None or since <= NOW
    if state.cap is not None:
        assert 1 <= state.cap.minutes <= 30
        assert state.cap.until is None or state.cap.until <= NOW + 1800
    assert read_state(written_state(state), NOW) == state


@given(st.sampled_from(KEYS), JSON.filter(lambda value: not isinstance(value, int | dict)))
def test_a_field_of_a_wrong_type_is_absent(key: str, value: Any) -> None:
    """A text, a list or a fraction in place of a count is no count."""
    state = read_state({key: value}, NOW)

    assert state == NO_STATE or "Since" in key


@given(entries, members(), policies)
def test_states_from_any_json_are_borne(entry: Any, around: list[MemberState], policy: str | None) -> None:
    """One pass over any stored state ends, and gives no minimum above its maximum."""
    known = {member.cluster: read_state(entry, NOW) for member in around}

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
