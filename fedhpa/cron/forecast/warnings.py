"""Admission warnings about effects of a CronFederatedHPA's rules that are wrong or surprising.

Rules without such an effect get no warning. Warnings never change a verdict, because they depend on the
present time. The work is bounded for every object: it covers one year, and the rules up to the first that
brings the excluded dates above 20,000. The pairs of rules that are compared, and the executions that are
followed, are limited too (`conflicts`, `levels`, `bounds`). So every warning is right, but a problem may have
none. A clock change is no mistake, and only the preview of rules tells it (`clock_changes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice
from typing import Final

from fedhpa.api import model
from fedhpa.api.cronfederatedhpa import CronFederatedHPASpec
from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import format_duration
from fedhpa.cron.dates import EVERY_DAY, allowed_dates
from fedhpa.cron.execution.model import Rule, Values
from fedhpa.cron.execution.objects import executable_rules, targets_federatedhpa
from fedhpa.cron.forecast.bounds import bounds_conflicts, known_bounds
from fedhpa.cron.forecast.conflicts import value_conflicts
from fedhpa.cron.forecast.levels import warn_not_lowered
from fedhpa.cron.timetables import LONGEST_INTERVAL, shortest_interval

# API servers show at most five or so.
_MAX_OF_KIND: Final = 5
# Characters of a field that a warning quotes.
_MAX_FIELD: Final = 24
_HORIZON: Final = timedelta(days=366)
# Dates are parsed one by one, and must not delay admission.
_MAX_DATES: Final = 20_000
# Seconds that a restart or a change of leaders takes.
_SHORTEST_DELAY: Final = 30
_EVERY_MINUTE: Final = (1 << 60) - 1
_EVERY_HOUR: Final = (1 << 24) - 1
# April, June, September, November and February.
_SHORT_MONTHS: Final = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 9 | 1 << 11
# All of them mean UTC.
_NO_ZONE: Final = (None, "", "Local")


def forecast_warnings(
    spec: CronFederatedHPASpec, now: datetime, target: Values | None = None, *, alone: bool = True
) -> list[str]:
    """Returns the warnings, the worst first; the first one of each kind comes before a second one of any.

    `now` is an aware datetime. `target` has the present bounds of the FederatedHPA that the rules change, as
    written, if they are known. `alone` is False if another CronFederatedHPA has the same target, whose rules
    may lower what these raise. Suspended and invalid rules are ignored.
    """
    until = now + _HORIZON
    never, rules = _by_never(active_rules(spec), now)
    bounds = bounds_conflicts(rules, target, now, until) if targets_federatedhpa(spec) else ()
    present = known_bounds(target)
    kinds = (
        map(str, bounds),
        map(str, value_conflicts(rules, now, until)),
        map(_never_fires, never),
        warn_not_lowered(rules, present, now) if alone else (),
        _warn_either_day(rules),
        _warn_every_minute(rules),
        _warn_month_end(rules),
        _warn_short_delays(rules),
        _warn_overlapping_windows(rules),
        _warn_dates(spec, now),
    )
    found = [list(islice(kind, _MAX_OF_KIND)) for kind in kinds]
    return [texts[rank] for rank in range(_MAX_OF_KIND) for texts in found if rank < len(texts)]


def active_rules(spec: CronFederatedHPASpec) -> list[Rule]:
    """Returns the rules that will run, in order, without suspended and invalid ones."""
    dates = accumulate(len(rule.exclude_dates) for rule in spec.rules[: model.MAX_RULES])
    few = spec.rules[: sum(total <= _MAX_DATES for total in dates)]
    rules = executable_rules(spec.model_copy(update={"rules": few}), hashed=False)
    return [rule for rule in rules if rule.timetable is not None]


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


def _warn_overlapping_windows(rules: Iterable[Rule]) -> Iterator[str]:
    """Yields the rules whose window can last until they fire again."""
    for rule in rules:
        if rule.duration is None:
            continue
        interval = shortest_interval(rule.table.schedule)
        if rule.duration >= interval:
            yield (
                f"{rule}: its window of {format_duration(rule.duration)} can still be open when "
                f"it fires again, {format_duration(interval)} later; that renews the window, and the "
                "previous values do not return"
            )


def _warn_dates(spec: CronFederatedHPASpec, now: datetime) -> Iterator[str]:
    """Yields the lists of excluded dates that name one twice, or are all over in every time zone."""
    yesterday = now.astimezone(UTC).date().toordinal() - 1
    for index, rule in enumerate(spec.rules[: model.MAX_RULES]):
        path = f"spec.rules[{index}].excludeDates"
        seen: set[str] = set()
        for text in rule.exclude_dates:
            if text in seen:
                yield f"{path}: {text} is listed twice; once is enough"
                break
            seen.add(text)
        try:
            dates = allowed_dates(None, None, rule.exclude_dates)
        except InvalidObject:
            continue
        if dates != EVERY_DAY and not dates.yearly and dates.spans[-1][0] <= yesterday:
            yield f"{path}: all dates are over; list the coming ones, or write --MM-DD for each year"


def _by_never(rules: Iterable[Rule], now: datetime) -> tuple[list[Rule], list[Rule]]:
    """Returns the rules whose dates leave no execution, and the others.

    A schedule that never fires is refused.
    """
    never: list[Rule] = []
    others: list[Rule] = []
    for rule in rules:
        table = rule.table
        silent = table.dates != EVERY_DAY and table.next(now, now + LONGEST_INTERVAL) is None
        (never if silent else others).append(rule)
    return never, others


def _never_fires(rule: Rule) -> str:
    return (
        f"{rule}: does not fire within nine years, because startDate, endDate or excludeDates leaves out "
        "its dates"
    )


def _warn_every_minute(rules: Iterable[Rule]) -> Iterator[str]:
    """Yields the rules that fire 60 times in some hours only, mostly instead of once."""
    for rule in rules:
        schedule = rule.table.schedule
        if schedule.minutes == _EVERY_MINUTE and schedule.hours != _EVERY_HOUR:
            minute, hour = schedule.text.split()[:2]
            count = 60 * schedule.hours.bit_count()
            yield (
                f"{rule}: fires at every minute of hour {_cut(hour)}, {count} times a day, "
                f"because its minute is {_cut(minute)}; write 0 for the full hour"
            )


def _warn_month_end(rules: Iterable[Rule]) -> Iterator[str]:
    """Yields the rules for day 31 that also name shorter months."""
    for rule in rules:
        schedule = rule.table.schedule
        if schedule.days == 1 << 31 and schedule.any_weekday and schedule.months & _SHORT_MONTHS:
            yield (
                f"{rule}: day-of-month 31 comes in seven months only; for the end of every month write "
                "@monthly, when the next one begins, or 28-31 with --MM-DD in excludeDates"
            )


def _warn_short_delays(rules: Iterable[Rule]) -> Iterator[str]:
    for rule in rules:
        if rule.max_delay is not None and rule.max_delay < _SHORTEST_DELAY:
            yield (
                f"{rule}: a restart takes longer than maxDelaySeconds {rule.max_delay}, and an execution "
                f"that is due meanwhile is missed; write {_SHORTEST_DELAY} or more"
            )


def _warn_either_day(rules: Iterable[Rule]) -> Iterator[str]:
    """Yields the rules that restrict both day fields, which many people read as "both must match"."""
    for rule in rules:
        schedule = rule.table.schedule
        if not schedule.any_day and not schedule.any_weekday:
            _, _, day, _, weekday = schedule.text.split()
            yield (
                f"{rule}: fires on day-of-month {_cut(day)} and also on every day-of-week {_cut(weekday)}, "
                "because one match is enough; write * in the field that does not matter"
            )


def _cut(field: str) -> str:
    return field if len(field) <= _MAX_FIELD else f"{field[: _MAX_FIELD - 3]}..."
