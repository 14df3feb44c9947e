"""Runs several objects over one recording, on all processors, and returns the report."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, Final, NamedTuple

import msgspec

from fedhpa.api import default_values
from fedhpa.api.texts import counted, listed
from fedhpa.api.times import format_time
from fedhpa.backtest.model import Options, model_of, unit_of
from fedhpa.backtest.recorded import (
    censored_part,
    fidelity,
    gaps_of,
    hidden_steps,
    recorded_run,
    sizes_of,
)
from fedhpa.backtest.recording import (
    DAY_SECONDS,
    Recording,
    decode_recording,
    encode_recording,
    recorded_spec,
)
from fedhpa.backtest.result import CENSORED, Mark, Report, Run, percent, saving
from fedhpa.backtest.simulation import BoundsChange, simulate
from fedhpa.decision import ScalingObject, decode_object

# Called with the part that is done, 0 to 1.
Progress = Callable[[float], None]
# The bound of the unserved part if nobody sets one.
UNSERVED: Final = 0.001
# A second process takes about two seconds to start, so short work is done here. In decisions.
_WORTH_PROCESSES: Final = 100_000
PRESENT: Final = "object"
# Days that a warning names.
MAX_DAYS: Final = 3


class Candidate(NamedTuple):
    """An object to run: its name in the table, the manifest, and the bounds that rules set on it.

    The demand of some steps, or of all, is `higher` times that of the recording.
    """

    name: str
    raw: Mapping[str, Any]
    bounds: tuple[BoundsChange, ...] = ()
    higher: float = 1.0
    steps: Container[int] | None = None


def scaling_object(raw: Mapping[str, Any]) -> ScalingObject:
    """Returns an object as it is before its first decision. Raises InvalidObject naming the field."""
    metadata = {key: value for key, value in raw["metadata"].items() if key in ("name", "namespace", "uid")}
    return decode_object({"metadata": {**metadata, "generation": 1}, "spec": raw.get("spec")})


def options_for(raw: Mapping[str, Any], options: Options) -> Options:
    """Returns the options with the object's own time between decisions."""
    spec = raw.get("spec")
    own = spec.get("syncPeriodSeconds") if isinstance(spec, Mapping) else None
    seconds = float(own) if isinstance(own, int | float) and own else default_values.SYNC_PERIOD_SECONDS
    return msgspec.structs.replace(options, sync=seconds)


def run_of(
    recording: Recording,
    candidate: Candidate,
    options: Options,
    progress: Progress = lambda _: None,
) -> Run:
    """Returns the run of one object. Raises InvalidObject and ConfigError."""
    hpa = scaling_object(candidate.raw)
    # More demand makes no pod larger, so the limit that the recording shows stays.
    model, _ = model_of(recording, hpa.spec, options_for(candidate.raw, options))
    if candidate.higher != 1:
        recording = recording.times(candidate.higher, candidate.steps)
    return simulate(candidate.name, recording, hpa, model, candidate.bounds, progress)


def runs_of(
    recording: Recording,
    candidates: Sequence[Candidate],
    options: Options,
    progress: Progress = lambda _: None,
) -> list[Run]:
    """Returns the runs in the order of the objects."""
    workers = min(_processors(), len(candidates))
    decisions = sum(
        (recording.end - recording.start) / options_for(one.raw, options).sync for one in candidates
    )
    if workers < 2 or decisions < _WORTH_PROCESSES:
        runs = []
        for index, one in enumerate(candidates):

            def report(part: float, index: int = index) -> None:
                progress((index + part) / len(candidates))

            runs.append(run_of(recording, one, options, report))
            report(1.0)
        return runs
    found: dict[int, Run] = {}
    content = encode_recording(recording, compressed=False)
    # A forked process would inherit whatever threads the caller has.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _begin, (content, options)) as pool:
        waiting = {pool.submit(_run, one): index for index, one in enumerate(candidates)}
        try:
            for done in as_completed(waiting):
                found[waiting[done]] = done.result()
                progress(len(found) / len(candidates))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [found[index] for index in range(len(candidates))]


def _processors() -> int:
    # A container may have fewer than the machine.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Shared by all runs of a process of the pool.
_shared: dict[str, Any] = {}


def _begin(content: bytes, options: Options) -> None:
    _shared["recording"] = decode_recording(content, "the recording")
    _shared["options"] = options


def _run(candidate: Candidate) -> Run:
    return run_of(_shared["recording"], candidate, _shared["options"])


def compare(
    recording: Recording,
    candidates: Sequence[Candidate],
    options: Options,
    *,
    marks: Sequence[Mark] = (),
    unserved: float = UNSERVED,
    progress: Progress = lambda _: None,
    known: Sequence[Run] = (),
) -> Report:
    """Returns the report on objects over a recording. The first candidate is the object as it is.

    `unserved` is the part of the demand that may stay unserved, 0 to 1. `known` are the runs of all
    candidates, if they were made before. Raises InvalidObject and ConfigError.
    """
    present = candidates[0]
    hpa = scaling_object(present.raw)
    model, assumptions = model_of(recording, hpa.spec, options_for(present.raw, options))
    for one in candidates:  # a mistake is told before an hour of work
        model_of(recording, scaling_object(one.raw).spec, options)
    recorded = recorded_run(recording, hpa.spec, model)
    before = _recorded_object(recording, present.raw)
    is_present = before is None or recorded_spec(before["spec"]) == recorded_spec(present.raw["spec"])
    others = [] if is_present else [Candidate("", before or {}, present.bounds)]
    runs = [msgspec.structs.replace(run, name=one.name) for one, run in zip(candidates, known, strict=False)]
    runs += runs_of(recording, [*candidates, *others][len(runs) :], options, progress)
    model_run = runs[0] if is_present else runs.pop()
    hidden = hidden_steps(recording, hpa.spec, model)
    ranked = sorted(runs, key=lambda run: _rank(run, unserved))
    return Report(
        namespace=recording.namespace or hpa.namespace,
        name=recording.name or hpa.name,
        metric=model.key,
        unit=unit_of(model.key),
        start=recording.start,
        step=recording.step,
        runs=[recorded, *ranked],
        best=best_of(ranked, runs[0], unserved),
        marks=list(marks),
        gaps=gaps_of(recording),
        censored=censored_part(hidden),
        assumptions=assumptions,
        warnings=_hidden_warnings(recording, hidden),
        notes=_fidelity_notes(recorded, model_run, is_known=before is not None),
        bound=unserved,
    )


def _recorded_object(recording: Recording, present: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not recording.spec:
        return None
    # Fields that a recording does not keep are those of the present object.
    return {"metadata": present["metadata"], "spec": {**present["spec"], **recording.spec}}


def _rank(run: Run, unserved: float) -> tuple[bool, float, float]:
    over = run.figures.unserved > unserved
    return over, run.figures.unserved if over else run.figures.price, run.figures.price


def best_of(ranked: Sequence[Run], present: Run, unserved: float) -> str:
    """Returns a sentence that says which run to take, and why."""
    best = ranked[0]
    figures, most = best.figures, percent(unserved)
    served = f"{percent(figures.unserved, unserved)} of the demand unserved"
    if figures.unserved > unserved:
        return (
            f"no run keeps the unserved part within {most}; {best.name} comes nearest with {served}: "
            "raise minReplicas or lower the target"
        )
    if best is present:
        return f"keep {best.name}: no other run is cheaper with at most {most} unserved"
    part, saved = saving(present.figures, figures)
    if part < 0:
        broken = percent(present.figures.unserved, unserved)
        return (
            f"take {best.name}: {served}, within the bound of {most} that {present.name} breaks with "
            f"{broken}, for {saved}"
        )
    return f"take {best.name}: {saved} than {present.name}, with {served}"


def _fidelity_notes(recorded: Run, simulated: Run, *, is_known: bool) -> list[str]:
    found = fidelity(sizes_of(recorded), sizes_of(simulated))
    if found is None:
        return ["the model cannot be compared with the recording: it has no size of all clusters"]
    text = str(found)
    if not is_known:
        text += "; the recording does not hold the object of that time, so the given one stands for it"
    if not found.changes:
        text += "; the recorded size never changed, so this says little"
    elif not found.is_good:
        text += "; this is not close, so read all other rows with care"
    return [text]


def _hidden_warnings(recording: Recording, hidden: Sequence[bool | None]) -> list[str]:
    """Returns a sentence about the days whose demand may have been higher than what was served."""
    days = Counter(int(step * recording.step // DAY_SECONDS) for step, one in enumerate(hidden) if one)
    if not days:
        return []
    texts = [
        f"{format_time(recording.start + day * DAY_SECONDS)} ({steps * recording.step / 60:.0f} min)"
        for day, steps in days.items()
    ]
    text = (
        f"demand is hidden on {counted(len(days), 'day')}, from {listed(texts, MAX_DAYS)}: pods were near "
        "their limit, or the size was at maxReplicas with usage above target, so nobody knows how much more "
        "was asked for and what these days leave unserved"
    )
    return [text if censored_part(hidden) <= CENSORED else f"{text}; less capacity cannot be judged"]
