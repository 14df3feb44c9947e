"""Schedules against an independent parser, and around clock changes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedhpa.cron import load_zone, next_fires, parse
from fedhpa.cron.calendar import shortest_interval
from fedhpa.cron.fires import next_wall

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Pacific/Apia",
    "Africa/Casablanca",
    "America/St_Johns",
)


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """One cron field of numbers: values, ranges, steps and lists of them."""
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


schedules = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(" ".join)
FIRST, LAST = datetime.fromisoformat("1995-01-01T00:00"), datetime.fromisoformat("2037-01-01T00:00")
instants = st.datetimes(FIRST, LAST, timezones=st.just(UTC))


@given(schedules, instants)
@settings(max_examples=150, deadline=None)
def test_fires_in_utc_are_those_of_an_independent_parser(schedule: str, after: datetime) -> None:
    """Where no clock changes, croniter agrees about every fire."""
    parsed = parse(schedule)
    # croniter takes a list of all seven days for a star, which changes what it means beside a day-of-month.
    assume(parsed.any_weekday or parsed.weekdays.bit_count() < 7)
    oracle = croniter(schedule, after, day_or=True)
    expected = [oracle.get_next(datetime) for _ in range(5)]

    assert next_fires(parsed, UTC, after, 5) == expected


@given(schedules, instants, st.sampled_from(ZONES))
@settings(max_examples=150, deadline=None)
def test_fires_are_strictly_increasing_and_after_the_start(
    schedule: str, after: datetime, zone_name: str
) -> None:
    """In any zone and around any clock change, no instant comes twice or before the start."""
    fires = next_fires(parse(schedule), load_zone(zone_name), after, 8)

    assert fires[0] > after
    assert all(earlier < later for earlier, later in itertools.pairwise(fires))


@given(schedules, instants, st.sampled_from(ZONES), st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_fires_do_not_depend_on_where_one_starts_to_look(
    schedule: str, after: datetime, zone_name: str, index: int
) -> None:
    """Continuing from any fire gives the fires that were found in one go: a restart loses nothing."""
    parsed, zone = parse(schedule), load_zone(zone_name)
    fires = next_fires(parsed, zone, after, 8)

    assert next_fires(parsed, zone, fires[index], 7 - index) == fires[index + 1 :]
    just_before = fires[index] - timedelta(microseconds=1)
    assert (
        next_fires(parsed, zone, max(after, just_before), 1)[0] == fires[0 if just_before < after else index]
    )


@given(
    st.tuples(st.integers(0, 59), st.integers(0, 23)),
    st.integers(1996, 2036),
    st.sampled_from(ZONES),
)
@settings(max_examples=100, deadline=None)
def test_a_daily_schedule_fires_once_for_every_day(time: tuple[int, int], year: int, zone_name: str) -> None:
    """Each wall time makes one fire: itself, on its first pass, or the end of the gap it fell into."""
    minute, hour = time
    zone = load_zone(zone_name)
    parsed = parse(f"{minute} {hour} * * *")
    start = datetime(year, 1, 1, tzinfo=zone)

    fires = next_fires(parsed, zone, start - timedelta(seconds=1), 400)
    fires = [fire for fire in fires if fire < datetime(year + 1, 1, 1, tzinfo=zone)]

    walls = [
        datetime(year, 1, 1, hour, minute, tzinfo=zone) + timedelta(days=day)
        for day in range(366 if year % 4 == 0 else 365)
    ]
    exact = {wall.astimezone(UTC) for wall in walls if _exists(wall)}
    assert {fire.astimezone(UTC) for fire in fires if fire.fold == 0} >= exact
    # Two days may share one instant only where a whole day was skipped (Pacific/Apia, 30 December 2011).
    assert len(fires) in (len(walls), len(walls) - 1)
    assert all(fire.fold == 0 for fire in fires)


def _exists(wall: datetime) -> bool:
    back = wall.astimezone(UTC).astimezone(wall.tzinfo)
    return back.replace(tzinfo=None) == wall.replace(tzinfo=None)


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25)])
def test_an_hourly_schedule_follows_real_time(day: tuple[int, int, int], hours: int) -> None:
    """The day of a clock change has 23 or 25 fires an hour apart."""
    zone = load_zone("Europe/Berlin")
    start = datetime(*day, tzinfo=zone)

    fires = next_fires(parse("30 * * * *"), zone, start, hours)

    utc = [fire.astimezone(UTC) for fire in fires]
    assert {later - earlier for earlier, later in itertools.pairwise(utc)} == {timedelta(hours=1)}
    assert {(fire.year, fire.month, fire.day) for fire in fires} == {day}


@given(schedules)
@settings(max_examples=60, deadline=None)
def test_the_shortest_interval_is_never_undercut(schedule: str) -> None:
    """No two of the next fires of the plain calendar are closer than the shortest interval."""
    parsed = parse(schedule)
    shortest = timedelta(seconds=shortest_interval(parsed))
    wall = datetime(2026, 1, 1)  # noqa: DTZ001 - the plain calendar has no zone
    for _ in range(40):
        following = next_wall(parsed, wall)
        assert following is not None
        again = next_wall(parsed, following)
        assert again is not None
        assert again - following >= shortest
        wall = following
