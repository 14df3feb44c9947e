"""How close two fires of a schedule come, by the plain calendar, clock changes left out.

Exact without a search: the calendar repeats after 400 years, and every date falls on every weekday in them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from fedhpa.cron.calendar import DAY
from fedhpa.cron.grammar import Schedule

# In days: longer than from one 29 February to the next over a century without one.
_NEVER: Final = 9 * 366
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONTH_DAYS = tuple((2 << length) - 2 for length in _LENGTHS)
_LEAP_FEBRUARY = (2 << 29) - 2

# Schedules have minutes.
SHORTEST: Final = 60


def shortest_interval(schedule: Schedule) -> int:
    """Seconds between the two fires that are closest to each other."""
    first, last = _ends_of_day(schedule)
    across = _shortest_day_gap(schedule) * DAY - (last - first)
    return 60 * min(across, _shortest_within_day(schedule.hours, schedule.minutes))


def _ends_of_day(schedule: Schedule) -> tuple[int, int]:
    """The first and the last minute of a day at which it fires."""
    first = _lowest(schedule.hours) * 60 + _lowest(schedule.minutes)
    return first, (schedule.hours.bit_length() - 1) * 60 + schedule.minutes.bit_length() - 1


def _shortest_within_day(hours: int, minutes: int) -> int:
    """Minutes between the two closest fires of a day, if there are two."""
    width = minutes.bit_length() - 1 - _lowest(minutes)
    return min(_closest(minutes), _closest(hours) * 60 - width)


def _shortest_day_gap(schedule: Schedule) -> int:
    """Days between the two matching days that are closest to each other."""
    months = schedule.months
    if schedule.any_weekday:
        return _shortest_date_gap(schedule.days, months)
    if not schedule.any_day and _has_date(schedule.days, months):
        # In some year the day beside such a date falls on such a weekday.
        return 1
    # Every month has four whole weeks.
    weekdays = schedule.weekdays
    return _closest(weekdays | weekdays << 7)


@lru_cache(maxsize=1024)
def _has_date(days: int, months: int) -> bool:
    """Whether some year has such a date."""
    return any(months >> month & 1 and days & _days_of(month, leap=True) for month in range(1, 13))


@lru_cache(maxsize=1024)
def _shortest_date_gap(days: int, months: int) -> int:
    """Days between the two closest dates of days and months, over the years of a leap year's cycle.

    Centuries without a leap day bring none closer: years in a row without one are in the cycle too.
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
    """The days of a month, as bits."""
    return _LEAP_FEBRUARY if leap and month == 2 else _MONTH_DAYS[month - 1]


# A thousand schedules differ in their fields together, hardly in each of them.
@lru_cache(maxsize=4096)
def _closest(bits: int) -> int:
    """How far apart the two closest bits are; more than any two fires if there is one bit."""
    if not bits & (bits - 1):
        return _NEVER * DAY
    for distance in range(1, bits.bit_length()):
        if bits & bits >> distance:
            return distance
    return _NEVER * DAY


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
