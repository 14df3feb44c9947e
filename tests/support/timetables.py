"""The next times of a schedule in a zone."""

from __future__ import annotations

from datetime import datetime, tzinfo
from itertools import islice

from fedhpa.cron import Schedule, Timetable


def next_times(schedule: Schedule, zone: tzinfo, after: datetime, count: int) -> list[datetime]:
    """Returns the next `count` times strictly after `after`."""
    return list(islice(Timetable(schedule, zone).times(after), count))
