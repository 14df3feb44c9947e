"""What the parts of one decision share while it is made."""

from __future__ import annotations

from fedhpa.decision.builder import DecisionBuilder
from fedhpa.decision.coverage import coverage_of
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.history import History, Recommendation
from fedhpa.decision.model import Coverage, MetricResult
from fedhpa.decision.snapshot import ControllerSettings, Snapshot


class NoDecision(Exception):
    """Nothing can be decided; the message is the decision's error. Conditions and events are set already."""


class Context:
    """One decision in the making: its input, prepared, and what was found so far."""

    def __init__(
        self, snapshot: Snapshot, history: History, now: float, settings: ControllerSettings
    ) -> None:
        self.snapshot = snapshot
        self.spec = snapshot.hpa.spec
        self.stored = snapshot.hpa.status
        self.history = history
        self.now = now
        self.settings = settings
        self.world = FleetView(snapshot, settings, now)
        self.draft = DecisionBuilder(self.stored, now)
        failed = self.world.note_failures(self.spec.metrics)
        self.coverage: Coverage = coverage_of(self.world, self.spec, failed)
        self.world.silent = frozenset(self.coverage.lost)
        self.metrics: tuple[MetricResult, ...] = ()
        self.policy_in_force = False

    @property
    def recommendations(self) -> tuple[Recommendation, ...]:
        """What was recommended before."""
        return self.history.recommendations or ()

    @property
    def wakes_on_metrics(self) -> bool:
        """Whether a metric exists that has a value while nothing runs."""
        return any(metric.metric_type.scales_from_zero for metric in self.spec.metrics)

    def seed(self, current: int) -> None:
        """On a fresh start the present size is the first recommendation."""
        if self.history.recommendations is None:
            seeded = (Recommendation(self.now, current),)
            self.history = History(seeded, self.history.scale_ups, self.history.scale_downs)

    def recommend(self, recommendations: tuple[Recommendation, ...]) -> None:
        """Replaces what is remembered of recommendations."""
        self.history = History(recommendations, self.history.scale_ups, self.history.scale_downs)
