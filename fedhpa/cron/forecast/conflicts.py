"""Rules that fire in the same minute and set different values, so that only one value can apply.

A rule with a window and one without do not conflict: the values of the second hold when the window closes.

Bit sets of the minutes of a day rule out most pairs of rules. For the other pairs, the two timetables are
followed in turn. All pairs together share a bounded number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Final, NamedTuple

from fedhpa.cron.execution.model import Rule
from fedhpa.cron.timetables import MINUTES_PER_DAY, Timetable, instant_of, offset_periods

_MAX_PAIRS: Final = 2000
_MAX_STEPS: Final = 300
# Two rules in different zones can share a minute of the day and still never fire together.
_MAX_STEPS_OF_PAIR: Final = 40
_WHOLE_DAY: Final = (1 << MINUTES_PER_DAY) - 1


class ValueConflict(NamedTuple):
    """Two rules, the first time that both fire, and their values (such as "targetReplicas 3 and 5")."""

    first: Rule
    second: Rule
    at: datetime
    values: str

    def __str__(self) -> str:
        return (
            f"{self.first} and {self.second} fire in the same minute, first at {self.at.isoformat()}; "
            f"only the latter applies ({self.values})"
        )


def value_conflicts(rules: list[Rule], now: datetime, until: datetime) -> Iterator[ValueConflict]:
    """Yields the pairs of rules that conflict in (now, until], in the order of the rules."""
    pairs, steps = _MAX_PAIRS, _MAX_STEPS
    minutes = _minutes_of_day(rules, now, until)
    before = 0
    for index, second in enumerate(rules):
        # A rule conflicts with none before it unless it shares a minute of the day with one of them.
        if minutes[index] & before:
            for earlier, first in enumerate(rules[:index]):
                pairs -= 1
                if pairs < 0:
                    return
                if not minutes[earlier] & minutes[index]:
                    continue
                values = _different_values(first, second)
                if (
                    not values
                    or not _exclude_each_other(first.table, second.table)
                    or _share_no_day(first.table, second.table)
                ):
                    continue
                if steps <= 0:
                    return
                at, taken = _first_common_time(first.table, second.table, now, until, steps)
                steps -= taken
                if at is not None:
                    yield ValueConflict(first, second, at, values)
        before |= minutes[index]


def _different_values(first: Rule, second: Rule) -> str:
    """Returns the fields that both rules set, with their two values, if these differ; empty if none do."""
    others = second.values
    return " and ".join(
        f"target{field[0].upper()}{field[1:]} {size} and {others[field]}"
        for field, size in first.values.items()
        if others.get(field, size) != size
    )


def _exclude_each_other(first: Timetable, second: Timetable) -> bool:
    """True if the value of one rule never applies when both fire together.

    The window of the second rule lies above that of the first, whose values hold if its window lasts longer.
    """
    if first.duration is None or second.duration is None:
        return first.duration is second.duration
    return first.duration <= second.duration


def _minutes_of_day(rules: list[Rule], now: datetime, until: datetime) -> list[int]:
    """Returns the minutes of the day at which each rule can fire, as bits, all on the same clock.

    The clock is that of the zone if all rules have the same one, else UTC.
    """
    local = [rule.table.schedule.minutes_of_day for rule in rules]
    zones = {rule.table.zone for rule in rules}
    if len(zones) <= 1:
        return local
    start, end = instant_of(now), instant_of(until)
    offsets = {zone: {each.offset // 60 for each in offset_periods(zone, start, end)} for zone in zones}
    return [
        reduce(or_, (_rotated(bits, -offset % MINUTES_PER_DAY) for offset in offsets[rule.table.zone]))
        for rule, bits in zip(rules, local, strict=True)
    ]


def _rotated(bits: int, minutes: int) -> int:
    """Returns the same minutes of the day on a clock that is `minutes` ahead."""
    shifted = bits << minutes
    return (shifted | shifted >> MINUTES_PER_DAY) & _WHOLE_DAY


def _share_no_day(first: Timetable, second: Timetable) -> bool:
    """True if two schedules of one zone never match on the same day, such as weekdays and weekends."""
    if first.zone is not second.zone:
        return False
    one, other = first.schedule, second.schedule
    if not one.months & other.months:
        return True
    by_date = one.any_weekday and other.any_weekday
    by_weekday = one.any_day and other.any_day
    return (by_date and not one.days & other.days) or (by_weekday and not one.weekdays & other.weekdays)


def _first_common_time(
    first: Timetable, second: Timetable, now: datetime, until: datetime, steps: int
) -> tuple[datetime | None, int]:
    """Returns the first time of both timetables, or None if `steps` find none, and the steps it took.

    Each step continues one timetable from the time of the other.
    """
    limit = min(steps, _MAX_STEPS_OF_PAIR)
    ahead, behind = first, second
    time = ahead.next(now, until)
    for step in range(1, limit):
        if time is None:
            return None, step
        other = behind.at_or_after(time, until)
        if other is None:
            return None, step
        # Two times of one zone compare by their wall times.
        if time.astimezone(UTC) == other.astimezone(UTC):
            return time, step
        time = other
        ahead, behind = behind, ahead
    return None, limit
