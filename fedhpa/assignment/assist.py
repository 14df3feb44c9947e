"""Scale assist: clusters with room run the replicas that other clusters cannot run.

A cluster helps by a raised minReplicas of its HPA. That works only if traffic is spread over the ready pods
of all clusters. Source: docs/explanation/distributed.md; reasons: docs/decisions/0013.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from fedhpa.assignment.division import divider
from fedhpa.assignment.policies import AGGREGATED, DUPLICATED, Policy
from fedhpa.assignment.shares import MemberState, lowest
from fedhpa.assignment.state import NO_STATE, ClusterState, States

# Replicas that have been ready for this long take their part of the load.
SETTLED_SECONDS: Final = 60
# The deficit must have fallen three passes after help was ready.
_PROVE_SECONDS: Final = 3 * 60
# People read reasons, so they name only so many clusters.
_MAX_NAMED: Final = 3
# A smaller fall of the deficit may be chance.
_LEAST_FALL: Final = 2
# Two minutes for a pod to start, one to settle, three passes to prove: a deficit that comes and goes within
# this time gets help once. An HPA would not scale down much sooner either.
_KEPT_SECONDS: Final = 7 * 60
# A cluster that help did not relieve gets none for this long.
_INEFFECTIVE_SECONDS: Final = 30 * 60


@dataclass(frozen=True, slots=True)
class Assistance:
    """The next state and what this pass did; all numbers are replicas.

    `deficit` is what clusters need and cannot run, without those of `ineffective`. `unassigned` is the part
    of the new help that no cluster has room for. `ineffective` are the clusters that help does not relieve.
    """

    states: States
    deficit: int
    unassigned: int
    ineffective: tuple[str, ...]
    reasons: tuple[str, ...]


def deficits(states: States, members: Sequence[MemberState]) -> dict[str, int]:
    """Returns the replicas that each cluster needs and cannot run; only clusters that lack some.

    `need` counts where the maximum cannot rise: at `high`, or at the size of a full cluster. Elsewhere
    `distribute` raises the maximum, and counting it here would double it. Pending replicas that were to help
    another cluster do not count, because the deficit of that cluster has them already.
    """
    found = {}
    for member in members:
        lacking = max(member.pending - states.get(member.cluster, NO_STATE).given_share, 0)
        stuck = member.limit is not None and member.maximum is not None and member.maximum >= member.limit
        if member.need is not None and member.maximum is not None and stuck:
            lacking += max(member.need - max(member.maximum, member.present), 0)
        if lacking > 0 and member.reachable:
            found[member.cluster] = lacking
    return found


def assist(
    states: States,
    members: Sequence[MemberState],
    policy: Policy,
    step: int,
    now: float,
    settled: Mapping[str, int],
    uid: str = "",
) -> Assistance:
    """Returns the state with the help of this pass.

    `maximum` of each member is the one that `distribute` found. `settled` has the replicas of each cluster
    that have been ready for a minute; without it, running replicas count a minute after help was given.
    Help that is no longer needed after seven minutes, or changes nothing, is taken back by `step` in each
    pass. `uid` is the object's.
    """
    found = {name: _judged_again(state, now) for name, state in states.items()}
    reachable = [member for member in members if member.reachable]
    for member in reachable:
        found[member.cluster] = _observed(found.get(member.cluster, NO_STATE), member, now, settled)
    lacking = deficits(states, reachable)
    reasons = list(_judge(found, reachable, lacking, now))
    ineffective = tuple(sorted(name for name in lacking if found[name].ineffective_since is not None))
    lacking = {name: number for name, number in lacking.items() if name not in ineffective}
    total = sum(lacking.values())
    unassigned = 0
    if total:
        new = _new_help(found, reachable, lacking, now, settled)
        before = _shares(found)
        reasons += _give(found, reachable, policy, lacking, new, now, uid)
        unassigned = new - (_shares(found) - before)
    elif not any(_needs(member) for member in reachable if member.cluster not in ineffective):
        judged = [state.ineffective_since or 0.0 for state in found.values()]
        reasons += _take_back(found, reachable, step, max(now - _KEPT_SECONDS, *judged, 0.0))
    if not _shares(found):
        # A deficit that comes back while help is still there is compared with the one before.
        found = {name: replace(state, deficit_before=None) for name, state in found.items()}
    changed = {name: state for name, state in found.items() if state != states.get(name, NO_STATE)}
    return Assistance({**states, **changed}, total, unassigned, ineffective, tuple(reasons))


def _shares(found: Mapping[str, ClusterState]) -> int:
    return sum(state.given_share for state in found.values())


def _needs(member: MemberState) -> bool:
    """True if a cluster wants more replicas than it runs.

    Its maximum may have risen just now. Help stays until the replicas run, because the nodes may be full.
    """
    return member.pending > 0 or (member.need is not None and member.need > member.running)


def _judged_again(state: ClusterState, now: float) -> ClusterState:
    since = state.ineffective_since
    if since is None or now - since < _INEFFECTIVE_SECONDS:
        return state
    return replace(state, ineffective_since=None)


def _observed(
    state: ClusterState, member: MemberState, now: float, settled: Mapping[str, int]
) -> ClusterState:
    """Returns the state with help cut to the maximum, and with the clock of its readiness."""
    if not state.given:
        return state
    most = max((member.maximum or 0) - (member.minimum or 0), 0)
    if state.given > most:
        state = _help_of(state, most)
    if not state.given:
        return state
    if _outstanding(state, member, now, settled):
        return replace(state, ready_since=None) if state.ready_since is not None else state
    return replace(state, ready_since=now) if state.ready_since is None else state


def _help_of(state: ClusterState, given: int) -> ClusterState:
    if given <= 0:
        return replace(state, given=0, given_since=None, given_share=0, ready_since=None)
    return replace(state, given=given, given_share=min(state.given_share, given))


def _outstanding(state: ClusterState, member: MemberState, now: float, settled: Mapping[str, int]) -> int:
    """Returns how many of the replicas that were given for the present deficit are not settled yet."""
    if not state.given:
        return 0
    ready = settled.get(member.cluster)
    if ready is None:
        aged = state.given_since is not None and now - state.given_since >= SETTLED_SECONDS
        ready = member.running if aged else 0
    return min(state.given_share, max((member.minimum or 0) + state.given - ready, 0))


def _judge(
    found: dict[str, ClusterState], members: Sequence[MemberState], lacking: Mapping[str, int], now: float
) -> Iterator[str]:
    """Marks the clusters that help did not relieve although all of it has been ready for three passes."""
    helping = [found[member.cluster] for member in members if found[member.cluster].given_share]
    if not helping or any(state.ready_since is None for state in helping):
        return
    ready_since = max(state.ready_since or 0.0 for state in helping)
    if now - ready_since < _PROVE_SECONDS or all(found[name].deficit_before is None for name in lacking):
        return
    if _fall(found, lacking) > 0:
        _begin_again(found, members, lacking, now)
        return
    for member in members:
        # The help counts for nothing any more. Clusters that it did relieve get new help for the rest.
        found[member.cluster] = replace(found[member.cluster], given_share=0)
    for name, number in lacking.items():
        state = found[name]
        relieved = state.deficit_before is None or number < state.deficit_before
        found[name] = replace(state, ineffective_since=None if relieved else now, deficit_before=None)
        if not relieved:
            yield (
                f"{name}: still lacks {number} replicas three passes after others were ready to help, "
                "so its load may be tied to it; it gets no help for 30 minutes"
            )


def _begin_again(
    found: dict[str, ClusterState], members: Sequence[MemberState], lacking: Mapping[str, int], now: float
) -> None:
    """Compares with the present deficit from now on: a single fall by chance proves nothing for ever."""
    for name, number in lacking.items():
        if found[name].deficit_before is not None:
            found[name] = replace(found[name], deficit_before=number)
    for member in members:
        state = found[member.cluster]
        if state.given_share:
            found[member.cluster] = replace(state, ready_since=now)


def _fall(found: Mapping[str, ClusterState], lacking: Mapping[str, int]) -> int:
    """Returns by how many replicas the deficit of the clusters that got help has fallen since then."""
    return sum((found[name].deficit_before or number) - number for name, number in lacking.items())


def _new_help(
    found: dict[str, ClusterState],
    members: Sequence[MemberState],
    lacking: Mapping[str, int],
    now: float,
    settled: Mapping[str, int],
) -> int:
    """Returns how many replicas of help are lacking still, and notes the deficit that help is compared with.

    Help counts against the deficit until it has been ready for a minute and the deficit has fallen by half of
    it. Otherwise a cluster with tied load would get the same help again and again, and a deficit that goes up
    and down by one replica would, too.
    """
    shares = {member.cluster: found[member.cluster].given_share for member in members}
    fallen = _fall(found, lacking) >= max(-(-sum(shares.values()) // 2), _LEAST_FALL)
    if fallen:
        for member in members:
            name, state = member.cluster, found[member.cluster]
            shares[name] = _outstanding(state, member, now, settled)
            found[name] = replace(state, given_share=shares[name])
    new = sum(lacking.values()) - sum(shares.values())
    for name, number in lacking.items():
        before = found[name].deficit_before
        if before is None or fallen or (new > 0 and number > before):
            found[name] = replace(found[name], deficit_before=number)
    return max(new, 0)


def _give(
    found: dict[str, ClusterState],
    members: Sequence[MemberState],
    policy: Policy,
    lacking: Mapping[str, int],
    new: int,
    now: float,
    uid: str,
) -> Iterator[str]:
    """Gives `new` replicas of help, as far as there is room; yields the reasons."""
    headroom = {
        member.cluster: free
        for member in members
        if member.cluster not in lacking and (free := _headroom(found[member.cluster], member))
    }
    able = {member.cluster: member for member in members if member.cluster in headroom}
    # Duplicated has no shares: the largest cluster is asked first.
    divide = divider(able, AGGREGATED if policy == DUPLICATED else policy, uid)
    divided = divide(min(new, sum(headroom.values())), dict.fromkeys(headroom, 0), headroom)
    lacks = ", ".join(sorted(lacking)[:_MAX_NAMED]) + (" and others" if len(lacking) > _MAX_NAMED else "")
    for name, share in divided.items():
        if not share:
            continue
        state, member = found[name], able[name]
        found[name] = replace(
            state,
            given=max(state.given, member.running - (member.minimum or 0)) + share,
            given_since=now,
            given_share=state.given_share + share,
            ready_since=None,
        )
        yield f"{name}: helps {lacks} with {share} more replicas"


def _headroom(state: ClusterState, member: MemberState) -> int:
    """Returns by how much a cluster may help more: up to its maximum and to what its nodes can run."""
    if member.minimum is None or member.maximum is None or state.zero_since is not None:
        return 0
    if member.pending or member.need is not None:
        return 0
    most = lowest(member.maximum, member.room) or 0
    return max(most - max(member.running, member.minimum + state.given), 0)


def _take_back(
    found: dict[str, ClusterState], members: Sequence[MemberState], step: int, since: float
) -> Iterator[str]:
    """Takes back `step` replicas of each help that was given before the time `since`; yields the reasons."""
    for member in members:
        state = found[member.cluster]
        if not state.given or (state.given_since or 0.0) > since:
            continue
        found[member.cluster] = after = _help_of(state, state.given - step)
        rest = f", {after.given} are left" if after.given else ""
        yield f"{member.cluster}: {state.given - after.given} replicas of its help are taken back{rest}"
