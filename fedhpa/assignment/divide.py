"""The maxReplicas of all member HPAs, as one pure function (mode Distributed).

Levels are filled one after the other: minima, what runs, what pinned clusters need, the rest. Source:
docs/explanation/distributed.md, "Keeping max right".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fedhpa.api.taints import CORDONED
from fedhpa.assignment.clusters import Member, Rules, lowest
from fedhpa.assignment.division import Shares, divider, fill, in_order, weights_of
from fedhpa.assignment.mover import NOTHING

# A missing cluster's maximum counts in full for so long, as its last answer does.
_BRIDGE_SECONDS: Final = 60.0
# By rank, a need counts after so long, whatever higher ranks do: they may have room and never ask for it.
_PINNED_SECONDS: Final = 120.0
# A cluster keeps so much above its present need when others take back. Without it, noise removes pods.
_MARGIN: Final = 2


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
    rules: Rules,
    members: Sequence[Member],
    *,
    keep: bool = False,
    floors: Shares = NOTHING,
    fixed: Shares = NOTHING,
    most: int | None = None,
) -> Division:
    """Returns the maxReplicas of each cluster, of the FederatedHPA's for all of them.

    `members` are not lost. With `keep` the rest above all needs stays where it is, as far as it can.
    `floors` are replicas that clusters run for others. `fixed` are the maxima of leaving clusters.
    Where more than maxReplicas runs, `most` of it stays; None is maxReplicas.
    """
    if rules.policy.copies:
        copies = {one.cluster: lowest(rules.maximum, limit_of(one)) or 0 for one in members}
        held = {one.cluster: one.maximum for one in members if not one.answers}
        return Division(maxima={**copies, **held, **fixed})
    able = [one for one in members if one.answers and one.cluster not in fixed]
    levels = [_Levels(one, floors.get(one.cluster, 0), _counted(one, able, rules)) for one in able]
    # Clusters that do not answer, and HPAs that are not ours, come first, but nothing that runs is cut for
    # them. After a minute, a missing cluster counts only as far as the others neither run nor need its share.
    least = sum(each.running for each in levels)
    if any(one.missing_for >= _BRIDGE_SECONDS for one in members):
        least = sum(each.needed for each in levels)
    leaves = sum(fixed.values())
    held = {one.cluster: one.maximum for one in members if not one.answers}
    left = rules.maximum - leaves - sum(held.values())
    left = max(left, min((rules.maximum if most is None else most) - leaves, least))
    room = max(left - sum(each.needed for each in levels), 0)
    shares, lacking, cordoned_grow = _shares(max(left, 0), levels, rules, keep=keep)
    unmet = sum(max(each.need - shares[each.member.cluster], 0) for each in levels)
    maxima = {**held, **fixed, **shares}
    maxima = {one.cluster: maxima[one.cluster] for one in members}
    return Division(maxima=maxima, unmet=lacking + unmet, room=room, cordoned_grow=cordoned_grow)


def by_policy(
    total: int,
    members: Sequence[Member],
    rules: Rules,
    low: Sequence[int],
    high: Sequence[int],
    have: Sequence[int] | None = None,
) -> dict[str, int]:
    """Returns shares of a total between `low` and `high`, as the policy divides them.

    By rank each cluster is first filled up to its capacity; `have` is what it has of that besides.
    """
    levels = [low]
    if rules.policy.by_rank:
        besides = [0] * len(members) if have is None else have
        rooms = [
            most if (room := one.capacity) is None else min(max(room - part, 0), most)
            for one, most, part in zip(members, high, besides, strict=True)
        ]
        levels.append([max(pair) for pair in zip(low, rooms, strict=True)])
    named = {one.cluster: one for one in members}
    return fill(total, named, [*levels, high], divider(named, rules.policy, rules.uid))


class _Levels:
    """The levels of a cluster that can be written, each within its limit.

    `need` is the need that counts, 0 without one.
    """

    def __init__(self, member: Member, floor: int, need: int) -> None:
        self.member, self.need, self._limit = member, need, limit_of(member)
        # An HPA is always left at least 1.
        self.minimum = self._within(0 if member.minimum is None else max(member.minimum, 1))
        # One replica that does not serve yet stays in a Stuck cluster: it is the evidence.
        runs, serves = max(member.serving + member.stuck, floor), max(member.serving, floor)
        self.running = max(self.minimum, self._within(runs))
        # Serving replicas come before a minimum that nothing runs of, and before the evidence.
        self.least = min(self.minimum, max(serves, 1))
        self.serves = max(self.least, self._within(serves))
        # Replicas beyond the need of the moment are the first to go where not all can stay.
        if member.wanted is not None and not member.stuck:
            runs = min(runs, max(member.wanted, floor))
        self.busy = max(self.minimum, self._within(runs))

    @property
    def needed(self) -> int:
        """The replicas that run, and those that a pinned cluster needs."""
        return max(self.running, self._within(self.need))

    @property
    def surplus(self) -> int:
        """The replicas that others may take back: those beyond the present need and a margin."""
        if self.member.pinned_for is not None or self.member.wanted is None:
            return 0
        return max(self.running - max(self.minimum, self.member.wanted + _MARGIN), 0)

    def below(self, keep: bool) -> tuple[int, ...]:
        """Returns the levels in order. With `keep` the last one is what the cluster has."""
        serves = min(self.serves, self.running)
        levels = (self.least, min(self.busy, serves), serves, self.running, self.needed)
        # A spare cluster keeps what it has. One that is back has what it runs.
        has = self.member.running if self.member.back else self.member.maximum
        return (*levels, max(self.needed, self._within(has))) if keep else levels

    def _within(self, number: int) -> int:
        return number if self._limit is None else min(number, self._limit)


def _shares(
    left: int, levels: Sequence[_Levels], rules: Rules, *, keep: bool
) -> tuple[dict[str, int], int, bool]:
    """Returns the maxima that add up to `left`, or to less.

    Then the replicas that Stuck clusters lack and nobody can take, and True if Cordoned ones had to grow.
    """
    lacking = sum(each.needed for each in levels) - left
    surplus = {each.member.cluster: each.surplus for each in levels}
    named = {each.member.cluster: each for each in levels}
    for cluster in in_order(surplus, rules.uid) if lacking > 0 else ():
        taken = min(surplus[cluster], max(lacking, 0))
        named[cluster].running -= taken
        lacking -= taken
    members = {one.cluster: one for each in levels for one in (each.member,)}
    rows = [each.below(keep) for each in levels]
    shares = fill(left, named, list(zip(*rows, strict=True)), divider(members, rules.policy, rules.uid))
    left -= sum(shares.values())

    def add(able: Sequence[Member], highs: Mapping[str, int | None]) -> int:
        """Gives what is left to some clusters by policy, on top of the shares; returns what is left then."""
        have = [shares[one.cluster] for one in able]
        highest = [
            left if (high := highs[one.cluster]) is None else max(min(high - part, left), 0)
            for one, part in zip(able, have, strict=True)
        ]
        more = by_policy(left, able, rules, [0] * len(able), highest, have) if able and left > 0 else {}
        for cluster, part in more.items():
            shares[cluster] += part
        return left - sum(more.values())

    highs = {one.cluster: one.high for one in members.values()}
    found = [one for one in members.values() if not one.membership and one.has_hpa]
    left = add([one for one in found if one.minimum], highs)
    left = add([one for one in found if not one.minimum], highs)
    stuck = [one for one in members.values() if one.stuck and one.has_hpa]
    rest = add(stuck, {one.cluster: lowest(one.high, max(one.maximum, shares[one.cluster])) for one in stuck})
    back = min(left - rest, sum(max(one.running - one.serving - 1, 0) for one in stuck))
    left = rest
    cordoned = [one for one in members.values() if one.membership == CORDONED and one.has_hpa]
    return shares, back, add(cordoned, highs) < left


def _counted(member: Member, members: Sequence[Member], rules: Rules) -> int:
    """Returns the need of a cluster, 0 while it does not count.

    By rank it counts once every higher rank is pinned, Stuck or asks for no more than it runs, or after two
    minutes.
    """
    need = member.need
    if need is None or member.pinned_for is None or member.stuck:
        return 0
    if not rules.policy.by_rank or member.pinned_for >= _PINNED_SECONDS:
        return need
    of_rank = weights_of({one.cluster: one for one in members}, rules.policy)
    waits = any(
        one.pinned_for is None and not one.stuck and one.wanted is not None and one.wanted > one.running
        for one in members
        if of_rank[one.cluster] > of_rank[member.cluster] and one.has_hpa
    )
    return 0 if waits else need


def limit_of(member: Member) -> int | None:
    """Returns the largest maximum before what nobody else can take: the threshold, and the membership's."""
    if not member.has_hpa:
        return 0
    if member.stuck:
        return lowest(member.high, member.serving + 1)
    if member.membership == CORDONED:
        return lowest(member.high, max(member.serving, member.minimum or 0, 1))
    return member.high
