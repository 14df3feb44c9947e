"""The rules for skipped and repeated wall times, compared with a walk over every minute."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedhpa.cron import Timetable, load_zone, parse
from tests.property.schedules import MINUTE, ODD_ZONES, ZONES, Walk, Written, clock_changes, written
from tests.support.nightly import NIGHTLY, examples
from tests.support.timetables import next_times, previous_of, times_of

YEARS = (2026, 2027)
# The suite tests one zone in 50, and the nightly run tests all of them.
PART = 1 if NIGHTLY else 50


def in_this_part(name: str) -> bool:
    return name in ODD_ZONES or zlib.crc32(name.encode()) % PART == 0


CHANGING = [
    (name, year)
    for name in ZONES
    if in_this_part(name)
    for year in YEARS
    if clock_changes(load_zone(name), year)
]


def in_utc(found: list[datetime]) -> list[datetime]:
    """Converts to UTC, because a repeated time of a zone never equals a time of another zone in Python."""
    return [time.astimezone(UTC) for time in found]


def around(change_at: datetime) -> list[Written]:
    """Returns schedules before, in and after the wall times that a clock change skips or repeats."""
    shown = [change_at + timedelta(minutes=offset) for offset in (-61, -30, -1, 0, 15, 59, 60)]
    daily = [written({wall.minute}, {wall.hour}) for wall in shown]
    several = written({wall.minute for wall in shown}, {wall.hour for wall in shown})
    return [
        *daily,
        several,
        written({change_at.minute, 30}, None),
        written({0}, {change_at.hour}, {change_at.day}, None, {0}),
        written(None, {change_at.hour}),
    ]


@pytest.mark.parametrize(("name", "year"), CHANGING)
def test_around_every_clock_change_executions_are_those_of_the_rules(name: str, year: int) -> None:
    """A skipped time fires after the gap, a repeated one the first time, and a starred hour in real time."""
    zone = load_zone(name)
    for change in clock_changes(zone, year):
        walk = Walk.around(zone, change, hours=26)
        for schedule in around(change.before) + around(change.after):
            parsed = schedule.parsed
            expected = walk.times(schedule, real_time=parsed.real_time)
            found = next_times(parsed, zone, walk.start, len(expected))

            assert expected == in_utc(found), (schedule.text, change)
            assert all(time.tzinfo is zone for time in found)


@pytest.mark.parametrize("name", [name for name in ZONES if in_this_part(name)])
def test_in_two_years_no_execution_is_lost_or_repeated(name: str) -> None:
    """A daily schedule fires 730 times in order, and the search backwards finds the same executions."""
    zone = load_zone(name)
    start = datetime(YEARS[0], 1, 1, tzinfo=zone) - timedelta(seconds=1)
    end = datetime(YEARS[-1] + 1, 1, 1, tzinfo=zone).astimezone(UTC)
    for text in ("30 2 * * *", "0 0 * * *", "59 23 * * *"):
        schedule = parse(text)
        found = []
        for time in times_of(Timetable(schedule, zone), start):
            if time.astimezone(UTC) >= end:
                break
            found.append(time)

        assert len(found) == 730
        assert in_utc(found) == sorted(set(in_utc(found)))
        assert all(previous_of(Timetable(schedule, zone), time) == time for time in found[::7])


@given(st.sampled_from(ODD_ZONES) | st.sampled_from(ZONES), st.integers(1970, 2060), st.data())
@settings(max_examples=examples(12, 3000), deadline=None)
def test_clock_changes_of_other_years_follow_the_rules_too(name: str, year: int, data: st.DataObject) -> None:
    """They include past changes of half an hour, three hours and a whole day, and future changes."""
    zone = load_zone(name)
    found = clock_changes(zone, year)
    assume(found)
    change = data.draw(st.sampled_from(found))
    # Zones of Africa had offsets with seconds until 1972.
    assume(change.before.second == change.after.second == 0)
    walk = Walk.around(zone, change, hours=50)
    base = data.draw(st.sampled_from((change.before, change.after)))
    near = base + MINUTE * data.draw(st.integers(-1500, 1500))
    others = data.draw(st.sets(st.integers(0, 23), max_size=3))
    schedule = written({near.minute, base.minute}, {near.hour, *others})
    hourly = written({near.minute}, None)

    for each in (schedule, hourly):
        parsed = each.parsed
        expected = walk.times(each, real_time=parsed.real_time)
        assert expected == in_utc(next_times(parsed, zone, walk.start, len(expected)))
        backwards = []
        at = walk.minutes[-1][0]
        while (time := previous_of(Timetable(parsed, zone), at)) is not None and time > walk.start:
            backwards.append(time)
            at = time.astimezone(UTC) - timedelta(seconds=1)
        assert expected == in_utc(backwards[::-1])
