"""Apportioning is exact and does not depend on the order of its input, with bounds or without."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.assignment.division import apportion, by_weight

names = st.text("abcdef", min_size=1, max_size=3)
weights = st.dictionaries(names, st.integers(0, 50), min_size=1, max_size=12)
bounded = st.dictionaries(
    names,
    st.tuples(st.one_of(st.integers(0, 50), st.integers(0, 10**9)), st.integers(0, 40), st.integers(0, 40)),
    min_size=1,
    max_size=12,
)


def parts(clusters: Mapping[str, tuple[int, int, int]]) -> tuple[dict[str, int], ...]:
    """Weights, lower bounds, upper bounds."""
    return (
        {name: weight for name, (weight, _, _) in clusters.items()},
        {name: low for name, (_, low, _) in clusters.items()},
        {name: low + room for name, (_, low, room) in clusters.items()},
    )


@pytest.mark.parametrize(
    ("total", "given_weights", "expected"),
    [(10, (1, 2, 3), (1, 4, 5)), (2, (1, 2, 3), (0, 1, 1)), (24, (1, 5, 2), (3, 15, 6)), (4, (3, 1), (3, 1))],
)
def test_examples(total: int, given_weights: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """The examples of docs/explanation/placement.md."""
    found = apportion(total, {f"m{i}": weight for i, weight in enumerate(given_weights)})

    assert tuple(found.values()) == expected


@given(st.integers(0, 10_000), weights)
def test_sums_are_exact(total: int, by_cluster: Mapping[str, int]) -> None:
    """The shares add up to the total, and none is negative."""
    shares = apportion(total, by_cluster)

    assert sum(shares.values()) == total
    assert min(shares.values()) >= 0


@given(st.integers(0, 10_000), weights)
def test_order_is_irrelevant(total: int, by_cluster: dict[str, int]) -> None:
    """The same weights in another order give the same shares."""
    turned_around = dict(reversed(list(by_cluster.items())))

    assert apportion(total, turned_around) == apportion(total, by_cluster)


@given(st.integers(0, 1000), weights)
def test_weight_without_zero_is_fair(total: int, by_cluster: dict[str, int]) -> None:
    """A heavier cluster never gets less; a cluster of weight 0 gets none if others have weights."""
    shares = apportion(total, by_cluster)
    for one, share in shares.items():
        for other, least in shares.items():
            if by_cluster[one] > by_cluster[other]:
                assert share >= least
    if any(by_cluster.values()):
        assert all(shares[name] == 0 for name, weight in by_cluster.items() if weight == 0)


@given(st.integers(0, 1000), weights)
def test_one_more_replica_changes_one_cluster(total: int, by_cluster: dict[str, int]) -> None:
    """With one more replica, one cluster gets one more and the others the same."""
    before, after = apportion(total, by_cluster), apportion(total + 1, by_cluster)

    assert sorted(after[name] - before[name] for name in by_cluster) == [0] * (len(by_cluster) - 1) + [1]


@given(bounded, st.floats(0, 1))
def test_bounds_are_kept(clusters: dict[str, tuple[int, int, int]], part: float) -> None:
    """Within bounds the sum is exact, and one more replica changes one cluster by one."""
    by_cluster, low, high = parts(clusters)
    least, most = sum(low.values()), sum(high.values())
    total = least + int(part * (most - least))

    shares = by_weight(total, by_cluster, low, high)
    more = by_weight(min(total + 1, most), by_cluster, low, high)

    assert sum(shares.values()) == total
    assert all(low[name] <= share <= high[name] for name, share in shares.items())
    assert sum(more.values()) == min(total + 1, most)
    assert all(0 <= more[name] - share <= 1 for name, share in shares.items())


@given(st.integers(0, 1000), weights)
def test_bounds_that_bind_nothing_change_nothing(total: int, by_cluster: dict[str, int]) -> None:
    """Bounds that do not bind change nothing."""
    low, high = dict.fromkeys(by_cluster, 0), dict.fromkeys(by_cluster, total)

    assert by_weight(total, by_cluster, low, high) == apportion(total, by_cluster)


def test_negative_amounts_are_refused() -> None:
    """A negative total or weight raises ValueError."""
    with pytest.raises(ValueError, match="can be apportioned"):
        apportion(-1, {"m": 1})
