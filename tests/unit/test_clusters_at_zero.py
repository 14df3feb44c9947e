"""With scalingToZero single clusters go to 0, one at a time, and come back when others need help."""

from __future__ import annotations

import pytest

from fedhpa.assignment.policies import (
    AGGREGATED,
    DUPLICATED,
    DYNAMIC_WEIGHTED,
    PRIORITIZED,
    STATIC_WEIGHTED,
)
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import ClusterState, States
from fedhpa.assignment.zero import Zeroed, zero
from tests.support.distributed import NOW


def member(cluster: str, running: int = 1, **fields: object) -> MemberState:
    given = {"minimum": 1, "maximum": 10, **fields}
    return MemberState(cluster=cluster, running=running, **given)  # type: ignore[arg-type]


THREE = [
    member("a", weight=1, priority=2, capacity=9),
    member("b", weight=2, priority=1, capacity=8),
    member("c", weight=3, priority=3, capacity=7),
]


def after(
    minutes: float,
    members: list[MemberState],
    usage: float,
    policy: str | None = STATIC_WEIGHTED,
    minimum: int = 2,
    states: States | None = None,
) -> Zeroed:
    """The last of the passes of `minutes` at the same usage, a fraction of the target."""
    states = states or {}
    found = Zeroed(states, {}, ())
    for number in range(int(minutes * 2) + 1):
        loads = {one.cluster: one.running * usage for one in members}
        found = zero(found.states, members, policy, minimum, NOW + number * 30, loads)
    return found


def test_example_33_the_first_goes_to_zero() -> None:
    """Static 1:2:3, m 2, one pod each at 30 % of 50 %: two pods can run the load, and the first goes to 0."""
    assert after(4.5, THREE, 30 / 50).replicas == {}
    found = after(5, THREE, 30 / 50)

    assert found.replicas == {"a": 0}
    assert found.states["a"] == ClusterState(zero_since=NOW + 300)


def test_example_33_nobody_goes_to_zero() -> None:
    """At 40 % of 50 % two pods would be at 60 %, so the cluster would come straight back."""
    assert after(10, THREE, 40 / 50).replicas == {}


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [(STATIC_WEIGHTED, "a"), (PRIORITIZED, "b"), (DYNAMIC_WEIGHTED, "c"), (AGGREGATED, "c")],
)
def test_the_policy_names_the_cluster(policy: str, cluster: str) -> None:
    """The smallest weight, the lowest priority or the smallest capacity goes first."""
    assert after(5, THREE, 0.5, policy).replicas == {cluster: 0}


def test_duplicated_never_goes_to_zero() -> None:
    """Under Duplicated every cluster runs the whole number."""
    assert after(10, THREE, 0.1, DUPLICATED).replicas == {}


def test_the_minimum_stays() -> None:
    """The sum of what the others run is at least minReplicas."""
    assert after(10, THREE, 0.1, minimum=3).replicas == {}


def test_one_pass_without_the_condition_begins_the_wait_again() -> None:
    """Five minutes without a break: a busy pass in between costs five more."""
    states = after(4.5, THREE, 0.5).states
    busy = zero(states, THREE, STATIC_WEIGHTED, 2, NOW + 280, {"a": 1.0, "b": 1.0, "c": 1.0})

    found = zero(busy.states, THREE, STATIC_WEIGHTED, 2, NOW + 300, {"a": 0.5, "b": 0.5, "c": 0.5})

    assert found.replicas == {}
    assert found.states["a"].at_min_since == NOW + 300


@pytest.mark.parametrize(
    "other",
    [
        member("c", weight=3, running=2),
        member("c", weight=3, reachable=False),
        member("c", weight=3, pending=1),
    ],
    ids=["above its minimum", "unreachable", "pending"],
)
def test_a_cluster_that_does_not_rest_keeps_all_others(other: MemberState) -> None:
    """All clusters must run their minimum, answer, and have no pending pods."""
    assert after(10, [*THREE[:2], other], 0.1).replicas == {}


def test_an_unknown_load_keeps_all_clusters() -> None:
    """A cluster whose usage nobody knows may be busy."""
    states: States = {"a": ClusterState(at_min_since=NOW - 3600)}

    found = zero(states, THREE, STATIC_WEIGHTED, 2, NOW, {"a": 0.1, "b": 0.1})

    assert (found.replicas, found.states["a"]) == ({}, ClusterState())


def test_help_and_holds_keep_all_clusters() -> None:
    """A cluster with a raised minimum is not at its minimum."""
    assert after(10, THREE, 0.1, states={"c": ClusterState(given=1)}).replicas == {}
    assert after(10, THREE, 0.1, states={"c": ClusterState(held=2)}).replicas == {}


AT_ZERO: States = {"a": ClusterState(zero_since=NOW - 60), "b": ClusterState(zero_since=NOW - 60)}


@pytest.mark.parametrize(("policy", "back"), [(STATIC_WEIGHTED, {"a": 2, "b": 1}), (PRIORITIZED, {"a": 2})])
def test_a_cluster_that_needs_help_brings_clusters_back(policy: str, back: dict[str, int]) -> None:
    """All clusters at 0 come back; under Prioritized those of the highest priority among them."""
    members = [
        member("a", 0, minimum=2, priority=2),
        member("b", 0, priority=1),
        member("c", 10, need=12, priority=3),
    ]

    found = zero(AT_ZERO, members, policy, 1, NOW, {"c": 12.0})

    assert found.replicas == back
    assert all(found.states[name].zero_since is None for name in back)


def test_a_metric_brings_all_clusters_back_from_zero() -> None:
    """If no cluster runs anything, an Object or External metric that asks for replicas does it."""
    members = [member("a", 0), member("b", 0)]

    assert zero(AT_ZERO, members, None, 0, NOW, {}).replicas == {}
    assert zero(AT_ZERO, members, None, 0, NOW, {}, wanted=True).replicas == {"a": 1, "b": 1}


def test_clusters_go_to_zero_one_at_a_time() -> None:
    """After one went to 0, the next waits for five minutes of its own."""
    members = [member("a", 0), *THREE[1:]]
    states = {"a": ClusterState(zero_since=NOW)}

    assert after(4.5, members, 0.3, minimum=1, states=states).replicas == {}
    assert after(5, members, 0.3, minimum=1, states=states).replicas == {"b": 0}
