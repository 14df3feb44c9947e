"""The dates of a rule (startDate, endDate, excludeDates), compared with a filter of all executions."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpa.cron import Dates, Timetable, allowed_dates
from tests.property.schedules import Written, instants, schedules, zones
from tests.property.test_schedules import WITHIN_A_DAY
from tests.support.nightly import examples
from tests.support.timetables import count_of, previous_of, times_of


class DateFields(NamedTuple):
    """The fields of a rule, as dates around the day of a search."""

    start: date | None
    end: date | None
    days: frozenset[date]
    ranges: tuple[tuple[date, date], ...]
    yearly: frozenset[tuple[int, int]]

    @property
    def parsed(self) -> Dates:
        """The dates as the product reads them."""
        texts = [*map(str, self.days), *(f"{first}/{last}" for first, last in self.ranges)]
        texts += [f"--{month:02}-{day:02}" for month, day in self.yearly]
        start, end = (None if each is None else str(each) for each in (self.start, self.end))
        return allowed_dates(start, end, tuple(texts))

    def allow(self, day: date) -> bool:
        """True if the rule may fire on a day, read from the fields one by one."""
        return (
            (self.start is None or self.start <= day)
            and (self.end is None or day <= self.end)
            and day not in self.days
            and not any(first <= day <= last for first, last in self.ranges)
            and (day.month, day.day) not in self.yearly
        )


@st.composite
def fields(draw: st.DrawFn, today: date) -> DateFields:
    """Fields whose dates lie within some months of a day."""

    def near() -> date:
        return today + timedelta(days=draw(st.integers(-70, 300)))

    ranges = tuple(
        sorted((near(), draw(st.just(date.max) | st.dates(date(1, 1, 1), date.max))))
        for _ in range(draw(st.integers(0, 2)))
    )
    bounds = sorted((near(), near()))
    start, end = (each if draw(st.booleans()) else None for each in bounds)
    days = frozenset(near() for _ in range(draw(st.integers(0, 9))))
    yearly = frozenset((each.month, each.day) for each in (near() for _ in range(draw(st.integers(0, 9)))))
    return DateFields(start, end, days, tuple((each[0], each[1]) for each in ranges), yearly)


@given(st.data(), schedules(), instants, st.sampled_from(WITHIN_A_DAY).map(ZoneInfo))
@settings(max_examples=examples(100, 5000), deadline=None)
def test_the_dates_of_a_rule_remove_their_executions_and_no_others(
    data: st.DataObject, schedule: Written, after: datetime, zone: ZoneInfo
) -> None:
    """All executions whose date is allowed are found, forwards and backwards, and counted."""
    written = data.draw(fields(after.astimezone(zone).date()))
    dates, until = written.parsed, after + timedelta(days=data.draw(st.integers(1, 400)))
    whole = list(itertools.islice(times_of(Timetable(schedule.parsed, zone), after, until), 2000))
    until = whole[-1].astimezone(UTC) if whole else until
    expected = [time for time in whole if written.allow(time.date())]

    assert list(times_of(Timetable(schedule.parsed, zone, dates), after, until)) == expected
    assert count_of(Timetable(schedule.parsed, zone, dates), after, until) == len(expected)
    for earlier, later in itertools.pairwise([None, *expected][:20]):
        just_before = later.astimezone(UTC) - timedelta(microseconds=1)  # type: ignore[union-attr]
        assert previous_of(Timetable(schedule.parsed, zone, dates), just_before, after) == earlier


@given(st.data(), schedules(), instants, zones)
@settings(max_examples=examples(100, 5000), deadline=None)
def test_dates_are_found_in_the_same_way_in_both_directions_in_every_zone(
    data: st.DataObject, schedule: Written, after: datetime, zone: ZoneInfo
) -> None:
    """Also where a clock change skips midnight or a whole day."""
    written = data.draw(fields(after.astimezone(zone).date()))
    dates, until = written.parsed, after + timedelta(days=60)
    listed = [
        time.astimezone(UTC) for time in times_of(Timetable(schedule.parsed, zone, dates), after, until)
    ]
    whole = {time.astimezone(UTC) for time in times_of(Timetable(schedule.parsed, zone), after, until)}

    assert all(earlier < later for earlier, later in itertools.pairwise(listed))
    assert set(listed) <= whole
    assert all(written.allow(time.astimezone(zone).date()) for time in listed)
    assert count_of(Timetable(schedule.parsed, zone, dates), after, until) == len(listed)
    last = previous_of(Timetable(schedule.parsed, zone, dates), until, after)
    assert (None if last is None else last.astimezone(UTC)) == (listed[-1] if listed else None)
