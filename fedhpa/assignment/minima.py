"""The minima of mode Distributed: the parts of minReplicas, and what clusters run for others.

The latter is computed anew in each pass, so it ends with its cause. Source: docs/explanation/distributed.md,
"Initial bounds" and "Minima that others hold", and docs/explanation/membership.md, "How replicas move".
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


class Move(NamedTuple):
    """A step of a move: the replicas that stay in clusters which give some, and the others' minima.

    `size` is what ran when a leave began, 0 without one.
    """

    stays: Mapping[str, int]
    floors: Mapping[str, int]
    size: int


NO_MOVE = Move({}, {}, 0)


def leave(members: Sequence[Member], rules: Rules, size: int, step: int, *, shrinks: bool) -> Move:
    """Returns the next step of all clusters that leave. `size` is that of the move, 0 as one begins.

    Replicas go as far as others are ready, and the others grow by at most a `step` meanwhile. Under
    Duplicated nothing grows elsewhere: a leaving cluster shrinks by a step where `shrinks` is True.
    """
    leaving = [one for one in members if one.leaving and one.answers and (one.has_hpa or one.running)]
    if not leaving:
        return NO_MOVE
    if rules.policy.copies:
        less = step if shrinks else 0
        return Move({one.cluster: max(one.serving - less, 0) for one in leaving}, {}, 0)
    others = [one for one in members if one.answers and not one.leaving and one.has_hpa]
    there, ready = sum(one.serving for one in leaving), sum(min(one.ready, one.running) for one in others)
    size = min(size or there + sum(one.running for one in others), rules.maximum)
    left = min(there, max(size - ready, 0))
    stays: dict[str, int] = {}
    go = there - left
    for one in sorted(leaving, key=lambda one: (-one.running, one.cluster)):
        less = 0 if one.rolling else min(one.serving, go)
        go -= less
        stays[one.cluster] = one.serving - less
    takers = [one for one in others if not one.membership and not one.rolling]
    wanted = min(size, size + step - sum(stays.values()))
    wanted -= sum(one.running for one in others if one not in takers)
    base = [one.running for one in takers]
    more = max(wanted - sum(base), 0)
    highs = [
        have + _room(one, lowest(one.high, one.capacity), more)
        for one, have in zip(takers, base, strict=True)
    ]
    return Move(stays, by_policy(max(wanted, 0), takers, rules, base, highs), size)


def _room(member: Member, most: int | None, more: int) -> int:
    return more if most is None else min(max(most - member.running, 0), more)


def held_minima(members: Sequence[Member], rules: Rules) -> dict[str, int]:
    """Returns minima that hold what Lost and Stuck clusters cannot hold of theirs.

    Others hold it as far as they run it already, or maxReplicas leaves room above what all run.
    """
    short = any(one.lost or one.stuck for one in members)
    held = [(one.minimum or 0, one.serving + 1 if one.stuck else None) for one in members if not one.lost]
    lacking = rules.minimum - sum(least if most is None else min(least, most) for least, most in held)
    if rules.policy.copies or not short or lacking <= 0:
        return {}
    able = [one for one in members if one.answers and not one.lost and not one.membership and one.minimum]
    least = [one.minimum or 0 for one in able]
    low = [max(one.serving - part, 0) for one, part in zip(able, least, strict=True)]
    room = max(rules.maximum - sum(one.running for one in members if not one.lost), 0)
    high = [have + _room(one, one.high, room) for one, have in zip(able, low, strict=True)]
    added = by_policy(min(lacking, sum(low) + room), able, rules, low, high, least)
    return {one.cluster: part + added[one.cluster] for one, part in zip(able, least, strict=True)}
