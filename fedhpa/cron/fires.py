"""When a schedule fires.

Wall times of the plain calendar become instants, stretch by stretch of one offset. Clock changes
(docs/reference/schedules.md): a wall time that is skipped fires at the first instant after the gap, one that
repeats fires once, on the first pass; a schedule whose hour field begins with `*` follows real time.

Nothing fires on excluded days, which are days in the zone: of the wall time, and of the instant that stands
in for one that is skipped. Instants go in and come out as aware datetimes, the latter in the zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from datetime import datetime, timedelta, tzinfo
from itertools import islice

from fedhpa.cron.calendar import DAY, LAST_WALL, NO_DAYS, last_wall, walls
from fedhpa.cron.clock_changes import Stretch, instant_of, stretches_from, stretches_until
from fedhpa.cron.grammar import Schedule


def next_fires(
    schedule: Schedule, zone: tzinfo, after: datetime, count: int, excluded: Set[int] = NO_DAYS
) -> list[datetime]:
    """The next `count` fires strictly after `after`; fewer only where Python's calendar ends (year 9999)."""
    return list(islice(fires(schedule, zone, after, excluded), count))


def next_fire(
    schedule: Schedule, zone: tzinfo, after: datetime, excluded: Set[int] = NO_DAYS
) -> datetime | None:
    """The first fire strictly after `after`; None only where Python's calendar ends."""
    return next(fires(schedule, zone, after, excluded), None)


def fires(
    schedule: Schedule,
    zone: tzinfo,
    after: datetime,
    excluded: Set[int] = NO_DAYS,
    until: datetime | None = None,
) -> Iterator[datetime]:
    """All fires strictly after `after`, in order.

    Beyond `until` nothing is searched for, which bounds the work; fires of the day after it may still come.
    """
    last = LAST_WALL if until is None else min(LAST_WALL, instant_of(until) // 60 + DAY)
    follow = _by_real_time if schedule.real_time else _by_wall_clock
    return follow(schedule, zone, instant_of(after), last, excluded)


def _by_wall_clock(
    schedule: Schedule, zone: tzinfo, instant: int, last: int, excluded: Set[int]
) -> Iterator[datetime]:
    """Every wall time fires in the first stretch that ends after it: there, or where that stretch begins."""
    calendar = datetime(1, 1, 1, tzinfo=zone)
    coming = stretches_from(zone, instant)
    stretch = next(coming, None)
    if stretch is None:
        return
    low = begin = max((instant + stretch.offset) // 60 + 1, _minute(stretch.covered))
    end = _minute(stretch.end + stretch.offset)
    fired = 0
    for wall in walls(schedule, low, last + 1, excluded):
        while wall >= end:
            stretch = next(coming, None)
            if stretch is None:
                return
            begin = _minute(stretch.start + stretch.offset)
            end = _minute(stretch.end + stretch.offset)
        if wall >= begin:
            if wall * 60 != fired:
                yield calendar + timedelta(0, 0, 0, 0, wall)
            continue
        first = stretch.start + stretch.offset
        # Several wall times that were skipped are one fire, also together with one that is not.
        if first != fired and _day(first) not in excluded:
            fired = first
            yield calendar + timedelta(0, first)


def _by_real_time(
    schedule: Schedule, zone: tzinfo, instant: int, last: int, excluded: Set[int]
) -> Iterator[datetime]:
    """Every stretch fires at the wall times it has, whether they were in another one or not."""
    calendar = datetime(1, 1, 1, tzinfo=zone)
    for start, end, offset, covered in stretches_from(zone, instant):
        low = _minute(start + offset) if instant < start else (instant + offset) // 60 + 1
        if low > last:
            return
        repeated = _minute(covered)
        for wall in walls(schedule, low, min(_minute(end + offset), last + 1), excluded):
            local = calendar + timedelta(0, 0, 0, 0, wall)
            yield local if wall >= repeated else local.replace(fold=1)


def previous_fire(
    schedule: Schedule, zone: tzinfo, at: datetime, excluded: Set[int] = NO_DAYS
) -> datetime | None:
    """The latest fire at or before `at`; None only where Python's calendar begins (year 1)."""
    instant = instant_of(at)
    calendar = datetime(1, 1, 1, tzinfo=zone)
    wall_clock = not schedule.real_time
    for stretch in stretches_until(zone, instant):
        start, end, offset, covered = stretch
        first = start + offset
        high = _minute(min(end, instant + 1) + offset)
        repeated = _minute(covered)
        low = max(_minute(first), repeated) if wall_clock else _minute(first)
        wall = last_wall(schedule, low, high, excluded)
        if wall is not None:
            local = calendar + timedelta(0, 0, 0, 0, wall)
            return local if wall >= repeated else local.replace(fold=1)
        if wall_clock and covered < first and _skipped(schedule, stretch, excluded):
            return calendar + timedelta(0, first)
    return None


def _skipped(schedule: Schedule, stretch: Stretch, excluded: Set[int]) -> bool:
    """Whether the clock change before a stretch skipped a matching wall time.

    It fires at the first instant after the gap, unless that lies on an excluded day.
    """
    first = stretch.start + stretch.offset
    if _day(first) in excluded:
        return False
    return last_wall(schedule, _minute(stretch.covered), _minute(first), excluded) is not None


def _day(local: int) -> int:
    """The day of a local time in seconds, as an ordinal."""
    return local // 60 // DAY + 1


def _minute(local: int) -> int:
    """The first whole minute at or after a local time in seconds: zones had offsets with seconds once."""
    return -(-local // 60)
