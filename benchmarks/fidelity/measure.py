"""The distance between the model and the recorded runs, and that of models that are wrong on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

from benchmarks.fidelity.shapes import MODES, SHAPES, TARGET, WAVES, Shape, federated_hpa
from fedhpa.backtest import (
    PRESENT,
    Candidate,
    Fidelity,
    Options,
    Recording,
    Variant,
    censored_part,
    decode_recording,
    fidelity,
    measured_start,
    model_of,
    recorded_run,
    run_of,
    scaling_object,
    varied,
)

RECORDINGS: Final = Path(__file__).with_name("recordings")
# metrics-server of these planes scrapes every 10 s, so a sample is 5 s old on average when it is read.
METRICS_AGE_SECONDS: Final = 5.0
# Decisions are 15 s apart, at times that no recording holds, and that drift. A run depends on them: usage
# within the tolerance changes no size, so a sample a little later may keep or change it. A figure is the
# mean of runs over the recording and over parts of it that begin one and two steps later.
PHASES: Final = 3
A_MINUTE: Final = 60.0
# Models that must score worse on the waves.
WRONG_OBJECTS: Final[Mapping[str, Variant]] = {
    "target 10 % higher": (("target", str(round(TARGET * 1.1))),),
    "target 10 % lower": (("target", str(round(TARGET * 0.9))),),
    "no window": (("scaleDown.window", "0"),),
}
LATE_PODS: Final = "pods a minute later"


class Measured(NamedTuple):
    """One recorded run: how well the model follows it, how much demand is hidden, and wrong models."""

    shape: Shape
    mode: str
    found: Fidelity
    censored: float
    wrong: dict[str, Fidelity]

    @property
    def is_good(self) -> bool:
        """True if the model is close, and every wrong one is worse."""
        return self.found.is_good and all(one.error > self.found.error for one in self.wrong.values())


def recording_of(shape: Shape, mode: str, folder: Path = RECORDINGS) -> Recording:
    """Returns a recorded run. Raises OSError if it is missing."""
    file = folder / f"{shape.name}-{mode.lower()}.json.gz"
    return decode_recording(file.read_bytes(), str(file))


def measure(shape: Shape, mode: str, folder: Path = RECORDINGS) -> Measured:
    """Returns the figures of a recorded run."""
    recording = recording_of(shape, mode, folder)
    raw = federated_hpa(shape, mode, recording.namespace)
    options = Options(metrics_age=METRICS_AGE_SECONDS)
    wrong: dict[str, Fidelity] = {}
    if shape.name in WAVES:
        late = (measured_start(recording) or 0.0) + A_MINUTE
        wrong = {name: _fidelity(recording, varied(raw, one), options) for name, one in WRONG_OBJECTS.items()}
        wrong[LATE_PODS] = _fidelity(recording, raw, Options(metrics_age=METRICS_AGE_SECONDS, pod_start=late))
    hpa = scaling_object(raw)
    censored = censored_part(recording, hpa.spec, model_of(recording, hpa.spec, options)[0])
    return Measured(shape, mode, _fidelity(recording, raw, options), censored, wrong)


def measure_all(folder: Path = RECORDINGS) -> list[Measured]:
    """Returns the figures of all recorded runs."""
    return [measure(shape, mode, folder) for shape in SHAPES.values() for mode in MODES]


def _fidelity(recording: Recording, raw: Mapping[str, Any], options: Options) -> Fidelity:
    hpa = scaling_object(raw)
    found = []
    for phase in range(PHASES):
        part = recording.between(phase, recording.steps)
        real = recorded_run(part, hpa.spec, model_of(part, hpa.spec, options)[0])
        one = fidelity(real, run_of(part, Candidate(PRESENT, raw), options))
        if one is None:
            raise ValueError(f"{recording.namespace}: no step has the size of all members")
        found.append(one)
    return Fidelity(
        error=mean(one.error for one in found),
        constant=mean(one.constant for one in found),
        close=mean(one.close for one in found),
        changes=any(one.changes for one in found),
    )
