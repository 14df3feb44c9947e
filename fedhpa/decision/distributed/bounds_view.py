"""The input of a pass over the bounds of member HPAs, from the snapshot and its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from operator import is_
from typing import Final

from msgspec import structs

from fedhpa.api.assignment_policies import AssignmentPolicy
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.taints import is_avoided
from fedhpa.assignment import (
    NO_STATE,
    PERIOD_SECONDS,
    Bounds,
    ClusterState,
    Course,
    Member,
    Previous,
    Rules,
    assigned_for,
    report_of,
)
from fedhpa.decision.bridge import missed_for
from fedhpa.decision.context import Context
from fedhpa.decision.fleet import ClusterView
from fedhpa.decision.memory import ANSWERED_STATES, QUIET_SECONDS, History
from fedhpa.decision.messages import SURVIVES_CLUSTER_LOSS
from fedhpa.decision.model import Decision, api_time
from fedhpa.decision.placement import ClusterHeadroom, cluster_headroom
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.snapshot import ClusterSnapshot, Failure, Snapshot
from fedhpa.decision.spec import PlacementPreference

JSON = object

_NO_PREFERENCE: Final = PlacementPreference()


class SeenMembers:
    """The clusters as a pass saw them last, each with all that it follows from, and a decision at rest.

    Only those are kept that follow from nothing else: a cluster that answers and is not pinned.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[object, ...], Member]] = {}
        self._rest: tuple[tuple[object, ...], float, Decision] | None = None

    def at_rest(
        self, snapshot: Snapshot, history: History, now: float, settings: ControllerSettings
    ) -> Decision | None:
        """Returns the last decision as one of `now`, if time alone changed nothing in it; else None."""
        if self._rest is None:
            return None
        basis, until, decision = self._rest
        if not decision.now <= now < until or basis != _basis(snapshot, history, settings):
            return None
        status = {**decision.status, "lastSeen": api_time(now)}
        return structs.replace(decision, now=now, status=status)

    def keep(self, context: Context, view: BoundsView, decision: Decision) -> None:
        """Keep a decision as long as time alone changes nothing in it, at most for ten minutes."""
        snapshot, memory, fleet, now = context.snapshot, decision.memory, context.fleet, context.now
        # An outlook becomes better only after a while.
        outlook = [one for one in decision.conditions if one.type == SURVIVES_CLUSTER_LOSS]
        worse = [one.since or 0.0 for one in outlook if one.status != "True"]
        rests = (
            not (decision.writes or decision.events or context.absences)
            and not (context.hold or context.knows_rebalance or context.missed or fleet.memberships)
            and snapshot.placement is None
            and all(now - since >= QUIET_SECONDS for since in worse)
            and memory.clusters == snapshot.memory.clusters
            and memory.course == snapshot.memory.course == Course(written=memory.course.written)
            # A clock runs while a cluster is missing, pinned, or has replicas that are not ready.
            and all(one.answers and one.need is None and one.ready >= one.running for one in view.members)
            and not any(state.idle_since for state in view.previous.states.values())
            and not any(one.lacking_since or one.answered_since for one in memory.clusters.values())
            and all((report.scaled_at or now) <= now for report in view.reports.values())
        )
        # The rest is divided by policy so long after the last write.
        due = (memory.course.written or now) + PERIOD_SECONDS
        basis = _basis(snapshot, context.history, context.settings)
        self._rest = (basis, due if due > now else now + PERIOD_SECONDS, decision) if rests else None

    def of(self, name: str, basis: tuple[object, ...], make: Callable[[], Member]) -> Member:
        """Returns the cluster as it follows from the `basis`; `make` computes it."""
        known = self._known.get(name)
        if known is not None and all(map(is_, known[0], basis)):
            return known[1]
        found = make()
        if found.answers and found.pinned_for is None:
            self._known[name] = basis, found
        return found


class BoundsView:
    """All candidate clusters of a FederatedHPA, as a pass sees them.

    `members` and `previous` are the input of the pass with `rules`. `hpas` are the readable HPAs by cluster,
    ours and others; `reports` are what ours report.
    """

    def __init__(self, context: Context, seen: SeenMembers | None = None) -> None:
        self._context = context
        snapshot, spec = context.snapshot, context.spec
        placement = spec.assignment
        known = (cluster.cluster or KnownCluster(cluster.name) for cluster in snapshot.clusters)
        self._preferences = placement.preferred(known)
        self._views = context.fleet.views
        policy = placement.policy or AssignmentPolicy.DUPLICATED
        self.hpas: Mapping[str, MemberHpa] = {
            cluster.name: cluster.hpa
            for cluster in snapshot.clusters
            if isinstance(cluster.hpa, MemberHpa) and cluster.name in self._views
        }
        self.reports = {name: hpa.derived(report_of) for name, hpa in self.hpas.items() if hpa.ours}
        self.previous = Previous(
            states={cluster.name: context.memory.assignment(cluster.name) for cluster in snapshot.clusters},
            course=context.memory.course,
            assigned_for=context.memory.assigned_for,
        )
        kept = SeenMembers() if seen is None else seen
        self.members = tuple([self._seen(cluster, kept) for cluster in snapshot.clusters])
        self.rules = Rules(
            minimum=spec.min_replicas,
            maximum=spec.max_replicas,
            policy=policy,
            exact=placement.exact,
            uid=snapshot.hpa.uid,
            assists=placement.assist,
            scales_to_zero=placement.scaling_to_zero and placement.assist,
            hold=context.hold,
            assigned_for=assigned_for(
                spec.min_replicas,
                policy,
                exact=placement.exact,
                # A cluster that could not be written yet has no part of minReplicas.
                preferences={
                    one.cluster: self._preference(cluster)
                    for cluster, one in zip(snapshot.clusters, self.members, strict=True)
                    if not one.leaving and (one.answers or one.has_hpa)
                },
            ),
        )

    def headroom(self) -> list[ClusterHeadroom]:
        """Returns the headroom of each cluster that is not lost."""
        return [
            cluster_headroom(
                one.cluster,
                replicas=one.running,
                pending=max(one.running - one.ready, 0) if one.stuck else 0,
                available=one.room,
                high=one.high,
            )
            for one in self.members
            if not one.lost
        ]

    def _preference(self, cluster: ClusterSnapshot) -> tuple[int | float | str | None, ...]:
        """Returns the settings of a cluster that divide the minima."""
        found = self._preferences.get(cluster.name, _NO_PREFERENCE)
        cap = self._context.spec.assignment.caps.get(cluster.name)
        settings = (found.weight, found.priority, found.low, found.high, None if cap is None else str(cap))
        return (*settings, cluster.overflow) if cluster.overflow else settings

    def _seen(self, cluster: ClusterSnapshot, seen: SeenMembers) -> Member:
        name, memory = cluster.name, self._context.memory
        basis = (
            cluster,
            self.previous.states[name],
            memory.clusters.get(name),
            self._preferences.get(name),
            self._context.spec,
            self._context.fleet.membership(name),
        )
        return seen.of(name, basis, partial(self._member, cluster))

    def _member(self, cluster: ClusterSnapshot) -> Member:
        context, fleet, name = self._context, self._context.fleet, cluster.name
        state, hpa, view = self.previous.states[name], self.hpas.get(name), self._views.get(name)
        preference = self._preferences.get(name, _NO_PREFERENCE)
        highs = [high for high in (preference.high, cluster.most_replicas) if high is not None]
        running = fleet.known_replicas(cluster)
        foreign = hpa is not None and not hpa.ours
        # A cluster whose HPA cannot be read now keeps its bounds.
        answers = view is not None and not view.age and not isinstance(cluster.hpa, Failure) and not foreign
        written = None if hpa is None else _bounds(hpa)
        if not foreign and state == NO_STATE and written is not None:
            # The record was lost, so the bounds in the member are the ones that were assigned.
            state = ClusterState(minimum=written.minimum, maximum=written.maximum)
        known = context.memory.clusters.get(name)
        standing = context.memory.standing(name)
        ready = 0 if view is None else _ready(view, running)
        load, pinned_for = (None, None) if hpa is None or not answers else self._usage(name, running, ready)
        return Member(
            cluster=name,
            minimum=None if foreign else state.minimum,
            maximum=running if foreign else state.maximum or 0,
            written=written if answers or foreign else state.bounds,
            running=running,
            ready=ready,
            load=load,
            pinned_for=pinned_for,
            room=cluster.available_replicas,
            low=preference.low or 0,
            high=min(highs, default=None),
            weight=1 if preference.weight is None else preference.weight,
            priority=preference.priority or 0,
            overflow=cluster.overflow,
            is_last=is_avoided(cluster.cluster.taints if cluster.cluster else (), context.spec.tolerations),
            membership=fleet.membership(name),
            answers=answers,
            missing_for=0.0 if view is not None else missed_for(cluster, context.now),
            lost=view is None and fleet.is_overdue(cluster) and not cluster.gone,
            back=answers and known is not None and known.state not in ANSWERED_STATES and state != NO_STATE,
            foreign=foreign,
            rolling=view is not None and view.is_rolling,
            was_stuck=standing is not None and standing.stuck_since is not None,
            wakes=view is not None and not running and self._wakes(view),
            drift=() if foreign else cluster.drift,
        )

    def _usage(self, name: str, running: int, ready: int) -> tuple[Fraction | None, float | None]:
        """Returns the load of a cluster, and for how many seconds it has been pinned, None if it is not.

        The load is unknown unless each metric has a value. A pinned cluster has a metric that asks for more,
        and one without a value could only ask for more still.
        """
        report, most = self.reports[name], self.hpas[name].spec.maxReplicas
        load, since = report.load(ready), report.limited_since
        if load is not None and since is not None and running >= most > 0 and load > running:
            return load, max(self._context.now - since, 0.0)
        return load if report.complete else None, None

    def _wakes(self, view: ClusterView) -> bool:
        """True if an Object or External metric asks for a replica: any value above 0 does."""
        waking = (one for one in self._context.spec.metrics if one.metric_type.scales_from_zero)
        return any(sample.milli > 0 for metric in waking for sample in view.samples(metric))


def _basis(snapshot: Snapshot, history: History, settings: ControllerSettings) -> tuple[object, ...]:
    """Returns all that a decision follows from but the time. Old answers count only for missing clusters."""
    return structs.replace(snapshot, answers={}), history, settings


def _bounds(hpa: MemberHpa) -> Bounds | None:
    """Returns the bounds of an HPA; None if no HPA can have them."""
    least, most = hpa.spec.minReplicas, hpa.spec.maxReplicas
    return Bounds(minimum=1 if least is None else max(least, 0), maximum=most) if most > 0 else None


def _ready(view: ClusterView, running: int) -> int:
    known = view.snapshot
    if known.ready_replicas is not None:
        return min(max(known.ready_replicas, 0), running)
    if known.pending_replicas:
        return max(running - known.pending_replicas, 0)
    return min(view.ready_pods if view.pods else view.scale.status_replicas, running)
