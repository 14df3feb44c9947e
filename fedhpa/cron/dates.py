"""The dates on which a rule may fire: from `startDate` to `endDate`, without `excludeDates`.

An execution is on the dates of its zone. An excluded date is one day, the days from one date to another, or a
day of each year. All but the last kind cut the calendar into spans, so a range of centuries costs as much as
one day. A day is its ordinal (`date.toordinal`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import date
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.errors import InvalidObject

LAST_DAY: Final = date.max.toordinal()
_LEAP_YEAR: Final = 2028
# The days from one to another, both included.
Span = tuple[int, int]
_FIRST: Final = itemgetter(0)
_LAST: Final = itemgetter(1)


class Dates(msgspec.Struct, frozen=True):
    """The allowed dates: `spans` in order, without the days of each year in `yearly`.

    `yearly` has them as bits 1 to 31 of the months 1 to 12; it is empty if there are none.
    """

    spans: tuple[Span, ...] = ((1, LAST_DAY),)
    yearly: tuple[int, ...] = ()

    def between(self, first: int, last: int) -> tuple[Span, ...]:
        """Returns the spans that have days from `first` to `last`, in order."""
        begin = bisect_left(self.spans, first, key=_LAST)
        return self.spans[begin : bisect_right(self.spans, last, key=_FIRST)]

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
    for each in sorted(map(parse_excluded, excluded)):
        if each.month:
            yearly[each.month] |= 1 << each.first
        elif each.first <= last:
            if first < each.first:
                spans.append((first, each.first - 1))
            first = max(first, each.last + 1)
    if first <= last:
        spans.append((first, last))
    return Dates(tuple(spans), tuple(yearly) if any(yearly) else ())


class Excluded(NamedTuple):
    """The excluded days from one to another. With a `month`, `first` is a day of it in each year."""

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
