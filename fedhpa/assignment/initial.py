"""The first bounds of all member HPAs, also after a change of what a user asks for (mode Distributed).

Source: docs/explanation/distributed.md, "Initial bounds".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

from fedhpa.assignment.distribute import raised, rest
from fedhpa.assignment.division import divider, fill
from fedhpa.assignment.policies import BY_RANK, DUPLICATED, STATIC_WEIGHTED, Policy
from fedhpa.assignment.shares import Bounds, MemberState

# The settings of one candidate cluster that the bounds depend on, such as its weight and its priority.
Preference: TypeAlias = Sequence[int | float | str | None]


def initial(
    minimum: int,
    maximum: int,
    members: Sequence[MemberState],
    policy: Policy = None,
    *,
    exact: bool = False,
    uid: str = "",
) -> dict[str, Bounds | None]:
    """Returns the bounds of each member HPA, None for a cluster that gets no HPA.

    `minimum` and `maximum` are the FederatedHPA's. Policy None means equal weights. `exact` is minimumPolicy
    Exact: the minima add up to `minimum`. Otherwise no minimum is below 1. Unreachable clusters keep their
    bounds. Each HPA gets one replica first, and then what runs is cut only where `maximum` does not suffice.
    `uid` is the object's.
    """
    bounds = {member.cluster: None if member.reachable else _present(member) for member in members}
    lost = [bound for bound in bounds.values() if bound is not None]
    # An overflow cluster without replicas waits until the others do not suffice.
    members = [one for one in members if one.reachable and (one.present or not one.overflow)]
    if policy == DUPLICATED:
        return bounds | {member.cluster: _whole(minimum, maximum, member) for member in members}
    # An unreachable cluster with a large maximum leaves each other cluster its one replica.
    spared = min(sum(member.high != 0 for member in members), maximum)
    division = _Division(
        max(minimum - sum(bound.minimum for bound in lost), 1 if exact else 0),
        max(maximum - sum(bound.maximum for bound in lost), spared),
        members,
        policy,
        uid,
    )
    return bounds | (division.exact() if exact else division.at_least_one())


def assigned_for(minimum: int, policy: Policy, *, exact: bool, preferences: Mapping[str, Preference]) -> str:
    """Returns a hash of everything that makes `initial` divide the minima anew: 16 hexadecimal digits.

    `preferences` has the settings of each candidate cluster, in any order.
    """
    items = sorted((cluster, tuple(preference)) for cluster, preference in preferences.items())
    text = repr((minimum, policy, exact, items))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def starting_replicas(present: int | None, bounds: Bounds | None, *, scaling_to_zero: bool = False) -> int:
    """Returns the replicas of a cluster whose bounds are new. `present` are those it has, None or 0 for none.

    A cluster without replicas starts with its minimum, or with none if the workload may scale to zero.
    """
    if bounds is None:
        return 0
    if not present and scaling_to_zero:
        return 0
    return min(max(present or 0, bounds.minimum), bounds.maximum)


class _Division:
    """The division of a minimum and a maximum among the clusters that can be changed."""

    def __init__(
        self, minimum: int, maximum: int, members: Sequence[MemberState], policy: Policy, uid: str
    ) -> None:
        self._minimum, self._maximum, self._policy, self._uid = minimum, maximum, policy, uid
        self._members = members
        self._names = [member.cluster for member in members]
        self._divide = divider({member.cluster: member for member in members}, policy, uid)
        self._limits = [minimum + maximum if member.limit is None else member.limit for member in members]

    def at_least_one(self) -> dict[str, Bounds | None]:
        """Returns bounds of which no minimum is below 1 or the cluster's lowest share."""
        # Where each cluster runs replicas, each one gets an HPA, and the division of M chooses none.
        everywhere = all(member.present for member in self._members)
        maxima = self._limits if everywhere else self._divided(self._maximum, self._limits)
        if self._runs:
            # Other weights than those that a user wrote say nothing about what a cluster will need.
            weighed = self._policy == STATIC_WEIGHTED and len({one.weight for one in self._members}) > 1
            whole = self._divided(self._maximum, self._limits) if weighed else None
            maxima = self._around(maxima, self._divided(self._minimum, self._limits), whole)
        minima = self._divided(self._minimum, maxima)
        lows = [min(member.low, most) for member, most in zip(self._members, maxima, strict=True)]
        return self._bounds(maxima, [max(shares) for shares in zip(minima, lows, strict=True)])

    def exact(self) -> dict[str, Bounds | None]:
        """Returns bounds whose minima add up to the whole minimum, unless more clusters run replicas."""
        minima = self._divided(self._minimum, self._limits)
        if self._runs:
            maxima = self._around(minima, minima)
            return self._bounds(maxima, self._divided(self._minimum, maxima))
        limits = [limit if least else 0 for limit, least in zip(self._limits, minima, strict=True)]
        maxima = self._filled(self._maximum, [minima, *self._levels(limits, minima)])
        return self._bounds(maxima, minima)

    @property
    def _runs(self) -> bool:
        return any(member.present for member in self._members)

    def _around(
        self, chosen: Sequence[int], parts: Sequence[int], whole: Sequence[int] | None = None
    ) -> list[int]:
        """Returns maxima that keep what runs. Clusters with a chosen share or with replicas get an HPA.

        `parts` is the division of the minimum. `whole` is that of the maximum by weights: it stands if it
        keeps what runs.
        """
        holders = [
            member
            for member, share in zip(self._members, chosen, strict=True)
            if (share or member.present) and member.high != 0
        ]
        ones = [1] * len(holders)
        running = [member.running for member in holders]
        lows = [member.low for member in holders]
        minima = self._of(holders, parts)
        # Without an HPA for each, what runs goes before the first replica of another cluster.
        crowded = len(holders) > self._maximum
        levels = [[min(member.present, 1) for member in holders]]
        for wanted in (*((running, ones) if crowded else (ones, running)), lows, minima):
            levels.append(raised(holders, levels[-1], wanted))
        if whole is not None and all(
            share >= least for share, least in zip(self._of(holders, whole), levels[-1], strict=True)
        ):
            return list(whole)
        named = {member.cluster: member for member in holders}
        left = self._maximum - sum(levels[-1])
        if left <= 0:
            divide = divider(named, self._policy, self._uid)
            shares = fill(self._maximum, named, levels, divide)
        else:
            shares = rest(left, holders, levels[-1], self._policy, self._uid)
        return [shares.get(name, 0) for name in self._names]

    def _of(self, holders: Sequence[MemberState], shares: Sequence[int]) -> list[int]:
        found = dict(zip(self._names, shares, strict=True))
        return [found[member.cluster] for member in holders]

    def _divided(self, total: int, highs: Sequence[int]) -> list[int]:
        lows = [min(member.low, high) for member, high in zip(self._members, highs, strict=True)]
        return self._filled(total, [lows, *self._levels(highs, lows)])

    def _levels(self, highs: Sequence[int], lows: Sequence[int]) -> Iterator[list[int]]:
        if self._policy in BY_RANK:
            yield [
                max(low, high if member.room is None else min(high, member.room))
                for member, low, high in zip(self._members, lows, highs, strict=True)
            ]
        yield list(highs)

    def _filled(self, total: int, levels: Sequence[Sequence[int]]) -> list[int]:
        shares = fill(total, self._names, levels, self._divide)
        return [shares[name] for name in self._names]

    def _bounds(self, maxima: Sequence[int], minima: Sequence[int]) -> dict[str, Bounds | None]:
        return {
            name: Bounds(minimum=max(least, 1), maximum=most) if most else None
            for name, least, most in zip(self._names, minima, maxima, strict=True)
        }


def _present(member: MemberState) -> Bounds | None:
    if member.minimum is None or not member.maximum:
        return None
    return Bounds(minimum=min(member.minimum, member.maximum), maximum=member.maximum)


def _whole(minimum: int, maximum: int, member: MemberState) -> Bounds | None:
    most = maximum if member.high is None else min(maximum, member.high)
    return Bounds(minimum=min(max(minimum, member.low, 1), most), maximum=most) if most > 0 else None
