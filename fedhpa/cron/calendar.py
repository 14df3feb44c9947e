"""The plain calendar of a schedule: the wall times that match, clock changes left out.

Searched on bit sets, a month at a time, so that a rare date costs little more than a common one. A wall time
is a whole number: the minutes since the midnight that began the year 1. A day is its ordinal
(`date.toordinal`).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from datetime import MAXYEAR, MINYEAR, date
from functools import lru_cache
from typing import Final

from fedhpa.cron.grammar import Schedule

DAY: Final = 1440
NO_DAYS: Final[frozenset[int]] = frozenset()
LAST_WALL: Final = date.max.toordinal() * DAY - 1

# Bits 1, 8, 15, 22 and 29.
_EVERY_SEVENTH: Final = 0b100000010000001000000100000010
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def walls(schedule: Schedule, low: int, high: int, excluded: Set[int] = NO_DAYS) -> Iterator[int]:
    """The matching wall times in [low, high), in order, but for those on excluded days."""
    day, time = divmod(low, DAY)
    start = date.fromordinal(day + 1)
    year, month = start.year, start.month
    eve, _, _ = _month(year, month)
    days = days_of_month(schedule, year, month) >> start.day << start.day
    while eve * DAY < high:
        while days:
            bit = days & -days
            days ^= bit
            day = eve + bit.bit_length() - 1
            midnight = (day - 1) * DAY
            if midnight >= high:
                return
            if day not in excluded:
                # Only the first day is not looked at from its midnight on.
                for minute in _times(schedule, time if midnight < low else 0):
                    if midnight + minute >= high:
                        return
                    yield midnight + minute
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        if year > MAXYEAR:
            return
        days = days_of_month(schedule, year, month)
        eve, _, _ = _month(year, month)


def _times(schedule: Schedule, time: int) -> Iterator[int]:
    """The matching minutes of the day at or after the given one."""
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


def last_wall(schedule: Schedule, low: int, high: int, excluded: Set[int] = NO_DAYS) -> int | None:
    """The latest matching wall time in [low, high), but for those on excluded days; None if there is none."""
    last_day, last_time = divmod(high - 1, DAY)
    for day in _days_backwards(schedule, low // DAY + 1, last_day + 1):
        if day in excluded:
            continue
        time = _last_time(schedule, last_time if day == last_day + 1 else DAY - 1)
        if time is not None:
            wall = (day - 1) * DAY + time
            return wall if wall >= low else None
    return None


def _last_time(schedule: Schedule, time: int) -> int | None:
    """The latest matching minute of the day at or before the given one."""
    hour, minute = divmod(time, 60)
    if schedule.hours >> hour & 1:
        minutes = schedule.minutes & ((2 << minute) - 1)
        if minutes:
            return hour * 60 + minutes.bit_length() - 1
    hours = schedule.hours & ((1 << hour) - 1)
    if hours:
        return (hours.bit_length() - 1) * 60 + schedule.minutes.bit_length() - 1
    return None


def _days_backwards(schedule: Schedule, first: int, last: int) -> Iterator[int]:
    """The matching days from the last to the first, latest first."""
    end = date.fromordinal(last)
    year, month = end.year, end.month
    days = days_of_month(schedule, year, month) & ((2 << end.day) - 1)
    eve = last - end.day
    while True:
        while days:
            day = days.bit_length() - 1
            yield eve + day
            days ^= 1 << day
        # Days 1 to the end of this month were looked at.
        if eve < first:
            return
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
        if year < MINYEAR:
            return
        days = days_of_month(schedule, year, month)
        eve = _month(year, month)[0]


def matches(schedule: Schedule, wall: int) -> bool:
    """Whether a wall time matches."""
    day, time = divmod(wall, DAY)
    hour, minute = divmod(time, 60)
    if not (schedule.minutes >> minute & 1 and schedule.hours >> hour & 1):
        return False
    on = date.fromordinal(day + 1)
    return bool(days_of_month(schedule, on.year, on.month) >> on.day & 1)


def days_of_month(schedule: Schedule, year: int, month: int) -> int:
    """The matching days of a month, as bits 1 to 31."""
    if not schedule.months >> month & 1:
        return 0
    _, first_weekday, all_days = _month(year, month)
    if schedule.any_weekday:
        return schedule.days & all_days
    days = _days_of_weekdays(schedule.weekdays, first_weekday)
    return (days if schedule.any_day else days | schedule.days) & all_days


@lru_cache(maxsize=4096)
def _month(year: int, month: int) -> tuple[int, int, int]:
    """The day before the month, the weekday of its first day (Sunday is 0), and its days as bits."""
    first = date(year, month, 1)
    length = 29 if month == 2 and is_leap(year) else _LENGTHS[month - 1]
    return first.toordinal() - 1, first.isoweekday() % 7, (2 << length) - 2


@lru_cache(maxsize=1024)
def _days_of_weekdays(weekdays: int, first: int) -> int:
    """The days 1 to 35 (bits) that fall on one of the weekdays (bits), when day 1 falls on `first`."""
    bits = 0
    for weekday in range(7):
        if weekdays >> weekday & 1:
            bits |= _EVERY_SEVENTH << (weekday - first) % 7
    return bits


def is_leap(year: int) -> bool:
    """Whether the year has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
