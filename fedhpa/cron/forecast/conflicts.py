"""Rules that fire in the same minute and set different values, so that only one value can apply.

A rule with a window and one without do not conflict: the values of the second hold when the window closes.

Bit sets of the minutes of a day rule out most pairs of rules of one zone. For the other pairs, the two
timetables are followed in turn. All pairs together share a bounded number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from itertools import islice
from typing import Final, NamedTuple

from fedhpa.cron.execution.model import Rule
from fedhpa.cron.timetables import Timetable

_MAX_PAIRS: Final = 2000
_MAX_STEPS: Final = 300
# Two rules in different zones can share a minute of the day and still never fire together.
_MAX_STEPS_OF_PAIR: Final = 40


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
    steps = iter(range(_MAX_STEPS))
    for first, second in islice(_pairs(rules), _MAX_PAIRS):
        if first.table.zone is second.table.zone and not _share_a_minute(first, second):
            continue
        values = _different_values(first, second)
        if values and _exclude_each_other(first.table, second.table):
            at = _first_common_time(first, second, now.timestamp(), until.timestamp(), steps)
            if at is not None:
                yield ValueConflict(first, second, datetime.fromtimestamp(at, first.table.zone), values)


def _pairs(rules: list[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Yields the pairs of rules, without rules that share no minute of the day with any before them."""
    before: dict[tzinfo, int] = {}
    for index, second in enumerate(rules):
        zone, minutes = second.table.zone, second.table.schedule.minutes_of_day
        if minutes & before.get(zone, 0) or before.keys() - {zone}:
            yield from ((first, second) for first in rules[:index])
        before[zone] = before.get(zone, 0) | minutes


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


def _share_a_minute(first: Rule, second: Rule) -> bool:
    """True if two rules of one zone have a minute of a day in common; False for weekdays and weekends."""
    one, other = first.table.schedule, second.table.schedule
    by_date = one.any_weekday and other.any_weekday
    by_weekday = one.any_day and other.any_day
    return bool(
        one.minutes_of_day & other.minutes_of_day
        and one.months & other.months
        and not (by_date and not one.days & other.days)
        and not (by_weekday and not one.weekdays & other.weekdays)
    )


def _first_common_time(
    first: Rule, second: Rule, now: float, until: float, steps: Iterator[int]
) -> float | None:
    """Returns the first time of both rules, or None if a few `steps` find none.

    Each step continues one timetable from the time of the other.
    """
    ahead, behind = first, second
    at = ahead.next_time(now, until)
    for _ in islice(steps, _MAX_STEPS_OF_PAIR):
        if at is None:
            break
        other = behind.next_time(at - 1, until)
        if other == at:
            return at
        at, ahead, behind = other, behind, ahead
    return None
