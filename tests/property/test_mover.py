"""A move keeps ready replicas, never runs more than one step above the size, and ends at its goal."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from fedhpa.assignment.mover import needed_replicas, next_step, receivers_back, waiting

NAMES = ("m1", "m2", "m3", "m4")
COUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 12), min_size=2)
STEPS = st.integers(1, 4)


def goal_of(data: st.DataObject, present: dict[str, int]) -> dict[str, int]:
    """Any division of the present size."""
    left, goal = sum(present.values()), {}
    for name in present:
        goal[name] = left if name == max(present) else data.draw(st.integers(0, left))
        left -= goal[name]
    goal[max(present)] += left
    return goal


@given(COUNTS, STEPS, st.data())
def test_a_move_ends_at_its_goal(present: dict[str, int], step: int, data: st.DataObject) -> None:
    """With pods that become ready, each step keeps the ready pods, and the last is the goal."""
    size, goal = sum(present.values()), goal_of(data, present)
    shares, ready = dict(present), dict(present)
    for _ in range(4 * size + 4):
        found = next_step(shares, goal, ready, step)
        if found == shares == goal:
            break
        assert sum(found.values()) <= size + step
        left = {name: min(ready[name], found[name]) for name in found}
        assert sum(left.values()) >= size
        # Pods that are not ready yet hold the next removal, so nothing goes back and forth.
        again = next_step(found, goal, left, step)
        assert all(again[name] == found[name] for name in found)
        shares, ready = found, dict(found)
    else:
        raise AssertionError("the move does not end")


@given(COUNTS, STEPS, st.data())
def test_no_ready_pod_goes_unreplaced(present: dict[str, int], step: int, data: st.DataObject) -> None:
    """Of any ready pods and any new size, replicas go only as far as others are ready."""
    goal = {name: data.draw(st.integers(0, 12)) for name in present}
    ready = {name: data.draw(st.integers(0, count)) for name, count in present.items()}
    rolling = data.draw(st.sets(st.sampled_from(sorted(present))))
    size = sum(goal.values())

    found = next_step(present, goal, ready, step, rolling)

    assert all(replicas >= 0 for replicas in found.values())
    assert sum(found.values()) <= max(sum(present.values()), size + step)
    for name in found:
        assert min(present[name], goal[name]) <= found[name] <= max(present[name], goal[name])
    if sum(found.values()) < sum(present.values()):
        # A ReplicaSet removes the pods first that are not ready.
        serving = sum(min(ready[name], goal[name], present[name]) for name in found)
        kept = sum(found[name] - min(goal[name], present[name]) for name in found if found[name] > goal[name])
        assert kept >= min(size - serving, sum(max(present[name] - goal[name], 0) for name in found))


@given(COUNTS, STEPS, st.data())
def test_a_rollout_moves_nothing(present: dict[str, int], step: int, data: st.DataObject) -> None:
    """While all clusters run two versions, a move neither adds nor removes anything."""
    goal = goal_of(data, present)

    assert next_step(present, goal, present, step, rolling=present) == present


@given(COUNTS, STEPS, st.data())
def test_growth_waits_for_no_move(present: dict[str, int], step: int, data: st.DataObject) -> None:
    """A larger size is met at once, also in clusters with a rollout and while others leave."""
    leaving = data.draw(st.sampled_from(sorted(present)))
    more = data.draw(st.integers(0, 10))
    goal = {name: 0 if name == leaving else count for name, count in present.items()}
    goal[next(name for name in goal if name != leaving)] += present[leaving] + more
    rolling = data.draw(st.sampled_from((frozenset(), frozenset(present))))

    found = next_step(present, goal, present, step, rolling)

    assert sum(found.values()) >= sum(goal.values())


@given(COUNTS, STEPS, st.data())
def test_no_cluster_gives_what_it_needs(present: dict[str, int], step: int, data: st.DataObject) -> None:
    """Only replicas of more than a step above the size go all the same. The surge stays one step."""
    goal = {name: data.draw(st.integers(0, 12)) for name in present}
    ready = {name: data.draw(st.integers(0, count)) for name, count in present.items()}
    needed = {name: data.draw(st.integers(0, 12)) for name in present}
    size = sum(goal.values())

    found = next_step(present, goal, ready, step, (), needed)

    assert sum(found.values()) <= max(sum(present.values()), size + step)
    for name in found:
        assert min(present[name], goal[name]) <= found[name] <= max(present[name], goal[name])
        if found[name] < min(present[name], needed[name]):
            assert sum(found.values()) >= size + step


@given(COUNTS, STEPS)
def test_only_the_surge_goes_back(present: dict[str, int], step: int) -> None:
    """It leaves the clusters that grew, and no other one."""
    grown = min(present)
    shares = {**present, grown: present[grown] + step}

    assert receivers_back(shares, {grown: present[grown]}, present, step) == present
    assert receivers_back(shares, {}, present, step) == shares


def returned(
    present: dict[str, int],
    goal: dict[str, int],
    step: int,
    load: Callable[[dict[str, int]], dict[str, float]],
) -> dict[str, int]:
    """The shares after a return in which pods get ready at once: that of the goal, or where nobody gives."""
    shares, before = dict(present), dict(present)
    while shares != goal:
        grown = [name for name in shares if shares[name] > before[name]]
        needed = needed_replicas(load(shares), shares, grown, 1.1, spare=1.1)
        found = next_step(shares, goal, shares, step, (), needed)
        if found == shares:
            assert not waiting(shares, goal, shares)
            return receivers_back(shares, before, shares, sum(shares.values()) - sum(goal.values()))
        shares = found
    return shares


@given(COUNTS, STEPS, st.floats(0.5, 1.1), st.data())
def test_shared_load_lets_all_replicas_return(
    present: dict[str, int], step: int, usage: float, data: st.DataObject
) -> None:
    """At any usage within the tolerance the goal is reached, because the load goes where the pods are."""
    goal, size = goal_of(data, present), sum(present.values())

    def load(shares: dict[str, int]) -> dict[str, float]:
        whole = sum(shares.values())
        return {name: usage * size * count / whole if whole else 0.0 for name, count in shares.items()}

    assert returned(present, goal, step, load) == goal


@given(COUNTS, STEPS, st.floats(0.5, 1.1), st.data())
def test_tied_load_is_served_after_a_return(
    present: dict[str, int], step: int, usage: float, data: st.DataObject
) -> None:
    """No cluster whose load stays gives what it needs, but for one replica where the others are as busy."""
    goal = goal_of(data, present)
    empty = min(present)
    present = {**present, max(present): present[max(present)] + present[empty], empty: 0}
    tied = {name: usage * count for name, count in present.items()}
    goal = dict.fromkeys(present, 0) | {empty: sum(goal.values())}

    found = returned(present, goal, step, lambda shares: tied)

    for name in found:
        assert found[name] * 1.1 >= tied[name] - 1e-6
