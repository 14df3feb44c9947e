"""The timetable of a rule: the instants at which its schedule fires in its time zone, on its dates.

The search runs on bit sets, one month and one day at a time, so a rare date costs little more than a common
one. A day is its ordinal (`date.toordinal`). Instants are POSIX seconds, local times seconds of the local
clock, and wall times its minutes, all since 1970: whole numbers compare and subtract at a tenth of the cost
of aware datetimes.

Within one period of constant UTC offset a zone is a plain clock, so the rules for clock changes
(docs/reference/schedules.md) concern only the boundary between two periods. A skipped wall time fires at the
first instant after the gap. A repeated wall time fires once, the first time. A schedule whose hour field
begins with `*` follows real time instead: it fires at every wall time that a clock shows, and at no other.

A schedule fires on allowed dates only: from `startDate` to `endDate`, without `excludeDates`. The dates are
those of the zone. For a skipped wall time, both its own date and that of the instant at which it would fire
count. An excluded date is one day, the days from one date to another, or a day of each year. All but the last
kind cut the calendar into spans, so a range of centuries costs as much as one day.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterator
from datetime import MAXYEAR, date, datetime, tzinfo
from functools import lru_cache
from itertools import chain, repeat
from math import floor
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPARule
from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import parse_duration
from fedhpa.cron.grammar import Schedule, parse
from fedhpa.cron.zones import load_zone

MINUTES_PER_DAY: Final = 1440
_DAY: Final = 86400
# Two 29 Februaries are at most eight years apart, around a century without one.
LONGEST_INTERVAL: Final = 9 * 366 * _DAY
# Seconds. Schedules have a resolution of one minute, and a window of over a year is most likely a mistake.
SHORTEST_INTERVAL: Final = 60
_MAX_WINDOW: Final = 366 * _DAY
_MAX_DURATION_LENGTH: Final = 64
# No zone changes its offset twice within two days, and the local times that a change repeats end within them.
# Some zones do within a week: daylight saving time lasted seven days in Recife in 2000, and tzdata predicts
# seven days for Gaza in 2040, around Ramadan.
_PROBE: Final = 2 * _DAY
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
# Within these bounds no offset leads beyond Python's calendar.
_MIN: Final = (2 - EPOCH_DAY) * _DAY
END: Final = (date.max.toordinal() - EPOCH_DAY) * _DAY
# Bits 1, 8, 15, 22 and 29.
_EVERY_SEVENTH: Final = 0b100000010000001000000100000010
LAST_DAY: Final = date.max.toordinal()
_LEAP_YEAR: Final = 2028
# The days from one to another, both included.
Span = tuple[int, int]


class Dates(msgspec.Struct, frozen=True):
    """The allowed dates: `spans` in order, without the days of each year in `yearly`.

    `yearly` has them as bits 1 to 31 of the months 1 to 12; it is empty if there are none.
    """

    spans: tuple[Span, ...] = ((1, LAST_DAY),)
    yearly: tuple[int, ...] = ()

    def between(self, first: int, last: int) -> tuple[Span, ...]:
        """Returns the spans that have days from `first` to `last`, in order."""
        begin = bisect_left(self.spans, first, key=itemgetter(1))
        return self.spans[begin : bisect_right(self.spans, last, key=itemgetter(0))]

    def allow(self, day: int) -> bool:
        """True if a day is allowed."""
        if not self.between(day, day):
            return False
        found = date.fromordinal(day)
        return not (self.yearly and self.yearly[found.month] >> found.day & 1)


EVERY_DAY: Final = Dates()


# Rules of one object mostly exclude the same holidays.
@lru_cache(maxsize=1024)
def allowed_dates(start: str | None, end: str | None, excluded: tuple[str, ...]) -> Dates:
    """Returns the dates of a rule's fields. Raises InvalidObject if one of them is invalid."""
    first = 1 if start is None else parse_date(start)
    last = LAST_DAY if end is None else parse_date(end)
    if first > last:
        raise InvalidObject("endDate is before startDate")
    yearly = [0] * 13
    spans: list[Span] = []
    for begin, end_of, month in sorted(map(parse_excluded, excluded)):
        if month:
            yearly[month] |= 1 << begin
        elif begin <= last:
            if first < begin:
                spans.append((first, begin - 1))
            first = max(first, end_of + 1)
    if first <= last:
        spans.append((first, last))
    return Dates(tuple(spans), tuple(yearly) if any(yearly) else ())


def parse_date(text: str) -> int:
    """Returns the ordinal of a YYYY-MM-DD. Raises InvalidObject, with a message that follows the value."""
    day = _ordinal(text)
    if day is None:
        raise InvalidObject("is no date of the calendar; write YYYY-MM-DD, such as 2026-12-25")
    return day


@lru_cache(maxsize=4096)
def parse_excluded(text: str) -> tuple[int, int, int]:
    """Returns the days of an entry of excludeDates, from one to another. Raises InvalidObject.

    If the last number is a month, they are days of it in each year. Otherwise it is 0.
    """
    if text.startswith("--"):
        day = _ordinal(f"{_LEAP_YEAR}{text[1:]}")
        if day is not None:
            found = date.fromordinal(day)
            return found.day, found.day, found.month
    start, slash, end = text.partition("/")
    first, last = _ordinal(start), _ordinal(end) if slash else _ordinal(start)
    if first is None or last is None:
        raise InvalidObject(
            "is no date of the calendar; write YYYY-MM-DD, such as 2026-12-25, a range of them as FROM/TO, "
            "or --MM-DD for each year"
        )
    if first > last:
        raise InvalidObject("ends before it begins; write the earlier date first")
    return first, last, 0


def _ordinal(text: str) -> int | None:
    # fromisoformat also reads other forms, such as 20261225 and 2026-W52-5.
    if len(text) == 10 and text[4] == text[7] == "-" and text.isascii():
        try:
            return date.fromisoformat(text).toordinal()
        except ValueError:
            pass
    return None


class Timetable(msgspec.Struct, frozen=True):
    """The times of a rule on its allowed `dates`, and the `duration` of its windows in seconds."""

    schedule: Schedule
    zone: tzinfo
    dates: Dates = EVERY_DAY
    duration: float | None = None

    def times(self, after: float, until: float = END, step: int = 1) -> Iterator[float]:
        """Yields the times in (after, until] in order, with a step of -1 the latest first.

        The limits also bound the search, and so the work.
        """
        for period, low, high, skipped in self._parts(after, until, step):
            first = (period.start,) if skipped else ()
            walls = wall_times(self.schedule, self.dates, low, high, step)
            found = (wall * 60 - offset for wall, offset in zip(walls, repeat(period.offset)))
            yield from map(float, chain(first, found) if step > 0 else chain(found, first))

    def next(self, after: float, until: float = END) -> float | None:
        """Returns the first time in (after, until], or None."""
        return next(self.times(after, until), None)

    def previous(self, at: float, since: float | None = None) -> float | None:
        """Returns the latest time in (since, at], or None.

        Without `since` the search goes back nine years, longer than any schedule pauses.
        """
        return next(self.times(at - LONGEST_INTERVAL if since is None else since, at, -1), None)

    def count(self, after: float, until: float) -> int:
        """Returns the number of times in (after, until], without a visit to each of them."""
        total = 0
        for _, low, high, skipped in self._parts(after, until, 1):
            days = _days_with_minutes(self.schedule, self.dates, low, high, 1)
            total += skipped + sum(bits.bit_count() for _, bits in days)
        return total

    def _parts(self, begin: float, end: float, step: int) -> Iterator[tuple[OffsetPeriod, int, int, bool]]:
        """Yields the periods of (begin, end], each with its wall times [low, high) that may fire.

        The last value is True if the period's first instant fires instead of skipped wall times, and itself.
        """
        after, until, wall_clock = floor(begin), floor(end), not self.schedule.real_time
        for period in offset_periods(self.zone, after, until, step, self.dates):
            start, stop, offset, shown = period
            first = start + offset
            low = max(_minute(max(first, shown) if wall_clock else first), (after + offset) // 60 + 1)
            gap = wall_clock and after < start and shown < first
            skipped = (
                gap
                and self.dates.allow(first // _DAY + EPOCH_DAY)
                and any(True for _ in wall_times(self.schedule, self.dates, _minute(shown), _minute(first)))
            )
            if skipped:
                low = max(low, first // 60 + 1)
            yield period, low, _minute(min(stop, until + 1) + offset), skipped


# The rules of a target often have one timetable, and their times are asked for in each pass.
next_time = lru_cache(maxsize=4096)(Timetable.next)
latest_time = lru_cache(maxsize=4096)(Timetable.previous)
count_times = lru_cache(maxsize=4096)(Timetable.count)


def timetable(rule: CronFederatedHPARule) -> Timetable:
    """Returns the timetable of a rule, suspended or not. Raises InvalidObject if the rule is invalid."""
    dates = allowed_dates(rule.start_date, rule.end_date, rule.exclude_dates)
    duration = None if rule.duration is None else parse_window(rule.duration)
    return Timetable(parse(rule.schedule), load_zone(rule.time_zone), dates, duration)


@lru_cache(maxsize=1024)
def parse_window(value: str | int) -> float:
    """Returns the seconds of the windows. Raises InvalidObject, with a message that follows the value."""
    try:
        if isinstance(value, str) and len(value) > _MAX_DURATION_LENGTH:
            raise InvalidObject(f"it is longer than {_MAX_DURATION_LENGTH} characters")
        seconds = parse_duration(value)
    except (InvalidObject, OverflowError) as error:
        raise InvalidObject("is no duration; write one such as 8h or 90m, or seconds") from error
    if seconds < SHORTEST_INTERVAL:
        raise InvalidObject("is shorter than a minute; write 60 or more seconds, or 1m")
    if seconds > _MAX_WINDOW:
        raise InvalidObject("is longer than a year; without it the size holds until another rule fires")
    return seconds


def wall_times(schedule: Schedule, dates: Dates, low: int, high: int, step: int = 1) -> Iterator[int]:
    """Yields the matching wall times in [low, high) in order, with a step of -1 the latest first."""
    for midnight, bits in _days_with_minutes(schedule, dates, low, high, step):
        for minute in _numbers(bits, step):
            yield midnight + minute


def _numbers(bits: int, step: int) -> Iterator[int]:
    """Yields the numbers of the bits that are set, in the order of `step`."""
    while bits:
        number = (bits & -bits if step > 0 else bits).bit_length() - 1
        bits ^= 1 << number
        yield number


def _between(bits: int, low: int, high: int) -> int:
    """Returns the bits from `low` to `high`."""
    if low > 0:
        bits = bits >> low << low
    return bits & (2 << high) - 1


def _days_with_minutes(
    schedule: Schedule, dates: Dates, low: int, high: int, step: int
) -> Iterator[tuple[int, int]]:
    """Yields the midnights of days with wall times in [low, high), each with its matching minutes as bits."""
    if low >= high:
        return
    first, last = (each // MINUTES_PER_DAY + EPOCH_DAY for each in (low, high - 1))
    for day in _matching_days(schedule, dates, first, last, step):
        midnight, bits = (day - EPOCH_DAY) * MINUTES_PER_DAY, schedule.minutes_of_day
        if midnight < low or high - midnight < MINUTES_PER_DAY:
            bits = _between(bits, low - midnight, min(high - midnight, MINUTES_PER_DAY) - 1)
        yield midnight, bits


def _matching_days(schedule: Schedule, dates: Dates, first: int, last: int, step: int) -> Iterator[int]:
    """Yields the days from `first` to `last` that match and are allowed, in the order of `step`."""
    for begin, end in dates.between(first, last)[::step]:
        low, high = max(begin, first), min(end, last)
        for number in range(_month_of(low), _month_of(high) + 1)[::step]:
            if not schedule.months >> number % 12 + 1 & 1:
                continue
            eve, first_weekday, bits = _calendar_month(number)
            if dates.yearly:
                bits &= ~dates.yearly[number % 12 + 1]
            if schedule.any_weekday:
                bits &= schedule.days
            else:
                by_weekday = _days_of_weekdays(schedule.weekdays, first_weekday)
                bits &= by_weekday if schedule.any_day else by_weekday | schedule.days
            for day in _numbers(_between(bits, low - eve, min(high - eve, 31)), step):
                yield eve + day


def _month_of(day: int) -> int:
    """Returns the month of a day, as the number of months since January of the year 0."""
    found = date.fromordinal(day)
    return found.year * 12 + found.month - 1


@lru_cache(maxsize=4096)
def _calendar_month(number: int) -> tuple[int, int, int]:
    """Returns the day before the month, the weekday of its first day (Sunday is 0), and its days as bits."""
    year, month = number // 12, number % 12 + 1
    first_weekday, length = monthrange(year, month)
    return date(year, month, 1).toordinal() - 1, (first_weekday + 1) % 7, (2 << length) - 2


@lru_cache(maxsize=1024)
def _days_of_weekdays(weekdays: int, first: int) -> int:
    """Returns the days 1 to 35 that fall on the weekdays, both as bits. Day 1 falls on weekday `first`."""
    bits = 0
    for weekday in range(7):
        if weekdays >> weekday & 1:
            bits |= _EVERY_SEVENTH << (weekday - first) % 7
    return bits


class OffsetPeriod(NamedTuple):
    """The period from `start` until before `end` (instants), in which the offset (seconds) is constant.

    `shown_until` is the end of the local times that clocks had shown before the period. It is later than the
    local start if the clock change repeats local times, and earlier if it skips some.
    """

    start: int
    end: int
    offset: int
    shown_until: int


def offset_periods(
    zone: tzinfo, after: int, until: int, step: int = 1, dates: Dates = EVERY_DAY
) -> Iterator[OffsetPeriod]:
    """Yields the periods that overlap (after, until], with a step of -1 the latest first.

    A period ends with each year of UTC, too. Years without an allowed date are left out.
    """
    # A local date begins and ends less than a day from the date of UTC.
    low, high = (max(instant, _MIN) // _DAY + EPOCH_DAY for instant in (after, until))
    seen = None
    for first, last in dates.between(low - 1, high + 1)[::step]:
        years = (date.fromordinal(day).year for day in (max(first - 1, low), min(last + 1, high)))
        for year in range(next(years), next(years) + 1)[::step]:
            for period in _periods_of_year(zone, year)[::step] if year != seen else ():
                if period.end > after and period.start <= until:
                    yield period
            seen = year


# Large enough for the years that schedules are searched in, in a few hundred zones.
@lru_cache(maxsize=8192)
def _periods_of_year(zone: tzinfo, year: int) -> tuple[OffsetPeriod, ...]:
    """Returns the periods that fill a year of UTC."""
    start = max((date(year, 1, 1).toordinal() - EPOCH_DAY) * _DAY, _MIN)
    end = (date(year + 1, 1, 1).toordinal() - EPOCH_DAY) * _DAY if year < MAXYEAR else END
    found = []
    shown_until = start + _offset_at(zone, start - 1)
    low, begin = max(start - _PROBE, _MIN), start
    offset = _offset_at(zone, low)
    while low < end - 1:
        high = min(low + _PROBE, end - 1)
        after = _offset_at(zone, high)
        if after != offset:
            # The first instant in (low, high] with another offset.
            others = range(low + 1, high)
            change = low + 1 + bisect_left(others, True, key=lambda at: _offset_at(zone, at) != offset)
            if change > start:
                found.append(OffsetPeriod(begin, change, offset, shown_until))
                begin = change
            shown_until = max(shown_until, change + offset)
            offset = after
        low = high
    found.append(OffsetPeriod(begin, end, offset, shown_until))
    return tuple(found)


def _offset_at(zone: tzinfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return offset.days * _DAY + offset.seconds


def _minute(local: int) -> int:
    """Returns the first whole minute at or after a local time. Some historic offsets have seconds."""
    return -(-local // 60)
