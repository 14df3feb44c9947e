"""The plain calendar of a schedule: how close two of its fires come, clock changes left out."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Final

from fedhpa.cron.fires import next_wall
from fedhpa.cron.grammar import Schedule

_DAY: Final = 1440
# Weekdays and leap years repeat after 400 years; within 28 of them without a skipped leap day every pair of a
# weekday and a date has come. Two years before and one after 2096 and 2104 are not closer than those.
_FIRST_YEAR: Final = 2001
_YEARS: Final = 28


def shortest_interval(schedule: Schedule) -> int:
    """Seconds between the two fires that are closest to each other."""
    times = _times_of_day(schedule)
    within_day = min((later - earlier for earlier, later in pairwise(times)), default=None)
    across = _shortest_day_gap(schedule) * _DAY - (times[-1] - times[0])
    return 60 * (across if within_day is None else min(within_day, across))


def _times_of_day(schedule: Schedule) -> list[int]:
    return [
        hour * 60 + minute
        for hour in range(24)
        if schedule.hours >> hour & 1
        for minute in range(60)
        if schedule.minutes >> minute & 1
    ]


def _shortest_day_gap(schedule: Schedule) -> int:
    """Days between the two matching days that are closest to each other."""
    if schedule.any_day and schedule.any_weekday and schedule.months.bit_count() == 12:
        return 1
    shortest = 400 * 366
    wall = next_wall(schedule, datetime(_FIRST_YEAR, 1, 1))  # noqa: DTZ001 - wall times have no zone
    while wall is not None and wall.year < _FIRST_YEAR + _YEARS and shortest > 1:
        end_of_day = wall.replace(hour=23, minute=59)
        following = next_wall(schedule, end_of_day)
        if following is None:
            break
        shortest = min(shortest, following.toordinal() - wall.toordinal())
        wall = following
    return shortest
