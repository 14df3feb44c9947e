"""Under Prioritized the higher priorities are held while a lower one may still scale down."""

from __future__ import annotations

from fedhpa.assignment.hold import hold
from fedhpa.assignment.policies import PRIORITIZED, STATIC_WEIGHTED
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import ClusterState, States
from tests.support.distributed import NOW


def member(cluster: str, priority: int, running: int, **fields: object) -> MemberState:
    given = {"minimum": 1, "maximum": 20, **fields}
    return MemberState(cluster=cluster, priority=priority, running=running, **given)  # type: ignore[arg-type]


def held(states: States) -> dict[str, int]:
    return {name: state.held for name, state in states.items() if state.held}


def run(*passes: tuple[float, int, int], step: int = 2) -> list[int]:
    """The held size of the higher of two priorities after passes at minutes, with what both run."""
    states: States = {}
    seen = []
    for minute, high, low in passes:
        members = [member("high", 2, high), member("low", 1, low)]
        states = hold(states, members, PRIORITIZED, step, NOW + minute * 60, {}).states
        seen.append(held(states).get("high", 0))
    return seen


def test_the_higher_priorities_are_held_while_the_lowest_can_go() -> None:
    """Three ranks: all above the lowest that runs more than its minimum are held."""
    members = [member("a", 3, 10), member("b", 2, 6), member("c", 1, 4)]

    assert held(hold({}, members, PRIORITIZED, 1, NOW, {}).states) == {"a": 10, "b": 6}


def test_the_next_rank_goes_when_the_lowest_is_at_its_minimum() -> None:
    """Lowest first: then only those above the next one stay held."""
    members = [member("a", 3, 10), member("b", 2, 6), member("c", 1, 1)]

    assert held(hold({}, members, PRIORITIZED, 1, NOW, {}).states) == {"a": 10}


def test_a_hold_follows_what_runs() -> None:
    """It rises with the replicas, and pods that are gone for a while do not lower it."""
    assert run((0, 10, 4), (1, 12, 4), (2, 11, 4)) == [10, 12, 12]


def test_a_hold_does_not_follow_a_rising_load() -> None:
    """While no HPA wants fewer replicas, the hold stays where it began. It follows once usage falls."""
    states: States = {}
    seen = []
    for running, load in ((10, 11.0), (12, 13.0), (14, 14.0), (14, 12.0)):
        members = [member("high", 2, running), member("low", 1, running - 6)]
        states = hold(states, members, PRIORITIZED, 2, NOW, {"high": load}).states
        seen.append(held(states)["high"])

    assert seen == [10, 10, 10, 14]


def test_a_hold_ends_when_lower_priorities_rest_for_ten_minutes() -> None:
    """10 held + 2 that need all they run would stay 12 for ever."""
    assert run((0, 10, 2), (9.9, 10, 2), (10, 10, 2), (11, 8, 2), (12, 6, 2)) == [10, 10, 8, 6, 4]


def test_a_hold_that_keeps_nothing_does_not_end() -> None:
    """While usage is at target, no HPA wants fewer replicas. The ten minutes begin when one does."""
    members = [member("high", 2, 10), member("low", 1, 4)]
    states: States = {}
    seen = []
    for minute in range(60):
        load = {"high": 10.0 if minute < 40 else 5.8}
        states = hold(states, members, PRIORITIZED, 2, NOW + minute * 60, load).states
        seen.append(held(states).get("high", 0))

    assert seen[:50] == [10] * 50
    assert seen[50:55] == [8, 6, 4, 2, 0]
    assert states["high"].lower_replicas == 4


def test_a_hold_that_keeps_nothing_is_no_news() -> None:
    """As long as nothing changes, passes return equal states, so the status is not written."""
    members = [member("high", 2, 10), member("low", 1, 4)]
    first = hold({}, members, PRIORITIZED, 2, NOW, {"high": 9.5})

    again = hold(first.states, members, PRIORITIZED, 2, NOW + 3600, {"high": 9.1})

    assert (again.states, again.reasons) == (first.states, ())


def test_a_hold_begins_again_only_after_a_change() -> None:
    """A released hold stays released until a lower priority changes."""
    seen = run((0, 3, 2), (10, 3, 2), (11, 3, 2), (30, 3, 2), (31, 3, 3), (32, 3, 3))

    assert seen == [3, 0, 0, 0, 3, 3]


def test_a_hold_is_released_when_the_lower_priorities_are_at_their_minimum() -> None:
    """It is released a pass at a time."""
    assert run((0, 8, 3), (1, 8, 1), (2, 6, 1), (3, 4, 1), (4, 2, 1)) == [8, 6, 4, 2, 0]


def test_equal_priorities_do_not_hold_each_other() -> None:
    """Only a strictly lower priority goes first."""
    members = [member("a", 1, 10), member("b", 1, 6)]

    assert hold({}, members, PRIORITIZED, 1, NOW, {}).states == {}


def test_a_hold_never_passes_the_maximum() -> None:
    """A lowered maximum lowers the hold for good, so that raising it again scales nothing up."""
    members = [member("high", 2, 10), member("low", 1, 4)]
    states = hold({}, members, PRIORITIZED, 1, NOW, {}).states

    lowered = [member("high", 2, 10, maximum=6), member("low", 1, 4)]
    states = hold(states, lowered, PRIORITIZED, 1, NOW + 60, {}).states

    assert held(states) == {"high": 6}
    assert states["high"].floor(1, 20) == 6


def test_other_policies_hold_nothing_and_release_what_was_held() -> None:
    """After a change of the policy holds are released a pass at a time."""
    members = [member("high", 2, 10), member("low", 1, 4)]
    states = {"high": ClusterState(held=10, held_since=NOW, lower_replicas=4)}

    assert hold({}, members, STATIC_WEIGHTED, 1, NOW, {}).states == {}
    found = hold(states, members, STATIC_WEIGHTED, 3, NOW, {})

    assert found.states == {"high": ClusterState(held=7)}


def test_a_flapping_lower_cluster_begins_no_hold() -> None:
    """An unreachable cluster counts with its last known replicas."""
    members = [member("high", 2, 10), member("low", 1, 4)]
    states = hold({}, members, PRIORITIZED, 20, NOW, {}).states
    states = hold(states, members, PRIORITIZED, 20, NOW + 600, {}).states

    away = [member("high", 2, 10), member("low", 1, 4, reachable=False)]

    assert held(hold(states, away, PRIORITIZED, 20, NOW + 660, {}).states) == {}


def test_a_quiet_world_changes_nothing() -> None:
    """After a hold was released, passes return equal states without reasons."""
    members = [member("high", 2, 1), member("low", 1, 1)]
    states = hold({}, members, PRIORITIZED, 1, NOW, {}).states

    again = hold(states, members, PRIORITIZED, 1, NOW + 60, {})

    assert (again.states, again.reasons) == (states, ())
