"""The timetable of a rule: the instants at which its schedule fires in its time zone, on its dates.

The search runs on bit sets, one month and one day at a time, so a rare date costs little more than a common
one. A day is its ordinal (`date.toordinal`). Instants are seconds of UTC, local times seconds of the local
clock, and wall times its minutes, all since midnight of 1 January of the year 1: whole numbers compare and
subtract at a tenth of the cost of aware datetimes.

Within one period of constant UTC offset a zone is a plain clock, so the rules for clock changes
(docs/reference/schedules.md) concern only the boundary between two periods. A skipped wall time fires at the
first instant after the gap. A repeated wall time fires once, the first time. A schedule whose hour field
begins with `*` follows real time instead: it fires at every wall time that a clock shows, and at no other.

A schedule never fires on a date that its rule does not allow (`fedhpa.cron.dates`). The dates are those of
the zone. For a skipped wall time, both its own date and that of the instant at which it would fire count.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPARule
from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import parse_duration
from fedhpa.cron.dates import EVERY_DAY, Dates, allowed_dates
from fedhpa.cron.grammar import Schedule, parse
from fedhpa.cron.zones import load_zone

MINUTES_PER_DAY: Final = 1440
# Two 29 Februaries are at most eight years apart, around a century without one.
LONGEST_INTERVAL: Final = timedelta(days=9 * 366)
# Seconds. Schedules have a resolution of one minute, and a window of over a year is most likely a mistake.
SHORTEST_INTERVAL: Final = 60
_MAX_WINDOW: Final = 366 * 86400
_MAX_DURATION_LENGTH: Final = 64
_DAY: Final = 86400
# No zone changes its offset twice within two days, and the local times that a change repeats end within them.
# Some zones do within a week: daylight saving time lasted seven days in Recife in 2000, and tzdata predicts
# seven days for Gaza in 2040, around Ramadan.
_PROBE: Final = 2 * _DAY
_START: Final = datetime(1, 1, 1, tzinfo=UTC)
# Within these bounds no offset leads beyond Python's calendar.
_MIN: Final = _DAY
_MAX: Final = date.max.toordinal() * _DAY - _DAY
# Bits 1, 8, 15, 22 and 29.
_EVERY_SEVENTH: Final = 0b100000010000001000000100000010


class Timetable(msgspec.Struct, frozen=True):
    """The times of a rule on its allowed `dates`, and the `duration` of its windows.

    Returned times are in the zone. Compare them in UTC only: Python compares two times of one zone by their
    wall times, and a repeated wall time is never equal to a time of another zone.
    """

    schedule: Schedule
    zone: tzinfo
    dates: Dates = EVERY_DAY
    duration: timedelta | None = None

    def times(self, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
        """Yields all times in (after, until], in order. Both limits are aware datetimes.

        `until` also bounds the search, and so the work.
        """
        return self._times(instant_of(after), _MAX if until is None else instant_of(until), 1)

    def next(self, after: datetime, until: datetime | None = None) -> datetime | None:
        """Returns the first time strictly after an aware datetime, or None if it is later than `until`."""
        return next(self.times(after, until), None)

    def previous(self, at: datetime, since: datetime | None = None) -> datetime | None:
        """Returns the latest time in (since, at], or None.

        Without `since` the search goes back nine years, longer than any schedule pauses.
        """
        instant = instant_of(at)
        floor = instant - LONGEST_INTERVAL.days * _DAY if since is None else instant_of(since)
        return next(self._times(floor, instant, -1), None)

    def count(self, after: datetime, until: datetime) -> int:
        """Returns the number of times in (after, until], without a visit to each of them."""
        total = 0
        for _, low, high, skipped in self._parts(instant_of(after), instant_of(until), 1):
            days = _days_with_minutes(self.schedule, self.dates, low, high, 1)
            total += skipped + sum(bits.bit_count() for _, bits in days)
        return total

    def _times(self, after: int, until: int, step: int) -> Iterator[datetime]:
        """Yields the times in (after, until], with a step of -1 the latest first."""
        calendar = datetime(1, 1, 1, tzinfo=self.zone)
        for period, low, high, skipped in self._parts(after, until, step):
            first = calendar + timedelta(0, period.start + period.offset)
            if skipped and step > 0:
                yield first
            for wall_time in wall_times(self.schedule, self.dates, low, high, step):
                local = calendar + timedelta(0, 0, 0, 0, wall_time)
                yield local if wall_time * 60 >= period.shown_until else local.replace(fold=1)
            if skipped and step < 0:
                yield first

    def _parts(self, after: int, until: int, step: int) -> Iterator[tuple[OffsetPeriod, int, int, bool]]:
        """Yields the periods of (after, until], each with its wall times [low, high) that may fire.

        The last value is True if the period's first instant fires instead of skipped wall times, and itself.
        """
        wall_clock = not self.schedule.real_time
        for period in offset_periods(self.zone, after, until, step, self.dates):
            start, end, offset, shown = period
            first = start + offset
            low = max(_minute(max(first, shown) if wall_clock else first), (after + offset) // 60 + 1)
            gap = wall_clock and after < start and shown < first and self.dates.allow(first // _DAY + 1)
            skipped = gap and any(
                True for _ in wall_times(self.schedule, self.dates, _minute(shown), _minute(first))
            )
            if skipped:
                low = max(low, first // 60 + 1)
            yield period, low, _minute(min(end, until + 1) + offset), skipped


def timetable(rule: CronFederatedHPARule) -> Timetable:
    """Returns the timetable of a rule, suspended or not. Raises InvalidObject if the rule is invalid."""
    dates = allowed_dates(rule.start_date, rule.end_date, rule.exclude_dates)
    duration = None if rule.duration is None else parse_window(rule.duration)
    return Timetable(parse(rule.schedule), load_zone(rule.time_zone), dates, duration)


@lru_cache(maxsize=1024)
def parse_window(value: str | int) -> timedelta:
    """Returns the length of the windows. Raises InvalidObject, with a message that follows the value."""
    try:
        if isinstance(value, str) and len(value) > _MAX_DURATION_LENGTH:
            raise InvalidObject(f"it is longer than {_MAX_DURATION_LENGTH} characters")
        seconds = parse_duration(value)
    except (InvalidObject, OverflowError) as error:
        raise InvalidObject("is no duration; write one such as 8h or 90m, or seconds") from error
    if seconds < SHORTEST_INTERVAL:
        raise InvalidObject("is shorter than a minute; write 60 or more seconds, or 1m")
    if seconds > _MAX_WINDOW:
        raise InvalidObject("is longer than a year; without it the size holds until another rule fires")
    return timedelta(seconds=seconds)


# The rules of a target often have one timetable, and their times are asked for in each pass.
@lru_cache(maxsize=4096)
def next_time(table: Timetable, after: float, until: float | None) -> float | None:
    """Returns the first time in (after, until], or None, all in POSIX seconds."""
    found = table.next(_utc(after), None if until is None else _utc(until))
    return None if found is None else found.timestamp()


@lru_cache(maxsize=4096)
def latest_time(table: Timetable, at: float, since: float | None) -> float | None:
    """Returns the latest time in (since, at], or None, all in POSIX seconds."""
    found = table.previous(_utc(at), None if since is None else _utc(since))
    return None if found is None else found.timestamp()


@lru_cache(maxsize=4096)
def count_times(table: Timetable, after: float, until: float) -> int:
    """Returns the number of times in (after, until], both in POSIX seconds."""
    return table.count(_utc(after), _utc(until))


def _utc(instant: float) -> datetime:
    return datetime.fromtimestamp(instant, UTC)


def wall_times(schedule: Schedule, dates: Dates, low: int, high: int, step: int = 1) -> Iterator[int]:
    """Yields the matching wall times in [low, high) in order, with a step of -1 the latest first."""
    for midnight, bits in _days_with_minutes(schedule, dates, low, high, step):
        while bits:
            minute = (bits & -bits if step > 0 else bits).bit_length() - 1
            bits ^= 1 << minute
            yield midnight + minute


def _days_with_minutes(
    schedule: Schedule, dates: Dates, low: int, high: int, step: int
) -> Iterator[tuple[int, int]]:
    """Yields the midnights of days with wall times in [low, high), each with its matching minutes as bits."""
    if low >= high:
        return
    whole = schedule.minutes_of_day
    first, last = low // MINUTES_PER_DAY + 1, (high - 1) // MINUTES_PER_DAY + 1
    for day in _matching_days(schedule, dates, first, last, step):
        midnight, bits = (day - 1) * MINUTES_PER_DAY, whole
        if midnight < low:
            bits = bits >> low - midnight << low - midnight
        if high - midnight < MINUTES_PER_DAY:
            bits &= (1 << high - midnight) - 1
        yield midnight, bits


def _matching_days(schedule: Schedule, dates: Dates, first: int, last: int, step: int) -> Iterator[int]:
    """Yields the days from `first` to `last` that match and are allowed, in the order of `step`."""
    for begin, end in dates.between(first, last)[::step]:
        low, high = max(begin, first), min(end, last)
        for number in range(_month_of(low), _month_of(high) + 1)[::step]:
            eve, bits = _month(schedule, number)
            if dates.yearly:
                bits &= ~dates.yearly[number % 12 + 1]
            if eve < low - 1:
                bits = bits >> low - eve << low - eve
            if high - eve < 31:
                bits &= (2 << high - eve) - 1
            while bits:
                day = (bits & -bits if step > 0 else bits).bit_length() - 1
                bits ^= 1 << day
                yield eve + day


def _month_of(day: int) -> int:
    """Returns the month of a day, as the number of months since January of the year 0."""
    found = date.fromordinal(day)
    return found.year * 12 + found.month - 1


def _month(schedule: Schedule, number: int) -> tuple[int, int]:
    """Returns the day before a month, and its days that match, as bits 1 to 31."""
    eve, first_weekday, days = _calendar_month(number)
    if not schedule.months >> number % 12 + 1 & 1:
        return eve, 0
    if schedule.any_weekday:
        return eve, days & schedule.days
    by_weekday = _days_of_weekdays(schedule.weekdays, first_weekday)
    return eve, days & (by_weekday if schedule.any_day else by_weekday | schedule.days)


@lru_cache(maxsize=4096)
def _calendar_month(number: int) -> tuple[int, int, int]:
    """Returns the day before the month, the weekday of its first day (Sunday is 0), and its days as bits."""
    year, month = number // 12, number % 12 + 1
    first_weekday, length = monthrange(year, month)
    return date(year, month, 1).toordinal() - 1, (first_weekday + 1) % 7, (2 << length) - 2


@lru_cache(maxsize=1024)
def _days_of_weekdays(weekdays: int, first: int) -> int:
    """Returns the days 1 to 35 that fall on the weekdays, both as bits. Day 1 falls on weekday `first`."""
    bits = 0
    for weekday in range(7):
        if weekdays >> weekday & 1:
            bits |= _EVERY_SEVENTH << (weekday - first) % 7
    return bits


class OffsetPeriod(NamedTuple):
    """The period from `start` until before `end` (instants), in which the offset (seconds) is constant.

    `shown_until` is the end of the local times that clocks had shown before the period. It is later than the
    local start if the clock change repeats local times, and earlier if it skips some.
    """

    start: int
    end: int
    offset: int
    shown_until: int


def instant_of(moment: datetime) -> int:
    """Returns the whole second of an aware datetime."""
    since = moment - _START
    return since.days * _DAY + since.seconds


def offset_periods(
    zone: tzinfo, after: int, until: int, step: int = 1, dates: Dates = EVERY_DAY
) -> Iterator[OffsetPeriod]:
    """Yields the periods that overlap (after, until], with a step of -1 the latest first.

    A period ends with each year of UTC, too. Years without an allowed date are left out.
    """
    # A local date begins and ends less than a day from the date of UTC.
    low, high = (max(instant, _MIN) // _DAY + 1 for instant in (after, until))
    seen = None
    for first, last in dates.between(low - 1, high + 1)[::step]:
        years = (date.fromordinal(day).year for day in (max(first - 1, low), min(last + 1, high)))
        for year in range(next(years), next(years) + 1)[::step]:
            for period in _periods_of_year(zone, year)[::step] if year != seen else ():
                if period.end > after and period.start <= until:
                    yield period
            seen = year


# Large enough for the years that schedules are searched in, in a few hundred zones.
@lru_cache(maxsize=8192)
def _periods_of_year(zone: tzinfo, year: int) -> tuple[OffsetPeriod, ...]:
    """Returns the periods that fill a year of UTC."""
    start = max((date(year, 1, 1).toordinal() - 1) * _DAY, _MIN)
    end = (date(year + 1, 1, 1).toordinal() - 1) * _DAY if year < MAXYEAR else _MAX
    found = []
    shown_until = start + _offset_at(zone, start - 1)
    low, begin = max(start - _PROBE, _MIN), start
    offset = _offset_at(zone, low)
    while low < end - 1:
        high = min(low + _PROBE, end - 1)
        after = _offset_at(zone, high)
        if after != offset:
            change = _first_with_other_offset(zone, low, high, offset)
            if change > start:
                found.append(OffsetPeriod(begin, change, offset, shown_until))
                begin = change
            shown_until = max(shown_until, change + offset)
            offset = after
        low = high
    found.append(OffsetPeriod(begin, end, offset, shown_until))
    return tuple(found)


def _offset_at(zone: tzinfo, instant: int) -> int:
    offset = (_START + timedelta(0, instant)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset.days * _DAY + offset.seconds


def _first_with_other_offset(zone: tzinfo, low: int, high: int, offset: int) -> int:
    """Returns the first instant in (low, high] whose offset is not `offset`."""
    return low + 1 + bisect_left(range(low + 1, high), True, key=lambda at: _offset_at(zone, at) != offset)


def _minute(local: int) -> int:
    """Returns the first whole minute at or after a local time. Some historic offsets have seconds."""
    return -(-local // 60)


# Days: longer than the eight years between two 29 Februaries around a century without one.
_NEVER: Final = LONGEST_INTERVAL.days


def shortest_interval(schedule: Schedule) -> int:
    """Returns the seconds between the two times that are closest to each other, without clock changes.

    The result is exact, because the plain calendar repeats every 400 years and every date falls on every
    weekday within them.
    """
    day = schedule.minutes_of_day
    width = day.bit_length() - 1 - _lowest(day)
    return 60 * min(_shortest_day_gap(schedule) * MINUTES_PER_DAY - width, _closest(day))


def _shortest_day_gap(schedule: Schedule) -> int:
    """Returns the days between the two matching days that are closest to each other."""
    gap, has_date = _shortest_date_gap(schedule.days, schedule.months)
    if schedule.any_weekday:
        return gap
    if not schedule.any_day and has_date:
        # In some year, a matching weekday is the day beside a matching date.
        return 1
    # Every month has four whole weeks.
    return _closest(schedule.weekdays | schedule.weekdays << 7)


@lru_cache(maxsize=1024)
def _shortest_date_gap(days: int, months: int) -> tuple[int, bool]:
    """Returns the days between the two closest dates, and True if there is a date.

    Six years cover the cycle of leap years. A century without a leap day adds no closer pair, because common
    years in a row are among the six.
    """
    shortest, last = _NEVER, -_NEVER
    for number in range(2000 * 12, 2006 * 12):
        eve, _, in_month = _calendar_month(number)
        matching = days & in_month if months >> number % 12 + 1 & 1 else 0
        if matching:
            shortest = min(shortest, _closest(matching), eve + _lowest(matching) - last)
            last = eve + matching.bit_length() - 1
    return shortest, last > 0


# A thousand different schedules have few different fields, so the results are shared.
@lru_cache(maxsize=4096)
def _closest(bits: int) -> int:
    """Returns the distance between the two closest bits; more than any two times if there is one bit."""
    _, *gaps, _ = f"0{bits:b}0".split("1")
    return 1 + min(map(len, gaps), default=_NEVER * MINUTES_PER_DAY)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
