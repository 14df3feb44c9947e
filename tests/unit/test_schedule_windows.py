"""The timetable of a rule: excluded dates, and the windows of `duration`."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from fedhpa.api.cronfederatedhpa import CronFederatedHPARule
from fedhpa.api.errors import InvalidObject
from fedhpa.cron import Timetable, timetable
from fedhpa.cron.execution.model import ObservedTarget, Rule, ScheduledObject
from fedhpa.cron.execution.planning import CronPlan
from tests.support.costs import least_cpu_seconds
from tests.support.timetables import count_of, next_of, previous_of, times_of


def rule(schedule: str, zone: str = "Europe/Berlin", **fields: Any) -> Timetable:
    raw = {"name": "r", "schedule": schedule, "timeZone": zone, **fields}
    return timetable(CronFederatedHPARule.model_validate(raw))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def window(table: Timetable, moment: str) -> tuple[str, str] | None:
    """When the window opened that holds at an instant, and when it closes, in the zone of the rule."""
    rules = (Rule("r", 0, table, {"minReplicas": 5}, "hash"),)
    now = at(moment).timestamp()
    owner = ScheduledObject("office", now - 30 * 86400, rules)
    record = CronPlan([owner], None, ObservedTarget({"minReplicas": 1, "maxReplicas": 9}), now).record
    if record is None:
        return None
    times = (record.open[0].opened, record.open[0].closes)
    opened, closes = (datetime.fromtimestamp(time, table.zone).isoformat() for time in times)
    return opened, closes


def test_a_rule_without_duration_has_no_window() -> None:
    """Its value holds until another rule fires."""
    assert window(rule("0 8 * * *"), "2026-03-16T08:00:00+01:00") is None


def test_a_window_distinguishes_the_two_occurrences_of_an_hour() -> None:
    """A daily rule fires only in the first occurrence, so its window can end before the second one."""
    table = rule("30 2 * * *", duration="45m")
    first = "2026-10-25T02:30:00+02:00"

    assert window(table, "2026-10-25T02:10:00+01:00") == (first, "2026-10-25T02:15:00+01:00")
    assert window(table, "2026-10-25T02:20:00+01:00") is None
    assert window(table, "2026-10-25T02:40:00+01:00") is None


def test_an_execution_moved_to_another_date_is_excluded_by_either_date() -> None:
    """In Nuuk the clock goes from 23:00 to midnight, so 23:30 of the 28th fires on the 29th."""
    before = at("2026-03-28T12:00:00Z")

    def fires_next(*excluded: str) -> str:
        found = next_of(rule("30 23 * * *", "America/Nuuk", excludeDates=list(excluded)), before)
        assert found is not None
        return found.isoformat()

    assert fires_next() == "2026-03-29T00:00:00-01:00"
    assert fires_next("2026-03-28") == "2026-03-29T23:30:00-01:00"
    assert fires_next("2026-03-29") == "2026-03-30T23:30:00-01:00"


def test_a_rule_whose_dates_are_one_day_fires_once() -> None:
    """The yearly schedule of the day does not repeat."""
    once = rule("0 8 27 11 *", startDate="2026-11-27", endDate="2026-11-27")

    assert [time.year for time in times_of(once, at("2020-01-01T00:00:00Z"))] == [2026]


def test_dates_are_excluded_as_ranges_and_in_each_year() -> None:
    """A range has its first and its last date. 29 February is excluded where it comes."""

    def days(schedule: str, *excluded: str) -> list[str]:
        found = times_of(rule(schedule, excludeDates=list(excluded)), at("2027-12-23T12:00:00Z"))
        return [time.date().isoformat() for time in islice(found, 3)]

    assert days("0 8 * * *", "2027-12-25/2028-01-01") == ["2027-12-24", "2028-01-02", "2028-01-03"]
    assert days("0 8 24-26 12 *", "--12-25") == ["2027-12-24", "2027-12-26", "2028-12-24"]
    assert days("0 8 28,29 2 *", "--02-29") == ["2028-02-28", "2029-02-28", "2030-02-28"]


@pytest.mark.parametrize(
    "fields",
    [
        {"excludeDates": ["2026-01-01/9998-12-31"]},
        {"startDate": "9998-12-31"},
        {"endDate": "0001-12-31"},
        {"excludeDates": [f"{year}-01-01/{year}-12-31" for year in range(2026, 2392)]},
    ],
)
@pytest.mark.parametrize("schedule", ["* * * * *", "0 8 * * *"])
def test_a_pause_of_centuries_costs_no_search(fields: dict[str, Any], schedule: str) -> None:
    """The search jumps over it. Visiting its days would take seconds."""
    table, now = rule(schedule, **fields), at("2026-03-16T00:00:00Z")

    def search() -> None:
        next_of(table, now)
        previous_of(table, now)
        count_of(table, now, at("2035-01-01T00:00:00Z"))

    search()
    assert least_cpu_seconds(search, 0.01) < 0.01


def test_a_rule_whose_dates_are_all_excluded_does_not_search_forever() -> None:
    """There is no execution before the given time. Without it, the next one is centuries away."""
    days = [f"{year}-02-29" for year in range(2028, 2400, 4) if year % 100]
    table = rule("0 8 29 2 *", excludeDates=days)
    now = at("2026-03-16T00:00:00Z")

    assert next_of(table, now, until=at("2035-01-01T00:00:00Z")) is None
    found = next_of(table, now)
    assert found is not None
    assert found.isoformat() == "2400-02-29T08:00:00+01:00"


@pytest.mark.parametrize(
    "fields",
    [
        {"schedule": "0 8 * *"},
        {"timeZone": "Mars/Phobos"},
        {"duration": "59s"},
        {"duration": "1e3h"},
        {"duration": 10**400},
        {"duration": "1h" * 40},
        {"duration": "8785h"},
        {"excludeDates": ["2026-W52-5"]},
        {"excludeDates": ["20261225"]},
        {"excludeDates": ["2026-13-01"]},
        {"excludeDates": ["2026-12-27/2026-12-26"]},
        {"excludeDates": ["--12-24/--12-26"]},
        {"excludeDates": ["--02-30"]},
        {"excludeDates": ["2026-12-24/"]},
        {"startDate": "--12-24"},
        {"endDate": "2026-12-24/2026-12-25"},
        {"startDate": "2026-12-02", "endDate": "2026-12-01"},
    ],
)
def test_an_invalid_rule_has_no_timetable(fields: dict[str, Any]) -> None:
    """The error is always InvalidObject, whose message admission prints."""
    raw = {"name": "r", "schedule": "0 8 * * *", **fields}

    with pytest.raises(InvalidObject):
        timetable(CronFederatedHPARule.model_validate(raw))


def test_a_gap_at_the_turn_of_a_year_is_found_backwards() -> None:
    """In Casey the clock went from 00:00 to 08:00 at 00:00 UTC of 1 January 1969, so 03:00 fired at 08:00."""
    table = rule("0 3 * * *", "Antarctica/Casey")
    midnight = at("1969-01-01T00:00:00Z")

    assert next_of(table, at("1968-12-31T12:00:00Z")) == midnight
    assert previous_of(table, midnight) == midnight
    assert count_of(table, at("1968-12-31T12:00:00Z"), midnight) == 1


def test_all_forms_of_utc_are_one_zone() -> None:
    """They are the same object, so rules without a time zone compare as having the same one."""
    zones = {
        timetable(CronFederatedHPARule(schedule="@daily", time_zone=name)).zone for name in (None, "", "UTC")
    }

    assert {str(zone) for zone in zones} == {"UTC"}
    assert len(zones) == 1


def test_the_calendar_ends_without_an_error() -> None:
    """A search near the years 1 and 9999 raises no exception."""
    table = rule("0 8 * * *", "Pacific/Kiritimati")

    assert previous_of(table, datetime(1, 1, 1, tzinfo=UTC)) is None
    assert next_of(table, datetime(9999, 12, 31, 23, 59, tzinfo=UTC)) is None
    assert next_of(table, datetime(1, 1, 1, tzinfo=UTC)) is not None
