"""Division by policy, and levels that are filled one after the other, for both modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from fedhpa.assignment.apportion import in_order
from fedhpa.assignment.bounded import by_rank, by_weight
from fedhpa.assignment.policies import (
    BY_RANK,
    DYNAMIC_WEIGHTED,
    LOAD_WEIGHTED,
    PRIORITIZED,
    STATIC_WEIGHTED,
    Policy,
)

Shares: TypeAlias = Mapping[str, int]
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
    def weight(self) -> int:
        """The weight under StaticWeighted and LoadWeighted."""

    @property
    def priority(self) -> int:
        """The priority under Prioritized."""


def divider(candidates: Mapping[str, Candidate], policy: Policy, uid: str = "") -> Divide:
    """Returns the function that divides a total over the candidates by a policy that divides.

    The object's `uid` decides between clusters of the same rank or weight; without it their names do.
    """
    if policy in BY_RANK:
        if policy == PRIORITIZED:
            ranks = {cluster: candidate.priority for cluster, candidate in candidates.items()}
        else:
            ranks = {cluster: candidate.rank for cluster, candidate in candidates.items()}
        order = in_order(ranks, uid)
        return lambda total, low, high: by_rank(total, order, low, high)
    if policy == DYNAMIC_WEIGHTED and any(candidate.capacity_known for candidate in candidates.values()):
        weights = {cluster: candidate.rank for cluster, candidate in candidates.items()}
    elif policy in (STATIC_WEIGHTED, LOAD_WEIGHTED):
        weights = {cluster: candidate.weight for cluster, candidate in candidates.items()}
    else:
        weights = dict.fromkeys(candidates, 1)
    order = in_order(weights, uid)
    return lambda total, low, high: by_weight(total, weights, low, high, order=order)


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
