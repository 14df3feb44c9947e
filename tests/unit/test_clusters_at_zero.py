"""With scalingToZero single clusters go to 0, one at a time, and come back when others need help."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from fedhpa.api.assignment_policies import (
    AGGREGATED,
    DUPLICATED,
    DYNAMIC_WEIGHTED,
    EQUAL,
    PRIORITIZED,
    STATIC_WEIGHTED,
    AssignmentPolicy,
)
from fedhpa.assignment import Member
from fedhpa.assignment.clusters import ClusterState, States
from fedhpa.assignment.zero import Zeroed, zero
from tests.support.distributed import NOW, rules
from tests.support.distributed import member as of


def member(cluster: str, running: int = 1, **fields: Any) -> Member:
    return of(running, cluster, **{"maximum": 10, **fields})


THREE = [
    member("a", weight=1, priority=2, room=8),
    member("b", weight=2, priority=1, room=7),
    member("c", weight=3, priority=3, room=6),
]


def zeroed(
    states: States,
    members: list[Member],
    policy: AssignmentPolicy = STATIC_WEIGHTED,
    minimum: int = 2,
    now: float = NOW,
    unmet: int = 0,
) -> Zeroed:
    asked = rules(10, policy=policy, minimum=minimum, scales_to_zero=True)
    return zero(asked, members, states, {one.cluster: one.maximum for one in members}, unmet, now)


def after(
    minutes: float,
    members: list[Member],
    usage: float,
    policy: AssignmentPolicy = STATIC_WEIGHTED,
    minimum: int = 2,
    states: States | None = None,
) -> Zeroed:
    """The last of the passes of `minutes` at the same usage, a fraction of the target."""
    found = Zeroed(dict(states or {}), [])
    at = [replace(one, load=Fraction(str(usage)) * one.running) for one in members]
    for number in range(int(minutes * 2) + 1):
        found = zeroed(found.states, at, policy, minimum, NOW + number * 30)
    return found


def gone(found: Zeroed) -> list[str]:
    """The clusters that were set to 0 after the beginning."""
    return [name for name, state in found.states.items() if (state.zero_since or 0) > NOW]


def test_example_33_the_first_goes_to_zero() -> None:
    """Static 1:2:3, m 2, one pod each at 30 % of 50 %: two pods can run the load, and the first goes to 0."""
    assert gone(after(4.5, THREE, 0.6)) == []
    assert after(5, THREE, 0.6).states["a"] == ClusterState(zero_since=NOW + 300)


def test_example_33_nobody_goes_to_zero() -> None:
    """At 40 % of 50 % two pods would be at 60 %, so the cluster would come straight back."""
    assert gone(after(10, THREE, 0.8)) == []


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [(STATIC_WEIGHTED, "a"), (PRIORITIZED, "b"), (DYNAMIC_WEIGHTED, "c"), (AGGREGATED, "c")],
)
def test_the_policy_names_the_cluster(policy: AssignmentPolicy, cluster: str) -> None:
    """The smallest weight, the lowest priority or the smallest capacity goes first."""
    assert gone(after(5, THREE, 0.5, policy)) == [cluster]


def test_duplicated_never_goes_to_zero() -> None:
    """Under Duplicated every cluster runs the whole number."""
    assert gone(after(10, THREE, 0.1, DUPLICATED)) == []


def test_the_minimum_stays() -> None:
    """The sum of what the others run is at least minReplicas."""
    assert gone(after(10, THREE, 0.1, minimum=3)) == []


def test_one_pass_without_the_condition_begins_the_wait_again() -> None:
    """Five minutes without a break: a busy pass in between costs five more."""
    states = after(4.5, THREE, 0.5).states
    busy = zeroed(states, [replace(one, load=Fraction(1)) for one in THREE], now=NOW + 280)
    calm = zeroed(busy.states, [replace(one, load=Fraction(1, 2)) for one in THREE], now=NOW + 300)

    assert gone(calm) == []
    assert calm.states["a"].idle_since == NOW + 300


@pytest.mark.parametrize(
    "other",
    [
        member("c", weight=3, running=2),
        member("c", weight=3, answers=False),
        member("c", weight=3, membership="Stuck"),
        member("c", weight=3, membership="Leaving"),
    ],
    ids=["above its minimum", "away", "stuck", "leaving"],
)
def test_a_cluster_that_does_not_rest_keeps_all_others(other: Member) -> None:
    """All clusters must run their minimum, answer, and be Members."""
    assert gone(after(10, [*THREE[:2], other], 0.1)) == []


def test_an_unknown_load_keeps_all_clusters() -> None:
    """A cluster whose usage nobody knows may be busy."""
    states: States = {"a": ClusterState(idle_since=NOW - 3600)}

    assert zeroed(states, [*THREE[:2], replace(THREE[2], load=None)]).states["a"] == ClusterState()


AT_ZERO: States = {"a": ClusterState(zero_since=NOW - 60), "b": ClusterState(zero_since=NOW - 60)}


def came_back(found: Zeroed) -> set[str]:
    """Those of AT_ZERO that are at 0 no more."""
    return {name for name in AT_ZERO if found.states[name].zero_since is None}


@pytest.mark.parametrize(("policy", "back"), [(STATIC_WEIGHTED, {"a", "b"}), (PRIORITIZED, {"a"})])
@pytest.mark.parametrize(
    ("unmet", "busy", "minimum"),
    [(2, {}, 1), (0, {"now": 12, "room": 0}, 1), (0, {"now": 12, "maximum": 10}, 1), (0, {}, 11)],
    ids=["a need stays unmet", "nodes are full", "at its maximum", "minReplicas is not met"],
)
def test_clusters_come_back_when_they_are_needed(
    policy: AssignmentPolicy, back: set[str], unmet: int, busy: dict[str, Any], minimum: int
) -> None:
    """All clusters at 0 do; under Prioritized those of the highest priority among them."""
    members = [
        member("a", 0, priority=2),
        member("b", 0, priority=1),
        member("c", 10, priority=3, **{"maximum": 20, **busy}),
    ]
    found = zeroed(AT_ZERO, members, policy, minimum, unmet=unmet)

    assert came_back(found) == back


def test_a_metric_brings_all_clusters_back_from_zero() -> None:
    """If no cluster runs anything, an Object or External metric that asks for replicas does it."""
    members = [member("a", 0), member("b", 0)]

    assert came_back(zeroed(AT_ZERO, members, EQUAL, 0)) == set()
    assert came_back(zeroed(AT_ZERO, [replace(one, wakes=True) for one in members], EQUAL, 0)) == {"a", "b"}


def test_clusters_go_to_zero_one_at_a_time() -> None:
    """After one went to 0, the next waits for five minutes of its own."""
    members = [member("a", 0), *THREE[1:]]
    states = {"a": ClusterState(zero_since=NOW)}

    assert gone(after(4.5, members, 0.3, minimum=1, states=states)) == []
    assert gone(after(5, members, 0.3, minimum=1, states=states)) == ["b"]
