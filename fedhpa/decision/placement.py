"""Where the replicas go (direct propagation): the clusters as places, their limits, and each one's share.

Source: docs/reference/processes.md and docs/explanation/placement.md; the arithmetic is
`fedhpa.assignment.direct`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.api.metric_types import metric_type
from fedhpa.api.quantity import parse_milli
from fedhpa.assignment.direct import DUPLICATED, LOAD_WEIGHTED, Place, limits, split
from fedhpa.decision.context import Context
from fedhpa.decision.fleet import ClusterView
from fedhpa.decision.model import Assignment, MetricResult
from fedhpa.decision.snapshot import ClusterSnapshot
from fedhpa.decision.spec.placement import Preference
from fedhpa.scaling.records import IGNORED

ABOVE_LIMIT: Final = "autoscalingMaxThreshold lets the clusters take no more"
ABOVE_CAP: Final = "clusterHPAPreference lets the clusters take no more"
BELOW_LIMIT: Final = "clusters that do not answer or refused a write keep what they have"
BELOW_THRESHOLD: Final = "autoscalingMinThreshold keeps that many in each cluster"
# A status and an event are read by people.
_SHOWN: Final = 8
_NOTHING: Final = Preference()


class Placing:
    """The places of one decision; made when its metrics have been measured."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._policy = context.spec.assignment.policy
        world = context.world
        self._members = {member.name: member for member in world.members}
        loads = _loads(context.metrics) if self._policy == LOAD_WEIGHTED else {}
        usual = sum(loads.values()) // len(loads) if loads else 1
        self._places = {
            cluster.name: self._place(cluster, loads.get(cluster.name, usual)) for cluster in world.expected
        }

    def limited(self, desired: int) -> int:
        """The size that can be placed; adds a step if it is another."""
        least, most = limits(self._places, self._policy)
        step = self._context.draft.step
        if most is not None and desired > most:
            capped = any(cluster.most_replicas is not None for cluster in self._context.world.expected)
            return step("assignment", desired, most, ABOVE_CAP if capped else ABOVE_LIMIT)
        if desired < least:
            reason = BELOW_THRESHOLD if self._policy == DUPLICATED else BELOW_LIMIT
            return step("assignment", desired, least, reason)
        return desired

    def shares(self, desired: int) -> tuple[Assignment, ...]:
        """What each cluster is given of a size."""
        found = split(desired, self._places, self._policy)
        return tuple(Assignment(cluster, replicas) for cluster, replicas in found.items())

    def changes(self, shares: tuple[Assignment, ...]) -> str:
        """Which clusters are given another number than they have, in words; empty if none is."""
        changed = [
            f"{share.cluster} {self._places[share.cluster].present} -> {share.replicas}"
            for share in shares
            if share.replicas != self._places[share.cluster].present
        ]
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        return ", ".join(changed[:_SHOWN]) + more

    @property
    def cause(self) -> str:
        """Why replicas go to other clusters although the size stays."""
        if self._policy == DUPLICATED:
            return "every cluster gets the same number"
        waiting = sum(place.pending for place in self._places.values())
        return f"{waiting} pods stay pending"

    def _place(self, cluster: ClusterSnapshot, load: int) -> Place:
        world, rules = self._context.world, self._context.spec.assignment
        member = self._members.get(cluster.name)
        preference = world.preferences.get(cluster.name, _NOTHING)
        least = 0 if rules.exact or self._policy == DUPLICATED else 1
        weight = 1 if preference.weight is None else preference.weight
        available = cluster.available_replicas
        high = _lowest(preference.high, cluster.most_replicas)
        low = max(preference.low or 0, least)
        return Place(
            present=world.known_replicas(cluster),
            reachable=member is not None and not cluster.held,
            available=None if available is None else max(available, 0),
            pending=_pending(member, self._context.now, rules.delay) if member and rules.assist else 0,
            weight=load if self._policy == LOAD_WEIGHTED else weight,
            priority=preference.priority or 0,
            low=low if high is None else min(low, high),
            high=high,
        )


def _lowest(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _pending(member: ClusterView, now: float, delay: float) -> int:
    """How many of the replicas asked for have had no node for longer than the delay."""
    waiting = placed = 0
    for pod in member.pods:
        since = pod.unschedulable_since
        if since is not None:
            waiting += now - since > delay
        elif pod.state != IGNORED:
            placed += 1
    # A surge of a rolling update waits beside replicas that run: it is not short of anything.
    return min(waiting, max(member.scale.spec_replicas - placed, 0)) if waiting else 0


def _loads(metrics: tuple[MetricResult, ...]) -> Mapping[str, int]:
    """Each cluster's mean usage per pod, in milli-units, by the metric that wants most."""
    measured = [
        metric for metric in metrics if metric.proposal is not None and metric_type(metric.type).per_pod
    ]
    if not measured:
        return {}
    deciding = max(measured, key=lambda metric: (metric.proposal or 0, -metric.index))
    return {
        cluster: max(parse_milli(share.value) // share.pods, 0)
        for cluster, share in deciding.clusters.items()
        if share.pods
    }
