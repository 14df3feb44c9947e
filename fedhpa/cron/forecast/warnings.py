"""Admission warnings about effects of a CronFederatedHPA's rules that are wrong or surprising.

Rules without such an effect get no warning. Warnings never change a verdict, because they depend on the
present time. The work is bounded for every object: it covers one year, and the rules up to the first that
brings the excluded dates above 20,000. The pairs of rules that are compared, and the executions that are
followed, are limited too (`conflicts`, `bounds`). So every warning is right, but a problem may have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from fedhpa.api import model
from fedhpa.api.cronfederatedhpa import CronFederatedHPASpec
from fedhpa.api.times import format_duration
from fedhpa.cron.dates import EVERY_DAY
from fedhpa.cron.execution.objects import targets_federatedhpa
from fedhpa.cron.forecast.bounds import TargetBounds, bounds_conflicts
from fedhpa.cron.forecast.clock_changes import affected_times
from fedhpa.cron.forecast.conflicts import value_conflicts
from fedhpa.cron.forecast.rules import MAX_RULES, ActiveRule, active_rules
from fedhpa.cron.interval import shortest_interval

_MAX_WARNINGS: Final = 5
# API servers cut warnings of more than 256 bytes.
_MAX_LENGTH: Final = 255
# Characters of a field that a warning quotes.
_MAX_FIELD: Final = 24
_HORIZON: Final = timedelta(days=366)
# The next 29 February is at most eight years away, around a century without one.
_NEVER_HORIZON: Final = timedelta(days=9 * 366)
# All of them mean UTC.
_NO_ZONE: Final = (None, "", "Local")


def forecast_warnings(
    spec: CronFederatedHPASpec, now: datetime, target: TargetBounds | None = None
) -> list[str]:
    """Returns at most five warnings of under 256 characters, the worst first.

    `now` is an aware datetime. `target` has the present bounds of the FederatedHPA that the rules change, if
    they are known. Suspended and invalid rules are ignored.
    """
    until = now + _HORIZON
    rules = active_rules(spec)
    bounds = bounds_conflicts(rules, target, now, until) if targets_federatedhpa(spec) else ()
    kinds = (
        map(str, bounds),
        map(str, value_conflicts(rules, now, until)),
        _warn_never_fires(rules, now),
        _warn_either_day(rules),
        map(str, affected_times(rules, now, until)),
        warn_missing_time_zones(spec),
        _warn_overlapping_windows(rules),
        _warn_duplicate_dates(spec),
    )
    warnings = _selected([list(islice(kind, _MAX_WARNINGS)) for kind in kinds], _MAX_WARNINGS)
    return [text[:_MAX_LENGTH] for text in warnings]


def _selected(kinds: Sequence[Sequence[str]], limit: int) -> list[str]:
    """Returns at most `limit` texts in the order of their kinds.

    The first text of each kind is selected before the second of any. The last text counts the others.
    """
    places = sorted((rank, kind) for kind, texts in enumerate(kinds) for rank in range(len(texts)))
    more = len(places) - limit + 1
    shown = places if more <= 1 else places[: limit - 1]
    texts = [kinds[kind][rank] for kind, rank in sorted((kind, rank) for rank, kind in shown)]
    return texts if more <= 1 else [*texts, f"and at least {more} more warnings about what the rules will do"]


def warn_missing_time_zones(spec: CronFederatedHPASpec) -> Iterator[str]:
    """Yields one warning for all rules without a time zone."""
    rules = spec.rules[: model.MAX_RULES]
    zoneless = [index for index, rule in enumerate(rules) if rule.time_zone in _NO_ZONE]
    if zoneless:
        more = len(zoneless) - 1
        others = f" (and for {more} more rule{'s' if more > 1 else ''})" if more else ""
        first = rules[zoneless[0]].time_zone
        what = f"{first} is no IANA name" if first else "no zone is given"
        yield (
            f"spec.rules[{zoneless[0]}].timeZone: {what}{others}, so the schedule runs in UTC; "
            "write a name such as Europe/Berlin, or UTC"
        )


def _warn_overlapping_windows(rules: Iterable[ActiveRule]) -> Iterator[str]:
    """Yields the rules whose window can last until they fire again."""
    for rule in rules:
        duration = rule.timetable.duration
        if duration is None:
            continue
        interval = shortest_interval(rule.timetable.schedule)
        if duration.total_seconds() >= interval:
            yield (
                f"{rule}: its window of {format_duration(duration.total_seconds())} can still be open when "
                f"it fires again, {format_duration(interval)} later; that renews the window, and the "
                "previous values do not return"
            )


def _warn_duplicate_dates(spec: CronFederatedHPASpec) -> Iterator[str]:
    for index, rule in enumerate(spec.rules[:MAX_RULES]):
        seen: set[str] = set()
        for text in rule.exclude_dates:
            if text in seen:
                yield f"spec.rules[{index}].excludeDates: {text} is listed twice; once is enough"
                break
            seen.add(text)


def _warn_never_fires(rules: Iterable[ActiveRule], now: datetime) -> Iterator[str]:
    """Yields the rules that exclude all their dates. A schedule that never fires is refused."""
    for rule in rules:
        if rule.timetable.dates != EVERY_DAY and rule.timetable.next(now, now + _NEVER_HORIZON) is None:
            yield f"{rule}: does not fire within nine years, because excludeDates lists its dates"


def _warn_either_day(rules: Iterable[ActiveRule]) -> Iterator[str]:
    """Yields the rules that restrict both day fields, which many people read as "both must match"."""
    for rule in rules:
        schedule = rule.timetable.schedule
        if not schedule.any_day and not schedule.any_weekday:
            _, _, day, _, weekday = schedule.text.split()
            yield (
                f"{rule}: fires on day-of-month {_cut(day)} and also on every day-of-week {_cut(weekday)}, "
                "because one match is enough; write * in the field that does not matter"
            )


def _cut(field: str) -> str:
    return field if len(field) <= _MAX_FIELD else f"{field[: _MAX_FIELD - 3]}..."
