"""The recording as a run, so that it stands beside what the model says; and how well the model follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fedhpa.backtest.figures import Tally
from fedhpa.backtest.model import FULL, Model, follows_pods, target_of
from fedhpa.backtest.recording import ClusterSeries, Recording
from fedhpa.backtest.result import Change, ClusterRun, Gap, Run
from fedhpa.backtest.workload import Served, served_by
from fedhpa.decision import ScalingSpec

RECORDED: Final = "recorded"
# A run follows the recorded one if it is close for this part of the time: within so many replicas, or this
# part of the real size.
CLOSE: Final = 0.95
CLOSE_REPLICAS: Final = 2
CLOSE_PART: Final = 0.15


def served_at(recording: Recording, spec: ScalingSpec, model: Model, step: int) -> Served:
    """Returns what the recorded pods served in a step. Without a pod limit nothing is unserved."""
    demand = 0.0
    ready = 0
    requests: list[int] = []
    is_known = False
    for one in recording.clusters:
        values = one.demand.get(model.key)
        pods = one.ready[step]
        if values is None or pods is None or values[step] is None:
            continue
        is_known = True
        demand += values[step] or 0
        ready += pods
        request = one.request.get(model.key)
        if request is not None and request[step] is not None:
            requests.append(request[step] or 0)
    if not is_known:
        return Served()
    metric = spec.metrics[model.metric]
    target = target_of(metric, round(sum(requests) / len(requests)) if requests else None)
    most = float("inf")
    if model.pod_limit is not None and follows_pods(metric):
        most = float(model.pod_limit * ready)
    return served_by(target, ready, demand, demand, max(demand - most, 0.0))


def recorded_run(recording: Recording, spec: ScalingSpec, model: Model) -> Run:
    """Returns the recording as a run. `spec` has the target by which usage is measured."""
    tally = Tally(recording, model, spec)
    rows: list[Served] = []
    changes: list[Change] = []
    started = 0
    before: dict[str, int] = {}
    for step in range(recording.steps):
        at = recording.start + step * recording.step
        tally.begin_step(at)
        sizes = {one.name: one.replicas[step] or 0 for one in recording.clusters if one.has(step)}
        growth = {name: size - before.get(name, size) for name, size in sizes.items()}
        started += sum(max(more, 0) for more in growth.values())
        total = sum(sizes.values())
        if sum(growth.values()):
            changes.append(Change(at, total - sum(growth.values()), total, "recorded"))
        before |= sizes
        served = served_at(recording, spec, model, step)
        tally.count(sizes, served, recording.step, started)
        rows.append(served)
    clusters = [ClusterRun(one.name, list(one.replicas), list(one.ready)) for one in recording.clusters]
    return tally.run(RECORDED, clusters, rows, changes)


def gaps_of(recording: Recording) -> list[Gap]:
    """Returns the times without data, by cluster. A cluster that joins later has no gap before."""
    return [gap for one in recording.clusters for gap in _gaps(one, recording)]


def _gaps(cluster: ClusterSeries, recording: Recording) -> list[Gap]:
    found: list[Gap] = []
    since: int | None = None
    seen = False
    for step in range(recording.steps + 1):
        here = step == recording.steps or cluster.has(step)
        if here and since is not None:
            start, end = (recording.start + each * recording.step for each in (since, step))
            found.append(Gap(cluster.name, start, end))
            since = None
        elif not here and since is None and seen:
            since = step
        seen = seen or (here and step < recording.steps)
    return found


def hidden_steps(recording: Recording, spec: ScalingSpec, model: Model) -> list[bool | None]:
    """Returns for each step if its demand is hidden; None where nothing is known.

    More may have been asked for than was served: pods were near their limit, or the size was at maxReplicas
    with usage above target. The largest usage of a recording is no limit that anybody set, so pods near it
    hide demand only above target.
    """
    found: list[bool | None] = []
    tolerance = 1.0 + model.settings.tolerance
    for step in range(recording.steps):
        served = served_at(recording, spec, model, step)
        if served.demand is None:
            found.append(None)
            continue
        here = [one for one in recording.clusters if one.has(step)]
        ready = sum(one.ready[step] or 0 for one in here)
        above = served.usage is None or served.usage > tolerance
        at_most = sum(one.replicas[step] or 0 for one in here) >= spec.max_replicas
        limit = model.pod_limit
        full = limit is not None and follows_pods(spec.metrics[model.metric])
        full = full and served.demand >= FULL * (limit or 0) * ready
        found.append((full and (above or model.limit_is_known)) or (at_most and above))
    return found


def censored_part(hidden: Sequence[bool | None]) -> float:
    """Returns the part of the known steps whose demand is hidden, 0 to 1."""
    there = [one for one in hidden if one is not None]
    return sum(there) / len(there) if there else 0.0


class Fidelity(NamedTuple):
    """The distance between a run and the sizes that were recorded.

    `error` is the mean of |simulated - real| / real, and `constant` that of the best constant size. `close`
    is the part of the time within two replicas or 15 %. `changes` says that the recorded size changed at all.
    """

    error: float
    constant: float
    close: float
    changes: bool

    @property
    def is_good(self) -> bool:
        """True if the error is at most a third of the constant's, and the run is close 95 % of the time."""
        return self.part <= 1 / 3 and self.close >= CLOSE

    @property
    def part(self) -> float:
        """The error as a part of the constant's."""
        return self.error / self.constant if self.constant else float("inf") if self.error else 0.0

    def __str__(self) -> str:
        return (
            f"over the recorded object the model errs by {self.error:.1%} of the size on average (the "
            f"best constant size by {self.constant:.1%}), and {self.close:.0%} of the time it is within "
            "two replicas or 15 %"
        )


def sizes_of(run: Run) -> list[int | None]:
    """Returns the size of all clusters by step; None in a step in which one of them has a gap."""
    columns = zip(*[one.desired for one in run.clusters], strict=True)
    return [None if None in column else sum(value or 0 for value in column) for column in columns]


def fidelity(real: Sequence[int | None], simulated: Sequence[int | None]) -> Fidelity | None:
    """Returns how well sizes follow the recorded ones; None if no step can be compared."""
    pairs = [(size, found) for size, found in zip(real, simulated, strict=True) if size and found is not None]
    if not pairs:
        return None
    sizes = [size for size, _ in pairs]
    errors = [abs(found - size) for size, found in pairs]
    close = sum(
        error <= max(CLOSE_REPLICAS, CLOSE_PART * size)
        for error, (size, _) in zip(errors, pairs, strict=True)
    )
    return Fidelity(
        error=sum(error / size for error, size in zip(errors, sizes, strict=True)) / len(pairs),
        constant=min(_constant_error(sizes, constant) for constant in set(sizes)),
        close=close / len(pairs),
        changes=len(set(sizes)) > 1,
    )


def _constant_error(sizes: list[int], constant: int) -> float:
    counts: dict[int, int] = {}
    for size in sizes:
        counts[size] = counts.get(size, 0) + 1
    return sum(abs(constant - size) / size * count for size, count in counts.items()) / len(sizes)
