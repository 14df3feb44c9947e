"""Rules without a window that raise a size which no rule lowers again, at all or on some dates.

A rule with a window restores what was before. Without one, a value holds until another rule sets one. Whether
rules that raise and lower a size belong together shows in a week: most dates on which it is raised must be
followed by a lower value before it is raised again. So levels of workdays and weekends get no warning.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from typing import Final, NamedTuple

from fedhpa.cron.dates import LAST_DAY, Dates
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, REPLICAS, Rule

_WEEK: Final = timedelta(days=8)
_YEAR: Final = timedelta(days=366)
# More rules of one field are not compared, because each of them could be the one that lowers it.
_MAX_RULES: Final = 20
_MAX_TIMES: Final = 200
_MAX_GAPS: Final = 5
# A size of at most this cannot be lowered.
_LEAST: Final = {MINIMUM: 1, REPLICAS: 0}


class Raised(NamedTuple):
    """A rule that raised a field, and when it did so for the first and for the last time on one date."""

    rule: Rule
    first: datetime
    last: datetime


def warn_not_lowered(rules: list[Rule], present: dict[str, int], now: datetime) -> Iterator[str]:
    """Yields at most one warning for each field. `present` has the known values of the target."""
    plain = [rule for rule in rules if rule.duration is None]
    for field in (MINIMUM, MAXIMUM, REPLICAS):
        setters = [rule for rule in plain if field in rule.values]
        sizes = {rule.values[field] for rule in setters}
        if len(sizes) == 1:
            if not any(field in rule.values for rule in rules if rule.duration is not None):
                yield from _stays(field, setters, plain, present)
        elif 1 < len(setters) <= _MAX_RULES:
            top = max(sizes)
            raising = [rule for rule in setters if rule.values[field] == top]
            lowering = [rule for rule in setters if rule.values[field] < top]
            yield from _not_always_lowered(field, raising, lowering, now)


def _stays(field: str, setters: list[Rule], plain: list[Rule], present: dict[str, int]) -> Iterator[str]:
    """Warns if the only value of a field is a rise.

    A minimum above 1 and replicas above 0 are one. A maximum may be a cap, so it must be above the present
    one, or stand beside a minimum that the rules raise and lower.
    """
    rule, size = setters[0], setters[0].values[field]
    moved = len({each.values[MINIMUM] for each in plain if MINIMUM in each.values}) > 1
    if field == MAXIMUM and field not in present and (not moved or len(setters) == len(plain)):
        return
    if size > present.get(field, _LEAST.get(field, -1)):
        yield (
            f"{rule}: sets {field} {size} for good, because no rule sets another value; add a rule that "
            "does, or give this one a duration"
        )


def _not_always_lowered(
    field: str, raising: list[Rule], lowering: list[Rule], now: datetime
) -> Iterator[str]:
    week = _raised(raising, now, now + _WEEK)
    missed = [each for each, following in pairwise(week) if not _is_lowered(lowering, each, following)]
    if 2 * len(missed) >= len(week) - 1:
        # The rules are no pair.
        return
    for start in _gaps(lowering, now) if not missed else ():
        days = _raised(raising, start, start + _WEEK)
        if len(days) > 1 and not _is_lowered(lowering, days[0], days[1]):
            missed.append(days[0])
            break
    if missed:
        rule, _, at = missed[0]
        yield (
            f"{rule}: sets {field} {rule.values[field]} at {at.isoformat()}, and no rule lowers it before "
            "it is set again; give the rules that raise and lower it the same dates"
        )


def _raised(raising: list[Rule], now: datetime, until: datetime) -> list[Raised]:
    """Returns when the rules raise the field, once for each date."""
    streams = [
        ((at.astimezone(UTC), number, at) for at in rule.table.times(now, until))
        for number, rule in enumerate(raising)
    ]
    found: list[Raised] = []
    for _, number, at in islice(heapq.merge(*streams), _MAX_TIMES):
        if found and found[-1].last.date() == at.date():
            found[-1] = found[-1]._replace(last=at)
        else:
            found.append(Raised(raising[number], at, at))
    return found


def _is_lowered(lowering: list[Rule], raised: Raised, following: Raised) -> bool:
    return any(rule.table.next(raised.last, following.first) is not None for rule in lowering)


def _gaps(rules: Sequence[Rule], now: datetime) -> list[datetime]:
    """Returns the first midnights, within a year, of dates on which one of the rules does not fire."""
    starts = []
    for rule in rules:
        zone = rule.table.zone
        today = now.astimezone(zone).date()
        for day in _ends(rule.table.dates, today):
            midnight = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
            starts.append(midnight - timedelta.resolution)
    return sorted(starts)[:_MAX_GAPS]


def _ends(dates: Dates, today: date) -> Iterator[date]:
    """Yields the first excluded dates after `today`, within a year."""
    low = today.toordinal()
    for _, last in dates.between(low, low + _YEAR.days)[:_MAX_GAPS]:
        if low <= last < min(LAST_DAY, low + _YEAR.days):
            yield date.fromordinal(last + 1)
    for month, bits in enumerate(dates.yearly):
        for day in range(1, 32):
            if bits >> day & 1 and (month, day) != (2, 29):
                coming = date(today.year, month, day)
                yield coming if coming > today else date(today.year + 1, month, day)
