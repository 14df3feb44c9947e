"""The instants at which a schedule fires in a time zone, and the timetable of a rule.

The calendar gives wall times, and the offset periods of the zone turn them into instants. At a clock change
(docs/reference/schedules.md), a skipped wall time fires at the first instant after the gap. A repeated wall
time fires once, the first time. A schedule whose hour field begins with `*` follows real time instead: it
fires at every wall time that a clock shows, and at no other.

A schedule never fires on a date that its rule does not allow (`fedhpa.cron.dates`). The dates are those of
the zone. For a skipped wall time, both its own date and that of the instant at which it would fire count.

Functions take and return aware datetimes. Returned ones are in the zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import chain, islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPARule
from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import parse_duration
from fedhpa.cron.calendar import (
    LAST_WALL_TIME,
    OffsetPeriod,
    count_wall_times,
    instant_of,
    last_wall_time,
    periods_from,
    periods_until,
    wall_times,
)
from fedhpa.cron.dates import EVERY_DAY, MINUTES_PER_DAY, Dates, Span, allowed_dates
from fedhpa.cron.grammar import Schedule, parse
from fedhpa.cron.zones import load_zone

# Two 29 Februaries are at most eight years apart, around a century without one.
LONGEST_INTERVAL: Final = timedelta(days=9 * 366)
_LONGEST_SECONDS: Final = LONGEST_INTERVAL.days * 86400


def next_times(schedule: Schedule, zone: tzinfo, after: datetime, count: int) -> list[datetime]:
    """Returns the next `count` times strictly after `after`. There are fewer only near the year 9999."""
    return list(islice(times(schedule, zone, after), count))


def times(
    schedule: Schedule,
    zone: tzinfo,
    after: datetime,
    dates: Dates = EVERY_DAY,
    until: datetime | None = None,
) -> Iterator[datetime]:
    """Yields all times in (after, until], in order. `until` also bounds the search, and so the work."""
    instant = instant_of(after)
    if until is None:
        return _coming(schedule, zone, instant, LAST_WALL_TIME, dates)
    end = instant_of(until)
    # A local clock is less than a day ahead of UTC.
    last = min(LAST_WALL_TIME, end // 60 + MINUTES_PER_DAY)
    return takewhile(lambda time: instant_of(time) <= end, _coming(schedule, zone, instant, last, dates))


def _coming(schedule: Schedule, zone: tzinfo, instant: int, last: int, dates: Dates) -> Iterator[datetime]:
    """Yields the times after an instant whose wall time is at most `last`."""
    follow = _by_real_time if schedule.real_time else _by_wall_clock
    # Nearly all rules have all dates.
    if len(dates.spans) == 1:
        return _in_span(follow, schedule, zone, instant, last, dates, dates.spans[0])
    spans = dates.between(instant // 60 - MINUTES_PER_DAY, last)
    return chain.from_iterable(_in_span(follow, schedule, zone, instant, last, dates, span) for span in spans)


def _in_span(
    follow: Callable[..., Iterator[datetime]],
    schedule: Schedule,
    zone: tzinfo,
    instant: int,
    last: int,
    dates: Dates,
    span: Span,
) -> Iterator[datetime]:
    # No clock is a day or more apart from UTC.
    instant = max(instant, (span.low - MINUTES_PER_DAY) * 60)
    return follow(schedule, zone, instant, Span(span.low, min(span.high, last + 1)), dates)


def _by_wall_clock(
    schedule: Schedule, zone: tzinfo, instant: int, span: Span, dates: Dates
) -> Iterator[datetime]:
    """Yields one instant for each wall time: in the first period that ends after it, or at its start."""
    calendar = datetime(1, 1, 1, tzinfo=zone)
    coming = periods_from(zone, instant)
    period = next(coming, None)
    if period is None:
        return
    begin = max((instant + period.offset) // 60 + 1, _minute(period.shown_until))
    end = _minute(period.end + period.offset)
    fired = 0
    for wall_time in wall_times(schedule, max(begin, span.low), span.high, dates.yearly):
        while wall_time >= end:
            period = next(coming, None)
            if period is None:
                return
            begin = _minute(period.start + period.offset)
            end = _minute(period.end + period.offset)
        if wall_time >= begin:
            if wall_time * 60 != fired:
                yield calendar + timedelta(0, 0, 0, 0, wall_time)
            continue
        first = period.start + period.offset
        # All wall times that one clock change skips make one instant, even if it matches too.
        if first != fired and dates.allow(_day(first)):
            fired = first
            yield calendar + timedelta(0, first)


def _by_real_time(
    schedule: Schedule, zone: tzinfo, instant: int, span: Span, dates: Dates
) -> Iterator[datetime]:
    """Yields one instant for each matching minute of each period, also if its wall time is a repeated one."""
    calendar = datetime(1, 1, 1, tzinfo=zone)
    for start, end, offset, shown_until in periods_from(zone, instant):
        low = _minute(start + offset) if instant < start else (instant + offset) // 60 + 1
        if low >= span.high:
            return
        repeated = _minute(shown_until)
        low, high = max(low, span.low), min(_minute(end + offset), span.high)
        for wall_time in wall_times(schedule, low, high, dates.yearly):
            local = calendar + timedelta(0, 0, 0, 0, wall_time)
            yield local if wall_time >= repeated else local.replace(fold=1)


def previous_time(
    schedule: Schedule,
    zone: tzinfo,
    at: datetime,
    dates: Dates = EVERY_DAY,
    since: datetime | None = None,
) -> datetime | None:
    """Returns the latest time in (since, at], or None.

    `since` bounds the search. Without it the search goes back nine years, longer than any schedule pauses.
    """
    instant = instant_of(at)
    floor = instant - _LONGEST_SECONDS if since is None else instant_of(since)
    calendar = datetime(1, 1, 1, tzinfo=zone)
    wall_clock = not schedule.real_time
    for span, period in _past_periods(zone, floor, instant, dates):
        low, high = _wall_times_of(period, floor, instant, span, wall_clock=wall_clock)
        wall_time = last_wall_time(schedule, low, high, dates.yearly) if low < high else None
        if wall_time is not None:
            local = calendar + timedelta(0, 0, 0, 0, wall_time)
            return local if wall_time >= _minute(period.shown_until) else local.replace(fold=1)
        if wall_clock and floor < period.start and _fires_after_gap(schedule, period, span, dates):
            return calendar + timedelta(0, period.start + period.offset)
    return None


def count_times(
    schedule: Schedule, zone: tzinfo, after: datetime, until: datetime, dates: Dates = EVERY_DAY
) -> int:
    """Returns the number of times in (after, until], without a visit to each of them."""
    floor, instant = instant_of(after), instant_of(until)
    wall_clock = not schedule.real_time
    total = 0
    for span, period in _past_periods(zone, floor, instant, dates):
        low, high = _wall_times_of(period, floor, instant, span, wall_clock=wall_clock)
        total += count_wall_times(schedule, low, high, dates.yearly)
        if wall_clock and floor < period.start and _fires_after_gap(schedule, period, span, dates):
            # The skipped wall times and a matching first instant make one instant together.
            first = _minute(period.start + period.offset)
            matches = first * 60 == period.start + period.offset and first < high
            total += 0 if matches and count_wall_times(schedule, first, first + 1, dates.yearly) else 1
    return total


def _past_periods(
    zone: tzinfo, floor: int, instant: int, dates: Dates
) -> Iterator[tuple[Span, OffsetPeriod]]:
    """Yields the periods that overlap (floor, instant], latest first, for each span of dates."""
    spans = dates.spans
    if len(spans) != 1:
        spans = dates.between(floor // 60 - MINUTES_PER_DAY, instant // 60 + MINUTES_PER_DAY)
    for span in reversed(spans):
        begin = max(floor, (span.low - MINUTES_PER_DAY) * 60)
        for period in periods_until(zone, min(instant, (span.high + MINUTES_PER_DAY) * 60)):
            if period.end <= begin:
                break
            yield span, period


def _wall_times_of(
    period: OffsetPeriod, floor: int, instant: int, span: Span, *, wall_clock: bool
) -> tuple[int, int]:
    """Returns the wall times [low, high) of a period at which a schedule can fire in (floor, instant]."""
    low = _minute(period.start + period.offset)
    if wall_clock:
        low = max(low, _minute(period.shown_until))
    low = max(low, (floor + period.offset) // 60 + 1, span.low)
    return low, min(_minute(min(period.end, instant + 1) + period.offset), span.high)


def _fires_after_gap(schedule: Schedule, period: OffsetPeriod, span: Span, dates: Dates) -> bool:
    """True if the clock change before a period skipped a matching wall time, which fires at its start."""
    first = period.start + period.offset
    low, high = max(_minute(period.shown_until), span.low), min(_minute(first), span.high)
    if low >= high or period.shown_until >= first or not dates.allow(_day(first)):
        return False
    return last_wall_time(schedule, low, high, dates.yearly) is not None


def _day(local: int) -> int:
    """Returns the ordinal of the day of a local time in seconds."""
    return local // 60 // MINUTES_PER_DAY + 1


def _minute(local: int) -> int:
    """Returns the first whole minute at or after a local time. Some historic offsets have seconds."""
    return -(-local // 60)


# Seconds. Schedules have a resolution of one minute, and a window of over a year is most likely a mistake.
_MIN_WINDOW: Final = 60
_MAX_WINDOW: Final = 366 * 86400
_MAX_DURATION_LENGTH: Final = 64


class Timetable(msgspec.Struct, frozen=True):
    """The times of a rule on its allowed `dates`, and the `duration` of its windows.

    Returned times are in the zone. Compare them in UTC only: Python compares two times of one zone by their
    wall times, and a repeated wall time is never equal to a time of another zone.
    """

    schedule: Schedule
    zone: ZoneInfo
    dates: Dates = EVERY_DAY
    duration: timedelta | None = None

    def times(self, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
        """Yields all times in (after, until], in order. Both limits are aware datetimes."""
        return times(self.schedule, self.zone, after, self.dates, until)

    def next(self, after: datetime, until: datetime | None = None) -> datetime | None:
        """Returns the first time strictly after an aware datetime, or None if it is later than `until`."""
        return next(self.times(after, until), None)

    def at_or_after(self, at: datetime, until: datetime | None = None) -> datetime | None:
        """Returns the first time at or after an aware datetime, or None if it is later than `until`."""
        return self.next(at.astimezone(UTC) - timedelta.resolution, until)

    def previous(self, at: datetime, since: datetime | None = None) -> datetime | None:
        """Returns the latest time in (since, at], or None. Without `since` it looks back nine years."""
        return previous_time(self.schedule, self.zone, at, self.dates, since)

    def count(self, after: datetime, until: datetime) -> int:
        """Returns the number of times in (after, until]."""
        return count_times(self.schedule, self.zone, after, until, self.dates)


def elapsed(start: datetime, end: datetime) -> timedelta:
    """Returns the real time between two aware datetimes. Plain subtraction ignores clock changes."""
    return end.astimezone(UTC) - start.astimezone(UTC)


def timetable(rule: CronFederatedHPARule) -> Timetable:
    """Returns the timetable of a rule, suspended or not. Raises InvalidObject if the rule is invalid."""
    dates = allowed_dates(rule.start_date, rule.end_date, rule.exclude_dates)
    duration = None if rule.duration is None else parse_window(rule.duration)
    return Timetable(parse(rule.schedule), load_zone(rule.time_zone), dates, duration)


def parse_window(value: str | int) -> timedelta:
    """Returns the length of the windows. Raises InvalidObject, with a message that follows the value."""
    try:
        if isinstance(value, str) and len(value) > _MAX_DURATION_LENGTH:
            raise InvalidObject(f"it is longer than {_MAX_DURATION_LENGTH} characters")
        seconds = parse_duration(value)
    except (InvalidObject, OverflowError) as error:
        raise InvalidObject("is no duration; write one such as 8h or 90m, or seconds") from error
    if seconds < _MIN_WINDOW:
        raise InvalidObject("is shorter than a minute; write 60 or more seconds, or 1m")
    if seconds > _MAX_WINDOW:
        raise InvalidObject("is longer than a year; without it the size holds until another rule fires")
    return timedelta(seconds=seconds)
