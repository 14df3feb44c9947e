"""Exact division of a whole number by weights. Source: docs/explanation/placement.md, "Apportion"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Returns `total` replicas divided over clusters by weight. The sum is exact; the order is irrelevant.

    In descending order of weight, ties by name, each cluster takes ceil(remaining x weight / remaining
    weight). Weights that are all 0 count as equal. Raises ValueError for a negative total or weight.
    """
    if total < 0 or any(weight < 0 for weight in weights.values()):
        raise ValueError("only whole numbers from 0 on can be apportioned")
    order = in_order(weights)
    shares = dict(zip(order, sequence([weights[cluster] for cluster in order], total), strict=True))
    return {cluster: shares[cluster] for cluster in weights}


def in_order(weights: Mapping[str, int]) -> list[str]:
    """Returns the clusters by descending weight, ties by name: the order in which they take replicas."""
    return sorted(weights, key=lambda cluster: (-weights[cluster], cluster))


def sequence(weights: Sequence[int], total: int) -> list[int]:
    """Returns the shares of weights that are in order already. Weights that are all 0 count as equal."""
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
