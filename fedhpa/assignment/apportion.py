"""Exact division of a whole number by weights. Source: docs/distributed.md, "Apportion"."""

from __future__ import annotations

from collections.abc import Mapping


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divides `total` replicas over clusters by weight; the sum is exact, the order of `weights` irrelevant.

    Clusters by descending weight, ties by name; each takes ceil(remaining x weight / remaining weight).
    Where all weights are 0 they count as equal. Nothing is given where there is no cluster. Raises ValueError
    for a negative total or weight.
    """
    if total < 0 or any(weight < 0 for weight in weights.values()):
        raise ValueError("only whole numbers from 0 on can be apportioned")
    order = sorted(weights, key=lambda cluster: (-weights[cluster], cluster))
    left = sum(weights.values())
    equal = left == 0
    if equal:
        left = len(order)
    shares: dict[str, int] = {}
    for cluster in order:
        weight = 1 if equal else weights[cluster]
        share = -(-total * weight // left) if left else 0
        shares[cluster] = share
        total -= share
        left -= weight
    return {cluster: shares[cluster] for cluster in weights}
