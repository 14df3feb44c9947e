"""Fires that fall into a clock change: at a wall time that is skipped, or that comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from fedhpa.cron.calendar import DAY, walls
from fedhpa.cron.clock_changes import instant_of, stretches_between
from fedhpa.cron.forecast.rules import Plan

_START: Final = datetime(1, 1, 1, tzinfo=UTC)


class ClockChange(NamedTuple):
    """A clock change of a zone, at `instant` (seconds of UTC), from one offset (seconds) to another."""

    zone: ZoneInfo
    instant: int
    before: int
    after: int

    @property
    def shown(self) -> int:
        """The wall time (minutes) that the clock would have gone on from."""
        return -(-(self.instant + self.before) // 60)

    @property
    def shows(self) -> int:
        """The wall time (minutes) that it goes on from."""
        return -(-(self.instant + self.after) // 60)

    @property
    def hours(self) -> int:
        """The hours of the day that it skips or repeats some minutes of, as bits."""
        low, high = sorted((self.shown, self.shows))
        if high - low >= DAY:
            return (1 << 24) - 1
        bits = 0
        for hour in range(low // 60, (high - 1) // 60 + 1):
            bits |= 1 << hour % 24
        return bits


class Affected(NamedTuple):
    """A plan, a clock change, and the first wall time of the plan that it skips or repeats (in minutes)."""

    plan: Plan
    change: ClockChange
    wall: int

    def __str__(self) -> str:
        change = self.change
        date, time = _date_and_time(self.wall)
        _, shown = _date_and_time(change.shown)
        _, shows = _date_and_time(change.shows)
        start = _START.replace(tzinfo=change.zone)
        where = f"{date} in {change.zone.key}, where the clock goes from {shown}"
        if change.shows > change.shown:
            fires = (start + timedelta(seconds=change.instant + change.after)).isoformat()
            return f"{self.plan}: {time} does not exist on {where} to {shows}; it fires at {fires} instead"
        fires = (start + timedelta(minutes=self.wall)).isoformat()
        return f"{self.plan}: {time} comes twice on {where} back to {shows}; it fires once, at {fires}"


def clock_changes(plans: list[Plan], now: datetime, until: datetime) -> Iterator[Affected]:
    """The plans that clock changes after `now` and not after `until` affect, by the time of the change.

    Schedules that follow real time are not affected.
    """
    start, end = instant_of(now), instant_of(until)
    of_zone: dict[ZoneInfo, list[Plan]] = {}
    for plan in plans:
        if not plan.timetable.schedule.real_time:
            of_zone.setdefault(plan.timetable.zone, []).append(plan)
    changes = [change for zone in of_zone for change in _changes(zone, start, end)]
    for change in sorted(changes, key=lambda change: change.instant):
        hours = change.hours
        for plan in of_zone[change.zone]:
            if plan.timetable.schedule.hours & hours:
                wall = _first_affected(plan, change, start)
                if wall is not None:
                    yield Affected(plan, change, wall)


def _changes(zone: ZoneInfo, start: int, end: int) -> list[ClockChange]:
    found = stretches_between(zone, start, end)
    return [
        ClockChange(zone, later.start, earlier.offset, later.offset) for earlier, later in pairwise(found)
    ]


def _first_affected(plan: Plan, change: ClockChange, now: int) -> int | None:
    timetable = plan.timetable
    low, high = sorted((change.shown, change.shows))
    if change.shows < change.shown:
        # What has come a first time already has fired.
        low = max(low, (now + change.before) // 60 + 1)
    elif (change.instant + change.after) // 60 // DAY + 1 in timetable.excluded:
        return None
    return next(walls(timetable.schedule, low, high, timetable.excluded), None)


def _date_and_time(wall: int) -> tuple[str, str]:
    """A wall time as people write it."""
    shown = _START + timedelta(minutes=wall)
    return f"{shown:%Y-%m-%d}", f"{shown:%H:%M}"
