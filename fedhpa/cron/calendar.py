"""The wall times at which a schedule matches, on a plain calendar, and the clock changes of a time zone.

The search runs on bit sets, one month at a time, so a rare date costs little more than a common one. A wall
time is a whole number: the minutes since midnight of 1 January of the year 1. A day is its ordinal
(`date.toordinal`).

Within one period of constant UTC offset a zone is a plain clock. Times are searched period by period, so the
rules for clock changes concern only the boundary between two periods. Instants are whole seconds of UTC, and
local times whole seconds of the local clock, both from midnight of 1 January of the year 1: whole numbers
compare and subtract at a tenth of the cost of aware datetimes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from fedhpa.cron.dates import MINUTES_PER_DAY
from fedhpa.cron.grammar import Schedule

LAST_WALL_TIME: Final = date.max.toordinal() * MINUTES_PER_DAY - 1
# The days of each month, January first, in a year without 29 February.
MONTH_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# Bits 1, 8, 15, 22 and 29.
_EVERY_SEVENTH: Final = 0b100000010000001000000100000010


def wall_times(schedule: Schedule, low: int, high: int, yearly: Sequence[int] = ()) -> Iterator[int]:
    """Yields the matching wall times in [low, high) in order.

    `yearly` are the days of each month, as bits, that do not match (`fedhpa.cron.dates.Dates`).
    """
    day, time = divmod(low, MINUTES_PER_DAY)
    start = date.fromordinal(day + 1)
    year, month = start.year, start.month
    eve, _, _ = _month(year, month)
    days = _matching_days(schedule, year, month, yearly) >> start.day << start.day
    while eve * MINUTES_PER_DAY < high:
        while days:
            bit = days & -days
            days ^= bit
            day = eve + bit.bit_length() - 1
            midnight = (day - 1) * MINUTES_PER_DAY
            if midnight >= high:
                return
            # Only the first day can begin after its midnight.
            for minute in _matching_minutes(schedule, time if midnight < low else 0):
                if midnight + minute >= high:
                    return
                yield midnight + minute
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        if year > MAXYEAR:
            return
        days = _matching_days(schedule, year, month, yearly)
        eve, _, _ = _month(year, month)


def _matching_minutes(schedule: Schedule, time: int) -> Iterator[int]:
    """Yields the matching minutes of a day at or after `time`."""
    first_hour, first_minute = divmod(time, 60)
    hours = schedule.hours >> first_hour << first_hour
    while hours:
        bit = hours & -hours
        hours ^= bit
        hour = bit.bit_length() - 1
        minutes = schedule.minutes
        if hour == first_hour:
            minutes = minutes >> first_minute << first_minute
        while minutes:
            bit = minutes & -minutes
            minutes ^= bit
            yield hour * 60 + bit.bit_length() - 1


def last_wall_time(schedule: Schedule, low: int, high: int, yearly: Sequence[int] = ()) -> int | None:
    """Returns the latest matching wall time in [low, high), or None."""
    last_day, last_time = divmod(high - 1, MINUTES_PER_DAY)
    for day in _days_backwards(schedule, low // MINUTES_PER_DAY + 1, last_day + 1, yearly):
        time = _last_minute(schedule, last_time if day == last_day + 1 else MINUTES_PER_DAY - 1)
        if time is not None:
            wall_time = (day - 1) * MINUTES_PER_DAY + time
            return wall_time if wall_time >= low else None
    return None


def count_wall_times(schedule: Schedule, low: int, high: int, yearly: Sequence[int] = ()) -> int:
    """Returns how many matching wall times are in [low, high).

    It counts whole days at once, so a schedule of every minute costs no more than a daily one.
    """
    if low >= high:
        return 0
    first_day, first_time = divmod(low, MINUTES_PER_DAY)
    last_day, last_time = divmod(high, MINUTES_PER_DAY)
    every = schedule.hours.bit_count() * schedule.minutes.bit_count()
    total = 0
    for day in _days_backwards(schedule, first_day + 1, last_day + 1, yearly):
        if day <= first_day:
            continue
        total += _count_before(schedule, last_time) if day == last_day + 1 else every
        if day == first_day + 1:
            total -= _count_before(schedule, first_time)
    return total


def _count_before(schedule: Schedule, time: int) -> int:
    """Returns how many minutes of a day match before the minute `time`."""
    hour, minute = divmod(time, 60)
    count = (schedule.hours & ((1 << hour) - 1)).bit_count() * schedule.minutes.bit_count()
    if schedule.hours >> hour & 1:
        count += (schedule.minutes & ((1 << minute) - 1)).bit_count()
    return count


def _last_minute(schedule: Schedule, time: int) -> int | None:
    """Returns the latest matching minute of a day at or before `time`."""
    hour, minute = divmod(time, 60)
    if schedule.hours >> hour & 1:
        minutes = schedule.minutes & ((2 << minute) - 1)
        if minutes:
            return hour * 60 + minutes.bit_length() - 1
    hours = schedule.hours & ((1 << hour) - 1)
    if hours:
        return (hours.bit_length() - 1) * 60 + schedule.minutes.bit_length() - 1
    return None


def _days_backwards(schedule: Schedule, first: int, last: int, yearly: Sequence[int]) -> Iterator[int]:
    """Yields the matching days from `last` back to `first`, and possibly earlier days of that month."""
    end = date.fromordinal(last)
    year, month = end.year, end.month
    days = _matching_days(schedule, year, month, yearly) & ((2 << end.day) - 1)
    eve = last - end.day
    while True:
        while days:
            day = days.bit_length() - 1
            yield eve + day
            days ^= 1 << day
        # This month began at or before `first`.
        if eve < first:
            return
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
        if year < MINYEAR:
            return
        days = _matching_days(schedule, year, month, yearly)
        eve = _month(year, month)[0]


def _matching_days(schedule: Schedule, year: int, month: int, yearly: Sequence[int]) -> int:
    """Returns the matching days of a month, as bits 1 to 31."""
    if not schedule.months >> month & 1:
        return 0
    _, first_weekday, all_days = _month(year, month)
    if yearly:
        all_days &= ~yearly[month]
    if schedule.any_weekday:
        return schedule.days & all_days
    days = _days_of_weekdays(schedule.weekdays, first_weekday)
    return (days if schedule.any_day else days | schedule.days) & all_days


@lru_cache(maxsize=4096)
def _month(year: int, month: int) -> tuple[int, int, int]:
    """Returns the day before the month, the weekday of its first day (Sunday is 0), and its days as bits."""
    first = date(year, month, 1)
    length = 29 if month == 2 and _is_leap(year) else MONTH_LENGTHS[month - 1]
    return first.toordinal() - 1, first.isoweekday() % 7, (2 << length) - 2


@lru_cache(maxsize=1024)
def _days_of_weekdays(weekdays: int, first: int) -> int:
    """Returns the days 1 to 35 that fall on the weekdays, both as bits. Day 1 falls on weekday `first`."""
    bits = 0
    for weekday in range(7):
        if weekdays >> weekday & 1:
            bits |= _EVERY_SEVENTH << (weekday - first) % 7
    return bits


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


_DAY: Final = 86400
# No zone changes its offset twice within two days. Some do within a week: daylight saving time lasted seven
# days in Recife in 2000, and tzdata predicts seven days for Gaza in 2040, around Ramadan.
_PROBE: Final = 2 * _DAY
# An offset is less than a day, so the local times that a clock change repeats end within two days.
_REPEATED_WITHIN: Final = 2 * _DAY

_START: Final = datetime(1, 1, 1, tzinfo=UTC)
# Within these bounds no offset leads beyond Python's calendar.
_MIN: Final = _DAY
_MAX: Final = date.max.toordinal() * _DAY - _DAY


class _OffsetChange(NamedTuple):
    """A change of the offset from `before` to `after` (seconds). `instant` is the first with the new one."""

    instant: int
    before: int
    after: int


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


def _offset_changes(zone: tzinfo, start: int, end: int) -> list[_OffsetChange]:
    """Returns the changes in (start, end], in order."""
    start, end = max(start, _MIN), min(end, _MAX)
    found = []
    low, before = start, _offset_at(zone, start)
    while low < end:
        high = min(low + _PROBE, end)
        if _offset_at(zone, high) == before:
            low = high
            continue
        low = _first_with_other_offset(zone, low, high, before)
        after = _offset_at(zone, low)
        found.append(_OffsetChange(low, before, after))
        before = after
    return found


def _offset_at(zone: tzinfo, instant: int) -> int:
    offset = (_START + timedelta(0, instant)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset.days * _DAY + offset.seconds


def _first_with_other_offset(zone: tzinfo, low: int, high: int, offset: int) -> int:
    """Returns the first instant in (low, high] whose offset is not `offset`."""
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(zone, middle) == offset:
            low = middle
        else:
            high = middle
    return high


# Large enough for the years that schedules are searched in, in a few hundred zones.
@lru_cache(maxsize=8192)
def _periods_of_year(zone: tzinfo, year: int) -> tuple[OffsetPeriod, ...]:
    """Returns the periods that fill a year of UTC."""
    start, end = _year(year)
    found = []
    offset = _offset_at(zone, start)
    # The year may begin with a clock change.
    shown_until = start + _offset_at(zone, start - 1)
    for change in _offset_changes(zone, start - _REPEATED_WITHIN, end - 1):
        if change.instant <= start:
            shown_until = max(shown_until, change.instant + change.before)
            continue
        found.append(OffsetPeriod(start, change.instant, offset, shown_until))
        start, offset = change.instant, change.after
        shown_until = max(shown_until, change.instant + change.before)
    found.append(OffsetPeriod(start, end, offset, shown_until))
    return tuple(found)


def _year(year: int) -> tuple[int, int]:
    """Returns the first instant of a year, and the first instant after it."""
    eve = date(year, 1, 1).toordinal() - 1
    end = date(year + 1, 1, 1).toordinal() - 1 if year < MAXYEAR else date.max.toordinal()
    return max(eve * _DAY, _MIN), min(end * _DAY, _MAX)


def periods_from(zone: tzinfo, instant: int) -> Iterator[OffsetPeriod]:
    """Yields the periods that end after an instant, in order."""
    for year in range(_year_of(instant), MAXYEAR + 1):
        for period in _periods_of_year(zone, year):
            if period.end > instant:
                yield period


def periods_until(zone: tzinfo, instant: int) -> Iterator[OffsetPeriod]:
    """Yields the periods that begin at or before an instant, latest first."""
    for year in range(_year_of(instant), MINYEAR - 1, -1):
        for period in reversed(_periods_of_year(zone, year)):
            if period.start <= instant:
                yield period


def periods_between(zone: tzinfo, start: int, end: int) -> list[OffsetPeriod]:
    """Returns the periods that overlap [start, end], in order.

    Every period but the first begins with a clock change: consecutive years of one offset are one period.
    """
    found: list[OffsetPeriod] = []
    for period in periods_from(zone, start):
        if period.start > end:
            break
        if found and found[-1].offset == period.offset:
            found[-1] = found[-1]._replace(end=period.end)
        else:
            found.append(period)
    return found


def _year_of(instant: int) -> int:
    return date.fromordinal(instant // _DAY + 1).year
