"""The member HPA of a backtest and the benchmarks' model of the HPA controller write the same sizes.

The second one is written after Kubernetes HPA 1.36 by itself and shares no code with the product.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks.world.hpa import Hpa, PodFacts
from fedhpa.assignment import Bounds
from fedhpa.backtest import ClusterSeries, Options, Recording, model_of, scaling_object
from fedhpa.backtest.distributed import MemberAutoscaler
from fedhpa.backtest.pods import Pods, Sample
from fedhpa.backtest.workload import Workload
from tests.support.nightly import AT_NIGHT
from tests.support.recorded_days import START, manifest

PERIOD = 15.0
REQUEST = 500
# An hour and a half: longer than all windows and policies.
SYNCS = 360


def load(chance: random.Random) -> list[int]:
    """A demand in milli-cores that walks, leaps and has noise."""
    level, noise, leaps = chance.uniform(500, 6_000), chance.uniform(0, 0.2), chance.uniform(0.01, 0.05)
    found = []
    for _ in range(SYNCS):
        level = min(max(level * chance.gauss(1, 0.03), 100), 20_000)
        if chance.random() < leaps:
            level = chance.uniform(200, 20_000)
        found.append(max(round(level * chance.gauss(1, noise)), 0))
    return found


def rules(chance: random.Random) -> dict[str, Any]:
    """Rules of one direction, or none."""
    found: dict[str, Any] = {}
    if chance.random() < 0.5:
        found["stabilizationWindowSeconds"] = chance.choice((0, 60, 300, 900))
    if chance.random() < 0.5:
        kinds = chance.sample(("Pods", "Percent"), chance.randint(1, 2))
        found["policies"] = [
            {
                "type": kind,
                "value": chance.choice((1, 3, 20, 100)),
                "periodSeconds": chance.choice((15, 60, 180)),
            }
            for kind in kinds
        ]
        found["selectPolicy"] = chance.choice(("Max", "Min"))
    return found


def spec_of(chance: random.Random) -> dict[str, Any]:
    """A target of utilization or of cores per pod, bounds, and with or without behavior."""
    target: dict[str, Any] = {
        "type": "Utilization",
        "averageUtilization": chance.choice((30, 50, 60, 75, 90)),
    }
    if chance.random() < 0.4:
        target = {"type": "AverageValue", "averageValue": f"{chance.randint(200, 450)}m"}
    least = chance.randint(1, 5)
    behavior = {"behavior": {"scaleUp": rules(chance), "scaleDown": rules(chance)}}
    return {
        "minReplicas": least,
        "maxReplicas": chance.randint(40, 90),
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        **(behavior if chance.random() < 0.6 else {}),
    }


def facts(pods: Pods, sample: Sample) -> list[PodFacts]:
    """The pods and their usage as the controller reads them."""
    [usage] = sample.values
    measured = {
        one.name: one.cpu for one in ([] if usage is None else pods.usage(sample.at, usage, None, ()))
    }
    return [
        PodFacts(
            name=pod.name,
            started=pod.start,
            ready=pod.ready == "True",
            ready_changed=pod.ready_since,
            request=REQUEST,
            usage=measured.get(pod.name),
            measured=sample.at,
        )
        for pod in pods.records()
    ]


def sizes(seed: int) -> list[tuple[int, int]]:
    """The size that each model writes at each sync; the pods follow that of the product."""
    chance = random.Random(seed)
    spec, demand = spec_of(chance), load(chance)
    options = Options(
        pod_start=chance.choice((10.0, 30.0, 90.0)),
        metrics_age=chance.choice((5.0, 15.0, 45.0)),
        pod_limit=1000,
    )
    first: list[int | None] = [chance.randint(1, 20)] * SYNCS
    series = ClusterSeries("member1", first, first, {"cpu": [*demand]}, {"cpu": [REQUEST] * SYNCS})
    recording = Recording(
        version=1, namespace="shop", name="web", start=START, step=PERIOD, clusters=[series]
    )
    hpa = scaling_object(manifest(**spec))
    model, _ = model_of(recording, hpa.spec, options)
    workload = Workload(recording, hpa.spec, model, "shop")
    ours = MemberAutoscaler(hpa, model, Bounds(minimum=spec["minReplicas"], maximum=spec["maxReplicas"]))
    theirs = Hpa()
    [place] = workload.places
    found = []
    for step in range(SYNCS):
        now = START + step * PERIOD
        workload.begin_step(step, now)
        workload.serve(step, now, PERIOD)
        sample = None if place.samples is None else place.samples.at(now)
        assert place.pods is not None
        assert sample is not None
        size = place.pods.count
        expected = theirs.sync(spec, size, size, facts(place.pods, sample), now).replicas
        decision = ours.decide(workload, [place], now)
        if decision is not None and decision.writes:
            place.pods.scale(decision.desired_replicas, now, model.pod_start)
        found.append((place.pods.count, size if expected is None else expected))
    return found


@pytest.mark.parametrize("seed", [*range(24), *(pytest.param(one, marks=AT_NIGHT) for one in range(24, 500))])
def test_both_write_the_same_sizes(seed: int) -> None:
    """At each sync, with the same pods, usage and bounds; the size changes."""
    found = sizes(seed)
    different = [step for step, (ours, theirs) in enumerate(found) if ours != theirs]

    assert not different, f"sync {different[0]}: {found[different[0]]}"
    assert len({ours for ours, _ in found}) > 1
