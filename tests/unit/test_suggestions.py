"""The command suggest: what it finds, what it refuses, and if its claims hold."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.api.times import format_time
from fedhpa.backtest import (
    PRESENT,
    Candidate,
    ClusterSeries,
    Options,
    Recording,
    Suggestion,
    compare,
    decode_recording,
    run_of,
    suggest,
    varied,
)
from testbed.reference.recordings import FOLDER, SHAPES
from testbed.reference.recordings import manifest as example
from tests.support.nightly import only_at_night
from tests.support.recorded_days import manifest, recording

# Decisions five minutes apart cost a twentieth, and the searches are the same.
SLOW = {"syncPeriodSeconds": 300}
OPTIONS = Options(pod_start=30.0)


def daily(hour: float) -> float:
    """Between 4 and 20 cores, once a day."""
    return 12_000 - 8_000 * math.cos(hour / 24 * 2 * math.pi)


def wasteful(**fields: Any) -> dict[str, Any]:
    return manifest(35, 10, **SLOW, **fields)


@pytest.fixture(scope="module")
def days() -> Recording:
    return recording(daily, hours=96, step=300.0, noise=0.02, size=20)


@pytest.fixture(scope="module")
def found(days: Recording) -> Suggestion:
    return suggest(days, wasteful(), OPTIONS, unserved=0.001)


def test_a_wasteful_object_is_improved(found: Suggestion) -> None:
    """The held-out days save a good part, and no day breaks the bound."""
    assert found.reason.startswith("take target=")
    assert found.gain > 0.2
    assert found.worstDay.figures.unserved <= 0.001
    assert found.tried <= 60


def test_every_claim_is_recomputed(days: Recording, found: Suggestion) -> None:
    """Each field alone, after those before it, has the figures that are printed."""
    assert found.claims
    variant: tuple[tuple[str, str], ...] = ()
    for claim in found.claims:
        before = run_of(days, Candidate("before", varied(wasteful(), variant)), OPTIONS)
        variant = (*variant, (claim.field, claim.after))
        after = run_of(days, Candidate("after", varied(wasteful(), variant)), OPTIONS)
        assert (claim.without, claim.figures) == (before.figures, after.figures)
        part = 1 - after.figures.replicaHours / before.figures.replicaHours
        assert f"{abs(part):.1%}" in str(claim)
    assert found.manifest == varied(wasteful(), variant)


def test_higher_days_are_recomputed(days: Recording, found: Suggestion) -> None:
    """The figure for days a tenth higher is that of a backtest."""

    higher = run_of(days.times(1.1), Candidate("higher", found.manifest), OPTIONS)

    assert found.higher == max(day.figures.unserved for day in higher.days)


def test_sudden_rises_are_recomputed(days: Recording, found: Suggestion) -> None:
    """Each figure is that of a backtest with more demand for a quarter of an hour on each day."""
    present = run_of(days, Candidate("present", found.manifest), OPTIONS)
    steps: set[int] = set()
    for first in range(0, days.steps, 288):
        most = max(range(first, first + 288), key=lambda i: (present.unserved[i] or 0, present.usage[i] or 0))
        steps |= {*range(most, min(most + 3, first + 288))}

    for rise in found.rises:
        more = run_of(days.times(rise.factor, steps), Candidate("more", found.manifest), OPTIONS)

        assert rise.day in more.days
        assert rise.day.figures.unserved == max(day.figures.unserved for day in more.days)
    [text] = [one for one in found.report.notes if "sudden rise" in one]
    broken = next(one for one in found.rises if one.day.figures.unserved > 0.001)
    assert f"with {broken.factor - 1:.0%} more, the day from {format_time(broken.day.at)} leaves" in text


def test_slower_tries_find_as_much(days: Recording, found: Suggestion) -> None:
    """Most objects are tried with decisions further apart, and the choice is made with its own."""
    raw = wasteful() | {"spec": {**wasteful()["spec"], "syncPeriodSeconds": 75}}
    quick = suggest(days, raw, OPTIONS, unserved=0.001)
    whole = run_of(days, Candidate("whole", quick.manifest), OPTIONS)

    assert quick.manifest["spec"]["syncPeriodSeconds"] == 75
    assert quick.gain > found.gain - 0.03
    assert quick.worstDay in whole.days


def test_a_day_with_hidden_demand_is_named() -> None:
    """For a quarter of an hour of one day pods were at their limit. The figures of that day say nothing."""
    free = recording(daily, hours=96, step=300.0, size=12)
    full = range(2 * 288 + 100, 2 * 288 + 103)

    def at_limit(one: ClusterSeries) -> ClusterSeries:
        used = one.demand["cpu"]
        ready = [-(-(used[i] or 0) // 1000) if i in full else size for i, size in enumerate(one.ready)]
        return msgspec.structs.replace(one, ready=ready)

    hidden = msgspec.structs.replace(free, clusters=[at_limit(one) for one in free.clusters])
    warnings = [
        compare(one, [Candidate("present", manifest(50, **SLOW))], OPTIONS).warnings for one in (free, hidden)
    ]

    assert warnings[0] == []
    assert "hidden on 1 day, from 2026-03-04T00:00:00Z (15 min)" in warnings[1][0]


def test_a_good_object_is_kept(days: Recording, found: Suggestion) -> None:
    """The result of one search is not improved by another one."""
    again = suggest(days, found.manifest, OPTIONS, unserved=0.001)

    assert again.reason.startswith("keep it: ")
    assert again.claims == []
    assert again.manifest == found.manifest


def test_a_held_out_day_refuses_what_the_fitting_days_chose() -> None:
    """Every second day has a rush that the days for fitting do not have."""

    def rushes(hour: float) -> float:
        rush = int(hour // 24) % 2 == 1 and 12 <= hour % 24 < 12.5
        return daily(hour) * (3 if rush else 1)

    raw = wasteful()
    refused = suggest(recording(rushes, hours=96, step=300.0, size=90), raw, OPTIONS, unserved=0.001)

    assert "was best on the fitting days, but the held-out day from" in refused.reason
    assert refused.claims == []
    assert refused.manifest == raw


def test_hidden_demand_lowers_nothing(days: Recording) -> None:
    """A size at maxReplicas above target hides demand, and the reason says so."""
    full = msgspec.structs.replace(
        days,
        clusters=[
            msgspec.structs.replace(one, replicas=[8] * days.steps, ready=[8] * days.steps)
            for one in days.clusters
        ],
    )
    raw = manifest(60, 10, 16, **SLOW)
    found = suggest(full, raw, OPTIONS, unserved=0.001)
    present = run_of(full, Candidate("present", raw), OPTIONS)
    after = run_of(full, Candidate("after", found.manifest), OPTIONS)

    assert "hides demand" in found.reason
    assert after.figures.replicaHours >= present.figures.replicaHours * 0.999


def test_too_few_days_are_refused() -> None:
    """The message says how many there are, and how to get more."""
    with pytest.raises(ConfigError, match=r"has 1\.0 days.*needs 4.*record --days"):
        suggest(recording(daily, hours=24), wasteful(), OPTIONS, unserved=0.001)


def test_a_choice_may_leave_what_the_object_leaves() -> None:
    """The start of the pods costs both the same each morning, which is more than the reserve."""
    days = recording(lambda hour: 12_000 if 8 <= hour % 24 < 18 else 4_000, hours=96, step=300.0, size=10)
    found = suggest(days, manifest(50, **SLOW), OPTIONS, unserved=0.005)
    [present] = [run for run in found.report.runs if run.name == PRESENT]
    worst = max(day.figures.unserved for day in present.days)

    assert found.gain >= 0.03
    assert 0.0005 < worst <= 0.005
    assert found.worstDay.figures.unserved <= worst


def test_variants_are_ranked() -> None:
    """The cheapest that keeps the bound is first, and the sentence names it."""
    days = recording(daily, hours=24, step=300.0, size=10)
    objects = [Candidate(str(target), manifest(target, **SLOW)) for target in (50, 70, 95)]
    report = compare(days, objects, OPTIONS, unserved=0.001)
    names = [run.name for run in report.runs]

    assert names[0] == "recorded"
    assert names[1] in report.best
    kept = [run for run in report.runs[1:] if run.figures.unserved <= 0.001]
    assert report.runs[1 : len(kept) + 1] == sorted(kept, key=lambda run: run.figures.replicaHours)


@only_at_night
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SHAPES)
def test_shipped_recordings_are_improved(name: str) -> None:
    """Each object saves more than 3 % on held-out days, with the reserve or what the present one leaves."""
    file = FOLDER / f"{name}.json.gz"
    days = decode_recording(file.read_bytes(), str(file))
    found = suggest(days, example(name), Options(), unserved=0.001)

    assert found.claims
    assert found.gain >= 0.03
    [present] = [run for run in found.report.runs if run.name == PRESENT]
    own = max(day.figures.unserved for day in present.days)
    assert found.worstDay.figures.unserved <= max(0.0001, own)
