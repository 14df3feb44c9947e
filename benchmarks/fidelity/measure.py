"""The distance between the model and the recorded runs, and that of models that are wrong on purpose."""

from __future__ import annotations

import gzip
import random
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

import msgspec

from benchmarks.fidelity.shapes import STEP_SECONDS, TARGET, WAVES, Shape, federated_hpa
from benchmarks.fidelity.times import TIMES, Moments, phase, phase_range
from fedhpa.api.default_values import SYNC_PERIOD_SECONDS
from fedhpa.backtest import (
    CLOSE,
    PRESENT,
    Candidate,
    Fidelity,
    Options,
    Recording,
    Variant,
    censored_part,
    decode_recording,
    fidelity,
    hidden_steps,
    measured_start,
    model_of,
    run_of,
    scaling_object,
    sizes_of,
    varied,
)

RECORDINGS: Final = Path(__file__).with_name("recordings")
# metrics-server of these planes scrapes every 10 s (METRIC_RESOLUTION of testbed.real.commands), so a sample
# is 5 s old on average when it is read. kwok adds to a pod's CPU seconds at a scrape, with the usage of that
# moment (containerResourceCumulativeUsage), so the rate over a window is the value at its end.
PLANE: Final = Options(metrics_age=5.0, metrics_window=10.0, metrics_are_means=False)
# Decisions are 15 s apart and the scrapes of each member 10 s. A run depends on their times: usage within the
# tolerance changes no size, so a sample a little later may keep or change it. A figure is the mean of runs
# with a first decision and first scrapes by chance. If the times were noted beside a recording, only the part
# of a second in which a member was measured is left to chance.
PHASES: Final = 16
# Seconds of a step in these runs. A recording has steps of 5 s.
FINE: Final = 0.5
A_MINUTE: Final = 60.0
# Models that must score worse on the waves.
WRONG_OBJECTS: Final[Mapping[str, Variant]] = {
    "target 10 % higher": (("target", str(round(TARGET * 1.1))),),
    "target 10 % lower": (("target", str(round(TARGET * 0.9))),),
    "no window": (("scaleDown.window", "0"),),
}
LATE_PODS: Final = "pods a minute later"


class Measured(NamedTuple):
    """One recorded run: how well the model follows it, how much demand is hidden, and wrong models.

    `itself` says how well the model follows itself with decisions and scrapes at other times that may have
    been those of the run. A model that is right in everything else comes no nearer.
    """

    shape: Shape
    mode: str
    found: Fidelity
    itself: Fidelity
    censored: float
    wrong: dict[str, Fidelity]

    @property
    def is_good(self) -> bool:
        """True if the model is as close as a recording without times allows, and wrong ones are worse."""
        error = max(1 / 3, self.itself.part)
        is_close = self.found.part <= error and self.found.close >= min(CLOSE, self.itself.close)
        return is_close and all(one.error > self.found.error for one in self.wrong.values())


def recording_of(shape: Shape, mode: str, folder: Path = RECORDINGS) -> Recording:
    """Returns a recorded run. Raises OSError if it is missing."""
    file = folder / f"{shape.name}-{mode.lower()}.json.gz"
    return decode_recording(file.read_bytes(), str(file))


def moments_of(recording: Recording, folder: Path = RECORDINGS) -> Moments | None:
    """Returns the times of a recorded run, None if they were not noted."""
    file = folder / f"{recording.namespace}{TIMES}"
    return msgspec.json.decode(gzip.decompress(file.read_bytes()), type=Moments) if file.exists() else None


def measure(shape: Shape, mode: str, folder: Path = RECORDINGS, *, with_wrong: bool = True) -> Measured:
    """Returns the figures of a recorded run; on the waves also those of wrong models, if wanted."""
    recording = recording_of(shape, mode, folder)
    raw = federated_hpa(shape, mode, recording.namespace)
    start = measured_start(recording) or 0.0
    moments = moments_of(recording, folder)
    fine, phases = _fine(recording, None if moments is None else shape), _phases(recording, moments)
    wrong: dict[str, Fidelity] = {}
    if with_wrong and shape.name in WAVES:
        for name, one in WRONG_OBJECTS.items():
            wrong[name] = _followed(recording, _runs(fine, varied(raw, one), start, phases))
        wrong[LATE_PODS] = _followed(recording, _runs(fine, raw, start + A_MINUTE, phases))
    hpa = scaling_object(raw)
    hidden = hidden_steps(recording, hpa.spec, model_of(recording, hpa.spec, PLANE)[0])
    runs = _runs(fine, raw, start, phases)
    itself = [_compared(one, other) for one, other in permutations(runs, 2)]
    return Measured(shape, mode, _followed(recording, runs), _mean(itself), censored_part(hidden), wrong)


class _Phase(NamedTuple):
    """When a run decides, in seconds after its beginning, and when in a window each member is measured."""

    decision: float
    scrapes: tuple[float, ...]


def _phases(recording: Recording, moments: Moments | None) -> list[_Phase]:
    """Returns the times of the recorded run as far as they are known, and the rest by chance."""
    window, names = PLANE.metrics_window, [one.name for one in recording.clusters]
    decisions = [number * SYNC_PERIOD_SECONDS / PHASES for number in range(PHASES)]
    seconds = [(0.0, window)] * len(names)
    if moments is not None:
        # In mode Distributed the members' HPAs set the sizes, all within a second or two.
        syncs = [at for times in moments.syncs.values() for at in times]
        decisions = [phase(syncs or moments.decisions, SYNC_PERIOD_SECONDS)] * PHASES
        known = [phase_range(moments.scrapes[name], window) for name in names]
        seconds = [(recording.start + first, recording.start + last) for first, last in known]
    chance = random.Random(PHASES)

    def scrapes() -> tuple[float, ...]:
        return tuple([chance.uniform(*between) % window for between in seconds])

    return [_Phase(decision, scrapes()) for decision in decisions]


def _fine(recording: Recording, shape: Shape | None) -> Recording:
    """Returns the recording in short steps, with the demand that a shape wrote to the plane each second."""
    parts = round(recording.step / FINE)
    clusters = [
        one.mapped(lambda values: [value for value in values for _ in range(parts)])
        for one in recording.clusters
    ]
    if shape is not None:
        totals = [shape.demand(int(step * FINE)) for step in range(recording.steps * parts)]
        # Which cluster has it does not matter: ready pods share the demand.
        clusters = [
            msgspec.structs.replace(one, demand={"cpu": [0] * len(totals) if number else totals})
            for number, one in enumerate(clusters)
        ]
    return msgspec.structs.replace(recording, step=FINE, clusters=clusters)


def _runs(
    fine: Recording, raw: Mapping[str, Any], start: float, phases: Sequence[_Phase]
) -> list[list[int | None]]:
    """Returns the sizes at the steps of a recording, for each phase. Pods are ready after `start` seconds."""
    found = []
    for decision, scrapes in phases:
        first = round(decision / FINE)
        options = msgspec.structs.replace(PLANE, pod_start=start, metrics_at=scrapes)
        run = run_of(fine.between(first, fine.steps), Candidate(PRESENT, raw), options)
        sizes = [*[None] * first, *sizes_of(run)]
        # A step of the run has the size at its end, and one of the recording that at its beginning.
        parts = round(STEP_SECONDS / FINE)
        found.append([None, *sizes[parts - 1 : -1 : parts]])
    return found


def _followed(recording: Recording, runs: Sequence[Sequence[int | None]]) -> Fidelity:
    columns = zip(*[one.replicas for one in recording.clusters], strict=True)
    real = [None if None in column else sum(size or 0 for size in column) for column in columns]
    return _mean([_compared(real, one) for one in runs])


def _compared(real: Sequence[int | None], simulated: Sequence[int | None]) -> Fidelity:
    found = fidelity(real, simulated)
    if found is None:
        raise ValueError("no step has the size of all members")
    return found


def _mean(found: Sequence[Fidelity]) -> Fidelity:
    return Fidelity(
        error=mean(one.error for one in found),
        constant=mean(one.constant for one in found),
        close=mean(one.close for one in found),
        changes=any(one.changes for one in found),
    )
