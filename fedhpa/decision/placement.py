"""Each cluster's share of the replicas (direct propagation).

Source: docs/reference/processes.md and docs/explanation/placement.md; the arithmetic is
`fedhpa.assignment.direct`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.api.quantity import parse_milli
from fedhpa.assignment import (
    DUPLICATED,
    LOAD_WEIGHTED,
    ClusterHeadroom,
    Place,
    cluster_headroom,
    limits,
    split,
)
from fedhpa.decision.context import Context
from fedhpa.decision.fleet import ClusterView
from fedhpa.decision.model import Assignment, MetricResult
from fedhpa.decision.snapshot import ClusterSnapshot
from fedhpa.decision.spec.placement import PlacementPreference
from fedhpa.metric_types.table import metric_type
from fedhpa.scaling import IGNORED

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
        more = f" and {len(changed) - _MAX_NAMED} more" if len(changed) > _MAX_NAMED else ""
        return ", ".join(changed[:_MAX_NAMED]) + more

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
