"""Schedules compared with an independent parser, and properties of executions in every zone."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedhpa.cron import InvalidSchedule, Timetable, allowed_dates, load_zone, parse, shortest_interval
from fedhpa.cron.execution.model import ObservedTarget, Rule, ScheduledObject
from fedhpa.cron.execution.planning import CronPlan
from fedhpa.cron.timetables import EPOCH_DAY, EVERY_DAY, MINUTES_PER_DAY, wall_times
from tests.property.schedules import Written, instants, schedules, written, zones
from tests.support.costs import least_cpu_seconds
from tests.support.nightly import examples
from tests.support.timetables import count_of, next_times, previous_of, times_of


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """Cron fields of numbers: values, ranges, steps and lists of them."""
    value = st.integers(low, high)
    # croniter reads a range of one value, such as 0-0 or 23-23/1, as a star.
    span = (
        st.tuples(value, value)
        .filter(lambda pair: pair[0] != pair[1])
        .map(lambda pair: f"{min(pair)}-{max(pair)}")
    )
    step = st.integers(1, high + 5)
    item = st.one_of(
        value.map(str),
        span,
        st.tuples(span, step).map(lambda pair: f"{pair[0]}/{pair[1]}"),
        st.tuples(st.integers(low, high - 1), step).map(lambda pair: f"{pair[0]}-{high}/{pair[1]}"),
    )
    return st.one_of(st.just("*"), st.lists(item, min_size=1, max_size=3).map(",".join))


texts = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(" ".join)


@given(texts, instants)
@settings(max_examples=examples(75, 5000), deadline=None)
def test_executions_in_utc_are_those_of_an_independent_parser(text: str, after: datetime) -> None:
    """In UTC, croniter gives the same next and previous times."""
    parsed = parse(text)
    # croniter treats a list of all seven weekdays as a star, which matters beside a day of the month.
    assume(parsed.any_weekday or parsed.weekdays.bit_count() < 7)
    forward = croniter(text, after, day_or=True)
    expected = [forward.get_next(datetime) for _ in range(5)]

    assert expected == next_times(parsed, UTC, after, 5)
    # The previous time of croniter is strictly before the instant, and ours at or before it.
    assert croniter(text, expected[4], day_or=True).get_prev(datetime) == expected[3]
    assert expected[3] == previous_of(Timetable(parsed, UTC), expected[4] - timedelta(seconds=1))


@given(schedules(), instants, zones)
@settings(max_examples=examples(75, 5000), deadline=None)
def test_executions_are_strictly_increasing_and_after_the_start(
    schedule: Written, after: datetime, zone: ZoneInfo
) -> None:
    """In every zone and around clock changes, no execution repeats or precedes the start."""
    found = [time.astimezone(UTC) for time in next_times(schedule.parsed, zone, after, 8)]

    assert len(found) == 8
    assert found[0] > after
    assert all(earlier < later for earlier, later in itertools.pairwise(found))


@given(schedules(), instants, zones)
@settings(max_examples=examples(75, 5000), deadline=None)
def test_next_and_previous_executions_agree(schedule: Written, after: datetime, zone: ZoneInfo) -> None:
    """previous(next(t)) is next(t), and just before that instant previous is still previous(t)."""
    parsed = schedule.parsed
    following = next(times_of(Timetable(parsed, zone), after), None)
    assert following is not None
    instant = following.astimezone(UTC)
    previous = previous_of(Timetable(parsed, zone), after)
    assert previous is not None

    assert previous_of(Timetable(parsed, zone), instant) == following
    assert previous_of(Timetable(parsed, zone), instant - timedelta(microseconds=1)) == previous
    assert previous.astimezone(UTC) <= after
    assert next(times_of(Timetable(parsed, zone), previous.astimezone(UTC)), None) == following


@given(schedules(), instants, zones, st.integers(0, 6))
@settings(max_examples=examples(50, 3000), deadline=None)
def test_executions_do_not_depend_on_the_start_of_the_search(
    schedule: Written, after: datetime, zone: ZoneInfo, index: int
) -> None:
    """A search that continues from any execution finds the same executions, so a restart loses none."""
    found = next_times(schedule.parsed, zone, after, 8)
    instant = found[index].astimezone(UTC)

    assert found[index + 1 :] == next_times(schedule.parsed, zone, instant, 7 - index)
    just_before = max(after, instant - timedelta(microseconds=1))
    assert found[index] == next(times_of(Timetable(schedule.parsed, zone), just_before), None)


# In these zones no clock change skips midnight. Elsewhere an execution can be a day after its wall time.
WITHIN_A_DAY = (
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
)


@given(
    schedules(),
    instants,
    st.sampled_from(WITHIN_A_DAY).map(load_zone),
    st.sets(st.integers(0, 400), max_size=40),
)
@settings(max_examples=examples(50, 3000), deadline=None)
def test_excluded_dates_remove_their_executions_and_no_others(
    schedule: Written, after: datetime, zone: ZoneInfo, offsets: set[int]
) -> None:
    """The executions are those without exclusions, except on the excluded dates."""
    today = after.astimezone(zone).date().toordinal()
    excluded = {date.fromordinal(today + offset) for offset in offsets}
    dates = allowed_dates(None, None, tuple(map(str, excluded)))
    found = next_times(schedule.parsed, zone, after, 30)
    expected = [time for time in found if time.date() not in excluded]

    assert expected == list(
        itertools.islice(times_of(Timetable(schedule.parsed, zone, dates), after), len(expected))
    )
    for earlier, later in itertools.pairwise(expected):
        just_before = later.astimezone(UTC) - timedelta(microseconds=1)
        assert earlier == previous_of(Timetable(schedule.parsed, zone, dates), just_before)


@given(
    schedules(),
    instants,
    zones,
    st.sets(st.integers(0, 60), max_size=20),
    st.timedeltas(timedelta(0), timedelta(days=40)),
)
@settings(max_examples=examples(50, 3000), deadline=None)
def test_a_span_is_counted_and_searched_backwards_as_it_is_listed(
    schedule: Written, after: datetime, zone: ZoneInfo, offsets: set[int], length: timedelta
) -> None:
    """`until` is the last instant of the listed times, and `since` the last one before the search ends."""
    today = after.astimezone(zone).date().toordinal()
    excluded = tuple(str(date.fromordinal(today + offset)) for offset in offsets)
    dates = allowed_dates(None, None, excluded)
    until = after + length
    listed = [
        time.astimezone(UTC) for time in times_of(Timetable(schedule.parsed, zone, dates), after, until)
    ]

    assert all(after < time <= until for time in listed)
    assert count_of(Timetable(schedule.parsed, zone, dates), after, until) == len(listed)
    last = previous_of(Timetable(schedule.parsed, zone, dates), until, after)
    assert (None if last is None else last.astimezone(UTC)) == (listed[-1] if listed else None)


def test_a_search_backwards_ends_when_all_dates_are_excluded() -> None:
    """The search visits nine years, and not the two thousand before them."""
    days = tuple(str(date.fromordinal(day)) for day in range(date(2010, 1, 1).toordinal(), 740_000))
    dates = allowed_dates(None, None, days)

    assert (
        least_cpu_seconds(
            lambda: previous_of(Timetable(parse("0 0 * * *"), UTC, dates), datetime(2026, 3, 16, tzinfo=UTC)),
            0.02,
        )
        < 0.02
    )


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25)])
def test_an_hourly_schedule_follows_real_time(day: tuple[int, int, int], hours: int) -> None:
    """The day of a clock change has 23 or 25 executions, each an hour after the previous one."""
    zone = load_zone("Europe/Berlin")
    start = datetime(*day, tzinfo=zone)

    found = next_times(parse("30 * * * *"), zone, start, hours)

    utc = [time.astimezone(UTC) for time in found]
    assert {later - earlier for earlier, later in itertools.pairwise(utc)} == {timedelta(hours=1)}
    assert {(time.year, time.month, time.day) for time in found} == {day}


rare = st.builds(
    written,
    st.sets(st.integers(0, 59), min_size=1, max_size=2),
    st.sets(st.integers(0, 23), min_size=1, max_size=2),
    st.none() | st.sets(st.integers(1, 31), min_size=1, max_size=3),
    st.none() | st.sets(st.integers(1, 12), min_size=1, max_size=3),
    st.none() | st.sets(st.integers(0, 6), min_size=1, max_size=2),
)
YEAR_2000, YEAR_2400 = ((date(year, 1, 1).toordinal() - EPOCH_DAY) * MINUTES_PER_DAY for year in (2000, 2400))


@given(rare)
@settings(max_examples=examples(5, 300), deadline=None)
def test_the_shortest_interval_is_that_of_four_hundred_years(schedule: Written) -> None:
    """The plain calendar repeats after 400 years, so the interval is exact."""
    try:
        parsed = schedule.parsed
    except InvalidSchedule:
        assume(False)
    found = wall_times(parsed, EVERY_DAY, YEAR_2000, YEAR_2400 + 8 * 366 * MINUTES_PER_DAY)
    shortest = min(later - earlier for earlier, later in itertools.pairwise(found))

    assert shortest_interval(parsed) == shortest * 60


@given(rare)
@settings(max_examples=examples(50, 3000), deadline=None)
def test_a_date_is_refused_if_and_only_if_it_never_comes(schedule: Written) -> None:
    """For example, 29 February comes and 30 February never does."""
    lengths = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    comes = schedule.weekdays is not None or schedule.days is None
    comes = comes or any(
        day <= lengths[month - 1] for day in schedule.days or () for month in schedule.months
    )

    try:
        parse(schedule.text)
    except InvalidSchedule:
        assert not comes
    else:
        assert comes


@given(schedules(), instants, st.integers(0, 500), st.integers(0, 500))
@settings(max_examples=examples(50, 3000), deadline=None)
def test_a_search_backwards_finds_the_wall_times_of_a_forward_one(
    schedule: Written, start: datetime, low: int, days: int
) -> None:
    """Searches backwards and forwards agree."""
    first = (start.date().toordinal() - EPOCH_DAY) * MINUTES_PER_DAY + low
    end = first + days * MINUTES_PER_DAY

    backwards = list(wall_times(schedule.parsed, EVERY_DAY, first, end, -1))

    assert backwards[::-1] == list(wall_times(schedule.parsed, EVERY_DAY, first, end))


@given(schedules(), instants, zones, st.integers(60, 2 * 86400))
@settings(max_examples=examples(30, 2000), deadline=None)
def test_a_window_is_open_if_and_only_if_an_execution_is_recent_enough(
    schedule: Written, start: datetime, zone: ZoneInfo, seconds: int
) -> None:
    """It opens with the latest execution, and closes a duration after it."""
    duration = timedelta(seconds=seconds)
    table = Timetable(schedule.parsed, zone, duration=float(seconds))
    found = [time.astimezone(UTC) for time in next_times(schedule.parsed, zone, start, 12)]
    # Times before `start` can renew a window too, so the checks begin after a gap that no window bridges.
    first = next((n for n in range(1, 12) if found[n] - found[n - 1] > duration), None)
    assume(first is not None)
    assert first is not None
    for at in (
        *found[first:11],
        found[first] + duration,
        found[first] + duration - timedelta(microseconds=1),
    ):
        assume(at < found[11])
        before = [time for time in found[first:] if time <= at]
        rules = (Rule("r", 0, table, {"minReplicas": 5}, "hash"),)
        owner = ScheduledObject("office", found[0].timestamp() - 1, rules)
        record = CronPlan([owner], None, ObservedTarget({"minReplicas": 1}), at.timestamp()).record

        assert (record is not None) == (at - before[-1] < duration)
        if record is not None:
            (window,) = record.open
            assert window.opened == before[-1].timestamp()
            assert window.closes == (before[-1] + duration).timestamp()
