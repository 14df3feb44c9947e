"""The split of a workload that exists in the members only (propagation direct, mode Centralized).

Source: docs/reference/processes.md, docs/explanation/placement.md; docs/decisions/0006 says why it is done
like this.
An absent cluster's share is held. Among the others only the difference moves, to where the share is furthest
from the fair one: a scale-up lowers no cluster, a scale-down raises none, and sizes come to the fair split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.assignment.apportion import in_order
from fedhpa.assignment.bounded import by_rank, by_weight

DUPLICATED: Final = "Duplicated"
AGGREGATED: Final = "Aggregated"
STATIC_WEIGHTED: Final = "StaticWeighted"
DYNAMIC_WEIGHTED: Final = "DynamicWeighted"
PRIORITIZED: Final = "Prioritized"
LOAD_WEIGHTED: Final = "LoadWeighted"

# Policies that have to know how many more replicas a cluster could run.
BY_CAPACITY: Final = frozenset((AGGREGATED, DYNAMIC_WEIGHTED, PRIORITIZED))
_BY_RANK: Final = frozenset((AGGREGATED, PRIORITIZED))


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster as a place for replicas.

    `present` is what it has or, absent, was last known to have; only `reachable` ones change. `available` is
    how many more it could run (None: unknown), `pending` how many of its replicas have waited for a node for
    longer than autoscaleMultiClusterDelay. `weight` counts under StaticWeighted and LoadWeighted, `priority`
    under Prioritized. The share is never above `high`, and not below `low` while there is enough for all.
    """

    present: int = 0
    reachable: bool = True
    available: int | None = None
    pending: int = 0
    weight: int = 1
    priority: int = 0
    low: int = 0
    high: int | None = None

    @property
    def running(self) -> int:
        """The replicas that do not wait for a node."""
        return max(self.present - self.pending, 0)

    @property
    def capacity(self) -> int:
        """How many replicas it could run, as far as that is known."""
        return self.running if self.pending else self.running + (self.available or 0)


Places = Mapping[str, Place]
Shares = Mapping[str, int]


def split(desired: int, places: Places, policy: str | None = None) -> dict[str, int]:
    """New replicas of each cluster. None as policy: equal weights.

    The sum is `desired`, but for what `limits` says; Duplicated gives `desired` to each. Unless pods are
    pending, nothing changes where the sum is that of the present shares.
    """
    shares = {cluster: place.present for cluster, place in places.items()}
    places = {cluster: place for cluster, place in places.items() if place.reachable}
    if policy == DUPLICATED:
        return shares | {cluster: _bound(desired, place) for cluster, place in places.items()}
    if not places:
        return shares
    total = max(desired - sum(shares[cluster] for cluster in shares if cluster not in places), 0)
    divide = _divider(places, policy)
    low = [0] * len(places)
    for high in _levels(tuple(places.values()), policy, total):
        if total <= sum(high):
            bounds = (dict(zip(places, level, strict=True)) for level in (low, high))
            return shares | divide(total, *bounds)
        low = high
    return shares | dict(zip(places, low, strict=True))


def size_of_each(present: Shares, lows: Shares) -> int:
    """The size that Duplicated gave to each cluster, read off what they have; 0 without any.

    The largest, so that no cluster is scaled down by reading. One that is at its `low` says nothing of it.
    """
    free = [replicas for cluster, replicas in present.items() if replicas > lows.get(cluster, 0)]
    return max(free) if free else min(present.values(), default=0)


def limits(places: Places, policy: str | None = None) -> tuple[int, int | None]:
    """The smallest and the largest size that `split` can reach; None: no limit.

    Absent clusters hold what they have, and autoscalingMaxThreshold closes the others.
    """
    reachable = [place for place in places.values() if place.reachable]
    highs = [max(place.high, place.present) for place in reachable if place.high is not None]
    unlimited = len(highs) < len(reachable)
    if policy == DUPLICATED:
        least = min((place.low for place in reachable), default=0)
        most = max((place.high for place in reachable if place.high is not None), default=0)
        return least, None if unlimited else most
    held = sum(place.present for place in places.values() if not place.reachable)
    return held, None if unlimited else held + sum(highs)


def _bound(replicas: int, place: Place) -> int:
    replicas = max(replicas, place.low)
    return replicas if place.high is None else min(replicas, place.high)


def _divider(places: Places, policy: str | None) -> Callable[[int, Shares, Shares], dict[str, int]]:
    if policy in _BY_RANK:
        if policy == PRIORITIZED:
            ranks = {cluster: place.priority for cluster, place in places.items()}
        else:
            ranks = {cluster: place.capacity for cluster, place in places.items()}
        order = in_order(ranks)
        return lambda total, low, high: by_rank(total, order, low, high)
    if policy == DYNAMIC_WEIGHTED and any(place.available is not None for place in places.values()):
        weights = {cluster: place.capacity for cluster, place in places.items()}
    elif policy in (STATIC_WEIGHTED, LOAD_WEIGHTED):
        weights = {cluster: place.weight for cluster, place in places.items()}
    else:
        weights = dict.fromkeys(places, 1)
    return lambda total, low, high: by_weight(total, weights, low, high)


def _levels(places: Sequence[Place], policy: str | None, total: int) -> Iterator[list[int]]:
    """How far each place is filled before the next level begins; none is below the one before.

    A total between two levels is divided by policy between them. Up to `running` is what is kept when there
    is less than now, above is what is added.
    """
    running = [place.running for place in places]
    highest = [total if place.high is None else min(place.high, total) for place in places]
    lowest = [place.low for place in places]
    if total < sum(running):
        yield (level := _all(min, lowest, running))
        yield _all(max, level, _all(min, [_or(place.high, place.present) for place in places], running))
    yield running
    # Weights are followed without looking at the room, until pods wait somewhere.
    room = highest
    if policy in _BY_RANK or any(place.pending for place in places):
        room = [
            place.running if place.pending else min(most, _or(place.available, most) + place.running)
            for place, most in zip(places, highest, strict=True)
        ]
    yield (level := _all(max, running, _all(min, lowest, room)))
    if room is not highest:
        yield (level := _all(max, level, room))
    # Pods that wait and have nowhere to go wait where they are.
    yield (level := _all(max, level, [place.present for place in places]))
    yield (
        level := [
            have if place.pending else max(have, most)
            for place, have, most in zip(places, level, highest, strict=True)
        ]
    )
    yield _all(max, level, highest)


def _all(choose: Callable[[int, int], int], one: list[int], other: list[int]) -> list[int]:
    return list(map(choose, one, other))


def _or(number: int | None, otherwise: int) -> int:
    return otherwise if number is None else number
