"""Exact division of a whole number by weights. Source: docs/explanation/placement.md, "Apportion"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b


def apportion(total: int, weights: Mapping[str, int], uid: str = "") -> dict[str, int]:
    """Returns `total` replicas divided over clusters by weight. The sum is exact; the order is irrelevant.

    In the order of `in_order` each cluster takes ceil(remaining x weight / remaining weight). Weights that
    are all 0 count as equal. Raises ValueError for a negative total or weight.
    """
    if total < 0 or any(weight < 0 for weight in weights.values()):
        raise ValueError("only whole numbers from 0 on can be apportioned")
    order = in_order(weights, uid)
    shares = dict(zip(order, sequence([weights[cluster] for cluster in order], total), strict=True))
    return {cluster: shares[cluster] for cluster in weights}


def in_order(weights: Mapping[str, int], uid: str = "") -> list[str]:
    """Returns the clusters by descending weight: the order in which they take replicas.

    Ties are decided by a hash of the object's `uid` and the cluster's name, so that the single replicas of
    many objects do not all start in the same cluster. Without `uid` the name decides.
    """
    if not uid:
        return sorted(weights, key=lambda cluster: (-weights[cluster], cluster))
    # The key keeps objects and clusters apart: "a" + "bc" and "ab" + "c" have different hashes.
    key = blake2b(uid.encode(errors="surrogatepass"), digest_size=32).digest()
    return sorted(weights, key=lambda cluster: (-weights[cluster], _digest(cluster, key), cluster))


# One pass orders the clusters of an object several times.
@lru_cache(maxsize=4096)
def _digest(cluster: str, key: bytes) -> bytes:
    return blake2b(cluster.encode(errors="surrogatepass"), digest_size=8, key=key).digest()


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
