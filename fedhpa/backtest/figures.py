"""The figures of a run: added up moment by moment, for the whole run and for each day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedhpa.backtest.model import Model, in_units
from fedhpa.backtest.recording import DAY_SECONDS, Recording
from fedhpa.backtest.result import Change, ClusterRun, Day, Figures, Run
from fedhpa.backtest.workload import Served, Workload
from fedhpa.decision import ScalingSpec

HOUR_SECONDS: Final = 3600


class _Sums:
    """The sums of a stretch of time."""

    def __init__(self, prices: dict[str, float]) -> None:
        self._prices = prices
        self.seconds = self.replica_seconds = self.over_seconds = self.cost = 0.0
        self.demand = self.unserved = 0.0
        self.changes = self.peak = self.started = 0

    def figures(self) -> Figures:
        """Returns the sums as a row of the table."""
        return Figures(
            replicaHours=self.replica_seconds / HOUR_SECONDS,
            unserved=self.unserved / self.demand if self.demand else 0.0,
            minutesOverTarget=self.over_seconds / 60,
            changesPerHour=self.changes / (self.seconds / HOUR_SECONDS) if self.seconds else 0.0,
            peak=self.peak,
            podsStarted=self.started,
            cost=self.cost if self._prices else None,
        )

    def add(self, sizes: dict[str, int], served: Served, seconds: float, over: float) -> None:
        """Adds a moment of `seconds`. Usage above `over` times the target counts as over target."""
        total = sum(sizes.values())
        self.seconds += seconds
        self.replica_seconds += total * seconds
        self.peak = max(self.peak, total)
        if self._prices:
            hours = seconds / HOUR_SECONDS
            self.cost += sum(self._prices.get(name, 0.0) * size * hours for name, size in sizes.items())
        if served.demand is None:
            return
        self.demand += served.demand * seconds
        self.unserved += (served.unserved or 0.0) * seconds
        # Demand without any ready pod has no usage, and is over every target.
        usage = served.usage
        if (usage is not None and usage > over) or (usage is None and served.demand > 0):
            self.over_seconds += seconds


class Tally:
    """The figures of a run while it goes on. A day has 24 hours, and the first begins with the recording."""

    def __init__(self, recording: Recording, model: Model, spec: ScalingSpec) -> None:
        self._start = recording.start
        self._prices = {one.name: one.price for one in recording.clusters if one.price is not None}
        up = None if spec.behavior is None else spec.behavior.scale_up.tolerance
        # Usage within the tolerance changes no size, so it counts as at target.
        self._over = 1.0 + (model.settings.tolerance if up is None else up)
        self._whole = _Sums(self._prices)
        self._day = _Sums(self._prices)
        self._day_at = recording.start
        self._last: dict[str, int] = {}
        self._started = 0
        self.days: list[Day] = []

    def begin_step(self, now: float) -> None:
        """Ends the day if a new one begins."""
        if now >= self._day_at + DAY_SECONDS:
            self.end()
            self._day_at += DAY_SECONDS * ((now - self._day_at) // DAY_SECONDS)

    def end(self) -> None:
        """Ends the day."""
        self.days.append(Day(self._day_at, self._day.figures()))
        self._day = _Sums(self._prices)

    def add(self, workload: Workload, served: Served, seconds: float) -> None:
        """Adds a moment, after the decision at its beginning."""
        sizes = {place.name: place.replicas for place in workload.places if place.here}
        self.count(sizes, served, seconds, workload.started)

    def count(self, sizes: dict[str, int], served: Served, seconds: float, started: int) -> None:
        """Adds a moment: replicas by cluster, and the pods that were started since the beginning."""
        last, self._last = self._last, sizes
        # A cluster that comes or goes changes no size.
        changed = sum(size - last.get(name, size) for name, size in sizes.items()) != 0
        for sums in (self._whole, self._day):
            sums.add(sizes, served, seconds, self._over)
            sums.changes += changed
            sums.started += started - self._started
        self._started = started

    def run(
        self, name: str, clusters: list[ClusterRun], rows: Sequence[Served], changes: list[Change]
    ) -> Run:
        """Returns the whole run. `rows` has one entry a step."""
        self.end()
        return Run(
            name=name,
            clusters=clusters,
            demand=[in_units(row.demand) for row in rows],
            capacity=[in_units(row.capacity) for row in rows],
            usage=[row.usage for row in rows],
            unserved=[in_units(row.unserved) for row in rows],
            changes=changes,
            figures=self._whole.figures(),
            days=self.days,
        )
