"""The model of a backtest: demand, pods, gaps, both modes, and what is left out to be fast."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.backtest import Recording, fidelity, recorded_run, scaling_object
from fedhpa.backtest.centralized import Autoscaler
from fedhpa.backtest.model import measured_start
from fedhpa.backtest.pods import Sample, Samples
from fedhpa.backtest.recorded import censored_part, gaps_of, hidden_steps, sizes_of
from fedhpa.backtest.result import Run
from tests.support.recorded_days import manifest, model, recording, run, wave


def sizes(found: Run) -> list[int]:
    return [sum(one.desired[step] or 0 for one in found.clusters) for step in range(len(found.demand))]


@pytest.mark.parametrize("mode", ["Centralized", "Distributed"])
@pytest.mark.parametrize(("cores", "target"), [(6, 60), (9, 50), (7.5, 75)])
def test_a_constant_load_has_the_size_of_the_formula(cores: float, target: int, mode: str) -> None:
    """Of a load far from the present size, the size is load / target, and no more than a tolerance off."""
    found = run(recording(lambda _: cores * 1000, size=2, hours=2), manifest(target, mode=mode))

    wanted = cores / (target / 100)
    assert wanted * 0.9 <= sizes(found)[-1] <= wanted * 1.1 + 1


@pytest.mark.parametrize("traffic", ["shared", "tied"])
@pytest.mark.parametrize("limit", [200, 1000])
def test_demand_is_served_or_unserved(traffic: str, limit: int) -> None:
    """Usage and what is unserved add up to the demand at every step."""
    days = recording(wave, hours=6, limit=limit, clusters=(0.7, 0.3))
    found = run(days, manifest(most=12), traffic=traffic)

    assert found.figures.unserved > 0 or limit == 1000
    for demand, usage, capacity, unserved in zip(
        found.demand, found.usage, found.capacity, found.unserved, strict=True
    ):
        assert demand is not None
        assert usage is not None
        assert capacity is not None
        assert unserved is not None
        # A step is the mean of its parts, in which the size may change.
        if unserved == 0:
            assert usage * capacity == pytest.approx(demand, rel=0.35)
        assert 0 <= unserved <= demand


def test_what_waits_is_served_later() -> None:
    """With carry-over nothing is lost: usage stays at the limit until the queue is empty."""
    burst = recording(lambda hour: 20_000 if 1 <= hour < 1.25 else 1_000, hours=4, limit=1000, size=2)
    lost = run(burst, manifest(most=8))
    queued = run(burst, manifest(most=8), carry_over=True)

    after = range(80, 90)
    assert lost.figures.unserved == pytest.approx(queued.figures.unserved, abs=0.02)
    assert all((queued.usage[step] or 0) > 1.5 for step in after)
    assert all((lost.usage[step] or 0) < 1.0 for step in after)


@pytest.mark.parametrize("mode", ["Centralized", "Distributed"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "behavior": {
                "scaleDown": {"stabilizationWindowSeconds": 120},
                "scaleUp": {"stabilizationWindowSeconds": 60},
            }
        },
        {"behavior": {"scaleDown": {"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}}},
    ],
)
def test_decisions_that_are_left_out_change_nothing(
    mode: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in which every decision is made by decide() is the same."""
    days = recording(lambda hour: wave(hour * 3), hours=3, noise=0.08)
    quick = run(days, manifest(mode=mode, **fields))
    monkeypatch.setattr(Autoscaler, "_keeps", lambda *_: False)
    whole = run(days, manifest(mode=mode, **fields))

    assert len(quick.changes) > 5
    assert quick == whole


def test_a_cluster_without_data_is_no_zero() -> None:
    """Its steps are gaps, and the policy for missing data decides: by default nothing shrinks."""
    days = recording(lambda hour: 12_000 if hour < 2 else 3_000, hours=4, size=10)
    away = range(125, 150)
    first = days.clusters[0]
    gap = msgspec.structs.replace(
        first,
        replicas=[None if step in away else value for step, value in enumerate(first.replicas)],
        ready=[None if step in away else value for step, value in enumerate(first.ready)],
        demand={"cpu": [None if step in away else value for step, value in enumerate(first.demand["cpu"])]},
    )
    days = msgspec.structs.replace(days, clusters=[gap, *days.clusters[1:]])
    found = run(days)

    assert [found.clusters[0].desired[step] for step in away] == [None] * len(away)
    [known] = gaps_of(days)
    assert (known.cluster, known.start, known.end) == (
        "member1",
        days.start + 125 * 60,
        days.start + 150 * 60,
    )
    # The load fell five minutes before the gap. Held until the cluster is lost, the size falls afterwards.
    before = found.clusters[1].desired[124] or 0
    assert [found.clusters[1].desired[step] for step in range(126, 129)] == [before] * 3


def test_pods_start_late_and_metrics_are_old() -> None:
    """Each of both makes a ramp worse."""
    ramp = recording(lambda hour: 2_000 if hour < 1 else 20_000, hours=2)
    quick = run(ramp, pod_start=5.0, metrics_age=15.0)
    slow_pods = run(ramp, pod_start=120.0, metrics_age=15.0)
    old_metrics = run(ramp, pod_start=5.0, metrics_age=120.0)

    assert quick.figures.unserved < slow_pods.figures.unserved
    assert quick.figures.unserved < old_metrics.figures.unserved


@pytest.mark.parametrize(("means", "value"), [(False, 13), (True, 8)])
def test_a_window_has_one_sample(means: bool, value: int) -> None:
    """It is seen until the next one comes: the value of its moment, or the mean since the one before."""
    found = model(
        recording(wave, hours=1),
        metrics_age=5.0,
        metrics_window=10.0,
        metrics_are_means=means,
        metrics_at=(3.0,),
    )
    samples = Samples(found, 0)
    seen = []
    for second in range(23):
        samples.add(Sample(float(second), (second,)), 1.0)
        seen.append(samples.at(float(second)))

    assert {one.values for one in seen[13:] if one is not None} == {(value,)}
    assert {one.at for one in seen[13:] if one is not None} == {13.0}
    assert seen[12] is not None
    assert seen[12].at < 13.0


def of_itself(days: Recording, raw: dict[str, Any], **options: Any) -> Recording:
    """The recording with the sizes that an object has over it."""
    found = run(days, raw, **options)
    clusters = [
        msgspec.structs.replace(one, replicas=list(ran.desired), ready=list(ran.ready))
        for one, ran in zip(days.clusters, found.clusters, strict=True)
    ]
    return msgspec.structs.replace(days, clusters=clusters)


def test_fidelity_tells_models_apart() -> None:
    """The model of the recording itself follows it. A constant, a wrong target and slow pods score worse."""
    days = recording(lambda hour: wave(hour * 12), hours=2, noise=0.03, step=15.0)
    raw = manifest()
    days = of_itself(days, raw, pod_start=30.0)
    spec = scaling_object(raw).spec
    real = sizes_of(recorded_run(days, spec, model(days, raw)))
    right = fidelity(real, sizes_of(run(days, raw, pod_start=30.0)))
    target = fidelity(real, sizes_of(run(days, manifest(54), pod_start=30.0)))
    window: dict[str, Any] = {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
    no_window = fidelity(real, sizes_of(run(days, manifest(**window), pod_start=30.0)))
    slow = fidelity(real, sizes_of(run(days, raw, pod_start=90.0)))

    assert right is not None
    assert right.is_good
    assert all(wrong is not None and right.error < wrong.error for wrong in (target, no_window, slow))
    assert right.error <= right.constant / 3


def test_the_start_of_pods_is_measured() -> None:
    """It is known to half a step."""
    days = of_itself(recording(lambda hour: wave(hour * 12), hours=1, step=15.0), manifest(), pod_start=45.0)

    assert measured_start(days) == pytest.approx(45.0, abs=15.0)


def test_hidden_demand_is_found() -> None:
    """At maxReplicas with usage above target more may have been asked for; below it nothing is hidden."""
    raw = manifest(most=10)
    full = of_itself(recording(wave, hours=6), raw)
    free = of_itself(recording(wave, hours=6), manifest())

    assert censored_part(hidden_steps(full, scaling_object(raw).spec, model(full, raw))) > 0.3
    assert censored_part(hidden_steps(free, scaling_object(manifest()).spec, model(free))) < 0.02


def test_a_metric_that_is_not_recorded_is_named() -> None:
    """The message names the metric and those that are there."""
    raw = manifest()
    raw["spec"]["metrics"][0]["resource"]["name"] = "memory"

    with pytest.raises(ConfigError, match=r"no value of metric memory.*: cpu"):
        run(recording(wave), raw)


def test_a_cluster_that_joins_begins_empty() -> None:
    """It gets replicas only by a decision."""
    days = recording(lambda _: 6_000, hours=2)
    late = msgspec.structs.replace(
        days.clusters[1],
        replicas=[None] * 60 + days.clusters[1].replicas[60:],
        ready=[None] * 60 + days.clusters[1].ready[60:],
    )
    found = run(msgspec.structs.replace(days, clusters=[days.clusters[0], late]))

    assert found.clusters[1].desired[59] is None
    assert gaps_of(msgspec.structs.replace(days, clusters=[days.clusters[0], late])) == []
