"""One run: an object over a recording, step by step. Pure: time is that of the recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fedhpa.backtest.centralized import Centralized
from fedhpa.backtest.distributed import Distributed
from fedhpa.backtest.figures import Tally
from fedhpa.backtest.model import Model
from fedhpa.backtest.recording import Recording
from fedhpa.backtest.result import Change, ClusterRun, Run
from fedhpa.backtest.workload import Served, Workload
from fedhpa.decision import DISTRIBUTED, ScalingObject

Progress = Callable[[float], None]
# Steps between two reports of progress.
_REPORTED: int = 500


class BoundsChange(NamedTuple):
    """The bounds of the object from a time on (Unix seconds), which rules set."""

    at: float
    minimum: int
    maximum: int


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
    is_distributed = hpa.spec.mode == DISTRIBUTED
    mode: Centralized | Distributed = Distributed(hpa, model) if is_distributed else Centralized(hpa, model)
    tally = Tally(recording, model, hpa.spec)
    clusters = [ClusterRun(one.name, [], []) for one in recording.clusters]
    rows: list[Served] = []
    changes: list[Change] = []
    waiting = list(reversed(bounds))
    parts = max(1, round(recording.step / model.sync))
    seconds = recording.step / parts
    due = recording.start
    for step in range(recording.steps):
        begin = recording.start + step * recording.step
        workload.begin_step(step, begin)
        tally.begin_step(begin)
        moments = []
        for part in range(parts):
            now = begin + part * seconds
            while waiting and waiting[-1].at <= now:
                change = waiting.pop()
                mode.set_bounds(change.minimum, change.maximum)
            served = workload.serve(step, now, seconds)
            if now >= due:
                due = now + model.sync if parts == 1 else now + seconds
                before = workload.replicas
                reason = mode.act(workload, workload.candidates(step), now)
                if workload.replicas != before:
                    changes.append(Change(now, before, workload.replicas, reason))
            tally.add(workload, served, seconds)
            moments.append(served)
        for one, place in zip(clusters, workload.places, strict=True):
            one.desired.append(place.replicas if place.here else None)
            one.ready.append(place.ready if place.here else None)
        rows.append(_step(moments))
        if progress is not None and step % _REPORTED == 0:
            progress(step / recording.steps)
    return tally.run(name, clusters, rows, changes)


def _step(moments: Sequence[Served]) -> Served:
    """Returns the means over the moments of a step."""
    return Served(
        *[
            _mean([getattr(one, field) for one in moments])
            for field in ("demand", "capacity", "usage", "unserved")
        ]
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
