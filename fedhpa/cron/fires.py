"""When a schedule fires.

The plain calendar is searched on bit sets, a month at a time; then wall times become instants. Clock changes
(docs/contracts.md section 4): a wall time that is skipped fires at the first instant after the gap, one that
repeats fires once, on the first pass; a schedule whose hour field begins with `*` follows real time.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import MAXYEAR, UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Final

from fedhpa.cron.grammar import Schedule

_MINUTE: Final = timedelta(minutes=1)
# No zone changes its offset twice within a week and back to where it was.
_PROBE: Final = timedelta(days=7)
# The longest wait of an accepted schedule is for 29 February over a century that is no leap year: 8 years.
_YEARS_AHEAD: Final = 9


def next_fires(schedule: Schedule, zone: tzinfo, after: datetime, count: int) -> list[datetime]:
    """The next `count` fires strictly after the aware instant `after`, as aware times in the zone.

    Fewer only where the calendar of Python ends (year 9999).
    """
    return list(islice(fires(schedule, zone, after), count))


def next_fire(schedule: Schedule, zone: tzinfo, after: datetime) -> datetime | None:
    """The first fire strictly after `after`, or None at the end of the calendar."""
    return next(fires(schedule, zone, after), None)


def fires(schedule: Schedule, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """All fires strictly after the aware instant `after`, in order, as aware times in the zone."""
    utc = after.astimezone(UTC)
    try:
        yield from _real_time(schedule, zone, utc) if schedule.real_time else _wall_clock(schedule, zone, utc)
    except OverflowError:
        # Within a day of the last year a zone's offset leads out of it.
        return


def _wall_clock(schedule: Schedule, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """Fires by the wall clock; `last` is what was passed already, in UTC."""
    last = after
    wall = next_wall(schedule, _local(after, zone))
    while wall is not None:
        instant = _first_instant(wall, zone)
        # A wall time of the first pass may lie before `after` on the second one, and several skipped wall
        # times are one fire.
        if instant > last:
            last = instant
            yield instant.astimezone(zone)
        wall = next_wall(schedule, wall)


def _real_time(schedule: Schedule, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """Fires by real time: within a stretch of one offset the local time is a plain clock."""
    instant = after
    offset = _offset(instant, zone)
    wall = next_wall(schedule, _local(instant, zone))
    while wall is not None:
        candidate = (wall - offset).replace(tzinfo=UTC)
        change = _first_change(instant, candidate, zone)
        if change is None:
            yield candidate.astimezone(zone)
            instant = candidate
            wall = next_wall(schedule, wall)
            continue
        instant = change
        offset = _offset(change, zone)
        # The instant of the change itself may be a fire.
        wall = next_wall(schedule, _local(change, zone) - _MINUTE)


def next_wall(schedule: Schedule, after: datetime) -> datetime | None:
    """The next matching wall time after the minute of the naive `after`, by the plain calendar."""
    start = after.replace(second=0, microsecond=0) + _MINUTE
    time = _time_of_day(schedule, start.hour, start.minute)
    day = start.day
    if time is None:
        day += 1
    year, month = start.year, start.month
    found = _day_in_month(schedule, year, month, day)
    if found == start.day and time is not None:
        return datetime(year, month, found, *time)  # noqa: DTZ001 - wall times have no zone
    while found is None:
        month += 1
        if month == 13:
            year, month = year + 1, 1
        if year > min(MAXYEAR, start.year + _YEARS_AHEAD):
            return None
        found = _day_in_month(schedule, year, month, 1)
    return datetime(year, month, found, _lowest(schedule.hours), _lowest(schedule.minutes))  # noqa: DTZ001


def _time_of_day(schedule: Schedule, hour: int, minute: int) -> tuple[int, int] | None:
    """The first matching time of day at or after the given one."""
    if schedule.hours >> hour & 1:
        later = schedule.minutes >> minute
        if later:
            return hour, minute + _lowest(later)
    later = schedule.hours >> (hour + 1)
    if later:
        return hour + 1 + _lowest(later), _lowest(schedule.minutes)
    return None


def _day_in_month(schedule: Schedule, year: int, month: int, from_day: int) -> int | None:
    """The first matching day of a month at or after `from_day`, which may lie past its end."""
    if not schedule.months >> month & 1:
        return None
    first_weekday, length = calendar.monthrange(year, month)
    days = schedule.days
    if not schedule.any_weekday:
        by_weekday = _weekday_days(schedule.weekdays, (first_weekday + 1) % 7)
        days = by_weekday if schedule.any_day else days | by_weekday
    days &= (2 << length) - 2
    days >>= from_day
    return from_day + _lowest(days) if days else None


def _weekday_days(weekdays: int, first: int) -> int:
    """The days 1 to 31 (bits) that fall on one of the weekdays (bits), when day 1 falls on `first`."""
    bits = 0
    for weekday in range(7):
        if weekdays >> weekday & 1:
            # One bit in seven, five times.
            bits |= 0b10000001000000100000010000001 << (1 + (weekday - first) % 7)
    return bits


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _local(instant: datetime, zone: tzinfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _first_instant(wall: datetime, zone: tzinfo) -> datetime:
    """The first instant of a wall time, in UTC; of a skipped one the first instant after the gap."""
    # fold=0 reads a repeated time on its first pass, and a skipped one by the offset before the gap.
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    if _local(instant, zone) == wall:
        return instant
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    change = _first_change(before, instant, zone)
    return instant if change is None else change


def _first_change(start: datetime, end: datetime, zone: tzinfo) -> datetime | None:
    """The first second after `start` and not after `end` at which the zone's offset is another."""
    offset = _offset(start, zone)
    low = start
    while low < end:
        high = min(low + _PROBE, end)
        if _offset(high, zone) != offset:
            return _bisect(low, high, zone, offset)
        low = high
    return None


def _bisect(low: datetime, high: datetime, zone: tzinfo, offset: timedelta) -> datetime:
    """The first whole second in (low, high] whose offset is no longer `offset`."""
    low = low.replace(microsecond=0)
    while (high - low) > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        if _offset(middle, zone) == offset:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)
