"""The parts of minReplicas that clusters get, and their maxima where nothing runs yet (mode Distributed).

Source: docs/explanation/distributed.md, "Initial bounds".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from fedhpa.api.assignment_policies import AssignmentPolicy
from fedhpa.api.taints import CORDONED
from fedhpa.assignment.clusters import Member, Rules, lowest
from fedhpa.assignment.divide import by_policy

# The settings of one candidate cluster that the bounds depend on, such as its weight and its priority.
Preference: TypeAlias = Sequence[int | float | str | None]


class Initial(NamedTuple):
    """The part of minReplicas of each cluster, None for one without an HPA.

    `maxima` are those of the clusters that can be written, None where something runs already.
    """

    minima: Mapping[str, int | None]
    maxima: Mapping[str, int] | None


def initial(rules: Rules, members: Sequence[Member]) -> Initial:
    """Returns the first division of the FederatedHPA's minReplicas and maxReplicas.

    Under `exact` the minima add up to minReplicas, but a cluster that runs replicas has at least 1. Otherwise
    each HPA has at least 1. A cluster that does not answer keeps its part, and one that leaves has none.
    """
    minima: dict[str, int | None] = {one.cluster: one.minimum for one in members}
    minima |= {one.cluster: 0 if one.has_hpa else None for one in members if one.leaving}
    able = [one for one in members if one.answers and not one.leaving]
    minima |= dict.fromkeys((one.cluster for one in able), None)
    able = [one for one in able if _takes_part(one)]
    if rules.policy.copies:
        lows = {one.cluster: max(rules.minimum, one.low, 1) for one in able}
        return Initial(minima | {one.cluster: lowest(lows[one.cluster], one.high) for one in able}, None)
    # An HPA that is not ours counts what it runs.
    held = [one for one in members if not one.answers]
    holds = sum(one.running if one.foreign else one.minimum or 0 for one in held)
    minimum = max(rules.minimum - holds, 1 if rules.exact else 0)
    maximum = max(rules.maximum - sum(one.maximum for one in held), min(len(able), rules.maximum))
    maxima, parts = (_divided(total, able, rules) for total in (maximum, minimum))
    chosen = _chosen(able, parts if rules.exact else maxima, maximum, rules)
    holders = [one for one in able if one.cluster in chosen]
    runs = any(one.running for one in able)
    if not rules.exact:
        # A cluster without an HPA has no part.
        parts = _divided(minimum, holders, rules, None if runs else maxima)
    least = {one.cluster: max(parts[one.cluster], lowest(one.low, one.high) or 0, 1) for one in holders}
    if runs:
        return Initial(minima | least, None)
    if rules.exact:
        maxima = _divided(maximum, holders, rules, least=parts)
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
    members: Sequence[Member], parts: Mapping[str, int], maximum: int, rules: Rules
) -> Collection[str]:
    """Returns the clusters that get an HPA: all that run replicas, and of the others those with a part.

    No running replica makes room for the first one of another cluster.
    """
    running = {one.cluster for one in members if one.running}
    empty = {one.cluster: 1 for one in members if parts[one.cluster] and not one.running}
    room = max(maximum - sum(max(one.running, 1) for one in members if one.running), 0)
    if room < len(empty):
        empty = _divided(room, members, rules, {one.cluster: empty.get(one.cluster, 0) for one in members})
    return running | {name for name, number in empty.items() if number}


def _divided(
    total: int,
    members: Sequence[Member],
    rules: Rules,
    highs: Mapping[str, int] | None = None,
    least: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Returns the shares of a total: at most `highs`, and above `least` and the clusters' lows first."""
    limits = [one.high if highs is None else lowest(highs[one.cluster], one.high) for one in members]
    high = [total if limit is None else limit for limit in limits]
    lows = [max(one.low, 0 if least is None else least[one.cluster]) for one in members]
    return by_policy(total, members, rules, list(map(min, lows, high)), high)
