"""The share of each cluster (direct propagation), and the replicas without room if one cluster is lost.

Source: docs/reference/processes.md and docs/explanation/placement.md; the arithmetic of shares is
`fedhpa.assignment.direct`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.quantity import parse_milli
from fedhpa.api.taints import CORDONED, LEAVING, is_avoided
from fedhpa.api.texts import listed
from fedhpa.assignment import (
    Place,
    as_if,
    fair_split,
    limits,
    release_step,
    split,
)
from fedhpa.decision.context import Context
from fedhpa.decision.fleet import ClusterView
from fedhpa.decision.model import MetricResult
from fedhpa.decision.snapshot import ClusterSnapshot
from fedhpa.decision.spec import PlacementPreference
from fedhpa.metric_types.table import metric_type
from fedhpa.scaling import IGNORED


class ClusterHeadroom(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One cluster: its `replicas`, the part of them that is `running`, and its room for more.

    `sure` is the room that is known. `most` is the room if unknown nodes take everything that its limits
    allow, None without a limit. `known` is True if the capacity of its nodes is known.
    """

    cluster: str
    replicas: int
    running: int
    sure: int
    most: int | None
    known: bool = True


class WorstLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of the one cluster that leaves most replicas without room.

    Without `cluster`, at least `lacking` of all `total` replicas have no room, and at most `at_most`: the two
    differ if the capacity of other clusters is unknown.
    """

    cluster: str
    total: int
    lacking: int
    at_most: int

    @property
    def survives(self) -> bool | None:
        """True if all replicas have room, None if that is unknown."""
        return None if self.lacking == 0 < self.at_most else self.lacking == 0


def cluster_headroom(
    cluster: str, *, replicas: int, pending: int = 0, available: int | None = None, high: int | None = None
) -> ClusterHeadroom:
    """Returns the headroom of one cluster with `replicas` replicas.

    `pending` of them wait for a node, and while some do, its nodes are full. `available` is how many more fit
    on its nodes, None if unknown. `high` is the limit of its replicas, None without one.
    """
    most = None if high is None else max(high - replicas, 0)
    if pending:
        sure, most = 0, 0
    elif available is None:
        sure = 0
    else:
        sure = most = max(available if most is None else min(available, most), 0)
    return ClusterHeadroom(
        cluster=cluster,
        replicas=replicas,
        running=replicas - pending if pending < replicas else 0,
        sure=sure,
        most=most,
        known=available is not None,
    )


def worst_loss(clusters: Iterable[ClusterHeadroom], maximum: int) -> WorstLoss | None:
    """Returns the worst loss of one cluster; None if no replica runs.

    Replicas above `maximum`, that of the FederatedHPA, need no room elsewhere.
    """
    found = list(clusters)
    total = sum([one.replicas for one in found])
    if total <= 0:
        return None
    needed = min(total, maximum)
    running = sum([one.running for one in found])
    sure = sum([one.sure for one in found])
    most = sum([one.most for one in found if one.most is not None])
    unlimited = sum([one.most is None for one in found])
    losses = []
    for one in found:
        lacking = needed - (running - one.running)
        at_most = max(lacking - (sure - one.sure), 0)
        takes_all = unlimited > (one.most is None)
        least = 0 if takes_all else max(lacking - (most - (one.most or 0)), 0)
        losses.append((-least, -at_most, -one.replicas, one.cluster))
    least, at_most, _, cluster = min(losses)
    return WorstLoss(cluster=cluster, total=total, lacking=-least, at_most=-at_most)


ABOVE_LIMIT: Final = "autoscalingMaxThreshold lets the clusters take no more"
ABOVE_CAP: Final = "clusterHPAPreference lets the clusters take no more"
BELOW_LIMIT: Final = "clusters that do not answer or refused a write keep what they have"
BELOW_THRESHOLD: Final = "autoscalingMinThreshold keeps that many in each cluster"
# People read status and events, so they name only so many clusters.
_MAX_NAMED: Final = 10
_NO_PREFERENCE: Final = PlacementPreference()


class PlacementPlan:
    """The clusters as `places` for replicas, after the metrics were evaluated: LoadWeighted needs them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._policy = context.spec.assignment.policy
        fleet = context.fleet
        most = release_step(context.spec.max_replicas) if fleet.stuck else 0
        self._evidence = sorted(fleet.stuck)[:most]
        self._answered = fleet.views
        used = loads(context.metrics) if self._policy.by_load else {}
        usual = sum(used.values()) // len(used) if used else 1
        self._leaving = {cluster.name for cluster in fleet.leaving}
        self.places = {
            cluster.name: self._place(cluster, used[cluster.name] if cluster.name in used else usual)  # noqa: SIM401
            for cluster in fleet.expected
            if not fleet.memberships
            or cluster.name in self._leaving
            or fleet.membership(cluster.name) != LEAVING
        }
        self._members = {name: place for name, place in self.places.items() if name not in self._leaving}

    def limited(self, desired: int) -> int:
        """Returns the nearest size that can be placed; adds a step if it differs."""
        if self._context.fleet.memberships:
            self._members = self._with_cordoned(desired)
        if self._context.coverage.bridged:
            desired = self._with_bridged(desired)
        left = {
            name: msgspec.structs.replace(self.places[name], low=0, high=self.places[name].present)
            for name in self._leaving
        }
        least, most = limits(self._members | left, self._policy)
        step = self._context.builder.step
        if most is not None and desired > most:
            capped = any(cluster.most_replicas is not None for cluster in self._context.fleet.expected)
            return step("assignment", desired, most, ABOVE_CAP if capped else ABOVE_LIMIT)
        if desired < least:
            reason = BELOW_THRESHOLD if self._policy.copies else BELOW_LIMIT
            return step("assignment", desired, least, reason)
        return desired

    def goal(
        self, desired: int, *, fair: bool = False, since: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Returns each cluster's share of a size. Leaving clusters keep what others cannot take.

        The fair split divides all replicas anew, else only the difference to the present shares is divided,
        or that to the shares of an earlier goal: `since`.
        """
        divide = fair_split if fair else split
        members = self._members
        if since is not None:
            members = {name: as_if(place, since.get(name, place.present)) for name, place in members.items()}
        held = {name: self.places[name].present for name in self._leaving if not self.places[name].reachable}
        if self._policy.copies:
            return divide(desired, members, self._policy) | dict.fromkeys(self._leaving, 0) | held
        wanted = max(desired - sum(held.values()), 0)
        most = limits(self._members, self._policy)[1] if self._leaving else None
        shares = divide(wanted if most is None else min(wanted, most), members, self._policy)
        left = max(wanted - sum(shares.values()), 0)
        shares |= dict.fromkeys(self._leaving, 0) | held
        for name in sorted(self._leaving - held.keys()):
            more = min(self.places[name].present - shares[name], left)
            shares[name] += more
            left -= more
        return shares

    def with_evidence(self, shares: dict[str, int]) -> dict[str, int]:
        """Returns the shares with one replica more in stuck clusters: it shows when that is over.

        At most a step of them run beyond the size. A stuck cluster without one keeps a replica that waits
        inside the size.
        """
        for name in self._evidence:
            place = self.places[name]
            if place.reachable and shares[name] <= place.running:
                shares[name] = min(shares[name] + 1, place.present)
        return shares

    def spare_surge(self, desired: int) -> None:
        """Count replicas of stuck clusters above maxReplicas in the size, because a surge needs the step."""
        kept = max(self._context.spec.max_replicas - desired, 0)
        for name in self._evidence[kept:]:
            place = self.places[name]
            self.places[name] = msgspec.structs.replace(place, pending=max(place.pending - 1, 0))
            if name in self._members:
                self._members[name] = self.places[name]
        self._evidence = self._evidence[:kept]

    def _with_cordoned(self, desired: int) -> dict[str, Place]:
        """Returns the members, and the cordoned clusters with what they have: more only if all are full."""
        cordoned = {
            name
            for name, place in self._members.items()
            if self._context.fleet.membership(name) == CORDONED and place.reachable
        }
        if not cordoned:
            return self._members
        capped = self._members | {name: _capped(self._members[name]) for name in cordoned}
        most = limits(capped, self._policy)[1]
        room = sum(self.places[name].present for name in self._leaving)
        full = not self._policy.copies and most is not None and desired > most + room
        self._context.cordoned_grow = full
        return self._members if full else capped

    def _with_bridged(self, desired: int) -> int:
        """Returns a size at which bridged clusters keep their share, and others do not shrink in their place.

        The load of a bridged cluster may need the replicas that it would give.
        """
        bridged = [name for name in self._context.coverage.bridged if name in self._members]
        if desired >= sum(place.present for place in self._members.values()):
            return desired
        free = self._members | {
            name: msgspec.structs.replace(self._members[name], reachable=True) for name in bridged
        }
        fair = split(desired, free, self._policy)
        for name in bridged:
            self.places[name] = msgspec.structs.replace(self.places[name], reachable=False)
            self._members[name] = msgspec.structs.replace(self._members[name], reachable=False)
        if self._policy.copies:
            return desired
        kept = sum(max(self._members[name].present - fair[name], 0) for name in bridged)
        return self._context.builder.step("assignment", desired, desired + kept, keeps(bridged))

    def changes(self, shares: Mapping[str, int]) -> str:
        """Returns a text with each cluster whose share changes; empty if none does."""
        changed = [
            f"{name} {self.places[name].present} -> {share}"
            for name, share in shares.items()
            if share != self.places[name].present
        ]
        return listed(changed, _MAX_NAMED) if changed else ""

    @property
    def ready(self) -> dict[str, int]:
        """The ready pods of each cluster that answers."""
        return {name: view.ready_pods for name, view in self._answered.items()}

    @property
    def rolling(self) -> frozenset[str]:
        """The clusters whose pods have more than one version."""
        return frozenset(name for name, view in self._answered.items() if view.is_rolling)

    def headroom(self) -> list[ClusterHeadroom]:
        """Returns the headroom of each cluster."""
        return [
            cluster_headroom(
                name,
                replicas=place.present,
                pending=place.pending,
                available=place.available,
                high=place.high,
            )
            for name, place in self.places.items()
        ]

    def _place(self, cluster: ClusterSnapshot, load: int) -> Place:
        fleet, spec = self._context.fleet, self._context.spec.assignment
        name = cluster.name
        # A call for each cluster costs, so no `get` here.
        view = self._answered[name] if name in self._answered else None  # noqa: SIM401
        known = fleet.preferences
        preference = known[name] if name in known else _NO_PREFERENCE  # noqa: SIM401
        unproven = bool(fleet.memberships) and fleet.is_unproven(name)
        least = 0 if spec.exact or unproven or self._policy.copies else 1
        weight = 1 if preference.weight is None else preference.weight
        available = cluster.available_replicas
        taints = () if cluster.cluster is None else cluster.cluster.taints
        high = preference.high
        if cluster.most_replicas is not None:
            high = _lowest(high, cluster.most_replicas)
        low = max(preference.low, least) if preference.low else least
        present = fleet.shares[name] or 0
        stuck = view is not None and name in fleet.stuck
        inside = name not in self._evidence
        # A step of a move is for present pods.
        waits = cluster.bridge is not None and (fleet.moving or bool(fleet.leaving))
        if stuck:
            high = _lowest(high, present)
        return Place(
            present=present,
            reachable=view is not None and not cluster.held and not waits,
            available=None if available is None else max(available, 0),
            pending=max(present - view.ready_pods - inside, 0) if view is not None and stuck else 0,
            weight=load if self._policy.by_load else weight,
            priority=preference.priority or 0,
            low=low if high is None else min(low, high),
            high=high,
            unproven=unproven,
            is_last=bool(taints) and is_avoided(taints, self._context.spec.tolerations),
        )


def keeps(bridged: Sequence[str]) -> str:
    """Returns why clusters keep their share while their last answer stands for them."""
    keep, them = ("keeps its", "it") if len(bridged) == 1 else ("keep their", "them")
    return f"{listed(bridged, _MAX_NAMED)} {keep} replicas while the last answer stands for {them}"


def headroom_of_binding(context: Context) -> list[ClusterHeadroom]:
    """Returns the headroom of each cluster that Karmada's scheduler chose."""
    views = context.fleet.views
    delay = context.spec.assignment.delay or 0.0
    return [
        cluster_headroom(
            cluster.name,
            replicas=context.fleet.known_replicas(cluster),
            pending=pending_replicas(views[cluster.name], context.now, delay) if cluster.name in views else 0,
            available=cluster.available_replicas,
        )
        for cluster in context.fleet.candidates
        # For a lost cluster, Karmada has placed the replicas elsewhere, or will.
        if cluster.name not in context.fleet.lost
    ]


def _capped(place: Place) -> Place:
    """Returns a place that gets no more than it has."""
    high = _lowest(place.high, place.present)
    return msgspec.structs.replace(place, low=min(place.low, place.present), high=high)


def _lowest(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def pending_replicas(view: ClusterView, now: float, delay: float) -> int:
    """Returns how many of the cluster's replicas have been unschedulable for longer than `delay` seconds."""
    waiting = placed = 0
    for pod in view.pods:
        since = pod.unschedulable_since
        if since is not None:
            waiting += now - since > delay
        elif pod.state != IGNORED:
            placed += 1
    # The surge pod of a rolling update comes on top of spec.replicas: it does not lack a node.
    return min(waiting, max(view.scale.spec_replicas - placed, 0)) if waiting else 0


def loads(metrics: tuple[MetricResult, ...]) -> Mapping[str, int]:
    """Returns the sum of usage over each cluster's pods, in milli-units, of the metric that wants the most.

    The mean per pod would pull towards equal counts: where load is tied to clusters, the cluster with the
    larger part of it needs the larger part of the replicas, although its pods are as busy as the others.
    """
    measured = [
        metric for metric in metrics if metric.proposal is not None and metric_type(metric.type).per_pod
    ]
    if not measured:
        return {}
    deciding = max(measured, key=lambda metric: (metric.proposal or 0, -metric.index))
    return {
        cluster: max(parse_milli(share.value), 0)
        for cluster, share in deciding.clusters.items()
        if share.pods
    }
