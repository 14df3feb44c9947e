"""`fedhpa cron suggest`: windows ahead of ramps that come back, and none for anything else."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.backtest import Candidate, Options, Recording, decode_recording, run_of
from fedhpa.backtest.cron_suggestion import CronSuggestion, suggest_windows
from fedhpa.backtest.rules import rules_of
from fedhpa.cli.preview import admitted
from testbed.reference.recordings import FOLDER
from testbed.reference.recordings import manifest as example
from tests.support.nightly import only_at_night
from tests.support.recorded_days import manifest, recording

UTC = ZoneInfo("UTC")
OPTIONS = Options(pod_start=30.0)
# The recording begins on a Monday.
WEEKS = 3 * 7 * 24


def office(hour: float) -> float:
    """A ramp from 2 to 16 cores between 8:02 and 8:12 on working days, and the way back in the evening."""
    day, hour = divmod(hour, 24)
    if day % 7 >= 5:
        return 2_000
    part = min(max((hour - 8.04) / 0.15, 0.0), 1.0) - min(max((hour - 17) / 1.5, 0.0), 1.0)
    return 2_000 + 14_000 * part


def suggested(days: Recording, raw: dict[str, Any], **more: Any) -> CronSuggestion:
    """The suggestion for an object."""
    return asyncio.run(suggest_windows(days, raw, OPTIONS, UTC, **more))


@pytest.fixture(scope="module")
def days() -> Recording:
    return recording(office, hours=WEEKS, step=60.0, size=4, noise=0.04)


@pytest.fixture(scope="module")
def raw() -> dict[str, Any]:
    return manifest(60, 3, syncPeriodSeconds=60)


@pytest.fixture(scope="module")
def found(days: Recording, raw: dict[str, Any]) -> CronSuggestion:
    return suggested(days, raw)


def test_a_ramp_of_working_days_gets_a_window(found: CronSuggestion) -> None:
    """It opens at eight, halves the minutes over target, and costs at most 3 %."""
    assert found.manifest is not None
    [rule] = found.manifest["spec"]["rules"]
    assert (rule["schedule"], rule["timeZone"]) == ("0 8 * * MON,TUE,WED,THU,FRI", "UTC")
    assert found.after.minutesOverTarget <= found.before.minutesOverTarget / 2
    assert found.after.replicaHours <= found.before.replicaHours * 1.03


def test_its_claims_are_recomputed(found: CronSuggestion, days: Recording, raw: dict[str, Any]) -> None:
    """The figures are those of a backtest with the manifest, which admission accepts."""
    assert found.manifest is not None
    refusal, _, stored = admitted("CronFederatedHPA", found.manifest)
    bounds, _ = asyncio.run(rules_of([stored], raw, days))
    again = run_of(days, Candidate("again", raw, tuple(bounds)), OPTIONS).figures

    assert refusal == ""
    assert found.after == again
    assert f"({found.before.minutesOverTarget:.0f} -> {again.minutesOverTarget:.0f})" in found.reason


def test_windows_that_exist_are_not_suggested_again(
    found: CronSuggestion, days: Recording, raw: dict[str, Any]
) -> None:
    """With the rules in force, the object meets the ramps in time."""
    again = suggested(days, raw, crons=[found.manifest])

    assert again.manifest is None
    assert again.reason.startswith("nothing to propose: ")


def test_a_holiday_is_named(raw: dict[str, Any]) -> None:
    """The window opens on a Friday without a ramp: three of four weeks are enough."""
    holiday = recording(
        lambda hour: 2_000 if hour // 24 == 18 else office(hour), hours=4 * 7 * 24, size=4, noise=0.04
    )
    found = suggested(holiday, raw)

    assert found.manifest is not None
    assert found.quietDays == ["2026-03-20"]


@pytest.mark.parametrize("seed", [1, 2])
def test_noise_has_no_windows(raw: dict[str, Any], seed: int) -> None:
    """Ramps at times by chance are no pattern."""
    chance = random.Random(seed)
    begins = [chance.uniform(0, 23) for _ in range(21)]

    def noise(hour: float) -> float:
        after = hour % 24 - begins[int(hour // 24)]
        return 3_000 + (12_000 if 0 < after < 1 else 0) + 500 * math.sin(hour * 7)

    found = suggested(recording(noise, hours=WEEKS, step=60.0, size=5, noise=0.1), raw)

    assert found.before.minutesOverTarget > 21
    assert found.manifest is None


def test_two_weeks_are_too_few(raw: dict[str, Any]) -> None:
    """The message says how to record more."""
    with pytest.raises(ConfigError, match=r"2\.0 weeks, and patterns need 3: .*--days 28"):
        suggested(recording(office, hours=14 * 24, step=3600.0), raw)


@only_at_night
@pytest.mark.timeout(1800)
def test_the_office_day_gets_two_windows() -> None:
    """They halve the minutes over target of the shipped recording, for at most 3 % more replica-hours."""
    file = FOLDER / "office-day.json.gz"
    days = decode_recording(file.read_bytes(), str(file))
    found = asyncio.run(suggest_windows(days, example("office-day"), Options(), UTC))

    assert found.manifest is not None
    assert len(found.manifest["spec"]["rules"]) == 2
    assert found.after.minutesOverTarget <= found.before.minutesOverTarget / 2
    assert found.after.replicaHours <= found.before.replicaHours * 1.03
