"""Apportioning is exact and does not depend on the order of its input."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.assignment.apportion import apportion
from fedhpa.assignment.direct import split_difference

weights = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3), st.integers(0, 50), min_size=1, max_size=12
)
sizes = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3), st.integers(0, 50), min_size=1, max_size=12
)


@pytest.mark.parametrize(
    ("total", "given_weights", "expected"),
    [(10, (1, 2, 3), (1, 4, 5)), (2, (1, 2, 3), (0, 1, 1)), (24, (1, 5, 2), (3, 15, 6)), (4, (3, 1), (3, 1))],
)
def test_examples(total: int, given_weights: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """The examples of docs/distributed.md."""
    found = apportion(total, {f"m{i}": weight for i, weight in enumerate(given_weights)})

    assert tuple(found.values()) == expected


@given(st.integers(0, 10_000), weights)
def test_sums_are_exact(total: int, by_cluster: Mapping[str, int]) -> None:
    """Everything is given away, and nobody gets less than nothing."""
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
    """A heavier cluster never gets less than a lighter one; no weight, no share while others have some."""
    shares = apportion(total, by_cluster)
    for one, share in shares.items():
        for other, least in shares.items():
            if by_cluster[one] > by_cluster[other]:
                assert share >= least
    if any(by_cluster.values()):
        assert all(shares[name] == 0 for name, weight in by_cluster.items() if weight == 0)


@given(st.integers(0, 2000), sizes, st.sets(st.text("abcdef", min_size=1, max_size=3)))
def test_splitting_the_difference(desired: int, present: dict[str, int], chosen: set[str]) -> None:
    """Only reachable clusters change, in one direction, and they reach the size if they can."""
    reachable = chosen & present.keys()

    shares = split_difference(desired, present, reachable)

    assert all(shares[name] == size for name, size in present.items() if name not in reachable)
    total, difference = sum(present.values()), desired - sum(present.values())
    if difference >= 0:
        assert all(shares[name] >= size for name, size in present.items())
        assert sum(shares.values()) == (desired if reachable else total)
    else:
        held = sum(size for name, size in present.items() if name not in reachable)
        assert all(0 <= shares[name] <= size for name, size in present.items())
        assert sum(shares.values()) == max(desired, held)


def test_negative_amounts_are_refused() -> None:
    """There is nothing to share of less than nothing."""
    with pytest.raises(ValueError, match="can be apportioned"):
        apportion(-1, {"m": 1})
