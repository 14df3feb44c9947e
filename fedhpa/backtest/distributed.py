"""Mode Distributed in a backtest: the real passes of the hub, and a model of the members' HPAs.

A member HPA decides as Kubernetes' does. For a single cluster `decide()` is held to the recorded cases of
Kubernetes' HPA, so it is the model: bounds are those that the hub wrote, and the clusters know nothing of
each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fedhpa.api.member_hpas import MANAGED_BY, MANAGER, HpaSpec, MemberHpa
from fedhpa.api.quantity import format_milli
from fedhpa.api.wire import ObjectMeta
from fedhpa.assignment import Bounds
from fedhpa.backtest.centralized import Autoscaler
from fedhpa.backtest.model import Model
from fedhpa.backtest.workload import Place, Workload
from fedhpa.decision import (
    CENTRALIZED,
    NO_PASS,
    ClusterSnapshot,
    Decision,
    PlacementSpec,
    ScalingObject,
    Snapshot,
)
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.scaling import Proposal

# Passes over the bounds are a minute apart, unless a member asks for one.
PASS_SECONDS: Final = 60.0
# Kubernetes' HPA controller waits a period after a sync, so a recommendation or scale event of n syncs ago is
# older than n periods. In a run each sync is later by this, so that windows last as many syncs as there.
MOMENT_SECONDS: Final = 1e-5
_OURS: Final = ObjectMeta(labels={MANAGED_BY: MANAGER})


def _metric_json(metric: ScalingMetric, **value: object) -> dict[str, object]:
    """Returns the entry of a metric, with its `target` or its `current` value."""
    kind = metric.metric_type
    return {"type": metric.type, kind.field: {**kind.status_fields(metric), **value}}


def _current(proposal: Proposal) -> dict[str, object]:
    current: dict[str, object] = {"averageValue": format_milli(proposal.milli)}
    if proposal.utilization is not None:
        current["averageUtilization"] = proposal.utilization
    return current


class MemberAutoscaler(Autoscaler):
    """The HPA of one member, within the bounds that the hub wrote."""

    def __init__(self, hpa: ScalingObject, model: Model, bounds: Bounds) -> None:
        spec = msgspec.structs.replace(hpa.spec, mode=CENTRALIZED, assignment=PlacementSpec())
        super().__init__(msgspec.structs.replace(hpa, spec=spec), model)
        self.set_bounds(bounds.minimum, bounds.maximum)
        self._syncs = 0
        self._metrics = [_metric_json(metric, target=metric.target) for metric in spec.metrics]

    def decide(
        self, workload: Workload, places: Sequence[Place], now: float, *, whole: bool = False
    ) -> Decision | None:
        """Returns the decision of the sync at `now`; None if the size stays as it is."""
        self._syncs += 1
        return super().decide(workload, places, now + self._syncs * MOMENT_SECONDS, whole=whole)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the most replicas."""
        return self.hpa.spec.min_replicas, self.hpa.spec.max_replicas

    def as_read(self) -> MemberHpa:
        """Returns the HPA as the hub reads it."""
        status = {} if self.last is None else dict(self.last.status)
        if self.proposals:
            status["currentMetrics"] = [
                _metric_json(metric, current=_current(proposal))
                for metric, proposal in zip(self.hpa.spec.metrics, self.proposals, strict=True)
            ]
        least, most = self.bounds
        spec = HpaSpec(minReplicas=least, maxReplicas=most, metrics=list(self._metrics))
        return MemberHpa(metadata=_OURS, spec=spec, status=status)


class _Hub(Autoscaler):
    """The hub's side: a pass over the bounds of all members."""

    def __init__(self, hpa: ScalingObject, model: Model) -> None:
        super().__init__(hpa, model)
        self.last_pass = NO_PASS

    def snapshot(self, clusters: tuple[ClusterSnapshot, ...]) -> Snapshot:
        """Returns the input of a decision, with what the last pass left."""
        return msgspec.structs.replace(super().snapshot(clusters), last_pass=self.last_pass)


class Distributed:
    """The passes of the hub, and one autoscaler for each member that has an HPA."""

    def __init__(self, hpa: ScalingObject, model: Model) -> None:
        self._hpa, self._model = hpa, model
        self._hub = _Hub(hpa, model)
        self._members: dict[str, MemberAutoscaler] = {}
        self._basis: object = None

    def set_bounds(self, least: int, most: int) -> None:
        """Sets minReplicas and maxReplicas."""
        self._hub.set_bounds(least, most)
        self._basis = None

    def act(self, workload: Workload, places: Sequence[Place], now: float) -> str:
        """Lets the hub and then each member decide. Returns the reasons of a change; "" without one."""
        reasons = [self._pass(workload, places, now)]
        for place in places:
            member = self._members.get(place.name)
            if member is None or not place.here or place.pods is None:
                continue
            # The hub reads the conditions of an HPA that is at its maximum.
            whole = place.replicas >= member.bounds[1]
            decision = member.decide(workload, [place], now, whole=whole)
            if decision is not None and decision.writes:
                place.pods.scale(decision.desired_replicas, now, self._model.pod_start)
                reasons.append(f"{place.name}: {decision.why}")
        return "; ".join(reason for reason in reasons if reason)

    def _pass(self, workload: Workload, places: Sequence[Place], now: float) -> str:
        """Lets the hub decide, if a pass is due or something changed that may ask for one."""
        hub = self._hub
        basis = self._unpressed(places, now)
        if now < self._next_pass and basis is not None and basis == self._basis:
            return ""
        self._basis = basis
        clusters = []
        for place in places:
            found = workload.cluster_snapshot(place, now, hub.memory)
            member = self._members.get(place.name)
            hpa = None if member is None or not place.here else member.as_read()
            clusters.append(msgspec.structs.replace(found, hpa=hpa))
        decision = hub.decide_on(tuple(clusters), now)
        hub.last_pass = hub.last_pass.after(decision)
        if decision.plan is None:
            return ""
        for write in decision.hpa_writes:
            if write.after is None:
                self._members.pop(write.cluster, None)
            elif write.cluster in self._members:
                self._members[write.cluster].set_bounds(write.after.minimum, write.after.maximum)
            else:
                self._members[write.cluster] = MemberAutoscaler(self._hpa, self._model, write.after)
        before = workload.replicas
        for place in places:
            replicas = decision.plan.scales.get(place.name)
            if replicas is not None and place.pods is not None:
                place.pods.scale(replicas, now, self._model.pod_start)
        return decision.reason if workload.replicas != before else ""

    @property
    def _next_pass(self) -> float:
        return 0.0 if self._hub.last_pass.at is None else self._hub.last_pass.at + PASS_SECONDS

    def _unpressed(self, places: Sequence[Place], now: float) -> object:
        """Returns the state of the members if none of them can ask for a pass; None if one may."""
        found: list[object] = []
        for place in places:
            member = self._members.get(place.name)
            if member is None or not place.here or place.pods is None:
                return None
            if place.replicas >= member.bounds[1] or not place.pods.is_settled(now):
                return None
            found.append((place.name, place.replicas, member.bounds))
        return found
