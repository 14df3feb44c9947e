"""The membership of each cluster of one object: it takes part, gets nothing more, or leaves.

spec.clusterAffinity, and taints without a toleration, ask for a membership. Source:
docs/explanation/membership.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.default_values import CORDON
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.taints import (
    CORDONED,
    DRAIN_TAINT,
    LEAVING,
    MEMBER,
    NO_EXECUTE,
    NO_SCHEDULE,
    OWN_TAINTS,
    PROBE_TAINTS,
    STUCK,
    Toleration,
    tolerated_for,
)
from fedhpa.api.texts import cut_line
from fedhpa.api.times import known_time
from fedhpa.decision.memory import NEW_MEMBER, Standing
from fedhpa.decision.snapshot import ClusterScale, ClusterSnapshot, Snapshot
from fedhpa.decision.spec import CENTRALIZED

# A label, an affinity, or a taint of somebody else acts after so long, because each change moves replicas.
SETTLED_SECONDS: Final = 60.0
EVICTED_BY_KARMADA: Final = ", on which only Karmada's taint manager evicts"
_KARMADA: Final = "karmada"
DELETED: Final = "its Cluster is being deleted"
NOT_SELECTED: Final = "spec.clusterAffinity does not select it"
NEW_HOST: Final = "NewHost: it began to run the workload; select it by spec.clusterAffinity"
GIVEN: Final = "the scenario says so"
NOBODY_STAYS: Final = "no cluster stays that could take its replicas"
_STRICTNESS: Final = (MEMBER, CORDONED, LEAVING)
# People read status and events.
_MAX_KEY: Final = 64


class Membership(NamedTuple):
    """The membership of a cluster in this decision, what asks for it, and the state to remember."""

    state: str
    why: str
    standing: Standing


class _Request(NamedTuple):
    """A membership that is asked for: it acts at the time `at`, else `delay` seconds after it was seen."""

    membership: str
    why: str
    delay: float = SETTLED_SECONDS
    at: float | None = None
    own: bool = False

    @property
    def rank(self) -> int:
        """Its place among the memberships, the strictest last."""
        return _STRICTNESS.index(self.membership)

    def acts(self, seen: float, now: float) -> bool:
        """True if it acts now."""
        return now >= (seen + self.delay if self.at is None else self.at)


def memberships(
    snapshot: Snapshot,
    clusters: Sequence[ClusterSnapshot],
    now: float,
    is_overdue: Callable[[ClusterSnapshot], bool],
    new_hosts: str,
) -> dict[str, Membership]:
    """Returns the memberships of some `clusters`, all others are Members.

    `new_hosts` is that of ControllerSettings. Where each cluster that could take replicas leaves, all count
    as Cordoned: none could take the others' replicas, and growth has no other place. One that `is_overdue`
    could not. A hold that stops moves makes them Cordoned, too.
    """
    tolerations, memory = snapshot.hpa.spec.tolerations, snapshot.memory
    evicts = snapshot.propagation == _KARMADA or snapshot.target is not None
    found: dict[str, Membership] = {}
    for cluster in clusters:
        requests = list(_requests(cluster, tolerations, now, evicts=evicts))
        known = memory.standing(cluster.name)
        if cluster.given_membership is not None:
            found[cluster.name] = _given(cluster.given_membership, known or NEW_MEMBER, now)
            continue
        is_new = is_new_host(cluster, snapshot)
        if is_new and new_hosts == CORDON:
            requests.append(_Request(CORDONED, NEW_HOST, 0.0))
        one = _membership(requests, known, now)
        if is_new:
            since = None if known is None else known.serves_since
            standing = msgspec.structs.replace(one.standing, new=True, serves_since=since)
            one = one._replace(standing=standing)
        found[cluster.name] = one
    leaving = {name for name, one in found.items() if one.state == LEAVING}
    hold, waits = snapshot.hold_at(now), ""
    if leaving and hold is not None and hold.stops_moves:
        waits = str(hold)
    elif leaving and all(one.name in leaving or not _is_able(one, is_overdue) for one in snapshot.clusters):
        waits = NOBODY_STAYS
    return found | {name: found[name]._replace(state=CORDONED, why=waits) for name in leaving if waits}


def membership_of(cluster: KnownCluster, now: float) -> Membership:
    """Returns the membership of a cluster for a workload without an object that selects clusters.

    Only taints decide, and nothing is remembered. A taint of somebody else whose age is unknown, or less than
    a minute, makes the cluster Cordoned.
    """
    return _membership(list(_taint_requests(cluster, (), now)), None, now)


def may_begin(cluster: KnownCluster, tolerations: Sequence[Toleration], now: float, *, awaited: bool) -> bool:
    """True if a cluster without the workload should get it. It stays `awaited` while it is only Cordoned."""
    found = ClusterSnapshot(name=cluster.name, cluster=cluster)
    state = _membership(list(_requests(found, tolerations, now, evicts=False)), None, now).state
    return state == MEMBER or (awaited and state == CORDONED)


def is_new_host(cluster: ClusterSnapshot, snapshot: Snapshot) -> bool:
    """True if the cluster began to host the workload after the object's first decision, and is not proven.

    A cluster that spec.clusterAffinity selects was chosen by a person.
    """
    memory = snapshot.memory
    spec = snapshot.hpa.spec
    if spec.selects_clusters or spec.mode != CENTRALIZED or snapshot.target is not None:
        return False
    if memory.size is None:
        return False
    known = memory.standing(cluster.name)
    return isinstance(cluster.scale, ClusterScale) if known is None else known.new


def _is_able(cluster: ClusterSnapshot, is_overdue: Callable[[ClusterSnapshot], bool]) -> bool:
    """True if the cluster answers, or is known and has not been missing for long."""
    if cluster.ready and cluster.error is None and isinstance(cluster.scale, ClusterScale):
        return True
    return cluster.last_replicas is not None and not is_overdue(cluster)


def _membership(requests: Sequence[_Request], known: Standing | None, now: float) -> Membership:
    before = known or NEW_MEMBER
    strictest = _strictest(requests)
    asked = strictest.membership
    known_since = before.asked_since if before.asked == asked else None
    seen = now if known_since is None else min(known_since, now)
    best = _strictest([one for one in requests if one.acts(seen, now)])
    rank = _STRICTNESS.index(before.membership)
    if before.own and not any(one.own and one.rank >= rank for one in requests):
        # `fedhpa uncordon` ends it. A taint that is tolerated for a while yet is no reason to go on.
        near = [one for one in requests if one.delay <= SETTLED_SECONDS or one.acts(seen, now)]
        strictest = _strictest(near)
    lifted = strictest.rank < rank and (before.own or now - seen >= SETTLED_SECONDS)
    since: float | None = now // 1
    if best.rank > rank or lifted:
        # A milder request has stood beside the stricter one, so it need not settle again.
        chosen = strictest if lifted else best
        state, own = chosen.membership, chosen.own
    else:
        # The present membership stays, by another request perhaps.
        own = any(one.own and one.rank >= rank for one in requests) if strictest.rank >= rank else before.own
        state, since = before.membership, before.since
    if known is None and state == MEMBER and requests:
        state = CORDONED  # a cluster without a history gets nothing before it is known to stay
    settled = asked == state
    standing = Standing(
        membership=state,
        since=None if state == MEMBER else since,
        own=own,
        asked=asked,
        asked_since=None if settled else seen // 1,
        warned=before.warned and state == before.membership,
    )
    # Nothing moves while it is not certain that the cluster leaves.
    shown = CORDONED if state == LEAVING and strictest.rank < _STRICTNESS.index(LEAVING) else state
    why = strictest.why if strictest.rank >= _STRICTNESS.index(shown) else best.why
    return Membership(shown, why, standing)


def _given(state: str, known: Standing, now: float) -> Membership:
    """Returns the membership that a scenario gives, which acts at once."""
    if state == STUCK:
        since = now // 1 if known.stuck_since is None else known.stuck_since
        return Membership(STUCK, GIVEN, Standing(stuck_since=since))
    if known.membership != state or known.stuck_since is not None:
        known = NEW_MEMBER if state == MEMBER else Standing(membership=state, since=now // 1)
    return Membership(state, GIVEN, known)


def _strictest(requests: Sequence[_Request]) -> _Request:
    """Returns the strictest request, and among equal ones that of a taint of `fedhpa drain` or `cordon`."""
    return max(requests, key=lambda one: (one.rank, one.own), default=_Request(MEMBER, ""))


def _requests(
    cluster: ClusterSnapshot, tolerations: Sequence[Toleration], now: float, *, evicts: bool
) -> Iterator[_Request]:
    if not cluster.selected:
        yield _Request(LEAVING, NOT_SELECTED)
    if cluster.cluster is not None:
        if cluster.cluster.deleted:
            yield _Request(LEAVING, DELETED, 0.0)
        yield from _taint_requests(cluster.cluster, tolerations, now, evicts=evicts)


def _taint_requests(
    cluster: KnownCluster, tolerations: Sequence[Toleration], now: float, *, evicts: bool = False
) -> Iterator[_Request]:
    # Karmada's own taint manager evicts, if it is enabled, whatever the workload is.
    no_execute, who = (CORDONED, EVICTED_BY_KARMADA) if evicts else (LEAVING, "")
    for taint in cluster.taints:
        if taint.key in PROBE_TAINTS or taint.effect not in (NO_SCHEDULE, NO_EXECUTE):
            continue
        why = f"taint {cut_line(taint.key, _MAX_KEY)}:{taint.effect}"
        if taint.key in OWN_TAINTS:
            yield _Request(LEAVING if taint.key == DRAIN_TAINT else CORDONED, why, 0.0, own=True)
            continue
        tolerated = tolerated_for(taint, tolerations)
        if tolerated is not None:
            delay, added = max(tolerated, SETTLED_SECONDS), known_time(taint.timeAdded)
            at = None if added is None else min(added, now) + delay
            if taint.effect == NO_EXECUTE:
                yield _Request(no_execute, f"{why}{who}", delay, at)
            else:
                yield _Request(CORDONED, why, delay, at)
