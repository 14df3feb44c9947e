"""The shortest interval between two times of a schedule, on the plain calendar without clock changes.

The result is exact and needs no search, because the calendar repeats every 400 years and every date falls on
every weekday within them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from fedhpa.cron.calendar import MONTH_LENGTHS
from fedhpa.cron.dates import MINUTES_PER_DAY
from fedhpa.cron.grammar import Schedule

# Days: longer than the eight years between two 29 Februaries around a century without one.
_NEVER: Final = 9 * 366
_MONTH_DAYS = tuple((2 << length) - 2 for length in MONTH_LENGTHS)
_LEAP_FEBRUARY = (2 << 29) - 2

# Seconds. The smallest unit of a schedule is the minute.
SHORTEST_INTERVAL: Final = 60


def shortest_interval(schedule: Schedule) -> int:
    """Returns the seconds between the two times that are closest to each other."""
    first, last = _ends_of_day(schedule)
    across_midnight = _shortest_day_gap(schedule) * MINUTES_PER_DAY - (last - first)
    return 60 * min(across_midnight, _shortest_within_day(schedule.hours, schedule.minutes))


def _ends_of_day(schedule: Schedule) -> tuple[int, int]:
    """Returns the first and the last matching minute of a day."""
    first = _lowest(schedule.hours) * 60 + _lowest(schedule.minutes)
    return first, (schedule.hours.bit_length() - 1) * 60 + schedule.minutes.bit_length() - 1


def _shortest_within_day(hours: int, minutes: int) -> int:
    """Returns the minutes between the two closest times of one day; very many if there is one time."""
    width = minutes.bit_length() - 1 - _lowest(minutes)
    return min(_closest(minutes), _closest(hours) * 60 - width)


def _shortest_day_gap(schedule: Schedule) -> int:
    """Returns the days between the two matching days that are closest to each other."""
    months = schedule.months
    if schedule.any_weekday:
        return _shortest_date_gap(schedule.days, months)
    if not schedule.any_day and _has_date(schedule.days, months):
        # In some year, a matching weekday is the day beside a matching date.
        return 1
    # Every month has four whole weeks.
    weekdays = schedule.weekdays
    return _closest(weekdays | weekdays << 7)


@lru_cache(maxsize=1024)
def _has_date(days: int, months: int) -> bool:
    """True if some year has one of the days in one of the months."""
    return any(months >> month & 1 and days & _days_of(month, leap=True) for month in range(1, 13))


@lru_cache(maxsize=1024)
def _shortest_date_gap(days: int, months: int) -> int:
    """Returns the days between the two closest dates.

    Six years cover the cycle of leap years. A century without a leap day adds no closer pair, because common
    years in a row are among the six.
    """
    shortest = _NEVER
    eve, last = 0, -_NEVER
    for year in range(6):
        for month in range(1, 13):
            in_month = _days_of(month, leap=year % 4 == 0)
            matching = days & in_month if months >> month & 1 else 0
            if matching:
                shortest = min(shortest, _closest(matching), eve + _lowest(matching) - last)
                last = eve + matching.bit_length() - 1
            eve += in_month.bit_length() - 1
    return shortest


def _days_of(month: int, *, leap: bool) -> int:
    """Returns the days of a month, as bits."""
    return _LEAP_FEBRUARY if leap and month == 2 else _MONTH_DAYS[month - 1]


# A thousand different schedules have few different fields, so the results are shared.
@lru_cache(maxsize=4096)
def _closest(bits: int) -> int:
    """Returns the distance between the two closest bits; more than any two times if there is one bit."""
    if not bits & (bits - 1):
        return _NEVER * MINUTES_PER_DAY
    for distance in range(1, bits.bit_length()):
        if bits & bits >> distance:
            return distance
    return _NEVER * MINUTES_PER_DAY


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
