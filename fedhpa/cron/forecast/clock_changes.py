"""Times that a clock change moves: their wall time is skipped, or it occurs twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from fedhpa.cron.calendar import instant_of, periods_between, wall_times
from fedhpa.cron.dates import MINUTES_PER_DAY
from fedhpa.cron.timetables import Timetable

_START: Final = datetime(1, 1, 1, tzinfo=UTC)


class ClockChange(NamedTuple):
    """A clock change of a zone at `instant` (seconds of UTC), from one offset (seconds) to another."""

    zone: ZoneInfo
    instant: int
    before: int
    after: int

    @property
    def wall_before(self) -> int:
        """The wall time (minutes) that the clock would show without the change."""
        return -(-(self.instant + self.before) // 60)

    @property
    def wall_after(self) -> int:
        """The wall time (minutes) that the clock shows because of the change."""
        return -(-(self.instant + self.after) // 60)

    @property
    def hours(self) -> int:
        """The hours of the day with skipped or repeated minutes, as bits."""
        low, high = sorted((self.wall_before, self.wall_after))
        if high - low >= MINUTES_PER_DAY:
            return (1 << 24) - 1
        bits = 0
        for hour in range(low // 60, (high - 1) // 60 + 1):
            bits |= 1 << hour % 24
        return bits


class AffectedTime(NamedTuple):
    """The first wall time (minutes) of a rule that a clock change skips or repeats. `rule` is its name."""

    rule: str
    change: ClockChange
    wall_time: int

    def __str__(self) -> str:
        change = self.change
        date, time = _date_and_time(self.wall_time)
        _, before = _date_and_time(change.wall_before)
        _, after = _date_and_time(change.wall_after)
        start = _START.replace(tzinfo=change.zone)
        where = f"{date} in {change.zone.key}, where the clock goes from {before}"
        if change.wall_after > change.wall_before:
            at = (start + timedelta(seconds=change.instant + change.after)).isoformat()
            return f"{self.rule}: {time} does not exist on {where} to {after}; it fires at {at} instead"
        at = (start + timedelta(minutes=self.wall_time)).isoformat()
        return f"{self.rule}: {time} occurs twice on {where} back to {after}; it fires once, at {at}"


def affected_times(rules: Mapping[str, Timetable], now: datetime, until: datetime) -> Iterator[AffectedTime]:
    """Yields the times of named rules affected by clock changes in (now, until], in the order of the changes.

    Schedules that follow real time are not affected.
    """
    start, end = instant_of(now), instant_of(until)
    rules_of: dict[ZoneInfo, list[tuple[str, Timetable]]] = {}
    for name, table in rules.items():
        if not table.schedule.real_time:
            rules_of.setdefault(table.zone, []).append((name, table))
    changes = [change for zone in rules_of for change in _changes(zone, start, end)]
    for change in sorted(changes, key=lambda change: change.instant):
        hours = change.hours
        for name, table in rules_of[change.zone]:
            if table.schedule.hours & hours:
                wall_time = _first_affected(table, change, start)
                if wall_time is not None:
                    yield AffectedTime(name, change, wall_time)


def _changes(zone: ZoneInfo, start: int, end: int) -> list[ClockChange]:
    return [
        ClockChange(zone, later.start, earlier.offset, later.offset)
        for earlier, later in pairwise(periods_between(zone, start, end))
    ]


def _first_affected(timetable: Timetable, change: ClockChange, now: int) -> int | None:
    low, high = sorted((change.wall_before, change.wall_after))
    if change.wall_after < change.wall_before:
        # A repeated wall time whose first occurrence is over has fired already.
        low = max(low, (now + change.before) // 60 + 1)
    elif not timetable.dates.allow((change.instant + change.after) // 60 // MINUTES_PER_DAY + 1):
        return None
    found = wall_times(timetable.schedule, low, high, timetable.dates.yearly)
    return next((each for each in found if timetable.dates.allow(each // MINUTES_PER_DAY + 1)), None)


def _date_and_time(wall_time: int) -> tuple[str, str]:
    """Returns the date (YYYY-MM-DD) and the time (HH:MM) of a wall time."""
    moment = _START + timedelta(minutes=wall_time)
    return f"{moment:%Y-%m-%d}", f"{moment:%H:%M}"
