"""CPU time of backtests: an object over a day of recorded demand, and how it grows."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from typing import Any, Final

from fedhpa.backtest import Candidate, ClusterSeries, Options, Recording, parse_variants, run_of, varied

DAY: Final = 86_400
STEP: Final = 15.0
WEEK: Final = 7


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    day = _seconds(5, 1.0)
    return {
        "a week of 5 clusters at 15 s, Centralized, CPU s": day * WEEK,
        "a week of 5 clusters at 15 s, Distributed, CPU s": _seconds(5, 0.25, mode="Distributed") * 4 * WEEK,
        "a week of 1 cluster at 15 s, Centralized, CPU s": _seconds(1, 1.0) * WEEK,
        "24 variants over a week of 5 clusters at 15 s, CPU s": _variants(0.125) * 8 * WEEK,
        "a second day costs times the first, %": (_seconds(5, 2.0) - day) / day * 100,
    }


def _seconds(clusters: int, days: float, **fields: Any) -> float:
    """The CPU time of one run, in seconds."""
    return _cost(_recording(clusters, days), [_object(**fields)])


def _variants(days: float) -> float:
    """The CPU time of all combinations of targets, minima and windows, in seconds, without more processes."""
    variants = parse_variants(
        ["target=40,50,60,70", "minReplicas=2,4,8", "scaleDown.window=60,300"],
    )
    return _cost(_recording(5, days), [varied(_object(), one) for one in variants])


def _object(**fields: Any) -> dict[str, Any]:
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 3,
        "maxReplicas": 80,
        "metrics": [{"type": "Resource", "resource": metric}],
        **fields,
    }
    return {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}


def _cost(recording: Recording, objects: Sequence[dict[str, Any]]) -> float:
    start = time.process_time()
    for raw in objects:
        run_of(recording, Candidate("object", raw), Options(pod_limit=1000))
    return time.process_time() - start


def _recording(clusters: int, days: float) -> Recording:
    """A demand with noise that follows the hours of a day, as large for one cluster as for five."""
    chance = random.Random(1)
    steps = round(days * DAY / STEP)
    series = []
    for index in range(clusters):
        demand: list[int | None] = []
        for step in range(steps):
            hour = step * STEP / 3600 % 24
            base = 6_000 + 20_000 * max(0.0, math.sin((hour - 7) / 12 * math.pi))
            demand.append(round(base / clusters * (1 + chance.gauss(0, 0.05))))
        flat: list[int | None] = [20 // clusters] * steps
        requests: list[int | None] = [1000] * steps
        series.append(ClusterSeries(f"member{index}", flat, flat, {"cpu": demand}, {"cpu": requests}))
    return Recording(version=1, namespace="shop", name="web", start=1.7e9, step=STEP, clusters=series)


if __name__ == "__main__":
    for figure, value in run().items():
        print(f"{figure}: {value:.3f}")
