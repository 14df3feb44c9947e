"""A rebalance ends at the fair split, keeps ready replicas, and keeps maxReplicas where it can."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.assignment import BY_CAPACITY, DUPLICATED, Place, fair_split, rebalance_step
from fedhpa.assignment.rebalance import ended
from fedhpa.assignment.state import release_step

POLICIES = (None, "StaticWeighted", "DynamicWeighted", "Aggregated", "Prioritized", "LoadWeighted")
PLACE = st.builds(
    Place,
    present=st.integers(0, 12),
    reachable=st.sampled_from([True] * 9 + [False]),
    available=st.none() | st.integers(0, 20),
    weight=st.integers(0, 5),
    priority=st.integers(0, 2),
    low=st.integers(0, 1),
    high=st.none() | st.integers(1, 40),
)
PLACES = st.dictionaries(st.sampled_from(["m1", "m2", "m3", "m4"]), PLACE, min_size=1)


def written(places: dict[str, Place], shares: dict[str, int]) -> dict[str, Place]:
    """The places after a write: free nodes fill and empty with the replicas."""
    return {
        name: msgspec.structs.replace(
            place,
            present=shares[name],
            available=None
            if place.available is None
            else max(place.available + place.present - shares[name], 0),
        )
        for name, place in places.items()
    }


@given(PLACES, st.sampled_from(POLICIES), st.integers(0, 10))
def test_a_rebalance(places: dict[str, Place], policy: str | None, room: int) -> None:
    """Each step adds or removes, keeps ready pods and the maximum, and the last ends at the fair split."""
    size = sum(place.present for place in places.values())
    maximum = size + room
    goal = fair_split(size, places, policy)
    ready = {name: place.present for name, place in places.items()}
    writes = 0
    for _ in range(4 * size + 8):
        step = rebalance_step(size, places, ready, maximum, policy)
        before = {name: place.present for name, place in places.items()}
        if step.done:
            break
        shares = dict(step.shares)
        changes = {name: shares[name] - before[name] for name in shares}
        assert not (any(c > 0 for c in changes.values()) and any(c < 0 for c in changes.values()))
        # Where pods are removed, the ready ones still are as many as the size.
        left = {name: min(ready[name], shares[name]) for name in shares}
        assert sum(left.values()) >= size
        assert sum(shares.values()) <= (maximum if room else size + release_step(maximum))
        writes += shares != before
        places = written(places, shares)
        ready = left if any(c > 0 for c in changes.values()) else shares
        if changes and any(c > 0 for c in changes.values()):
            # Nothing more is written before the new pods are ready, unless the fair split has changed.
            waiting = rebalance_step(size, places, ready, maximum, policy)
            if policy not in BY_CAPACITY or waiting.goal == step.goal:
                assert dict(waiting.shares) == shares
                assert waiting.waits_for == sum(c for c in changes.values() if c > 0)
            ready = shares
    else:
        raise AssertionError("the rebalance does not end")

    found = {name: place.present for name, place in places.items()}
    assert found == fair_split(size, places, policy)
    assert sum(found.values()) == size
    # A capacity that is unknown, or more than used up, changes with what runs: so may the order of clusters.
    if policy not in BY_CAPACITY:
        assert found == goal
    assert writes <= 4 * size


@given(PLACES, st.sampled_from(POLICIES), st.integers(0, 10), st.data())
def test_no_ready_pod_goes_unreplaced(
    places: dict[str, Place], policy: str | None, room: int, data: st.DataObject
) -> None:
    """A step leaves as many ready pods as the size needs, also where pods are unready or pending."""
    places = {
        name: msgspec.structs.replace(place, pending=data.draw(st.integers(0, place.present)))
        for name, place in places.items()
    }
    total = sum(place.present for place in places.values())
    held = sum(place.present for place in places.values() if not place.reachable)
    size = data.draw(st.integers(held, total))
    ready = {name: data.draw(st.integers(0, place.present - place.pending)) for name, place in places.items()}

    step = rebalance_step(size, places, ready, size + room, policy)

    assert all(step.shares[name] == place.present for name, place in places.items() if not place.reachable)
    assert all(replicas >= 0 for replicas in step.shares.values())
    if sum(step.shares.values()) >= total:
        assert sum(step.shares.values()) <= max(total, size + (room or release_step(size)))
        return
    assert sum(step.shares.values()) >= size
    # A ReplicaSet removes the pods first that are not ready.
    left = sum(min(ready[name], step.shares[name]) for name in step.shares)
    above = [name for name, place in places.items() if place.present > step.goal[name]]
    unready_above = sum(places[name].present - ready[name] for name in above)
    assert left >= min(sum(ready.values()), size - unready_above)


@given(PLACES, st.sampled_from(POLICIES), st.data())
def test_an_end_before_the_goal(places: dict[str, Place], policy: str | None, data: st.DataObject) -> None:
    """An ended rebalance leaves `size` replicas, and removes the pods first that are not ready."""
    total = sum(place.present for place in places.values())
    held = sum(place.present for place in places.values() if not place.reachable)
    size = data.draw(st.integers(held, total))
    ready = {name: data.draw(st.integers(0, place.present)) for name, place in places.items()}
    unready = sum(place.present - ready[name] for name, place in places.items() if place.reachable)

    shares = ended(size, places, ready, policy)

    assert sum(shares.values()) == size
    kept = sum(min(ready[name], shares[name]) for name in shares)
    assert kept >= min(sum(ready.values()), sum(ready.values()) - (total - size - unready))


def test_duplicated_is_not_divided() -> None:
    """The policy that divides nothing is no policy of a rebalance."""
    assert DUPLICATED not in POLICIES
