"""The maxReplicas of all member HPAs, kept right while they scale on their own (mode Distributed).

Source: docs/explanation/distributed.md, "Keeping max right".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedhpa.assignment.division import divider, fill
from fedhpa.assignment.policies import BY_RANK, DUPLICATED, Policy
from fedhpa.assignment.shares import MemberState

# The part of the FederatedHPA's maximum by which a surplus shrinks in one pass: 10 %.
_SURPLUS_PARTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The largest size of each cluster, 0 for no HPA, and the difference of their sum to the total.

    `unassigned` replicas fit in no cluster. `exceeded` replicas are above the total, because unreachable
    clusters hold their maximum.
    """

    maxima: Mapping[str, int]
    unassigned: int = 0
    exceeded: int = 0


def distribute(
    total: int,
    members: Sequence[MemberState],
    policy: Policy = None,
    *,
    uid: str = "",
    kept: Collection[str] = (),
) -> Distribution:
    """Returns the maxReplicas of each cluster, of `total` for all of them; policy None means equal weights.

    Unreachable clusters hold their maximum. Spare clusters keep what they run and need, and get more only if
    the others can take no more. Clusters without an HPA come last. The clusters in `kept` get at least their
    present maximum. `uid` is the object's.
    """
    if policy == DUPLICATED:
        return Distribution(maxima={member.cluster: _whole(total, member) for member in members})
    held = {member.cluster: member.maximum or 0 for member in members if not member.reachable}
    floors = {member.cluster: _floor(member, kept) for member in members}
    reachable = [member for member in members if member.reachable]
    # An unreachable cluster with a large maximum takes from no other what its floor guarantees.
    guaranteed = min(total, sum(floors[member.cluster] for member in reachable))
    left = max(total - sum(held.values()), guaranteed)
    having = [member for member in reachable if member.minimum is not None]
    shares = _shares(left, having, [floors[member.cluster] for member in having], policy, uid)
    left -= sum(shares.values())
    maxima = held | shares | _overflow(left, reachable, shares, policy, uid)
    surplus = sum(maxima.values()) - total
    return Distribution(
        maxima={member.cluster: maxima[member.cluster] for member in members},
        unassigned=max(-surplus, 0),
        exceeded=max(surplus, 0),
    )


def eased_total(total: int, running: int) -> int:
    """Returns the total to distribute after a lost cluster returned with replicas, for one pass.

    `running` are the replicas of all clusters. A surplus over `total` shrinks by 10 % of `total`, at least 1.
    """
    return max(total, running - max(total // _SURPLUS_PARTS, 1))


def rest(
    left: int, members: Sequence[MemberState], base: Sequence[int], policy: Policy, uid: str = ""
) -> dict[str, int]:
    """Returns the shares of clusters that have `base` already and divide `left` more by policy.

    Aggregated and Prioritized fill each cluster up to its capacity, and then the first one. The other
    policies divide `left` by weight. No cluster gets more than its limit.
    """
    highs = [_within(share + left, member.limit, share) for member, share in zip(members, base, strict=True)]
    levels = [highs]
    if policy in BY_RANK:
        capacities = [
            _within(most, member.room, share)
            for member, share, most in zip(members, base, highs, strict=True)
        ]
        levels.insert(0, capacities)
    more = [[high - share for share, high in zip(base, level, strict=True)] for level in levels]
    named = _named(members)
    added = fill(left, named, more, divider(named, policy, uid))
    return {cluster: share + added[cluster] for cluster, share in zip(named, base, strict=True)}


def _shares(
    total: int, members: Sequence[MemberState], floors: Sequence[int], policy: Policy, uid: str
) -> dict[str, int]:
    named = _named(members)
    *_, last = levels = list(_levels(members, floors, policy))
    if total <= sum(last):
        return fill(total, named, levels, divider(named, policy, uid))
    base = dict(zip(named, last, strict=True))
    regular = [member for member in members if not member.spare or member.minimum is None]
    above = rest(total - sum(last), regular, [base[member.cluster] for member in regular], policy, uid)
    return base | above


def _overflow(
    left: int, members: Sequence[MemberState], shares: Mapping[str, int], policy: Policy, uid: str
) -> dict[str, int]:
    """Returns the shares of the clusters that come last: spare ones, then those without an HPA."""
    spare = [member for member in members if member.spare and member.minimum is not None]
    found = {member.cluster: shares[member.cluster] for member in spare}
    if left and spare:
        found = rest(left, spare, list(found.values()), policy, uid)
        left -= sum(found.values()) - sum(shares[cluster] for cluster in found)
    without = [member for member in members if member.minimum is None]
    for rank in sorted({member.overflow for member in without}):
        next_ones = [member for member in without if member.overflow == rank]
        shares_of_rank = _shares(left, next_ones, [0] * len(next_ones), policy, uid)
        left -= sum(shares_of_rank.values())
        found |= shares_of_rank
    return found


def _levels(members: Sequence[MemberState], floors: Sequence[int], policy: Policy) -> Iterator[list[int]]:
    """Yields the floors, the replicas that run, and the replicas that pinned clusters need."""
    yield (level := list(floors))
    yield (level := raised(members, level, [member.running for member in members]))
    # By rank a need is no level: a pinned low cluster must not take room that the first still has. A spare
    # cluster gets nothing above the levels, so its need and its help are one.
    needs = [
        max(member.need or 0, member.helps) if member.spare or policy not in BY_RANK else 0
        for member in members
    ]
    yield raised(members, level, needs)


def raised(members: Sequence[MemberState], level: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Returns a level raised to the wanted shares, as far as the clusters' limits allow."""
    return [
        share if number <= share else _within(number, member.limit, share)
        for member, share, number in zip(members, level, wanted, strict=True)
    ]


def _floor(member: MemberState, kept: Collection[str]) -> int:
    """Returns the share that only a lower total takes away. A full cluster keeps it, `high` lowers it."""
    floor = member.minimum or 0
    if member.cluster in kept:
        floor = max(floor, member.maximum or 0)
    return _within(floor, member.high, 0)


def _whole(total: int, member: MemberState) -> int:
    return _within(total, member.high, 0) if member.reachable else member.maximum or 0


def _within(number: int, limit: int | None, least: int) -> int:
    return number if limit is None else max(min(number, limit), least)


def _named(members: Sequence[MemberState]) -> dict[str, MemberState]:
    return {member.cluster: member for member in members}
