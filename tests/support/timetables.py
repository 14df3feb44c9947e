"""The times of a timetable as datetimes of its zone. Limits are aware datetimes, too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from itertools import islice

from fedhpa.cron import Schedule, Timetable
from fedhpa.cron.timetables import END


def next_times(schedule: Schedule, zone: tzinfo, after: datetime, count: int) -> list[datetime]:
    """Returns the next `count` times strictly after `after`."""
    return list(islice(times_of(Timetable(schedule, zone), after), count))


def times_of(table: Timetable, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
    """Yields the times in (after, until], in order."""
    end = END if until is None else until.timestamp()
    return (datetime.fromtimestamp(at, table.zone) for at in table.times(after.timestamp(), end))


def next_of(table: Timetable, after: datetime, until: datetime | None = None) -> datetime | None:
    """Returns the first time in (after, until], or None."""
    return next(times_of(table, after, until), None)


def previous_of(table: Timetable, at: datetime, since: datetime | None = None) -> datetime | None:
    """Returns the latest time in (since, at], or None."""
    found = table.previous(at.timestamp(), None if since is None else since.timestamp())
    return None if found is None else datetime.fromtimestamp(found, table.zone)


def count_of(table: Timetable, after: datetime, until: datetime) -> int:
    """Returns the number of times in (after, until]."""
    return table.count(after.timestamp(), until.timestamp())
