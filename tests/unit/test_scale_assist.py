"""Scale assist: clusters with room run what others need and cannot run, for as long as it helps."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec import structs

from fedhpa.assignment.assist import Assistance
from fedhpa.assignment.policies import (
    AGGREGATED,
    DUPLICATED,
    DYNAMIC_WEIGHTED,
    PRIORITIZED,
    STATIC_WEIGHTED,
)
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import ClusterState
from tests.support.distributed import NOW, assisted, helper, lacking


def given(found: Assistance, *clusters: str) -> tuple[int, ...]:
    """Returns the help of each cluster."""
    return tuple(found.states[cluster].given if cluster in found.states else 0 for cluster in clusters)


# -- to whom -------------------------------------------------------------------------------------------------
def test_example_31_static_weights() -> None:
    """A deficit of 4 over the weights 3:1 is 3 and 1."""
    found = assisted([lacking(4), helper("a", 9, weight=3), helper("b", 9)], STATIC_WEIGHTED)

    assert (found.deficit, given(found, "a", "b"), found.unassigned) == (4, (3, 1), 0)


def test_example_31_dynamic_weights() -> None:
    """A deficit of 4 over the capacities 50 and 50 is 2 and 2."""
    found = assisted(
        [lacking(4), helper("a", 60, capacity=50), helper("b", 60, capacity=50)], DYNAMIC_WEIGHTED
    )

    assert given(found, "a", "b") == (2, 2)


def test_example_31_aggregated() -> None:
    """Aggregated fills the largest capacity first: room 3 and 1 is 3 and 1."""
    found = assisted([lacking(4), helper("a", 9, capacity=4), helper("b", 9, capacity=2)], AGGREGATED)

    assert given(found, "a", "b") == (3, 1)


def test_example_31_prioritized() -> None:
    """Prioritized fills the highest priority first, each up to its capacity."""
    members = [lacking(4), helper("b", 9, capacity=2, priority=1), helper("a", 9, capacity=4, priority=2)]

    assert given(assisted(members, PRIORITIZED), "a", "b") == (3, 1)


@pytest.mark.parametrize("policy", [None, STATIC_WEIGHTED, DYNAMIC_WEIGHTED, AGGREGATED, PRIORITIZED])
def test_example_32_what_no_cluster_has_room_for(policy: str | None) -> None:
    """Of a deficit of 6 with room 3 and 1, two replicas are reported as unassigned."""
    members = [lacking(6), helper("a", 3, capacity=4, priority=1), helper("b", 1, capacity=2)]

    found = assisted(members, policy)

    assert (given(found, "a", "b"), found.unassigned) == ((3, 1), 2)


def test_duplicated_asks_the_largest_capacity() -> None:
    """Under Duplicated one cluster gives all the help."""
    members = [lacking(4), helper("a", 9, capacity=5), helper("b", 9, capacity=8)]

    assert given(assisted(members, DUPLICATED), "a", "b") == (0, 4)


def test_a_cluster_with_pending_pods_is_asked_for_nothing() -> None:
    """A helper is below its maximum, reachable and not at 0, and has no pending pods."""
    members = [
        lacking(2),
        helper("full", 0),
        helper("pending", 5, running=1, pending=1),
        helper("away", 5, reachable=False),
        helper("none", 5, minimum=None, maximum=None),
        helper("zero", 5, running=0),
        helper("able", 5),
    ]

    found = assisted(members, states={"zero": ClusterState(zero_since=NOW)})

    assert given(found, "full", "pending", "away", "none", "zero") == (0, 0, 0, 0, 0)
    assert given(found, "able") == (3,)  # what the cluster with the pending pod lacks is in the deficit


# -- how much ------------------------------------------------------------------------------------------------
def test_help_starts_at_what_runs() -> None:
    """A minimum below what the helper runs would change nothing, so the help comes on top of that."""
    found = assisted([lacking(2), helper("a", 20, running=7)])

    assert found.states["a"].floor(1, 21) == 9


def test_a_need_that_a_higher_maximum_serves_is_no_deficit() -> None:
    """Where the maximum may still rise, `distribute` raises it."""
    assert assisted([lacking(4, high=10), helper("a", 9)]).deficit == 0


def test_a_remembered_full_cluster_needs_help() -> None:
    """A cluster at its remembered size cannot grow, although nothing is pending there."""
    assert assisted([lacking(4, high=None, cap=4), helper("a", 9)]).deficit == 4


def test_pending_replicas_are_counted_once() -> None:
    """A pinned cluster with pending pods lacks its need less what runs, once."""
    member = MemberState(cluster="short", minimum=1, maximum=4, running=4, pending=2, need=9)

    assert assisted([member, helper("a", 20)]).deficit == 5


def test_help_that_is_not_ready_counts() -> None:
    """While help is not ready for a minute, only a larger deficit brings more of it."""
    members = [lacking(4), helper("a", 20)]
    first = assisted(members, settled={"a": 1})
    helping = helper("a", 20, running=5)

    same = assisted([lacking(4), helping], states=first.states, now=NOW + 60, settled={"a": 3})
    more = assisted([lacking(6), helping], states=same.states, now=NOW + 120, settled={"a": 3})

    assert given(first, "a") == given(same, "a") == (4,)
    assert given(more, "a") == (6,)


def test_without_pods_running_replicas_settle_after_a_minute() -> None:
    """If nobody knows which pods are ready, running replicas count a minute after help was given."""
    first = assisted([lacking(4), helper("a", 20)])
    running = helper("a", 20, running=5)

    early = assisted([lacking(2), running], states=first.states, now=NOW + 59)
    later = assisted([lacking(2), running], states=first.states, now=NOW + 60)

    assert given(early, "a") == (4,)
    assert given(later, "a") == (6,)


def test_what_is_left_after_help_gets_help() -> None:
    """Help that lowered the deficit is followed by help for the rest."""
    first = assisted([lacking(4), helper("a", 20)], settled={"a": 1})

    rest = assisted(
        [lacking(1), helper("a", 20, running=5)], states=first.states, now=NOW + 200, settled={"a": 5}
    )

    assert given(rest, "a") == (5,)


def test_help_whose_pods_are_pending_goes_elsewhere() -> None:
    """Pending pods of a helper are not a second deficit; the help moves to a cluster with room."""
    first = assisted([lacking(4), helper("a", 9), helper("b", 0)])
    full = helper("a", 0, running=1, pending=4)

    second = assisted([lacking(4), full, helper("b", 9)], states=first.states, now=NOW + 60)

    assert given(first, "a", "b") == (4, 0)
    assert (second.deficit, given(second, "a", "b")) == (4, (0, 4))


# -- back ----------------------------------------------------------------------------------------------------
def test_help_is_taken_back_a_pass_at_a_time() -> None:
    """Once the deficit is gone, the minimum falls step by step to where it was, seven minutes after help."""
    states = assisted([lacking(5), helper("a", 20)]).states
    seen = []
    for number in range(5, 11):
        found = assisted(
            [lacking(0), helper("a", 20, running=6)], states=states, now=NOW + 60 * number, step=2
        )
        states = found.states
        seen.append(states["a"].floor(1, 21))

    assert seen == [6, 6, 4, 2, 1, 1]
    assert states["a"] == ClusterState()


def test_a_deficit_that_comes_and_goes_costs_few_writes() -> None:
    """A cluster at the edge of its tolerance is pinned in every second pass; help comes and goes rarely."""
    states: dict[str, ClusterState] = {}
    minima = [1]
    for number in range(120):
        members = [lacking(number % 2), helper("a", 20, running=minima[-1])]
        found = assisted(members, states=states, now=NOW + 60 * number, settled={"a": minima[-1]})
        states = dict(found.states)
        minima.append(states.get("a", ClusterState()).floor(1, 21))

    assert sum(one != other for one, other in pairwise(minima)) <= 12


def test_help_that_changes_nothing_is_taken_back() -> None:
    """Three passes after help was ready without effect: AssistIneffective, and no help for 30 minutes."""
    members = [lacking(4), helper("a", 20, running=5)]
    states = assisted([lacking(4), helper("a", 20)], settled={"a": 1}).states
    history = []
    for number in range(1, 41):
        found = assisted(members, states=states, now=NOW + 60 * number, settled={"a": 5})
        states = found.states
        history.append((found.states["a"].given, found.ineffective))

    assert history[:3] == [(4, ())] * 3  # ready since the first of these passes
    assert history[3:8] == [
        (3, ("short",)),
        (2, ("short",)),
        (1, ("short",)),
        (0, ("short",)),
        (0, ("short",)),
    ]
    assert history[32] == (0, ("short",))
    assert history[33] == (8, ())  # minute 34: 30 minutes after the fourth


def test_a_single_fall_does_not_prove_help_for_ever() -> None:
    """The deficit must fall again within three passes, or the help is taken back."""
    members = [lacking(3), helper("a", 20, running=5)]
    states = assisted([lacking(4), helper("a", 20)], settled={"a": 1}).states
    history = []
    for number in range(1, 9):
        found = assisted(members, states=states, now=NOW + 60 * number, settled={"a": 5})
        states = found.states
        history.append(found.ineffective)

    assert history == [()] * 6 + [("short",)] * 2


@pytest.mark.parametrize("first", [1, 2, 3, 4, 8])
def test_a_deficit_that_goes_up_and_down_gets_help_once(first: int) -> None:
    """A deficit that changes by one replica in each pass does not collect help."""
    states = assisted([lacking(first), helper("a", 90)], settled={"a": 1}).states
    most = 0
    for number in range(1, 120):
        running = 1 + states["a"].given if "a" in states else 1
        members = [lacking(first + number % 2), helper("a", 90, running=running)]
        found = assisted(members, states=states, now=NOW + 60 * number, settled={"a": running})
        states = found.states
        most = max(most, states["a"].given)

    assert most == first + 1


def test_one_tied_cluster_does_not_cost_another_its_help() -> None:
    """A cluster that help relieves gets help also while another one gets none."""
    states = {"tied": ClusterState(ineffective_since=NOW - 60)}

    found = assisted([lacking(4, "tied"), lacking(2), helper("a", 20)], states=states)

    assert (found.deficit, found.ineffective, given(found, "a")) == (2, ("tied",), (2,))


def test_help_never_passes_a_lowered_maximum() -> None:
    """Help beyond the helper's maximum is given up, so that a raised maximum does not bring it back."""
    states = assisted([lacking(9), helper("a", 20)]).states

    found = assisted([lacking(9), helper("a", 3, running=4)], states=states, now=NOW + 60)

    assert given(found, "a") == (3,)


def test_an_unreachable_helper_keeps_its_state() -> None:
    """Its HPA keeps the raised minimum, so its state stays, and others are asked."""
    states = assisted([lacking(4), helper("a", 20)]).states

    found = assisted(
        [lacking(4), helper("a", 20, reachable=False), helper("b", 20)], states=states, now=NOW + 60
    )

    assert found.states["a"] == states["a"]
    assert given(found, "b") == (4,)


def test_a_quiet_world_changes_nothing() -> None:
    """Without a deficit and without help the state stays the same object for object."""
    found = assisted([lacking(0), helper("a", 20)], states={})

    assert (dict(found.states), found.reasons) == ({}, ())


def test_a_clock_that_was_ahead_is_no_obstacle() -> None:
    """A verdict from a leader with a fast clock ends after 30 minutes of the present clock."""
    states = {"short": ClusterState(ineffective_since=NOW)}

    found = assisted([lacking(4), helper("a", 20)], states=states, now=NOW + 1800)

    assert given(found, "a") == (4,)
    assert structs.replace(found.states["short"], deficit_before=None) == ClusterState()
