"""Minima above a cluster's own part of minReplicas, and the replicas of leaving clusters (mode Distributed).

They are computed anew in each pass, so they end with their cause. Source: docs/explanation/distributed.md,
"Minima that others hold", and docs/explanation/membership.md, "How replicas move".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedhpa.assignment.clusters import Member, Rules, lowest
from fedhpa.assignment.divide import by_policy


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
        return Move({one.cluster: max(_present(one) - less, 0) for one in leaving}, {}, 0)
    others = [one for one in members if one.answers and not one.leaving and one.has_hpa]
    there, ready = sum(map(_present, leaving)), sum(min(one.ready, one.running) for one in others)
    size = min(size or there + sum(one.running for one in others), rules.maximum)
    left = min(there, max(size - ready, 0))
    stays: dict[str, int] = {}
    go = there - left
    for one in sorted(leaving, key=lambda one: (-one.running, one.cluster)):
        less = 0 if one.rolling else min(_present(one), go)
        go -= less
        stays[one.cluster] = _present(one) - less
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


def _present(member: Member) -> int:
    """Returns what runs there, as far as its HPA lets it."""
    return member.running if member.written is None else min(member.running, member.written.maximum)


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
