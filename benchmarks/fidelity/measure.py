"""The distance between the model and the recorded runs, and that of models that are wrong on purpose."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

import msgspec

from benchmarks.fidelity.shapes import TARGET, WAVES, Shape, federated_hpa
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
# Decisions are 15 s apart and the scrapes of each member 10 s, at times that no recording holds. A run
# depends on them: usage within the tolerance changes no size, so a sample a little later may keep or change
# it. A figure is the mean of runs with a first decision and first scrapes by chance.
PHASES: Final = 16
# Seconds of a step in these runs. A recording has steps of 5 s.
FINE: Final = 1.0
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

    `itself` says how well the model follows itself with decisions and scrapes at other times. A recording
    has no such times, so a model that is right in everything else comes no nearer.
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


def measure(shape: Shape, mode: str, folder: Path = RECORDINGS, *, with_wrong: bool = True) -> Measured:
    """Returns the figures of a recorded run; on the waves also those of wrong models, if wanted."""
    recording = recording_of(shape, mode, folder)
    raw = federated_hpa(shape, mode, recording.namespace)
    start = measured_start(recording) or 0.0
    wrong: dict[str, Fidelity] = {}
    if with_wrong and shape.name in WAVES:
        for name, one in WRONG_OBJECTS.items():
            wrong[name] = _followed(recording, _runs(recording, varied(raw, one), start))
        wrong[LATE_PODS] = _followed(recording, _runs(recording, raw, start + A_MINUTE))
    hpa = scaling_object(raw)
    hidden = hidden_steps(recording, hpa.spec, model_of(recording, hpa.spec, PLANE)[0])
    runs = _runs(recording, raw, start)
    itself = [_compared(one, other) for one, other in permutations(runs, 2)]
    return Measured(shape, mode, _followed(recording, runs), _mean(itself), censored_part(hidden), wrong)


def _runs(recording: Recording, raw: Mapping[str, Any], start: float) -> list[list[int | None]]:
    """Returns the sizes at the steps of a recording, for each phase. Pods are ready after `start` seconds."""
    parts = round(recording.step / FINE)
    clusters = [
        one.mapped(lambda values: [value for value in values for _ in range(parts)])
        for one in recording.clusters
    ]
    fine = msgspec.structs.replace(recording, step=FINE, clusters=clusters)
    found = []
    chance = random.Random(PHASES)
    for number in range(PHASES):
        phase = round(number * SYNC_PERIOD_SECONDS / PHASES)
        scrapes = tuple([chance.uniform(0, PLANE.metrics_window) for _ in recording.clusters])
        options = msgspec.structs.replace(PLANE, pod_start=start, metrics_at=scrapes)
        run = run_of(fine.between(phase, fine.steps), Candidate(PRESENT, raw), options)
        sizes = [*[None] * phase, *sizes_of(run)]
        # A step of the run has the size at its end, and one of the recording that at its beginning.
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
