"""`python -m benchmarks.fortnights`: how a suggested object does in the fortnight after the recorded one.

Each pair of fortnights has a load by chance: its shape, level, weekends, rushes and noise. The second one
comes after the suggestion. The choice holds if no day there leaves more than the bound unserved. If one does,
the report must have shown it: a day a tenth higher would have broken the bound already.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fedhpa.backtest import Candidate, ClusterSeries, Options, Recording, run_of, suggest

FORTNIGHTS: Final = 60
DAYS: Final = 14
DAY: Final = 86_400
# Decisions a quarter of an hour apart make a search cheap. Demand changes as slowly.
STEP: Final = 900.0
UNSERVED: Final = 0.001
OPTIONS: Final = Options(pod_start=30.0)
START: Final = 1_772_409_600.0


class Outcome(NamedTuple):
    """The result of one suggestion. Parts of the demand are 0 to 1."""

    seed: int
    took: bool
    gain: float
    worst_before: float
    higher: float
    worst_after: float

    @property
    def holds(self) -> bool:
        """True if the bound was kept, or the report had shown what breaks it."""
        return self.worst_after <= UNSERVED or self.higher > UNSERVED or self.worst_before > UNSERVED


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


def recording(values: Sequence[int], first: int) -> Recording:
    """Returns a recording of one cluster, whose pods cannot use more than their request."""
    count = len(values)
    size = -(-max(values[:4]) // 500)
    series = ClusterSeries(
        "member1", [size] * count, [size] * count, {"cpu": list(values)}, {"cpu": [1000] * count},
        {"cpu": [1000] * count},
    )  # fmt: skip
    start = START + first * STEP
    return Recording(version=1, namespace="shop", name="web", start=start, step=STEP, clusters=[series])


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


def outcome(seed: int) -> Outcome:
    """Searches over the first fortnight, and runs the choice over both."""
    values = demand(seed, 2 * DAYS)
    half = len(values) // 2
    found = suggest(recording(values[:half], 0), manifest(seed), OPTIONS, unserved=UNSERVED)
    # The pods of the first fortnight run on in the second.
    both = run_of(recording(values, 0), Candidate("both", found.manifest), OPTIONS)
    after = max(day.figures.unserved for day in both.days[DAYS:])
    return Outcome(seed, bool(found.claims), found.gain, found.worstDay.figures.unserved, found.higher, after)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each outcome, and how many hold. Returns 1 if one does not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fortnights", description=__doc__)
    parser.add_argument("--fortnights", type=int, default=FORTNIGHTS)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    options = parser.parse_args(arguments)
    outcomes = []
    for seed in range(options.first, options.first + options.fortnights):
        one = outcome(seed)
        outcomes.append(one)
        print(
            f"{seed:3} {'took' if one.took else 'kept'} gain {one.gain:6.1%}  worst {one.worst_before:.3%}  "
            f"a tenth higher {one.higher:.3%}  next fortnight {one.worst_after:.3%}  "
            f"{'' if one.holds else 'BROKEN WITHOUT A WARNING'}",
            flush=True,
        )
    kept = sum(one.worst_after <= UNSERVED for one in outcomes)
    broken = [one.seed for one in outcomes if not one.holds]
    took = sum(one.took for one in outcomes)
    print(
        f"{took} of {len(outcomes)} objects were changed; {kept} keep {UNSERVED:.1%} in the next fortnight; "
        f"the report had shown the risk of {len(outcomes) - kept - len(broken)} others; "
        f"without a warning: {broken}"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
