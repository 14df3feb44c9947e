"""The candidate clusters of a pass of mode Distributed: what was read, joined with the pass before.

Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fedhpa.assignment.caps import caps
from fedhpa.assignment.observed import Observed, Previous, Rules
from fedhpa.assignment.policies import DUPLICATED
from fedhpa.assignment.shares import Bounds, MemberState
from fedhpa.assignment.state import ClusterState, States

# A cluster that came back this short time ago is failed over again only if another one needs its share.
RETURNED_SECONDS: Final = 30 * 60
# A maximum is below 2^31. The text comes from the status, which another program may have written.
_MAX_DIGITS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All candidates in the order of their names.

    `members` are the clusters that are not lost, with their assigned bounds without help and hold. A cluster
    that may not be written now is unreachable there. `observed`, `states` and `present` have all candidates;
    `present` are the bounds as read. `reasons` are those of remembered full clusters.

    `division` is the hash that the minima were divided for, and `total` the maximum that the maxima were
    divided for; None if unknown.
    """

    members: Sequence[MemberState]
    observed: Mapping[str, Observed]
    states: States
    present: Mapping[str, Bounds | None]
    lost: frozenset[str]
    newly_lost: frozenset[str]
    returned: frozenset[str]
    division: str
    total: int | None
    reasons: Sequence[str]

    @property
    def moved(self) -> bool:
        """True if a cluster was lost or came back since the pass before."""
        return bool(self.newly_lost or self.returned)

    def lowered(self, maximum: int) -> bool:
        """True if the FederatedHPA's maximum was lowered since the pass before."""
        return self.total is not None and maximum < self.total


def read_fleet(rules: Rules, observed: Sequence[Observed], previous: Previous, now: float) -> Fleet:
    """Returns the candidates with their bounds, and with the sizes of remembered full clusters."""
    named = {one.state.cluster: one for one in sorted(observed, key=lambda one: one.state.cluster)}
    states = {cluster: previous.states.get(cluster) or _unknown(one) for cluster, one in named.items()}
    before = frozenset(cluster for cluster, state in states.items() if state.lost or cluster in previous.lost)
    lost = frozenset(
        cluster
        for cluster, one in named.items()
        if one.lost and (cluster in before or not _came_back(states[cluster], now) or _short(observed))
    )
    members = [_member(one, states[cluster]) for cluster, one in named.items() if cluster not in lost]
    # Pending pods change nothing under Duplicated, so no full cluster is remembered either.
    full = caps({}, (), now) if rules.policy == DUPLICATED else caps(states, members, now)
    present = {cluster: one.written for cluster, one in named.items()}
    for member in members:
        if not member.reachable and not named[member.cluster].foreign:
            present[member.cluster] = _bounds(member)
    division, _, total = previous.assigned_for.partition("/")
    return Fleet(
        members=[replace(member, cap=full.sizes.get(member.cluster)) for member in members]
        if full.sizes
        else members,
        observed=named,
        states={**states, **full.states},
        present=present,
        lost=lost,
        newly_lost=lost - before,
        returned=before - lost,
        division=division,
        total=int(total) if total.isdecimal() and len(total) <= _MAX_DIGITS else None,
        reasons=full.reasons,
    )


def _unknown(one: Observed) -> ClusterState:
    """Returns the state of a cluster that the status lacks. Without an HPA it needs its first bounds."""
    return ClusterState(starting=one.written is None)


def _came_back(state: ClusterState, now: float) -> bool:
    """True if a cluster was lost before and came back a short time ago."""
    return state.over_since is not None and now - state.over_since < RETURNED_SECONDS


def _short(observed: Iterable[Observed]) -> bool:
    """True if a cluster that answers is pinned at its maximum, or has pending pods."""
    return any(
        one.state.reachable and not one.foreign and (one.state.need is not None or one.state.pending > 0)
        for one in observed
    )


def _member(one: Observed, state: ClusterState) -> MemberState:
    """Returns a cluster with the bounds that are assigned to it.

    The stored maximum counts more than the one of the HPA: somebody may have edited the HPA.
    """
    least, most = state.minimum, state.maximum
    if one.foreign:
        least, most = _written(one)
        return replace(one.state, minimum=least, maximum=most, pending=0, need=None, reachable=False)
    reachable = one.state.reachable and not one.lost
    if least is None and most is None:
        least, most = _written(one)
    return replace(
        one.state,
        minimum=least,
        maximum=most,
        spare=state.spare,
        helps=(least or 0) + state.given if state.spare else 0,
        need=one.state.need if reachable else None,
        reachable=reachable,
    )


def _written(one: Observed) -> tuple[int | None, int | None]:
    return (None, None) if one.written is None else (one.written.minimum, one.written.maximum)


def _bounds(member: MemberState) -> Bounds | None:
    if not member.maximum:
        return None
    return Bounds(minimum=min(max(member.minimum or 1, 1), member.maximum), maximum=member.maximum)
