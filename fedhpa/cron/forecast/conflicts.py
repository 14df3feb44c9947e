"""Rules that fire in the same minute and set different values: only one of them can hold.

Most pairs are told apart on bit sets of the minutes of a day; where these meet, the two timetables are
followed in turn, a bounded number of steps for all pairs together.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from fedhpa.cron.calendar import DAY
from fedhpa.cron.clock_changes import instant_of, stretches_between
from fedhpa.cron.grammar import Schedule
from fedhpa.cron.forecast.rules import Plan
from fedhpa.cron.timetable import Timetable, elapsed

_MAX_PAIRS: Final = 2000
_MAX_STEPS: Final = 300
# The pairs of two clocks can meet on the minutes of a day and still never in fact.
_MAX_STEPS_OF_A_PAIR: Final = 40
_WHOLE_DAY: Final = (1 << DAY) - 1


class Collision(NamedTuple):
    """Two plans, the first time that both fire, and what they set (such as "targetReplicas 3 and 5")."""

    first: Plan
    second: Plan
    at: datetime
    values: str

    def __str__(self) -> str:
        return (
            f"{self.first} and {self.second} fire in the same minute, first at {self.at.isoformat()}, "
            f"and set {self.values}; only one of them can hold"
        )


def collisions(plans: list[Plan], now: datetime, until: datetime) -> Iterator[Collision]:
    """The pairs of plans that collide after `now` and not after `until`, in the order of the plans."""
    pairs, steps = _MAX_PAIRS, _MAX_STEPS
    times = _times(plans, now, until)
    before = 0
    for index, second in enumerate(plans):
        # What no earlier plan shares a minute of the day with collides with none of them.
        if times[index] & before:
            for earlier, first in enumerate(plans[:index]):
                pairs -= 1
                if pairs < 0:
                    return
                if not times[earlier] & times[index]:
                    continue
                values = _different_values(first, second)
                if not values or _never_on_one_day(first.timetable, second.timetable):
                    continue
                if steps <= 0:
                    return
                at, taken = _meeting(first.timetable, second.timetable, now, until, steps)
                steps -= taken
                if at is not None:
                    yield Collision(first, second, at, values)
        before |= times[index]


def _different_values(first: Plan, second: Plan) -> str:
    """What both plans set, each to another value; empty if nothing."""
    return " and ".join(
        f"{name} {one} and {other}"
        for name, one, other in (
            ("targetReplicas", first.replicas, second.replicas),
            ("targetMinReplicas", first.minimum, second.minimum),
            ("targetMaxReplicas", first.maximum, second.maximum),
        )
        if one is not None and other is not None and one != other
    )


def _times(plans: list[Plan], now: datetime, until: datetime) -> list[int]:
    """The minutes of the day at which each plan can fire, as bits: of one clock that all share."""
    zones = {plan.timetable.zone for plan in plans}
    if len(zones) <= 1:
        return [_times_of_day(plan.timetable.schedule) for plan in plans]
    start, end = instant_of(now), instant_of(until)
    offsets = {
        zone: {stretch.offset // 60 for stretch in stretches_between(zone, start, end)} for zone in zones
    }
    times = []
    for plan in plans:
        local = _times_of_day(plan.timetable.schedule)
        utc = 0
        for offset in offsets[plan.timetable.zone]:
            utc |= _turned(local, -offset % DAY)
        times.append(utc)
    return times


def _times_of_day(schedule: Schedule) -> int:
    return _spread(schedule.hours, schedule.minutes)


@lru_cache(maxsize=2048)
def _spread(hours: int, minutes: int) -> int:
    """The minutes of the day that match, as bits."""
    bits = 0
    while hours:
        lowest = hours & -hours
        hours ^= lowest
        bits |= minutes << (lowest.bit_length() - 1) * 60
    return bits


def _turned(times: int, minutes: int) -> int:
    """The same minutes on a clock that is so many minutes ahead."""
    turned = times << minutes
    return (turned | turned >> DAY) & _WHOLE_DAY


def _never_on_one_day(first: Timetable, second: Timetable) -> bool:
    """Whether two schedules of one clock never have a day in common, as weekdays and weekends do not."""
    if first.zone is not second.zone:
        return False
    one, other = first.schedule, second.schedule
    if not one.months & other.months:
        return True
    by_date = one.any_weekday and other.any_weekday
    by_weekday = one.any_day and other.any_day
    return (by_date and not one.days & other.days) or (by_weekday and not one.weekdays & other.weekdays)


def _meeting(
    first: Timetable, second: Timetable, now: datetime, until: datetime, steps: int
) -> tuple[datetime | None, int]:
    """The first fire that two timetables share, if it is found; and how many steps were taken.

    Whichever comes later is where the other goes on from.
    """
    limit = min(steps, _MAX_STEPS_OF_A_PAIR)
    ahead, behind = first, second
    met = ahead.next(now, until)
    for step in range(1, limit):
        if met is None:
            return None, step
        other = behind.at_or_after(met, until)
        if other is None:
            return None, step
        if not elapsed(met, other):
            return met, step
        met = other
        ahead, behind = behind, ahead
    return None, limit
