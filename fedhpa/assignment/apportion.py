"""Exact division of a whole number by weights. Source: docs/explanation/placement.md, "Apportion"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divides `total` replicas over clusters by weight; the sum is exact, the order of `weights` irrelevant.

    Clusters by descending weight, ties by name; each takes ceil(remaining x weight / remaining weight).
    Where all weights are 0 they count as equal. Nothing is given where there is no cluster. Raises ValueError
    for a negative total or weight.
    """
    if total < 0 or any(weight < 0 for weight in weights.values()):
        raise ValueError("only whole numbers from 0 on can be apportioned")
    order = in_order(weights)
    shares = dict(zip(order, sequence([weights[cluster] for cluster in order], total), strict=True))
    return {cluster: shares[cluster] for cluster in weights}


def in_order(weights: Mapping[str, int]) -> list[str]:
    """The clusters in the order in which they take: by descending weight, ties by name."""
    return sorted(weights, key=lambda cluster: (-weights[cluster], cluster))


def sequence(weights: Sequence[int], total: int) -> list[int]:
    """The shares of weights that are in order already; all of them 0 count as equal."""
    left = sum(weights)
    if not left:
        weights, left = [1] * len(weights), len(weights)
    shares = []
    for weight in weights:
        share = -(-total * weight // left) if left else 0
        shares.append(share)
        total -= share
        left -= weight
    return shares
