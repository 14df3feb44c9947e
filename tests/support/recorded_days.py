"""Small recordings for tests of backtests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from fedhpa.backtest import ClusterSeries, Model, Options, Recording, model_of, scaling_object, simulate
from fedhpa.backtest.result import Run

START = 1_772_409_600.0
HOUR = 3600


def manifest(target: int = 60, least: int = 2, most: int = 60, **fields: Any) -> dict[str, Any]:
    """A FederatedHPA by CPU."""
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": [{"type": "Resource", "resource": metric}],
    }
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {**spec, **fields},
    }


def recording(
    demand: Callable[[float], float],
    *,
    hours: float = 6,
    step: float = 60.0,
    clusters: Sequence[float] = (0.5, 0.5),
    size: int = 4,
    limit: int = 1000,
    noise: float = 0.0,
) -> Recording:
    """A recording whose demand in milli-cores is a function of the hour. `clusters` are their parts of it."""
    chance = random.Random(7)
    steps = round(hours * HOUR / step)
    total = [demand(index * step / HOUR) * (1 + chance.gauss(0, noise)) for index in range(steps)]
    return Recording(
        version=1,
        namespace="shop",
        name="web",
        start=START,
        step=step,
        clusters=[
            ClusterSeries(
                name=f"member{index + 1}",
                replicas=[size] * steps,
                ready=[size] * steps,
                demand={"cpu": [max(round(value * part), 0) for value in total]},
                request={"cpu": [1000] * steps},
                limit={"cpu": [limit] * steps},
            )
            for index, part in enumerate(clusters)
        ],
    )


def wave(hour: float) -> float:
    """Between 2 and 14 cores, once in six hours."""
    return 8_000 - 6_000 * math.cos(hour / 6 * 2 * math.pi)


def run(found: Recording, raw: dict[str, Any] | None = None, **options: Any) -> Run:
    """The run of an object over a recording."""
    hpa = scaling_object(raw or manifest())
    return simulate("object", found, hpa, model(found, raw, **options))


def model(found: Recording, raw: dict[str, Any] | None = None, **options: Any) -> Model:
    """The model of an object over a recording."""
    return model_of(found, scaling_object(raw or manifest()).spec, Options(**options))[0]
