"""`python -m benchmarks fortnights`: how a suggested object does in the fortnight after the recorded one.

Each pair of fortnights has a load by chance: its shape, level, weekends, rushes and noise. The second one
comes after the suggestion. The choice holds if no day there leaves more than the bound unserved. If one does,
the report must have warned of it: of a day with hidden demand, or of a sudden rise that breaks the bound.

All take about ten minutes of CPU. `python -m benchmarks.fortnights 0-9 30` runs some of them.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from fedhpa.backtest import Candidate, ClusterSeries, Options, Recording, run_of, suggest
from fedhpa.backtest.recording import Amounts
from fedhpa.backtest.result import Run

FORTNIGHTS: Final = 60
DAYS: Final = 14
DAY: Final = 86_400
# Decisions a quarter of an hour apart make a search cheap. Demand changes as slowly.
STEP: Final = 900.0
UNSERVED: Final = 0.001
OPTIONS: Final = Options(pod_start=30.0)
START: Final = 1_772_409_600.0
WITHOUT_WARNING: Final = "objects that were {}, above the bound later without a warning"


class Outcome(NamedTuple):
    """The result of one suggestion. Parts of the demand are 0 to 1."""

    seed: int
    took: bool
    gain: float
    worst_before: float
    warned: bool
    worst_after: float

    @property
    def keeps(self) -> bool:
        """True if the bound was kept in the later fortnight."""
        return self.worst_after <= UNSERVED

    @property
    def holds(self) -> bool:
        """True if the bound was kept, or the report had warned."""
        return self.keeps or self.warned

    def __str__(self) -> str:
        return (
            f"{self.seed:3} {'took' if self.took else 'kept'} gain {self.gain:6.1%}  worst "
            f"{self.worst_before:.3%}  {'warned' if self.warned else '      '}  later {self.worst_after:.3%}"
            f"{'' if self.keeps else '  above the bound'}"
        )


def demand(seed: int, days: int) -> list[int]:
    """Returns a demand in milli-cores by step."""
    chance = random.Random(seed)
    base, swing = chance.uniform(2, 6), chance.uniform(2, 20)
    peak, width = chance.uniform(8, 20), chance.uniform(2, 5)
    weekend = chance.uniform(0.3, 1.0)
    noise, by_day, growth = chance.uniform(0.01, 0.06), chance.uniform(0.0, 0.1), chance.uniform(0.0, 0.004)
    rushes = chance.uniform(0.0, 0.15)
    found = []
    for day in range(days):
        scale = (1 + chance.gauss(0, by_day)) * (1 + growth * day) * (weekend if day % 7 >= 5 else 1.0)
        rush = chance.uniform(1.2, 1.8) if chance.random() < rushes else 1.0
        for step in range(int(DAY / STEP)):
            hour = step * STEP / 3600
            value = base + swing * rush * math.exp(-(((hour - peak) / width) ** 2))
            found.append(max(round(1000 * value * scale * (1 + chance.gauss(0, noise))), 100))
    return found


def recording(values: Sequence[int], run: Run | None = None) -> Recording:
    """Returns a recording of one cluster, whose pods cannot use more than their request.

    With a run, its sizes were recorded, and of the demand what its pods served.
    """
    count = len(values)
    size = -(-max(values[:4]) // 500)
    replicas: Amounts = [size] * count
    ready: Amounts = [size] * count
    served: Amounts = [*values]
    if run is not None:
        [sizes] = run.clusters
        replicas, ready = sizes.desired, sizes.ready
        served = [value - round(1000 * (lost or 0)) for value, lost in zip(values, run.unserved, strict=True)]
    amounts: dict[str, Amounts] = {"cpu": [1000] * count}
    series = ClusterSeries("member1", replicas, ready, {"cpu": served}, amounts, amounts)
    return Recording(version=1, namespace="shop", name="web", start=START, step=STEP, clusters=[series])


def manifest(seed: int) -> dict[str, Any]:
    """Returns the object of a seed, with a careful target."""
    target = random.Random(f"object {seed}").choice((35, 45, 55))
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}
    return {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 4,
            "maxReplicas": 120,
            "syncPeriodSeconds": 900,
            "metrics": [{"type": "Resource", "resource": metric}],
        },
    }


def outcome(seed: int, days: int = DAYS) -> Outcome:
    """Searches over the recorded days, and runs the choice over these and as many more."""
    values, raw = demand(seed, 2 * days), manifest(seed)
    before = values[: len(values) // 2]
    recorded = recording(before, run_of(recording(before), Candidate("recorded", raw), OPTIONS))
    found = suggest(recorded, raw, OPTIONS, unserved=UNSERVED)
    # The pods of the recorded days run on in the later ones.
    both = run_of(recording(values), Candidate("both", found.manifest), OPTIONS)
    after = max(day.figures.unserved for day in both.days[days:])
    warned = bool(found.report.warnings)
    return Outcome(seed, bool(found.claims), found.gain, found.worstDay.figures.unserved, warned, after)


def outcomes(seeds: Iterable[int]) -> Iterator[Outcome]:
    """Yields the outcome of each seed, and prints it."""
    for seed in seeds:
        found = outcome(seed)
        print(found, file=sys.stderr, flush=True)
        yield found


@cache
def _all() -> list[Outcome]:
    return list(outcomes(range(FORTNIGHTS)))


def figures(found: Sequence[Outcome]) -> dict[str, float]:
    """Returns how many objects were left as they are, how many broke the bound later, and the warnings."""
    changed, left = ([one for one in found if one.took is took] for took in (True, False))
    return {
        f"of {len(found)} objects, left as they are": len(left),
        "objects that were changed, with a later day above the bound": sum(not one.keeps for one in changed),
        WITHOUT_WARNING.format("changed"): sum(not one.holds for one in changed),
        "objects that were left, with a later day above the bound": sum(not one.keeps for one in left),
        WITHOUT_WARNING.format("left"): sum(not one.holds for one in left),
        "warnings before a fortnight that kept the bound": sum(one.keeps and one.warned for one in found),
    }


def run() -> dict[str, float]:
    """Returns the figures of all pairs of fortnights."""
    return figures(_all())


def details() -> dict[str, list[str]]:
    """Returns a line for each pair of fortnights."""
    return {WITHOUT_WARNING.format("changed"): [str(one) for one in _all()]}


def _seeds(texts: Iterable[str]) -> Iterator[int]:
    for text in texts:
        first, _, last = text.partition("-")
        yield from range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    for figure, value in figures(list(outcomes(_seeds(sys.argv[1:])))).items():
        print(f"{figure}: {value:g}")
