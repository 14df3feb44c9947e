"""The maxReplicas of all member HPAs, as one pure function (mode Distributed).

Levels are filled one after the other: minima, what runs, what pinned clusters need, the rest. Source:
docs/explanation/distributed.md, "Keeping max right".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fedhpa.api.assignment_policies import EQUAL, PRIORITY, AssignmentPolicy
from fedhpa.api.taints import CORDONED
from fedhpa.assignment.clusters import Member, lowest
from fedhpa.assignment.division import divider, fill, in_order

# A missing cluster's maximum counts in full for so long, as its last answer does.
BRIDGE_SECONDS: Final = 60.0
# By rank, a need counts after so long, whatever higher ranks do: they may have room and never ask for it.
_PINNED_SECONDS: Final = 120.0
# A cluster keeps so much above its present need when others take back. Without it, noise removes pods.
_MARGIN: Final = 2

Shares = Mapping[str, int]
NOTHING: Final[Shares] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The largest size of each cluster, 0 for no HPA.

    `unmet` replicas are needed where no maximum could rise for them. `room` is left above all needs.
    `cordoned_grow` is True if no Member could take more.
    """

    maxima: Shares
    unmet: int = 0
    room: int = 0
    cordoned_grow: bool = False


def divide(
    total: int,
    members: Sequence[Member],
    policy: AssignmentPolicy = EQUAL,
    *,
    uid: str = "",
    keep: bool = False,
    floors: Shares = NOTHING,
    fixed: Shares = NOTHING,
    most: int | None = None,
) -> Division:
    """Returns the maxReplicas of each cluster, of `total` for all of them; EQUAL gives equal weights.

    `members` are not lost. With `keep` the rest above all needs stays where it is, as far as it can.
    `floors` are replicas that clusters run for others. `fixed` are the maxima of leaving clusters.
    Where more than the total runs, `most` of it stays; None is the total.
    """
    if policy.copies:
        return Division(maxima={one.cluster: fixed.get(one.cluster, _whole(total, one)) for one in members})
    held = {one.cluster: one.maximum for one in members if not one.answers}
    able = [one for one in members if one.answers and one.cluster not in fixed]
    levels = _Levels(able, policy, uid, floors)
    leaves = sum(fixed.values())
    left = levels.left(total - leaves, (total if most is None else most) - leaves, members)
    shares, cordoned_grow = levels.shares(max(left, 0), keep=keep)
    maxima = {**held, **fixed, **shares}
    return Division(
        maxima={one.cluster: maxima[one.cluster] for one in members},
        unmet=levels.unmet(shares),
        room=max(left - sum(levels.needed), 0),
        cordoned_grow=cordoned_grow,
    )


def _whole(total: int, member: Member) -> int:
    high = limit_of(member)
    if not member.answers:
        return member.maximum
    return total if high is None else min(total, high)


class _Levels:
    """The levels of the clusters that can be written, as lists in the order of `members`."""

    def __init__(self, members: Sequence[Member], policy: AssignmentPolicy, uid: str, floors: Shares) -> None:
        self._members, self._policy, self._uid = members, policy, uid
        self._highs = [limit_of(one) for one in members]
        self.minima = self._within([_minimum(one) for one in members])
        # One replica that does not serve yet stays in a Stuck cluster: it is the evidence.
        runs = [max(one.serving + one.stuck, floors.get(one.cluster, 0)) for one in members]
        self.running = self._above(self.minima, runs)
        # Serving replicas come before a minimum that nothing runs of, and before the evidence.
        serves = [max(one.serving, floors.get(one.cluster, 0)) for one in members]
        self._least = [min(low, max(share, 1)) for low, share in zip(self.minima, serves, strict=True)]
        self._serves = self._above(self._least, serves)
        # Replicas beyond the need of the moment are the first to go where not all can stay.
        self._busy = self._above(
            self.minima,
            [
                share
                if one.wanted is None or one.stuck
                else min(share, max(one.wanted, floors.get(one.cluster, 0)))
                for one, share in zip(members, runs, strict=True)
            ],
        )
        self._needs = [self._counted(one) for one in members]
        self.needed = self._above(self.running, self._needs)
        # Replicas that Stuck clusters lack and nobody else can take.
        self._back = 0

    def left(self, total: int, most: int, members: Sequence[Member]) -> int:
        """Returns what clusters that do not answer, and HPAs that are not ours, leave of the total.

        Running replicas are never cut for them, up to `most`. After a minute, a missing cluster counts only
        as far as the others neither run nor need its share.
        """
        held = sum(one.maximum for one in members if not one.answers)
        least = sum(self.running)
        if any(one.missing_for >= BRIDGE_SECONDS for one in members):
            least = max(least, sum(self.needed))
        return max(total - held, min(most, least))

    def unmet(self, shares: Shares) -> int:
        """Returns the replicas that are needed and fit nowhere, or only in Stuck clusters."""
        return self._back + sum(
            max(need - shares[one.cluster], 0) for one, need in zip(self._members, self._needs, strict=True)
        )

    def shares(self, left: int, *, keep: bool) -> tuple[dict[str, int], bool]:
        """Returns the maxima that add up to `left`, or to less; True if Cordoned clusters had to grow."""
        running, needed = self.running, self.needed
        if left < sum(needed):
            running = self._without_surplus(sum(needed) - left)
            needed = self._above(running, self._needs)
        serves = [min(pair) for pair in zip(self._serves, running, strict=True)]
        busy = [min(pair) for pair in zip(self._busy, serves, strict=True)]
        levels = [self._least, busy, serves, running, needed]
        if keep:
            # A spare cluster keeps what it has. One that is back has what it runs.
            kept = [one.running if one.back else one.maximum for one in self._members]
            levels.append(self._above(needed, kept))
        shares = fill(left, self._names, levels, divider(self._named, self._policy, self._uid))
        left -= sum(shares.values())
        left = self._add(shares, left, [one for one in self._members if _may_grow(one)])
        left = self._add(
            shares, left, [one for one in self._members if one.minimum == 0 and not one.membership]
        )
        stuck = [one for one in self._members if one.stuck and one.has_hpa]
        highs = {one.cluster: lowest(one.high, max(one.maximum, shares[one.cluster])) for one in stuck}
        rest = self._add(shares, left, stuck, highs)
        self._back = min(left - rest, sum(max(one.running - one.serving - 1, 0) for one in stuck))
        left = rest
        last = [one for one in self._members if one.membership == CORDONED and one.has_hpa]
        return shares, self._add(shares, left, last) < left

    def _add(
        self,
        shares: dict[str, int],
        left: int,
        members: Sequence[Member],
        highs: Mapping[str, int | None] | None = None,
    ) -> int:
        """Divides `left` more replicas by policy on top of the shares. Returns what nobody could take.

        By rank each cluster is filled up to its capacity, and then the first one.
        """
        if not members or left <= 0:
            return left
        limits = {one.cluster: one.high for one in members} if highs is None else highs
        most = [
            left if (high := limits[one.cluster]) is None else max(min(high - shares[one.cluster], left), 0)
            for one in members
        ]
        levels = [most]
        if self._policy.by_rank:
            rooms = [
                more if one.capacity is None else max(min(one.capacity - shares[one.cluster], more), 0)
                for one, more in zip(members, most, strict=True)
            ]
            levels.insert(0, rooms)
        named = {one.cluster: one for one in members}
        for cluster, more in fill(left, named, levels, divider(named, self._policy, self._uid)).items():
            shares[cluster] += more
            left -= more
        return left

    def _without_surplus(self, lacking: int) -> list[int]:
        """Returns what runs without what others need more: take-back, from the largest surplus on."""
        least = [
            share if one.pinned_for is not None or one.wanted is None else max(low, one.wanted + _MARGIN)
            for one, low, share in zip(self._members, self.minima, self.running, strict=True)
        ]
        surplus = {
            one.cluster: max(share - keep, 0)
            for one, share, keep in zip(self._members, self.running, least, strict=True)
        }
        taken: dict[str, int] = {}
        for cluster in in_order(surplus, self._uid):
            taken[cluster] = min(surplus[cluster], lacking)
            lacking -= taken[cluster]
        return [share - taken[one.cluster] for one, share in zip(self._members, self.running, strict=True)]

    def _counted(self, member: Member) -> int:
        """Returns the need of a cluster, 0 while it does not count.

        By rank it counts once every higher rank is pinned, Stuck or asks for no more than it runs, or after
        two minutes.
        """
        need = member.need
        if need is None or member.pinned_for is None or member.stuck:
            return 0
        if not self._policy.by_rank or member.pinned_for >= _PINNED_SECONDS:
            return need
        rank = _rank(member, self._policy)
        higher = [one for one in self._members if _rank(one, self._policy) > rank and one.has_hpa]
        waits = any(
            one.pinned_for is None and not one.stuck and one.wanted is not None and one.wanted > one.running
            for one in higher
        )
        return 0 if waits else need

    @property
    def _names(self) -> list[str]:
        return [one.cluster for one in self._members]

    @property
    def _named(self) -> dict[str, Member]:
        return {one.cluster: one for one in self._members}

    def _within(self, wanted: Sequence[int]) -> list[int]:
        return [
            number if high is None else min(number, high)
            for number, high in zip(wanted, self._highs, strict=True)
        ]

    def _above(self, level: Sequence[int], wanted: Sequence[int]) -> list[int]:
        """Returns a level raised to the wanted shares, as far as the clusters' limits allow."""
        return [max(pair) for pair in zip(level, self._within(wanted), strict=True)]


def _minimum(member: Member) -> int:
    """Returns what a cluster is always left: an HPA has at least 1."""
    return 0 if member.minimum is None else max(member.minimum, 1)


def limit_of(member: Member) -> int | None:
    """Returns the largest maximum before what nobody else can take: the threshold, and the membership's."""
    if not member.has_hpa:
        return 0
    if member.stuck:
        return lowest(member.high, member.serving + 1)
    if member.membership == CORDONED:
        return lowest(member.high, max(member.serving, member.minimum or 0, 1))
    return member.high


def _may_grow(member: Member) -> bool:
    """True if a cluster takes part in the rest: Members with a part of minReplicas of their own."""
    return not member.membership and bool(member.minimum)


def _rank(member: Member, policy: AssignmentPolicy) -> int:
    return member.priority if policy.preference == PRIORITY else member.rank
