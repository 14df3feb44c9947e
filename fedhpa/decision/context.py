"""The state of one decision while it is made."""

from __future__ import annotations

from fedhpa.decision.coverage import Failover, coverage_of, implausible_answers
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.memory import History, history_at
from fedhpa.decision.messages import REBALANCED
from fedhpa.decision.model import Coverage, DecisionBuilder, MetricResult
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.snapshot import Failure, Snapshot
from fedhpa.decision.spec.federatedhpa import DISTRIBUTED
from fedhpa.scaling import Recommendation


def unreadable_hpas(snapshot: Snapshot) -> dict[str, str]:
    """Returns the clusters whose HPA could not be read, with the reason."""
    return {
        cluster.name: cluster.hpa.error
        for cluster in snapshot.clusters
        if isinstance(cluster.hpa, Failure) and cluster.ready and cluster.error is None
    }


class NoDecision(Exception):
    """No decision can be made; the message is the decision's error. Conditions and events are set already."""


class Context:
    """The input of one decision, prepared, and the results so far."""

    def __init__(
        self, snapshot: Snapshot, history: History, now: float, settings: ControllerSettings
    ) -> None:
        self.snapshot = snapshot
        self.spec = snapshot.hpa.spec
        self.stored = snapshot.hpa.status
        self.memory = snapshot.memory
        self.history = history_at(history, now)
        self.now = now
        self.settings = settings
        self.fleet = FleetView(snapshot, settings, now)
        self.builder = DecisionBuilder(self.stored.conditions, now)
        # In mode Distributed each member reads its metrics itself, so nothing of them is read here.
        distributed = self.spec.mode == DISTRIBUTED
        failed = unreadable_hpas(snapshot) if distributed else self.fleet.metric_failures(self.spec.metrics)
        found = {} if distributed else implausible_answers(self.fleet, self.spec.metrics, now)
        self.fleet.implausible = frozenset(found)
        # Clusters that are missing for a moment only: policies apply, and nothing is reported yet.
        self.unreported = frozenset(
            name for name, answer in found.items() if not answer.reported and name not in failed
        )
        failed = {name: answer.reason for name, answer in found.items()} | failed if found else failed
        self.coverage: Coverage = coverage_of(self.fleet, self.spec, failed)
        self.fleet.metrics_lost = frozenset(self.coverage.lost)
        self.metrics: tuple[MetricResult, ...] = ()
        self.policy_in_force = False
        self.failover: Failover | None = None
        self.rebalance = snapshot.memory.rebalance

    @property
    def wakes_on_metrics(self) -> bool:
        """True if a metric has a value while no pod runs."""
        return any(metric.metric_type.scales_from_zero for metric in self.spec.metrics)

    @property
    def knows_rebalance(self) -> bool:
        """True if an annotation asks for a rebalance, or something of an earlier one is left."""
        asked = self.snapshot.hpa.rebalance or self.rebalance
        return bool(asked) or self.builder.found(REBALANCED) is not None

    def seed(self, current: int) -> None:
        """On a fresh start, make the present size the first recommendation."""
        if self.history.recommendations is None:
            self.recommend((Recommendation(self.now, current),))

    def recommend(self, recommendations: tuple[Recommendation, ...]) -> None:
        """Replace the recommendations in the history."""
        self.history = History(recommendations, self.history.scale_ups, self.history.scale_downs)
