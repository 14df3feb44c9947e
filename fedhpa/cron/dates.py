"""The dates on which a rule may fire: from `startDate` to `endDate`, without `excludeDates`.

An execution is on the dates of its zone. An excluded date is one day, the days from one date to another, or a
day of each year. All but the last kind cut the calendar into spans, so a range of centuries costs as much as
one day.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import date
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.errors import InvalidObject

MINUTES_PER_DAY: Final = 1440
LAST_DAY: Final = date.max.toordinal()
_LEAP_YEAR: Final = 2028


class Span(NamedTuple):
    """The wall times [low, high): minutes since midnight of 1 January of the year 1."""

    low: int
    high: int


class Dates(msgspec.Struct, frozen=True):
    """The allowed dates.

    `spans` are allowed wall times in order, each of whole days. `yearly` has the days without a year that are
    excluded, as bits 1 to 31 of the months 1 to 12; it is empty if there are none.
    """

    spans: tuple[Span, ...] = (Span(0, LAST_DAY * MINUTES_PER_DAY),)
    yearly: tuple[int, ...] = ()

    def between(self, low: int, high: int) -> tuple[Span, ...]:
        """Returns the spans that overlap the wall times from `low` to `high`, in order."""
        begin = bisect_right(self.spans, low, key=_high)
        return self.spans[begin : bisect_right(self.spans, high, key=_low)]

    def allow(self, day: int) -> bool:
        """True if the day with this ordinal is allowed."""
        minute = (day - 1) * MINUTES_PER_DAY
        if not any(low <= minute < high for low, high in self.between(minute, minute)):
            return False
        if not self.yearly:
            return True
        found = date.fromordinal(day)
        return not self.yearly[found.month] >> found.day & 1


def _low(span: Span) -> int:
    return span.low


def _high(span: Span) -> int:
    return span.high


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
    ranges = []
    for each in map(parse_excluded, excluded):
        if each.month:
            yearly[each.month] |= 1 << each.first
        else:
            ranges.append((each.first, each.last))
    spans = tuple(_without(first, last, sorted(ranges)))
    return Dates(spans, tuple(yearly) if any(yearly) else ())


def _without(first: int, last: int, ranges: Iterable[tuple[int, int]]) -> Iterable[Span]:
    """Yields the days from `first` to `last` without the ranges, which are in order and may overlap."""
    for begin, end in ranges:
        if begin > last:
            break
        if begin > first:
            yield _span(first, begin - 1)
        first = max(first, end + 1)
    if first <= last:
        yield _span(first, last)


def _span(first: int, last: int) -> Span:
    return Span((first - 1) * MINUTES_PER_DAY, last * MINUTES_PER_DAY)


class Excluded(NamedTuple):
    """The excluded days from one ordinal to another. With a `month`, `first` is a day of it in each year."""

    first: int
    last: int
    month: int = 0


def parse_date(text: str) -> int:
    """Returns the ordinal of a YYYY-MM-DD. Raises InvalidObject, with a message that follows the value."""
    day = _ordinal(text)
    if day is None:
        raise InvalidObject("is no date of the calendar; write YYYY-MM-DD, such as 2026-12-25")
    return day


@lru_cache(maxsize=4096)
def parse_excluded(text: str) -> Excluded:
    """Returns the days of an entry of excludeDates. Raises InvalidObject as `parse_date` does."""
    if text.startswith("--"):
        day = _ordinal(f"{_LEAP_YEAR}{text[1:]}")
        if day is not None:
            found = date.fromordinal(day)
            return Excluded(found.day, found.day, found.month)
    start, slash, end = text.partition("/")
    first, last = _ordinal(start), _ordinal(end) if slash else _ordinal(start)
    if first is None or last is None:
        raise InvalidObject(
            "is no date of the calendar; write YYYY-MM-DD, such as 2026-12-25, a range of them as FROM/TO, "
            "or --MM-DD for each year"
        )
    if first > last:
        raise InvalidObject("ends before it begins; write the earlier date first")
    return Excluded(first, last)


def _ordinal(text: str) -> int | None:
    # fromisoformat also reads other forms, such as 20261225 and 2026-W52-5.
    if len(text) == 10 and text[4] == text[7] == "-" and text.isascii():
        try:
            return date.fromisoformat(text).toordinal()
        except ValueError:
            pass
    return None
