"""Times that a clock change moves: their wall time is skipped, or it occurs twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from fedhpa.cron.timetables import OffsetPeriod, Timetable, instant_of, offset_periods, wall_times


class _ClockChange(NamedTuple):
    """A clock change: the periods before and after it."""

    before: OffsetPeriod
    after: OffsetPeriod


def affected_times(rules: Mapping[str, Timetable], now: datetime, until: datetime) -> Iterator[str]:
    """Yields the times of named rules affected by clock changes in (now, until], in the order of the changes.

    Schedules that follow real time are not affected.
    """
    start, end = instant_of(now), instant_of(until)
    named = [(name, table) for name, table in rules.items() if not table.schedule.real_time]
    changes = [
        (zone, _ClockChange(before, after))
        for zone in dict.fromkeys(table.zone for _, table in named)
        for before, after in pairwise(offset_periods(zone, start, end))
        if before.offset != after.offset
    ]
    for zone, change in sorted(changes, key=lambda each: each[1].after.start):
        for name, table in named:
            if table.zone is zone and (text := _affected(table, change, start)):
                yield f"{name}: {text}"


def _affected(table: Timetable, change: _ClockChange, now: int) -> str:
    """Returns how a clock change moves the first wall time that it skips or repeats, or ""."""
    instant, offset, old = change.after.start, change.after.offset, change.before.offset
    # The wall times that the clock would show without the change, and because of it.
    before, after = -(-(instant + old) // 60), -(-(instant + offset) // 60)
    skips = after > before
    if skips and not table.dates.allow((instant + offset) // 86400 + 1):
        return ""
    # A repeated wall time whose first occurrence is over has fired already.
    low = before if skips else max(after, (now + old) // 60 + 1)
    wall_time = next(wall_times(table.schedule, table.dates, low, max(before, after)), None)
    if wall_time is None:
        return ""
    calendar = datetime(1, 1, 1, tzinfo=table.zone)
    local, shown, new = (calendar + timedelta(minutes=each) for each in (wall_time, before, after))
    where = f"on {local:%Y-%m-%d} in {table.zone}, where the clock goes from {shown:%H:%M}"
    if skips:
        at = (calendar + timedelta(seconds=instant + offset)).isoformat()
        return f"{local:%H:%M} does not exist {where} to {new:%H:%M}; it fires at {at} instead"
    return f"{local:%H:%M} occurs twice {where} back to {new:%H:%M}; it fires once, at {local.isoformat()}"
