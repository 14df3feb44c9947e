"""The split of a workload that exists only in the member clusters (direct propagation, mode Centralized).

Source: docs/reference/processes.md, docs/explanation/placement.md; reasons: docs/decisions/0006.
A missing cluster's share is held. Among the others only the difference is divided: it goes to the clusters
whose share is furthest from the fair one. A scale-up lowers no cluster and a scale-down raises none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from fedhpa.api.assignment_policies import EQUAL, AssignmentPolicy
from fedhpa.assignment.division import Shares, divider, fill


class Place(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One cluster as a place for replicas.

    `present` is its share, or the last known one if it is missing. Only `reachable` clusters change.
    `available` is how many more replicas it could run, None if unknown. `pending` is how many of its replicas
    do not serve, and run elsewhere as far as there is room. `weight` is for StaticWeighted and LoadWeighted,
    `priority` for Prioritized. Where a policy has an order, a place that `is_last` comes after all others. A
    scale-down takes from an `unproven` cluster first. The share is never above `high`, and not below `low`
    while there are enough replicas for all.
    """

    present: int = 0
    reachable: bool = True
    available: int | None = None
    pending: int = 0
    weight: int = 1
    priority: int = 0
    low: int = 0
    high: int | None = None
    unproven: bool = False
    is_last: bool = False

    @property
    def running(self) -> int:
        """The replicas that are not pending."""
        return max(self.present - self.pending, 0)

    @property
    def rank(self) -> int:
        """The replicas that it could run, as far as known."""
        return self.running if self.pending else self.running + (self.available or 0)

    @property
    def capacity_known(self) -> bool:
        """True if its capacity was measured."""
        return self.available is not None


Places = Mapping[str, Place]


def split(desired: int, places: Places, policy: AssignmentPolicy = EQUAL) -> dict[str, int]:
    """Returns the new replicas of each cluster. EQUAL gives equal weights.

    The sum is `desired` within `limits`; Duplicated gives `desired` to each cluster. If no pod is pending and
    the sum is that of the present shares, nothing changes.
    """
    shares = {cluster: place.present for cluster, place in places.items()}
    places = {cluster: place for cluster, place in places.items() if place.reachable}
    if policy.copies:
        return shares | {cluster: _bound(desired, place) for cluster, place in places.items()}
    if not places:
        return shares
    total = max(desired - sum([shares[cluster] for cluster in shares if cluster not in places]), 0)
    reachable = places.values()
    if total == sum([place.present for place in reachable]) and not sum([one.pending for one in reachable]):
        return shares  # as in most decisions: the first level is what runs
    levels = _levels(tuple(places.values()), policy, total)
    return shares | fill(total, places, levels, divider(places, policy))


def fair_split(desired: int, places: Places, policy: AssignmentPolicy = EQUAL) -> dict[str, int]:
    """Returns the replicas of each cluster as the policy divides them, whatever runs now.

    Unreachable clusters keep their share. A cluster with pending pods gets no more than it runs.
    """
    shares = {cluster: place.present for cluster, place in places.items()}
    places = {cluster: place for cluster, place in places.items() if place.reachable}
    if not places:
        return shares
    total = max(desired - sum(shares[cluster] for cluster in shares if cluster not in places), 0)
    levels = list(_levels(tuple(_emptied(place) for place in places.values()), policy, total))
    # Replicas for which the limits leave no room stay where they are.
    levels.append(_all(max, levels[-1], [place.present for place in places.values()]))
    return shares | fill(total, places, levels, divider(places, policy))


def as_if(place: Place, share: int) -> Place:
    """Returns the place as if it had this share already, as far as its limits allow."""
    if not place.reachable:
        return place
    share = share if place.high is None else min(share, max(place.high, place.present))
    room = None if place.available is None else max(place.running + place.available - share, 0)
    pending = max(share - place.running, 0) if place.pending else 0
    return msgspec.structs.replace(place, present=share, available=room, pending=pending)


def _emptied(place: Place) -> Place:
    """Returns the place as if nothing ran there."""
    high = place.running if place.pending else None
    return msgspec.structs.replace(
        place,
        present=0,
        pending=0,
        available=None if place.available is None else place.running + place.available,
        high=min((each for each in (place.high, high) if each is not None), default=None),
        low=place.low if high is None else min(place.low, high),
    )


def size_of_each(present: Shares, lows: Shares) -> int:
    """Returns the size that Duplicated gave to each cluster, by their present shares; 0 without any.

    It is the largest share, so that it scales no cluster down. A cluster at its `low` does not show the size.
    """
    free = [replicas for cluster, replicas in present.items() if replicas > lows.get(cluster, 0)]
    return max(free) if free else min(present.values(), default=0)


def limits(places: Places, policy: AssignmentPolicy = EQUAL) -> tuple[int, int | None]:
    """Returns the smallest and the largest size that `split` can reach; None means no limit.

    Missing clusters hold their share, and `high` limits the others.
    """
    reachable = [place for place in places.values() if place.reachable]
    highs = [max(place.high, place.present) for place in reachable if place.high is not None]
    unlimited = len(highs) < len(reachable)
    if policy.copies:
        if not reachable:
            present = max((place.present for place in places.values()), default=0)
            return present, present
        least = min((place.low for place in reachable), default=0)
        most = max((place.high for place in reachable if place.high is not None), default=0)
        return least, None if unlimited else most
    held = sum(place.present for place in places.values() if not place.reachable)
    return held, None if unlimited else held + sum(highs)


def _bound(replicas: int, place: Place) -> int:
    replicas = max(replicas, place.low)
    return replicas if place.high is None else min(replicas, place.high)


def _levels(places: Sequence[Place], policy: AssignmentPolicy, total: int) -> Iterator[list[int]]:
    """Yields levels to which all places are filled before the next one begins, in ascending order.

    The policy divides a total between two levels. Levels up to `running` keep replicas in a scale-down, the
    levels above add replicas.
    """
    running = [place.running for place in places]
    highest = [total if place.high is None else min(place.high, total) for place in places]
    lowest = [place.low for place in places]
    if total < sum(running):
        yield (level := _all(min, lowest, running))
        kept = _all(min, [_or(place.high, place.present) for place in places], running)
        if any(place.unproven for place in places):
            proven = [0 if place.unproven else share for place, share in zip(places, kept, strict=True)]
            yield (level := _all(max, level, proven))
        yield _all(max, level, kept)
    yield running
    # Weighted policies ignore the capacity until pods are pending.
    capacity = highest
    if policy.by_rank or any(place.pending for place in places):
        capacity = [
            place.running if place.pending else min(most, _or(place.available, most) + place.running)
            for place, most in zip(places, highest, strict=True)
        ]
    yield (level := _all(max, running, _all(min, lowest, capacity)))
    if capacity is not highest:
        yield (level := _all(max, level, capacity))
    # Pending pods that fit nowhere stay where they are.
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
