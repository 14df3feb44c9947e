"""The clock changes of a zone, and the stretches of one offset between them.

Within a stretch a zone is a plain clock. Fires are searched stretch by stretch, so that every rule about
clock changes is said once, in terms of what lies between two stretches.

Instants are whole seconds of UTC and local times whole seconds of the clock, both counted from the midnight
that began the year 1: whole numbers compare and subtract at a tenth of the cost of aware datetimes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

_DAY: Final = 86400
# No zone changes its offset twice within two days. Within a week some do: daylight saving time took seven
# days in Recife in 2000, and is to take seven in Gaza in 2040, around Ramadan.
_PROBE: Final = 2 * _DAY
# An offset is less than a day, so what a clock change repeats is over within two.
_REPEATED_WITHIN: Final = 2 * _DAY

_START: Final = datetime(1, 1, 1, tzinfo=UTC)
# Where no offset leads out of Python's calendar.
_MIN: Final = _DAY
_MAX: Final = date.max.toordinal() * _DAY - _DAY


class Change(NamedTuple):
    """A clock change: `instant` is the first with the offset `after`; before it was `before` (seconds)."""

    instant: int
    before: int
    after: int


class Stretch(NamedTuple):
    """The instants from `start` on and before `end` have this offset (seconds).

    `covered` is the local time up to which wall times have been: later than the local start where they
    repeat, earlier where some are skipped.
    """

    start: int
    end: int
    offset: int
    covered: int


def instant_of(moment: datetime) -> int:
    """The whole second of an aware datetime."""
    since = moment - _START
    return since.days * _DAY + since.seconds


def changes(zone: tzinfo, start: int, end: int) -> list[Change]:
    """The clock changes in (start, end], in order."""
    start, end = max(start, _MIN), min(end, _MAX)
    found = []
    low, before = start, offset_at(zone, start)
    while low < end:
        high = min(low + _PROBE, end)
        if offset_at(zone, high) == before:
            low = high
            continue
        low = _first_with_another(zone, low, high, before)
        after = offset_at(zone, low)
        found.append(Change(low, before, after))
        before = after
    return found


def offset_at(zone: tzinfo, instant: int) -> int:
    """The zone's offset from UTC at an instant, in seconds."""
    offset = (_START + timedelta(0, instant)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset.days * _DAY + offset.seconds


def _first_with_another(zone: tzinfo, low: int, high: int, offset: int) -> int:
    """The first instant in (low, high] whose offset is no longer `offset`."""
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(zone, middle) == offset:
            low = middle
        else:
            high = middle
    return high


# Some zones times the years that anybody looks at.
@lru_cache(maxsize=8192)
def stretches(zone: tzinfo, year: int) -> tuple[Stretch, ...]:
    """The stretches of a year (in UTC), which they fill."""
    start, end = _year(year)
    found = []
    offset = offset_at(zone, start)
    covered = start + offset
    for change in changes(zone, start - _REPEATED_WITHIN, end - 1):
        if change.instant <= start:
            covered = max(covered, change.instant + change.before)
            continue
        found.append(Stretch(start, change.instant, offset, covered))
        start, offset = change.instant, change.after
        covered = max(covered, change.instant + change.before)
    found.append(Stretch(start, end, offset, covered))
    return tuple(found)


def _year(year: int) -> tuple[int, int]:
    """The first instant of a year, and that after its last."""
    eve = date(year, 1, 1).toordinal() - 1
    end = date(year + 1, 1, 1).toordinal() - 1 if year < MAXYEAR else date.max.toordinal()
    return max(eve * _DAY, _MIN), min(end * _DAY, _MAX)


def stretches_from(zone: tzinfo, instant: int) -> Iterator[Stretch]:
    """The stretches that end after an instant, in order."""
    for year in range(_year_of(instant), MAXYEAR + 1):
        for stretch in stretches(zone, year):
            if stretch.end > instant:
                yield stretch


def stretches_until(zone: tzinfo, instant: int) -> Iterator[Stretch]:
    """The stretches that begin at or before an instant, latest first."""
    for year in range(_year_of(instant), MINYEAR - 1, -1):
        for stretch in reversed(stretches(zone, year)):
            if stretch.start <= instant:
                yield stretch


def stretches_between(zone: tzinfo, start: int, end: int) -> list[Stretch]:
    """The stretches that hold an instant of [start, end], in order. Each but the first begins with a clock
    change: years in which none comes are one stretch.
    """
    found: list[Stretch] = []
    for stretch in stretches_from(zone, start):
        if stretch.start > end:
            break
        if found and found[-1].offset == stretch.offset:
            found[-1] = found[-1]._replace(end=stretch.end)
        else:
            found.append(stretch)
    return found


def _year_of(instant: int) -> int:
    return date.fromordinal(instant // _DAY + 1).year
