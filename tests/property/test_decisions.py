"""What holds for every decision."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.scenarios import answered, cluster, scenario

loads = st.lists(st.integers(0, 400), min_size=1, max_size=6)
clusters = st.lists(loads, min_size=1, max_size=4)
steep = {"scaleUpLimitFactor": 1000, "scaleUpLimitMinimum": 1000}


def world(usages: list[list[int]], **changes: Any) -> dict[str, Any]:
    built = [cluster(f"member{i}", usage) for i, usage in enumerate(usages)]
    return scenario(built, controller=steep, **changes)


@given(clusters, st.integers(1, 4))
def test_more_load_never_means_fewer_replicas(usages: list[list[int]], factor: int) -> None:
    """Multiplying every pod's usage does not lower the decided size."""
    more = [[milli * factor for milli in usage] for usage in usages]

    assert answered(world(more))["desiredReplicas"] >= answered(world(usages))["desiredReplicas"]


@given(clusters, st.randoms())
def test_the_order_of_the_clusters_is_irrelevant(usages: list[list[int]], random: Any) -> None:
    """Shuffled clusters give the same size and metrics."""
    given = world(usages)
    shuffled = {**given, "clusters": random.sample(given["clusters"], len(given["clusters"]))}

    one, other = answered(given), answered(shuffled)

    assert one["desiredReplicas"] == other["desiredReplicas"]
    assert one["metrics"][0]["current"] == other["metrics"][0]["current"]


@given(loads, st.integers(0, 6))
def test_splitting_a_cluster_changes_nothing(usage: list[int], cut: int) -> None:
    """The same pods over two clusters give the same size, value and conditions."""
    whole = answered(world([usage]))
    parts = [part for part in (usage[:cut], usage[cut:]) if part]

    split = answered(world(parts))

    for key in ("desiredReplicas", "reason", "rescale"):
        assert split[key] == whole[key]
    assert split["metrics"][0]["current"] == whole["metrics"][0]["current"]


@given(clusters, st.integers(1, 10), st.integers(0, 20))
def test_bounds_hold(usages: list[list[int]], low: int, span: int) -> None:
    """The decided size lies within minReplicas and maxReplicas."""
    answer = answered(world(usages, spec={"minReplicas": low, "maxReplicas": low + span}))

    assert low <= answer["desiredReplicas"] <= low + span


@given(clusters, st.lists(st.booleans(), min_size=4, max_size=4))
def test_absence_never_scales_down(usages: list[list[int]], away: list[bool]) -> None:
    """Under the default policy clusters that do not answer never make the workload smaller."""
    given = world(usages)
    for member, gone in zip(given["clusters"], away, strict=False):
        if gone:
            member["ready"] = False
    answer = answered(given)

    if answer["coverage"]["missing"] and answer["error"] is None:
        assert answer["desiredReplicas"] >= answer["currentReplicas"]
    if answer["error"] is not None:
        assert answer["rescale"] is False


@given(clusters, st.lists(st.booleans(), min_size=4, max_size=4), st.integers(0, 6))
def test_direct_assignments_add_up(usages: list[list[int]], away: list[bool], last: int) -> None:
    """Shares add up to the decided size, absent clusters keep theirs, growth lowers nobody."""
    given = world(usages, target=None)
    for member, gone in zip(given["clusters"], away, strict=False):
        if gone:
            member.update(ready=False, lastReplicas=last)
    answer = answered(given)
    if answer["error"] is not None:
        return
    before = {
        member["name"]: member["scale"]["specReplicas"] if member["ready"] else last
        for member in given["clusters"]
    }
    shares = {share["cluster"]: share["replicas"] for share in answer["assignment"]}

    assert sum(before.values()) == answer["currentReplicas"]
    assert all(shares[name] == last for name in answer["coverage"]["missing"])
    if answer["desiredReplicas"] >= answer["currentReplicas"]:
        assert sum(shares.values()) == answer["desiredReplicas"]
        assert all(shares[name] >= size for name, size in before.items())
