"""The clock changes of a time zone, and the periods of constant UTC offset between them.

Within one period a zone is a plain clock. Fires are searched period by period, so the rules for clock changes
concern only the boundary between two periods.

Instants are whole seconds of UTC. Local times are whole seconds of the local clock. Both count from midnight
of 1 January of the year 1. Whole numbers compare and subtract at a tenth of the cost of aware datetimes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

_DAY: Final = 86400
# No zone changes its offset twice within two days. Some do within a week: daylight saving time lasted seven
# days in Recife in 2000, and tzdata predicts seven days for Gaza in 2040, around Ramadan.
_PROBE: Final = 2 * _DAY
# An offset is less than a day, so the local times that a clock change repeats end within two days.
_REPEATED_WITHIN: Final = 2 * _DAY

_START: Final = datetime(1, 1, 1, tzinfo=UTC)
# Within these bounds no offset leads beyond Python's calendar.
_MIN: Final = _DAY
_MAX: Final = date.max.toordinal() * _DAY - _DAY


class _OffsetChange(NamedTuple):
    """A change of the offset from `before` to `after` (seconds). `instant` is the first with the new one."""

    instant: int
    before: int
    after: int


class OffsetPeriod(NamedTuple):
    """The period from `start` until before `end` (instants), in which the offset (seconds) is constant.

    `shown_until` is the end of the local times that clocks had shown before the period. It is later than the
    local start if the clock change repeats local times, and earlier if it skips some.
    """

    start: int
    end: int
    offset: int
    shown_until: int


def instant_of(moment: datetime) -> int:
    """Returns the whole second of an aware datetime."""
    since = moment - _START
    return since.days * _DAY + since.seconds


def _offset_changes(zone: tzinfo, start: int, end: int) -> list[_OffsetChange]:
    """Returns the changes in (start, end], in order."""
    start, end = max(start, _MIN), min(end, _MAX)
    found = []
    low, before = start, _offset_at(zone, start)
    while low < end:
        high = min(low + _PROBE, end)
        if _offset_at(zone, high) == before:
            low = high
            continue
        low = _first_with_other_offset(zone, low, high, before)
        after = _offset_at(zone, low)
        found.append(_OffsetChange(low, before, after))
        before = after
    return found


def _offset_at(zone: tzinfo, instant: int) -> int:
    offset = (_START + timedelta(0, instant)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset.days * _DAY + offset.seconds


def _first_with_other_offset(zone: tzinfo, low: int, high: int, offset: int) -> int:
    """Returns the first instant in (low, high] whose offset is not `offset`."""
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(zone, middle) == offset:
            low = middle
        else:
            high = middle
    return high


# Large enough for the years that schedules are searched in, in a few hundred zones.
@lru_cache(maxsize=8192)
def _periods_of_year(zone: tzinfo, year: int) -> tuple[OffsetPeriod, ...]:
    """Returns the periods that fill a year of UTC."""
    start, end = _year(year)
    found = []
    offset = _offset_at(zone, start)
    shown_until = start + offset
    for change in _offset_changes(zone, start - _REPEATED_WITHIN, end - 1):
        if change.instant <= start:
            shown_until = max(shown_until, change.instant + change.before)
            continue
        found.append(OffsetPeriod(start, change.instant, offset, shown_until))
        start, offset = change.instant, change.after
        shown_until = max(shown_until, change.instant + change.before)
    found.append(OffsetPeriod(start, end, offset, shown_until))
    return tuple(found)


def _year(year: int) -> tuple[int, int]:
    """Returns the first instant of a year, and the first instant after it."""
    eve = date(year, 1, 1).toordinal() - 1
    end = date(year + 1, 1, 1).toordinal() - 1 if year < MAXYEAR else date.max.toordinal()
    return max(eve * _DAY, _MIN), min(end * _DAY, _MAX)


def periods_from(zone: tzinfo, instant: int) -> Iterator[OffsetPeriod]:
    """Yields the periods that end after an instant, in order."""
    for year in range(_year_of(instant), MAXYEAR + 1):
        for period in _periods_of_year(zone, year):
            if period.end > instant:
                yield period


def periods_until(zone: tzinfo, instant: int) -> Iterator[OffsetPeriod]:
    """Yields the periods that begin at or before an instant, latest first."""
    for year in range(_year_of(instant), MINYEAR - 1, -1):
        for period in reversed(_periods_of_year(zone, year)):
            if period.start <= instant:
                yield period


def periods_between(zone: tzinfo, start: int, end: int) -> list[OffsetPeriod]:
    """Returns the periods that overlap [start, end], in order.

    Every period but the first begins with a clock change: consecutive years of one offset are one period.
    """
    found: list[OffsetPeriod] = []
    for period in periods_from(zone, start):
        if period.start > end:
            break
        if found and found[-1].offset == period.offset:
            found[-1] = found[-1]._replace(end=period.end)
        else:
            found.append(period)
    return found


def _year_of(instant: int) -> int:
    return date.fromordinal(instant // _DAY + 1).year
