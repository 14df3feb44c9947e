"""One run: an object over a recording, step by step. Pure: time is that of the recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from fedhpa.backtest.centralized import Centralized
from fedhpa.backtest.distributed import Distributed
from fedhpa.backtest.figures import Tally
from fedhpa.backtest.model import Model, in_units
from fedhpa.backtest.recording import Recording
from fedhpa.backtest.result import Change, ClusterRun, Run
from fedhpa.backtest.workload import Place, Served, Workload
from fedhpa.decision import DISTRIBUTED, ScalingObject

Progress = Callable[[float], None]
# Steps between two reports of progress.
_REPORTED: int = 500


class BoundsChange(NamedTuple):
    """The bounds of the object from a time on (Unix seconds), which rules set."""

    at: float
    minimum: int
    maximum: int


class Mode(Protocol):
    """An autoscaler that acts on the workload."""

    def set_bounds(self, least: int, most: int) -> None:
        """Sets minReplicas and maxReplicas."""

    def act(self, workload: Workload, places: Sequence[Place], now: float) -> str:
        """Decides at `now` and scales the pods. Returns the reason of a change; "" without one."""


def simulate(
    name: str,
    recording: Recording,
    hpa: ScalingObject,
    model: Model,
    bounds: Sequence[BoundsChange] = (),
    progress: Progress | None = None,
) -> Run:
    """Returns the run of an object, named `name`. `bounds` are in order of time.

    `progress` is called with the part of the recording that is done, 0 to 1.
    """
    workload = Workload(recording, hpa.spec, model, hpa.namespace or recording.namespace)
    mode: Mode = (Distributed if hpa.spec.mode == DISTRIBUTED else Centralized)(hpa, model)
    tally = Tally(recording, model, hpa.spec)
    series = _Series(recording)
    waiting = list(reversed(bounds))
    parts = max(1, round(recording.step / model.sync))
    seconds = recording.step / parts
    due = recording.start
    for step in range(recording.steps):
        begin = recording.start + step * recording.step
        workload.begin_step(step, begin)
        tally.begin_step(begin)
        for part in range(parts):
            now = begin + part * seconds
            while waiting and waiting[-1].at <= now:
                change = waiting.pop()
                mode.set_bounds(change.minimum, change.maximum)
            served = workload.serve(step, now, seconds)
            if now >= due:
                due = now + model.sync if parts == 1 else now + seconds
                series.act(mode, workload, workload.candidates(step), now)
            tally.add(workload, served, seconds)
            series.add(served)
        series.end_step(workload)
        if progress is not None and step % _REPORTED == 0:
            progress(step / recording.steps)
    tally.end()
    return series.run(name, tally)


class _Series:
    """The series of a run, one entry a step."""

    def __init__(self, recording: Recording) -> None:
        self._clusters = [ClusterRun(one.name, [], []) for one in recording.clusters]
        self._rows: list[tuple[float | None, ...]] = []
        self._moments: list[Served] = []
        self._changes: list[Change] = []

    def act(self, mode: Mode, workload: Workload, places: Sequence[Place], now: float) -> None:
        """Lets the autoscaler act, and keeps a change of the size."""
        before = workload.replicas
        reason = mode.act(workload, places, now)
        after = workload.replicas
        if after != before:
            self._changes.append(Change(now, before, after, reason))

    def add(self, served: Served) -> None:
        """Adds a moment of the step."""
        self._moments.append(served)

    def end_step(self, workload: Workload) -> None:
        """Adds the step: sizes are those at its end, amounts the means over its time."""
        for run, place in zip(self._clusters, workload.places, strict=True):
            run.desired.append(place.replicas if place.here else None)
            run.ready.append(place.ready if place.here else None)
        moments = self._moments
        self._rows.append(
            tuple(
                [
                    _mean([getattr(moment, field) for moment in moments])
                    for field in ("demand", "capacity", "usage", "unserved")
                ]
            )
        )
        moments.clear()

    def run(self, name: str, tally: Tally) -> Run:
        """Returns the run."""
        demand, capacity, usage, unserved = (list(column) for column in zip(*self._rows, strict=True))
        return Run(
            name=name,
            clusters=self._clusters,
            demand=[in_units(value) for value in demand],
            capacity=[in_units(value) for value in capacity],
            usage=usage,
            unserved=[in_units(value) for value in unserved],
            changes=self._changes,
            figures=tally.figures,
            days=tally.days,
        )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
