"""Strategies for schedules and zones, and a reference implementation that tries every minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from fedhpa.cron import Schedule, load_zone, parse

ZONES = tuple(sorted(resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split()))
# Clock changes of half an hour and three hours, at midnight, over a day, a week apart, and none.
ODD_ZONES = (
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Africa/Casablanca",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Kolkata",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
    "UTC",
)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Written:
    """The text of a schedule with the values of its fields. None stands for `*`."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None

    @property
    def parsed(self) -> Schedule:
        return parse(self.text)

    def matches(self, wall: datetime) -> bool:
        """True if a wall time matches, decided from the values without the parser."""
        if not (wall.minute in self.minutes and wall.hour in self.hours and wall.month in self.months):
            return False
        by_day = self.days is not None and wall.day in self.days
        by_weekday = self.weekdays is not None and wall.isoweekday() % 7 in self.weekdays
        if self.days is not None and self.weekdays is not None:
            return by_day or by_weekday
        return (self.days is None or by_day) and (self.weekdays is None or by_weekday)


def written(
    minutes: set[int] | None,
    hours: set[int] | None,
    days: set[int] | None = None,
    months: set[int] | None = None,
    weekdays: set[int] | None = None,
) -> Written:
    """Returns the schedule of these values. None is `*`."""
    text = " ".join(
        "*" if values is None else ",".join(map(str, sorted(values)))
        for values in (minutes, hours, days, months, weekdays)
    )
    return Written(
        text,
        frozenset(range(60) if minutes is None else minutes),
        frozenset(range(24) if hours is None else hours),
        None if days is None else frozenset(days),
        frozenset(range(1, 13) if months is None else months),
        None if weekdays is None else frozenset(weekdays),
    )


def _some(low: int, high: int, most: int = 4) -> st.SearchStrategy[set[int]]:
    return st.sets(st.integers(low, high), min_size=1, max_size=most)


def schedules(low_day: int = 1, high_day: int = 28) -> st.SearchStrategy[Written]:
    """Schedules of any shape that fire at least once a year."""
    return st.builds(
        written,
        _some(0, 59),
        st.one_of(st.none(), _some(0, 23)),
        st.one_of(st.none(), _some(low_day, high_day)),
        st.one_of(st.none(), _some(1, 12)),
        st.one_of(st.none(), _some(0, 6)),
    )


instants = st.datetimes(datetime(1975, 1, 1), datetime(2075, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
zones = st.one_of(st.sampled_from(ODD_ZONES), st.sampled_from(ZONES)).map(load_zone)


@dataclass(frozen=True)
class ClockChange:
    """The first instant (UTC) of a new offset, and the wall times without and with the change."""

    instant: datetime
    before: datetime
    after: datetime


@lru_cache(maxsize=4096)
def clock_changes(zone: ZoneInfo, year: int) -> tuple[ClockChange, ...]:
    """Returns the clock changes of a year, found by trying every sixth hour, then every minute and second.

    No zone has two changes within six hours.
    """

    def offset_after(first: datetime, length: timedelta) -> timedelta:
        offset = (first + length).astimezone(zone).utcoffset()
        assert offset is not None
        return offset

    def last_unchanged(moment: datetime, step: timedelta) -> datetime:
        """The last of the instants `step` apart that still has the offset of `moment`."""
        before = offset_after(moment, timedelta())
        while offset_after(moment, step) == before:
            moment += step
        return moment

    found = []
    quarter = timedelta(hours=6)
    moment = datetime(year, 1, 1, tzinfo=UTC)
    after = offset_after(moment, timedelta())
    while moment.year == year:
        before, after = after, offset_after(moment, quarter)
        if before != after:
            minute = last_unchanged(moment, timedelta(minutes=1))
            instant = last_unchanged(minute, timedelta(seconds=1)) + timedelta(seconds=1)
            plain = instant.replace(tzinfo=None)
            found.append(ClockChange(instant, plain + before, plain + after))
        moment += quarter
    return tuple(found)


@dataclass(frozen=True)
class Walk:
    """Every minute around a clock change, as UTC and as local time."""

    change: ClockChange
    minutes: tuple[tuple[datetime, datetime], ...]

    @staticmethod
    def around(zone: ZoneInfo, change: ClockChange, hours: int) -> Walk:
        start = change.instant.replace(second=0) - timedelta(hours=hours)
        moments = [start + MINUTE * number for number in range(1, 2 * hours * 60)]
        return Walk(change, tuple((moment, moment.astimezone(zone)) for moment in moments))

    @property
    def start(self) -> datetime:
        return self.minutes[0][0] - MINUTE

    def times(self, schedule: Written, *, real_time: bool) -> list[datetime]:
        """Returns the executions of the schedule, from the rules for clock changes alone."""
        found = []
        skipped = not real_time and any(map(schedule.matches, _walls(self.change)))
        for moment, local in self.minutes:
            by_clock = schedule.matches(local) and (real_time or local.fold == 0)
            if by_clock or (skipped and moment == self.change.instant):
                found.append(moment)
        return found


def _walls(change: ClockChange) -> list[datetime]:
    """Returns the wall times that a clock change skips; none if it repeats some."""
    count = (change.after - change.before) // MINUTE
    return [change.before + MINUTE * number for number in range(count)]
