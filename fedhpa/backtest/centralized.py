"""Mode Centralized in a backtest: `decide()` as it is, with its memory from one decision to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.backtest.model import Model
from fedhpa.backtest.pods import Sample, requested
from fedhpa.backtest.workload import Place, Workload
from fedhpa.decision import (
    NO_MEMORY,
    ClusterSnapshot,
    Decision,
    DecisionBuilder,
    History,
    ScalingObject,
    Snapshot,
    StoredStatus,
    decide,
    normalize,
)
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.scaling import CurrentSize, Groups, Proposal, Tolerances, propose_average, propose_utilization


class Autoscaler:
    """One object and what it remembers.

    Most decisions keep the size of pods that have been measured for long. Of these only the arithmetic is
    done, by the functions that `decide()` calls: its conditions and texts take most of the time, and nobody
    reads them.
    """

    def __init__(self, hpa: ScalingObject, model: Model) -> None:
        self.hpa, self.model = hpa, model
        self.memory = NO_MEMORY
        self.history = History()
        self.last: Decision | None = None
        # Of each metric, if the last decision was left out.
        self.proposals: list[Proposal] = []
        # Replicas that return by themselves do so after a time. Copies are measured by another size.
        assignment = hpa.spec.assignment
        is_plain = not assignment.returns and not assignment.policy.copies and not hpa.spec.dry_run
        self._may_keep = (
            is_plain and hpa.hold is None and all(one.metric_type.per_pod for one in hpa.spec.metrics)
        )

    def decide(
        self, workload: Workload, places: Sequence[Place], now: float, *, whole: bool = False
    ) -> Decision | None:
        """Returns the decision at `now` (Unix seconds) on these clusters; None if the size stays as it is.

        With `whole`, a decision is made in any case.
        """
        if self._may_keep and not whole and self._keeps(places, now):
            return None
        clusters = tuple([workload.cluster_snapshot(place, now, self.memory) for place in places])
        return self.decide_on(clusters, now)

    def decide_on(self, clusters: tuple[ClusterSnapshot, ...], now: float) -> Decision:
        """Returns the decision on these clusters, and keeps what the next one needs."""
        decision = decide(self.snapshot(clusters), self.history, now, self.model.settings)
        self.memory, self.history, self.last = decision.memory, decision.history, decision
        self.proposals = []
        status = StoredStatus(
            current_replicas=decision.current_replicas,
            desired_replicas=decision.desired_replicas,
            conditions=decision.conditions,
            observed_generation=self.hpa.generation,
        )
        self.hpa = msgspec.structs.replace(self.hpa, status=status)
        return decision

    def snapshot(self, clusters: tuple[ClusterSnapshot, ...]) -> Snapshot:
        """Returns the input of a decision."""
        return Snapshot(
            hpa=self.hpa,
            clusters=clusters,
            propagation="direct",
            memory=self.memory,
            decided_size=self.memory.size,
        )

    def set_bounds(self, least: int, most: int) -> None:
        """Sets minReplicas and maxReplicas, as a rule or a person does."""
        spec = self.hpa.spec
        if (spec.min_replicas, spec.max_replicas) != (least, most):
            spec = msgspec.structs.replace(spec, min_replicas=least, max_replicas=most)
            self.hpa = msgspec.structs.replace(self.hpa, spec=spec)

    def _keeps(self, places: Sequence[Place], now: float) -> bool:
        """True if the size stays; then the recommendation is kept, as a decision would."""
        last, spec = self.last, self.hpa.spec
        samples = _settled(places, now)
        if (
            samples is None
            or last is None
            or last.error is not None
            or last.memory.absences
            or last.tolerance is None
        ):
            return False
        size = CurrentSize(sum(place.replicas for place in places), Tolerances(*last.tolerance))
        if (
            not max(spec.min_replicas, 1) <= size.current <= spec.max_replicas
            or last.memory.rebalance is not None
        ):
            return False
        proposals = []
        for index, metric in enumerate(spec.metrics):
            proposal = _proposal(metric, index, places, samples, size)
            if proposal is None:
                return False
            proposals.append(proposal)
        highest = max((one.replicas for one in proposals), default=0)
        builder = DecisionBuilder((), now)
        allowed, kept = normalize(builder, spec, self.model.settings, self.history, size.current, highest)
        if allowed != size.current:
            return False
        self.history = msgspec.structs.replace(self.history, recommendations=kept)
        self.proposals = proposals
        return True


def _settled(places: Iterable[Place], now: float) -> list[Sample] | None:
    """Returns the samples of all clusters; None if one is away, or a pod is too young to be measured."""
    found = []
    for place in places:
        sample = None if place.samples is None else place.samples.at(now)
        if not place.here or place.pods is None or sample is None or not place.pods.is_settled(sample.at):
            return None
        found.append(sample)
    return found


def _proposal(
    metric: ScalingMetric, index: int, places: Sequence[Place], samples: Sequence[Sample], size: CurrentSize
) -> Proposal | None:
    """Returns the proposal of a metric of settled pods; None if its value is not known everywhere."""
    usage = requests = 0
    for place, sample in zip(places, samples, strict=True):
        value = sample.values[index]
        if value is None or place.pods is None:
            return None
        usage += value * place.replicas
        requests += requested(place.pods.requests, metric) * place.replicas
    count = size.current
    groups = Groups(
        pods=count,
        ready=count,
        counted=count,
        counted_sum=usage,
        known_sum=usage,
        known_requests=requests,
    )
    try:
        if metric.average_value is not None:
            return propose_average(groups, metric.average_value, size)
        return propose_utilization(groups, metric.average_utilization or 0, size)
    except MetricsUnavailable:
        return None


class Centralized(Autoscaler):
    """The autoscaler of all clusters together."""

    def act(self, workload: Workload, places: Sequence[Place], now: float) -> str:
        """Decides at `now` and scales the pods. Returns the reason of a change; "" without one."""
        decision = self.decide(workload, places, now)
        if decision is None or not decision.writes:
            return ""
        shares = decision.assignment
        for place in places:
            if place.here and place.pods is not None and place.name in shares:
                place.pods.scale(shares[place.name], now, self.model.pod_start)
        return decision.why or decision.split
