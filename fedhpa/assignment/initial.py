"""The parts of minReplicas that clusters get, and their maxima where nothing runs yet (mode Distributed).

Source: docs/explanation/distributed.md, "Initial bounds".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from fedhpa.api.assignment_policies import EQUAL, AssignmentPolicy
from fedhpa.api.taints import CORDONED
from fedhpa.assignment.clusters import Member
from fedhpa.assignment.division import divider, fill

# The settings of one candidate cluster that the bounds depend on, such as its weight and its priority.
Preference: TypeAlias = Sequence[int | float | str | None]


class Initial(NamedTuple):
    """The part of minReplicas of each cluster, None for one without an HPA.

    `maxima` are those of the clusters that can be written, None where something runs already.
    """

    minima: Mapping[str, int | None]
    maxima: Mapping[str, int] | None


def initial(
    minimum: int,
    maximum: int,
    members: Sequence[Member],
    policy: AssignmentPolicy = EQUAL,
    *,
    exact: bool = False,
    uid: str = "",
) -> Initial:
    """Returns the first division of the FederatedHPA's `minimum` and `maximum`. EQUAL gives equal weights.

    `exact` is minimumPolicy Exact: the minima add up to `minimum`, but a cluster that runs replicas has at
    least 1. Otherwise each HPA has at least 1. A cluster that does not answer keeps its part, and one that
    leaves has none.
    """
    minima: dict[str, int | None] = {one.cluster: one.minimum for one in members}
    minima |= {one.cluster: 0 if one.has_hpa else None for one in members if one.leaving}
    able = [one for one in members if one.answers and not one.leaving]
    minima |= dict.fromkeys((one.cluster for one in able), None)
    able = [one for one in able if _takes_part(one)]
    if policy.copies:
        lows = {one.cluster: max(minimum, one.low, 1) for one in able}
        return Initial(minima | {one.cluster: _within(lows[one.cluster], one.high) for one in able}, None)
    # An HPA that is not ours counts what it runs.
    held = [one for one in members if not one.answers]
    holds = sum(one.running if one.foreign else one.minimum or 0 for one in held)
    minimum = max(minimum - holds, 1 if exact else 0)
    maximum = max(maximum - sum(one.maximum for one in held), min(len(able), maximum))
    division = _Division(able, policy, uid, minimum + maximum)
    runs = any(one.running for one in able)
    maxima = division.of(maximum)
    parts = division.of(minimum)
    chosen = _chosen(able, parts if exact else maxima, maximum, division)
    holders = [one for one in able if one.cluster in chosen]
    if not exact:
        # A cluster without an HPA has no part.
        parts = _Division(holders, policy, uid, minimum + maximum).of(minimum, None if runs else maxima)
    least = {one.cluster: max(parts[one.cluster], _within(one.low, one.high), 1) for one in holders}
    if runs:
        return Initial(minima | least, None)
    if exact:
        division = _Division(holders, policy, uid, minimum + maximum)
        maxima = division.of(maximum, least=parts)
    maxima = {one.cluster: maxima[one.cluster] if one in holders else 0 for one in able}
    return Initial(minima | {name: min(number, maxima[name]) for name, number in least.items()}, maxima)


def assigned_for(
    minimum: int, policy: AssignmentPolicy, *, exact: bool, preferences: Mapping[str, Preference]
) -> str:
    """Returns a hash of everything that makes `initial` divide the minima anew: 16 hexadecimal digits.

    `preferences` has the settings of each candidate cluster, in any order.
    """
    items = sorted((cluster, tuple(preference)) for cluster, preference in preferences.items())
    text = repr((minimum, str(policy) or None, exact, items))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _takes_part(member: Member) -> bool:
    """True if a cluster may get an HPA now: overflow and Cordoned ones only where replicas run already."""
    waits = member.overflow or member.membership == CORDONED
    return member.high != 0 and bool(member.running or not waits or (member.has_hpa and not member.overflow))


def _chosen(
    members: Sequence[Member], parts: Mapping[str, int], maximum: int, division: _Division
) -> set[str]:
    """Returns the clusters that get an HPA: all that run replicas, and of the others those with a part.

    No running replica makes room for the first one of another cluster.
    """
    running = {one.cluster for one in members if one.running}
    empty = {one.cluster: 1 for one in members if parts[one.cluster] and not one.running}
    room = maximum - sum(max(one.running, 1) for one in members if one.running) if running else maximum
    if room < len(empty):
        empty = division.of(max(room, 0), {one.cluster: empty.get(one.cluster, 0) for one in members})
    return running | {name for name, number in empty.items() if number}


class _Division:
    """Divides totals over some clusters: their lows first, by rank then their capacity, then their highs."""

    def __init__(self, members: Sequence[Member], policy: AssignmentPolicy, uid: str, most: int) -> None:
        self._members, self._policy, self._most = members, policy, most
        self._divide = divider({one.cluster: one for one in members}, policy, uid)

    def of(
        self,
        total: int,
        highs: Mapping[str, int] | None = None,
        least: Mapping[str, int] | None = None,
    ) -> dict[str, int]:
        """Returns the shares of a total: at most `highs`, and above `least` first."""
        limits = [
            _within(self._most if highs is None else highs[one.cluster], one.high) for one in self._members
        ]
        lows = [
            min(max(one.low, 0 if least is None else least[one.cluster]), limit)
            for one, limit in zip(self._members, limits, strict=True)
        ]
        levels = [lows]
        if self._policy.by_rank:
            levels.append(
                [
                    max(low, _within(limit, one.capacity))
                    for one, low, limit in zip(self._members, lows, limits, strict=True)
                ]
            )
        return fill(total, [one.cluster for one in self._members], [*levels, limits], self._divide)


def _within(number: int, high: int | None) -> int:
    return number if high is None else min(number, high)
