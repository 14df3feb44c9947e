"""The input of a pass over the bounds of member HPAs, from the snapshot and its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.taints import is_avoided
from fedhpa.api.times import parse_time
from fedhpa.assignment import (
    DUPLICATED,
    Bounds,
    ClusterState,
    HoldRules,
    MemberState,
    Observed,
    Previous,
    Rules,
    assigned_for,
    pinned_need,
    usage_load,
)
from fedhpa.decision.context import Context, too_many_lost
from fedhpa.decision.fleet import ClusterView
from fedhpa.decision.messages import HELD
from fedhpa.decision.placement import ClusterHeadroom, cluster_headroom, pending_replicas
from fedhpa.decision.snapshot import ClusterSnapshot, Failure, metrics_api
from fedhpa.decision.spec import PlacementPreference

JSON = object

# Pods that have been ready for this long take their part of the load.
_SETTLED_SECONDS: Final = 60
_NO_PREFERENCE: Final = PlacementPreference()


class BoundsView:
    """All candidate clusters of a FederatedHPA, as a pass sees them.

    `observed` and `previous` are the input of the pass with `rules`. `hpas` are the readable HPAs by cluster,
    ours and others. `edited` are the clusters whose HPA has other bounds than assigned, or is missing.
    `failover_held` says why lost clusters keep their share. `triggers` ask for a pass at once if new.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        snapshot, spec = context.snapshot, context.spec
        placement, hold = spec.assignment, context.hold
        known = (cluster.cluster or KnownCluster(cluster.name) for cluster in snapshot.clusters)
        self._preferences = placement.preferred(known)
        self._views = {view.name: view for view in context.fleet.answered}
        self.policy = placement.policy or DUPLICATED
        self.rules = Rules(
            minimum=spec.min_replicas,
            maximum=spec.max_replicas,
            policy=self.policy,
            exact=placement.exact,
            uid=snapshot.hpa.uid,
            assists=placement.assist,
            scales_to_zero=placement.scaling_to_zero and placement.assist,
            hold=None
            if hold is None
            else HoldRules(down=hold.stops_down, up=hold.stops_up, reason=str(hold)),
            assigned_for=assigned_for(
                spec.min_replicas,
                self.policy,
                exact=placement.exact,
                preferences={cluster.name: self._preference(cluster) for cluster in snapshot.clusters},
            ),
        )
        self.hpas: Mapping[str, MemberHpa] = {
            cluster.name: cluster.hpa
            for cluster in snapshot.clusters
            if isinstance(cluster.hpa, MemberHpa) and cluster.name in self._views
        }
        self.states: Mapping[str, ClusterState] = {
            cluster.name: context.memory.assignment(cluster.name).at(context.now)
            for cluster in snapshot.clusters
        }
        self.previous = Previous(
            states=self.states,
            assigned_for=context.memory.assigned_for,
            lost=frozenset(name for name, state in self.states.items() if state.lost),
        )
        replicas = {cluster.name: context.fleet.known_replicas(cluster) for cluster in snapshot.clusters}
        overdue = {
            cluster.name: replicas[cluster.name]
            for cluster in snapshot.clusters
            if context.fleet.is_overdue(cluster)
        }
        replaced = {cluster.name for cluster in snapshot.clusters if cluster.replaced}
        # A cluster that was failed over before stays so.
        self._failed_over = {name for name in overdue if self.states[name].lost}
        self.failover_held = (
            too_many_lost(overdue, replicas) if overdue.keys() - self._failed_over - replaced else ""
        )
        if not self.failover_held:
            self._failed_over = set(overdue)
        self.observed = tuple(self._observed(cluster) for cluster in snapshot.clusters)
        self.edited = frozenset(one.state.cluster for one in self.observed if self._is_edited(one))
        self.triggers = frozenset(self._triggers())

    @property
    def foreign(self) -> tuple[str, ...]:
        """The clusters whose HPA of this name is not ours, by name."""
        return tuple(sorted(name for name, hpa in self.hpas.items() if not hpa.ours))

    def headroom(self) -> list[ClusterHeadroom]:
        """Returns the headroom of each cluster that is not lost."""
        return [self._headroom(one.state) for one in self.observed if not one.lost]

    def _headroom(self, state: MemberState) -> ClusterHeadroom:
        cap = self.states[state.cluster].cap
        full = cap.replicas if cap is not None and cap.holds(self._context.now) else None
        return cluster_headroom(
            state.cluster,
            replicas=state.present,
            pending=state.pending,
            available=None if state.capacity is None else state.capacity - state.running,
            high=min((high for high in (state.high, full) if high is not None), default=None),
        )

    def _preference(self, cluster: ClusterSnapshot) -> tuple[int | float | str | None, ...]:
        """Returns the settings of a cluster that divide the minima."""
        found = self._preferences.get(cluster.name, _NO_PREFERENCE)
        cap = self._context.spec.assignment.caps.get(cluster.name)
        settings = (found.weight, found.priority, found.low, found.high, None if cap is None else str(cap))
        return (*settings, cluster.overflow) if cluster.overflow else settings

    def _observed(self, cluster: ClusterSnapshot) -> Observed:
        context, hpa = self._context, self.hpas.get(cluster.name)
        view = self._views.get(cluster.name)
        raw = None if hpa is None else _as_json(hpa)
        delay = context.spec.assignment.delay or 0.0
        return Observed(
            state=self._state(cluster, view, None if raw is None else pinned_need(raw, delay, context.now)),
            written=None if hpa is None else _bounds(hpa),
            load=None if raw is None else usage_load(raw),
            scaled_at=None if hpa is None else time_of(hpa.status.get("lastScaleTime")),
            settled=0 if view is None else _settled(view, context.now),
            lost=cluster.name in self._failed_over,
            foreign=hpa is not None and not hpa.ours,
            wakes=view is not None and not view.scale.spec_replicas and self._wakes(view),
        )

    def _state(self, cluster: ClusterSnapshot, view: ClusterView | None, need: int | None) -> MemberState:
        spec = self._context.spec.assignment
        preference = self._preferences.get(cluster.name, _NO_PREFERENCE)
        present, pending = self._context.fleet.known_replicas(cluster), 0
        if view is not None:
            waiting = cluster.pending_replicas
            if waiting is None:
                waiting = pending_replicas(view, self._context.now, spec.delay or 0.0)
            pending = min(max(waiting, 0), present)
        running, available = present - pending, cluster.available_replicas
        highs = [high for high in (preference.high, cluster.most_replicas) if high is not None]
        return MemberState(
            cluster=cluster.name,
            running=running,
            pending=pending,
            capacity=None if available is None else running + max(available, 0),
            need=need,
            low=preference.low or 0,
            high=min(highs, default=None),
            # A cluster whose HPA cannot be read now keeps its bounds.
            reachable=view is not None and not view.age and not isinstance(cluster.hpa, Failure),
            weight=1 if preference.weight is None else preference.weight,
            priority=preference.priority or 0,
            overflow=cluster.overflow,
            is_last=is_avoided(
                cluster.cluster.taints if cluster.cluster else (), self._context.spec.tolerations
            ),
        )

    def _wakes(self, view: ClusterView) -> bool:
        """True if an Object or External metric asks for a replica: any value above 0 does."""
        for metric in self._context.spec.metrics:
            if metric.metric_type.scales_from_zero:
                api = metrics_api(metric)
                found = api.pick(api.of_cluster(view.snapshot), metric, self._context.fleet.namespace)
                if any(sample.milli > 0 for sample in found):
                    return True
        return False

    def _triggers(self) -> Iterator[str]:
        dry_run = " dryRun" if self._context.spec.dry_run else ""
        hold = self._context.hold
        held = "" if hold is None else f" hold {hold.direction}"
        yield f"spec {self.rules.assigned_for} {self.rules.maximum}{dry_run}{held}"
        for one in self.observed:
            cluster, state = one.state.cluster, one.state
            if state.need is not None:
                yield f"pinned {cluster}"
            if state.pending:
                yield f"pending {cluster}"
            if one.lost:
                yield f"lost {cluster}"
            elif self.states[cluster].lost:
                yield f"back {cluster}"
            if cluster in self.edited:
                yield f"edited {cluster}"

    def _is_edited(self, one: Observed) -> bool:
        """True if somebody changed the bounds of an HPA, or deleted it."""
        state = self.states[one.state.cluster]
        if not one.state.reachable or one.foreign or not state.maximum:
            return False
        if (self._context.hold is not None or self._context.builder.has(HELD)) and one.written is not None:
            return one.written.maximum != state.maximum  # a hold keeps minima that are not the assigned ones
        return one.written != state.bounds


def _as_json(hpa: MemberHpa) -> dict[str, JSON]:
    spec = hpa.spec
    return {"spec": {"maxReplicas": spec.maxReplicas, "metrics": spec.metrics}, "status": hpa.status}


def _bounds(hpa: MemberHpa) -> Bounds | None:
    """Returns the bounds of an HPA; None if no HPA can have them."""
    least, most = hpa.spec.minReplicas, hpa.spec.maxReplicas
    return Bounds(minimum=1 if least is None else max(least, 0), maximum=most) if most > 0 else None


def _settled(view: ClusterView, now: float) -> int:
    if not view.pods:
        return view.scale.status_replicas
    return sum(pod.ready == "True" and now - pod.ready_since >= _SETTLED_SECONDS for pod in view.pods)


def time_of(value: JSON) -> float | None:
    """Returns POSIX seconds; None if it is no RFC 3339 time."""
    if not isinstance(value, str):
        return None
    try:
        return parse_time(value)
    except InvalidObject:
        return None
