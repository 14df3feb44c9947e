"""Exact division of a whole number over clusters: by weight or rank, within bounds, level by level.

One more replica changes one cluster by one, whatever the bounds are, and the rest of a bounded cluster goes
to the others. Both modes use it. Source: docs/explanation/placement.md, "Apportion".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Protocol, TypeAlias

from fedhpa.api.assignment_policies import PRIORITY, STATIC_WEIGHT, AssignmentPolicy


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


Shares: TypeAlias = Mapping[str, int]


def by_weight(
    total: int,
    weights: Shares,
    low: Shares,
    high: Shares,
    uid: str = "",
    order: Sequence[str] | None = None,
) -> dict[str, int]:
    """Returns apportion(t) with each share bound to [low, high], for the t that makes the sum `total`.

    apportion(t + 1) changes one cluster by one, so such a t exists, and every t that fits gives the same
    shares. Clusters of weight 0 get `low`, and in equal parts what the others cannot take. `total` must be
    between the sums of the bounds; the bounds are for the clusters of `weights`. `uid` decides ties as in
    apportion. `order` is that of `in_order`, if the caller has it already.
    """
    order = in_order(weights, uid) if order is None else order
    if not any(weights.values()):
        weights = dict.fromkeys(weights, 1)
    weighing = {cluster: weight for cluster, weight in weights.items() if weight}
    idle = dict.fromkeys((cluster for cluster in weights if cluster not in weighing), 1)
    most = sum(high[cluster] for cluster in weighing) + sum(low[cluster] for cluster in idle)
    if total <= most:
        shares = {cluster: low[cluster] for cluster in idle}
        return shares | _searched(total - sum(shares.values()), weighing, low, high, order)
    shares = {cluster: high[cluster] for cluster in weighing}
    return shares | _searched(total - sum(shares.values()), idle, low, high, order)


def by_rank(total: int, order: Sequence[str], low: Shares, high: Shares) -> dict[str, int]:
    """Returns shares that fill the clusters in order: each to `low`, then each to `high`, up to `total`."""
    shares = {cluster: low[cluster] for cluster in order}
    left = total - sum(shares.values())
    for cluster in order:
        more = min(left, high[cluster] - low[cluster])
        shares[cluster] += more
        left -= more
    return shares


def _searched(total: int, weights: Shares, low: Shares, high: Shares, order: Sequence[str]) -> dict[str, int]:
    # Clusters whose bounds are equal need no search; the others may be few.
    fixed = {name: low[name] for name in weights if low[name] == high[name]}
    order = [name for name in order if name in weights and name not in fixed]
    total -= sum(fixed.values())
    search = _Search(
        [weights[name] for name in order], [low[name] for name in order], [high[name] for name in order]
    )
    return fixed | dict(zip(order, search.shares(total), strict=True))


class _Search:
    """Finds the t whose bound shares have a given sum. All lists are in the order of `in_order`."""

    def __init__(self, weights: Sequence[int], low: Sequence[int], high: Sequence[int]) -> None:
        self._weights, self._low, self._high = weights, low, high
        left = list(itertools.accumulate(reversed(weights)))
        left.reverse()
        self._rows = list(zip(weights, left, low, high, strict=True))

    def shares(self, total: int) -> list[int]:
        """Returns the shares that add up to `total`."""
        if total <= sum(self._low):
            return list(self._low)
        if total >= sum(self._high):
            return list(self._high)
        below, above = (0, sum(self._low)), (0, 0)
        guess, pace = self._estimate(total)
        halve = False
        while (tried := (guess, self._sum(guess)))[1] != total:
            below, above = (tried, above) if tried[1] < total else (below, tried)
            if not above[0]:
                guess, pace = guess + (total - tried[1]) * pace, pace * 2
            else:
                guess, halve = _between(total, below, above, halve=halve), not halve
        shares = sequence(self._weights, guess)
        return [
            min(max(share, low), high) for share, low, high in zip(shares, self._low, self._high, strict=True)
        ]

    def _sum(self, number: int) -> int:
        # The one loop that runs several times over all clusters: `sequence`, with each share bound at once.
        found = 0
        for weight, left, low, high in self._rows:
            share = -(-number * weight // left)
            number -= share
            found += low if share < low else high if share > high else share
        return found

    def _estimate(self, total: int) -> tuple[int, int]:
        """Returns the t for fractional replicas, and by how much t must grow for one more replica there.

        With fractions each share is level x weight, bound to [low, high].
        """
        turns: list[tuple[float, int]] = []
        for weight, low, high in zip(self._weights, self._low, self._high, strict=True):
            turns += ((low / weight, weight), (high / weight, -weight))
        turns.sort()
        level, slope, left = 0.0, 0, float(total - sum(self._low))
        for at, change in turns:
            if left <= (at - level) * slope:
                break
            left -= (at - level) * slope
            level, slope = at, slope + change
        weight = sum(self._weights)
        return max(round((level + (left / slope if slope else 0.0)) * weight), 1), -(-weight // max(slope, 1))


def _between(total: int, below: tuple[int, int], above: tuple[int, int], *, halve: bool) -> int:
    """Returns the t to try next between two tried ones, each with its sum.

    Interpolation comes near quickly if few bounds apply. Halving guarantees an end.
    """
    width = above[0] - below[0]
    part = width // 2 if halve else (total - below[1]) * width // (above[1] - below[1])
    # A step of t changes the sum by at most one, so t is at least the missing number away from each end.
    return min(max(below[0] + part, below[0] + total - below[1]), above[0] - (above[1] - total))


# Divides a total between the lowest and the highest share of each cluster.
Divide: TypeAlias = Callable[[int, Shares, Shares], dict[str, int]]


class Candidate(Protocol):
    """A cluster as a policy sees it: the replicas that it can run, its weight and its priority."""

    @property
    def rank(self) -> int:
        """The replicas that it can run; an unknown capacity counts as what runs."""

    @property
    def capacity_known(self) -> bool:
        """True if its capacity was measured."""

    @property
    def is_last(self) -> bool:
        """True if it comes after all others under a policy that fills one cluster after the other."""

    @property
    def weight(self) -> int:
        """The weight under StaticWeighted and LoadWeighted."""

    @property
    def priority(self) -> int:
        """The priority under Prioritized."""


def divider(candidates: Mapping[str, Candidate], policy: AssignmentPolicy, uid: str = "") -> Divide:
    """Returns the function that divides a total over the candidates by a policy that divides.

    The object's `uid` decides between clusters of the same rank or weight; without it their names do.
    """
    weights = weights_of(candidates, policy)
    order = in_order(weights, uid)
    if policy.by_rank:
        order.sort(key=lambda cluster: candidates[cluster].is_last)
        return lambda total, low, high: by_rank(total, order, low, high)
    return lambda total, low, high: by_weight(total, weights, low, high, order=order)


def weights_of(candidates: Mapping[str, Candidate], policy: AssignmentPolicy) -> dict[str, int]:
    """Returns the number by which a policy that divides weighs or orders the candidates."""
    if policy.preference == PRIORITY:
        return {cluster: candidate.priority for cluster, candidate in candidates.items()}
    known = policy.by_capacity and any(candidate.capacity_known for candidate in candidates.values())
    if policy.by_rank or known:
        return {cluster: candidate.rank for cluster, candidate in candidates.items()}
    if policy.by_load or policy.preference == STATIC_WEIGHT:
        return {cluster: candidate.weight for cluster, candidate in candidates.items()}
    return dict.fromkeys(candidates, 1)


def fill(
    total: int, clusters: Iterable[str], levels: Iterable[Sequence[int]], divide: Divide
) -> dict[str, int]:
    """Returns shares of `total` for which the levels are filled one after the other.

    Each level has a share of each cluster, and is nowhere below the level before. A total that ends between
    two levels is divided between them. A total above the last level gives the last level.
    """
    names = list(clusters)
    low: Sequence[int] = [0] * len(names)
    for high in levels:
        if total <= sum(high):
            return divide(total, dict(zip(names, low, strict=True)), dict(zip(names, high, strict=True)))
        low = high
    return dict(zip(names, low, strict=True))
