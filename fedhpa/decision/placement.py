"""Each cluster's share of the replicas (direct propagation), and the outlook on the loss of one cluster.

Source: docs/reference/processes.md and docs/explanation/placement.md; the arithmetic of shares is
`fedhpa.assignment.direct`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.quantity import parse_milli
from fedhpa.api.texts import listed
from fedhpa.api.times import parse_time
from fedhpa.assignment import (
    DUPLICATED,
    LOAD_WEIGHTED,
    Place,
    limits,
    split,
)
from fedhpa.decision.context import MAX_LOST_PER_CENT, Context
from fedhpa.decision.fleet import ClusterView
from fedhpa.decision.messages import SURVIVES_CLUSTER_LOSS
from fedhpa.decision.model import Assignment, MetricResult
from fedhpa.decision.snapshot import ClusterSnapshot
from fedhpa.decision.spec import PlacementPreference
from fedhpa.metric_types.table import metric_type
from fedhpa.scaling import IGNORED


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHeadroom:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstLoss:
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
        running=max(replicas - pending, 0),
        sure=sure,
        most=most,
        known=available is not None,
    )


def worst_loss(clusters: Iterable[ClusterHeadroom], maximum: int) -> WorstLoss | None:
    """Returns the worst loss of one cluster; None if no replica runs.

    Replicas above `maximum`, that of the FederatedHPA, need no room elsewhere.
    """
    found = list(clusters)
    total = sum(one.replicas for one in found)
    if total <= 0:
        return None
    needed = min(total, maximum)
    running = sum(one.running for one in found)
    sure = sum(one.sure for one in found)
    most = sum(one.most for one in found if one.most is not None)
    unlimited = sum(one.most is None for one in found)
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
        self._answered = {view.name: view for view in fleet.answered}
        loads = _loads(context.metrics) if self._policy == LOAD_WEIGHTED else {}
        usual = sum(loads.values()) // len(loads) if loads else 1
        self.places = {
            cluster.name: self._place(cluster, loads.get(cluster.name, usual)) for cluster in fleet.expected
        }

    def limited(self, desired: int) -> int:
        """Returns the nearest size that can be placed; adds a step if it differs."""
        least, most = limits(self.places, self._policy)
        step = self._context.builder.step
        if most is not None and desired > most:
            capped = any(cluster.most_replicas is not None for cluster in self._context.fleet.expected)
            return step("assignment", desired, most, ABOVE_CAP if capped else ABOVE_LIMIT)
        if desired < least:
            reason = BELOW_THRESHOLD if self._policy == DUPLICATED else BELOW_LIMIT
            return step("assignment", desired, least, reason)
        return desired

    def shares(self, desired: int) -> tuple[Assignment, ...]:
        """Returns each cluster's share of a size."""
        found = split(desired, self.places, self._policy)
        return tuple(Assignment(cluster, replicas) for cluster, replicas in found.items())

    def changes(self, shares: tuple[Assignment, ...]) -> str:
        """Returns a text with each cluster whose share changes; empty if none does."""
        changed = [
            f"{share.cluster} {self.places[share.cluster].present} -> {share.replicas}"
            for share in shares
            if share.replicas != self.places[share.cluster].present
        ]
        return listed(changed, _MAX_NAMED) if changed else ""

    def ready(self) -> dict[str, int]:
        """Returns the ready pods of each cluster that answers."""
        return {name: view.ready_pods for name, view in self._answered.items()}

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

    @property
    def cause(self) -> str:
        """The reason for moves between clusters although the size stays."""
        if self._policy == DUPLICATED:
            return "every cluster gets the same number"
        waiting = sum(place.pending for place in self.places.values())
        return f"{waiting} pods stay pending"

    def _place(self, cluster: ClusterSnapshot, load: int) -> Place:
        fleet, spec = self._context.fleet, self._context.spec.assignment
        view = self._answered.get(cluster.name)
        preference = fleet.preferences.get(cluster.name, _NO_PREFERENCE)
        least = 0 if spec.exact or self._policy == DUPLICATED else 1
        weight = 1 if preference.weight is None else preference.weight
        available = cluster.available_replicas
        high = _lowest(preference.high, cluster.most_replicas)
        low = max(preference.low or 0, least)
        return Place(
            present=fleet.known_replicas(cluster),
            reachable=view is not None and not cluster.held,
            available=None if available is None else max(available, 0),
            pending=pending_replicas(view, self._context.now, spec.delay) if view and spec.assist else 0,
            weight=load if self._policy == LOAD_WEIGHTED else weight,
            priority=preference.priority or 0,
            low=low if high is None else min(low, high),
            high=high,
        )


def headroom_of_binding(context: Context) -> list[ClusterHeadroom]:
    """Returns the headroom of each cluster that Karmada's scheduler chose."""
    views = {view.name: view for view in context.fleet.answered}
    delay = context.spec.assignment.delay
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


def _loads(metrics: tuple[MetricResult, ...]) -> Mapping[str, int]:
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


# Free capacity changes all the time. A better outlook waits so long after the last change.
QUIET_SECONDS: Final = 600
ROOM_ELSEWHERE: Final = "if any one cluster is lost, the others have room for its replicas"
COPIES: Final = "if any one cluster is lost, each of the others still runs the whole size"
NOTHING_KNOWN: Final = "the capacity of no cluster is known any more"
# People read conditions, so they name only so many clusters.
_MAX_UNKNOWN: Final = 8


def report_outlook(
    context: Context, clusters: Sequence[ClusterHeadroom], *, copies: bool = False, held_above: bool = False
) -> None:
    """Sets the condition from the headroom of all `clusters`.

    With `copies` each cluster runs the whole size. With `held_above` the controller fails a cluster with a
    large part of the replicas over only as usage asks for it.
    """
    # While a cluster is missing, its replicas and its room are those of some time ago.
    if context.coverage.missing or not clusters:
        return
    unknown = [one.cluster for one in clusters if not one.known]
    if len(unknown) == len(clusters):
        if context.builder.message(SURVIVES_CLUSTER_LOSS) is not None:
            _set(context, None, "CapacityUnknown", NOTHING_KNOWN)
        return
    worst = worst_loss(clusters, context.spec.max_replicas)
    if worst is None:
        return
    if len(clusters) == 1:
        text = f"without {worst.cluster}, no replica has room, because no other cluster takes part"
        _set(context, False, "OnlyCluster", text)
    elif copies:
        _set(context, True, "RunsEverywhere", COPIES)
    elif worst.survives:
        _set(context, True, "RoomElsewhere", ROOM_ELSEWHERE + _failover(clusters, held_above=held_above))
    elif worst.survives is None:
        text = f"without {worst.cluster}, up to {worst.at_most} of {worst.total} replicas have no room"
        others = [name for name in unknown if name != worst.cluster]
        names = listed(others, _MAX_UNKNOWN)
        _set(context, None, "CapacityUnknown", f"{text}; the capacity of {names} is unknown")
    else:
        verb = "has" if worst.lacking == 1 else "have"
        text = f"without {worst.cluster}, {worst.lacking} of {worst.total} replicas {verb} no room"
        _set(context, False, "NoRoom", text + _failover(clusters, held_above=held_above))


def _failover(clusters: Sequence[ClusterHeadroom], *, held_above: bool) -> str:
    """Returns what happens to the replicas of a cluster that has most of them; "" without such a cluster."""
    total = sum(one.replicas for one in clusters)
    for one in clusters:
        if held_above and one.replicas * 100 > MAX_LOST_PER_CENT * total:
            part = f"more than {MAX_LOST_PER_CENT} % of the replicas"
            return f"; {one.cluster} runs {part}, so after its loss the others grow only as usage asks"
    return ""


def _set(context: Context, status: bool | None, reason: str, message: str) -> None:
    """Sets the condition. A worse status is set at once, a better one only after a quiet time."""
    before = context.builder.found(SURVIVES_CLUSTER_LOSS)
    if before is not None and status is not False and before.status != str(status or "Unknown"):
        try:
            since = parse_time(before.last_transition_time) if before.last_transition_time else None
        except InvalidObject:
            since = None
        if since is not None and 0 <= context.now - since < QUIET_SECONDS:
            return
    context.builder.condition(SURVIVES_CLUSTER_LOSS, status, reason, message)
