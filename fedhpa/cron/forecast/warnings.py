"""Admission warnings about effects of a CronFederatedHPA's rules that are wrong or surprising.

Rules without such an effect get no warning. Warnings never change a verdict, because they depend on the
present time. The work is bounded for every object: it covers one year, and the rules up to the first that
brings the excluded dates above 20,000. The pairs of rules that are compared, and the executions that are
followed, are limited too. So every warning is right, but a problem may have none. A clock change is no
mistake, and only the preview of rules tells it (`affected_times`).

A rule with a window restores what was before. Without one, a value holds until another rule sets one. Whether
rules that raise and lower a size belong together shows in a week: most dates on which it is raised must be
followed by a lower value before it is raised again. So levels of workdays and weekends get no warning.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate, islice, pairwise, repeat
from math import floor
from typing import Final

from fedhpa.api import model
from fedhpa.api.cronfederatedhpa import CronFederatedHPASpec
from fedhpa.api.errors import InvalidObject
from fedhpa.api.texts import counted, one_line
from fedhpa.api.times import format_duration
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, REPLICAS, Rule, Values
from fedhpa.cron.execution.objects import executable_rules, targets_federatedhpa
from fedhpa.cron.forecast.conflicts import bounds_conflicts, known_bounds, local_time, value_conflicts
from fedhpa.cron.grammar import shortest_interval
from fedhpa.cron.timetables import (
    EPOCH_DAY,
    EVERY_DAY,
    LONGEST_INTERVAL,
    OffsetPeriod,
    Timetable,
    allowed_dates,
    offset_periods,
    wall_times,
)

# API servers show at most five or so.
_MAX_OF_KIND: Final = 5
# Characters of a field that a warning quotes.
_MAX_FIELD: Final = 24
# Seconds.
_YEAR: Final = 366 * 86400.0
_WEEK: Final = 8 * 86400.0
# Dates are parsed one by one, and must not delay admission.
_MAX_DATES: Final = 20_000
# More rules of one field are not compared, because each of them could be the one that lowers it.
_MAX_RULES: Final = 20
# Executions that raise or lower a field and are followed: eight raises each day for a year.
_MAX_TIMES: Final = 4_000
# A size of at most this cannot be lowered.
_LEAST: Final = {MINIMUM: 1, REPLICAS: 0}
# Seconds that a restart or a change of leaders takes.
_SHORTEST_DELAY: Final = 30
_EVERY_MINUTE: Final = (1 << 60) - 1
_EVERY_HOUR: Final = (1 << 24) - 1
# April, June, September, November and February.
_SHORT_MONTHS: Final = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 9 | 1 << 11
_NEVER: Final = (
    "does not fire within nine years, because startDate, endDate or excludeDates leaves out its dates"
)
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
    start = now.timestamp()
    active = active_rules(spec)
    # A schedule that never fires is refused, but the dates may leave no execution.
    never = {
        rule.place: f"{rule}: {_NEVER}"
        for rule in active
        if rule.table.dates != EVERY_DAY and rule.next_time(start, start + LONGEST_INTERVAL) is None
    }
    rules = [rule for rule in active if rule.place not in never]
    mistakes = [(kind, f"{rule}: {text}") for rule in rules for kind, text in _mistakes(rule).items()]
    bounds = bounds_conflicts(rules, target, start, start + _YEAR) if targets_federatedhpa(spec) else ()
    kinds = (
        (each.text for each in bounds),
        (each.text for each in value_conflicts(rules, start, start + _YEAR)),
        never.values(),
        _warn_not_lowered(rules, known_bounds(target), start) if alone else (),
        *([text for found, text in mistakes if found == kind] for kind in range(5)),
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
        others = f" (and for {counted(more, 'more rule')})" if more else ""
        first = rules[zoneless[0]].time_zone
        what = f"{first} is no IANA name" if first else "no zone is given"
        yield (
            f"spec.rules[{zoneless[0]}].timeZone: {what}{others}, so the schedule runs in UTC; "
            "write a name such as Europe/Berlin, or UTC"
        )


def _warn_dates(spec: CronFederatedHPASpec, now: datetime) -> Iterator[str]:
    """Yields the lists of excluded dates that name one twice, or are all over in every time zone."""
    yesterday = (now.astimezone(UTC) - timedelta(days=1)).toordinal()
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


def _mistakes(rule: Rule) -> dict[int, str]:
    """Returns what a rule will do and its author hardly means, by the number of its kind."""
    found = {}
    schedule, length, delay = rule.table.schedule, rule.duration, rule.max_delay
    if not schedule.any_day and not schedule.any_weekday:
        # Many people read two fields as "both must match".
        _, _, day, _, weekday = (one_line(field, _MAX_FIELD) for field in schedule.text.split())
        found[0] = (
            f"fires on day-of-month {day} and also on every day-of-week {weekday}, because one match is "
            "enough; write * in the field that does not matter"
        )
    if schedule.minutes == _EVERY_MINUTE and schedule.hours != _EVERY_HOUR:
        minute, hour = (one_line(field, _MAX_FIELD) for field in schedule.text.split()[:2])
        found[1] = (
            f"fires at every minute of hour {hour}, {60 * schedule.hours.bit_count()} times a day, because "
            f"its minute is {minute}; write 0 for the full hour"
        )
    if schedule.days == 1 << 31 and schedule.any_weekday and schedule.months & _SHORT_MONTHS:
        found[2] = (
            "day-of-month 31 comes in seven months only; for the end of every month write @monthly, when "
            "the next one begins, or 28-31 with --MM-DD in excludeDates"
        )
    if delay is not None and delay < _SHORTEST_DELAY:
        found[3] = (
            f"a restart takes longer than maxDelaySeconds {delay}, and an execution that is due meanwhile "
            f"is missed; write {_SHORTEST_DELAY} or more"
        )
    if length is not None and length >= (interval := shortest_interval(schedule)):
        found[4] = (
            f"its window of {format_duration(length)} can still be open when it fires again, "
            f"{format_duration(interval)} later; that renews the window, and the previous values do not "
            "return"
        )
    return found


def _warn_not_lowered(rules: list[Rule], present: dict[str, int], now: float) -> Iterator[str]:
    """Yields at most one warning for each field. `present` has the known values of the target."""
    plain = [rule for rule in rules if rule.duration is None]
    for field in (MINIMUM, MAXIMUM, REPLICAS):
        setters = [rule for rule in plain if field in rule.values]
        sizes = {rule.values[field] for rule in setters}
        if len(sizes) == 1:
            if not any(field in rule.values for rule in rules if rule.duration is not None):
                yield from _stays(field, setters, plain, present)
        elif 1 < len(setters) <= _MAX_RULES:
            yield from _not_always_lowered(field, setters, max(sizes), now)


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


def _not_always_lowered(field: str, setters: list[Rule], top: int, now: float) -> Iterator[str]:
    """Warns of the first date on which `top` is set, and not lowered before it is set on another date.

    Rules that lower it on some dates only are followed for a year, and others for a week.
    """
    lowers = [rule.values[field] < top for rule in setters]
    dated = any(rule.table.dates != EVERY_DAY for rule in setters if rule.values[field] < top)
    end, week = now + (_YEAR if dated else _WEEK), now + _WEEK
    # At one instant, a lower value comes first.
    streams = (
        zip(rule.table.times(now, end), repeat((not lowers[place], place)))
        for place, rule in enumerate(setters)
    )
    missed: list[tuple[float, Rule]] = []
    pairs = missed_pairs = 0
    raised: tuple[float, Rule] | None = None
    lowered = False
    for at, (raises, place) in islice(heapq.merge(*streams), _MAX_TIMES):
        if not raises:
            lowered = True
            continue
        if raised is not None and _day(at, setters[place]) != _day(*raised):
            if not lowered:
                missed.append(raised)
            if at <= week:
                pairs, missed_pairs = pairs + 1, len(missed)
        raised, lowered = (at, setters[place]), False
    # Otherwise the rules are no pair.
    if missed and 2 * missed_pairs < pairs:
        at, rule = missed[0]
        yield (
            f"{rule}: sets {field} {top} at {local_time(at, rule)}, and no rule lowers it before it is set "
            "again; give the rules that raise and lower it the same dates"
        )


def _day(at: float, rule: Rule) -> date:
    return datetime.fromtimestamp(at, rule.table.zone).date()


def affected_times(rules: Mapping[str, Timetable], now: float, until: float) -> Iterator[str]:
    """Yields the times of named rules affected by clock changes in (now, until], in the order of the changes.

    Schedules that follow real time are not affected.
    """
    named = [(name, table) for name, table in rules.items() if not table.schedule.real_time]
    changes = [
        (zone, before, after)
        for zone in dict.fromkeys(table.zone for _, table in named)
        for before, after in pairwise(offset_periods(zone, floor(now), floor(until)))
        if before.offset != after.offset
    ]
    for zone, before, after in sorted(changes, key=lambda each: each[2].start):
        for name, table in named:
            if table.zone is zone and (text := _affected(table, before, after, now)):
                yield f"{name}: {text}"


def _affected(table: Timetable, old: OffsetPeriod, new: OffsetPeriod, now: float) -> str:
    """Returns how a clock change moves the first wall time that it skips or repeats, or ""."""
    instant, offset = new.start, new.offset
    # The wall times that the clock would show without the change, and because of it.
    before, after = -(-(instant + old.offset) // 60), -(-(instant + offset) // 60)
    skips = after > before
    if skips and not table.dates.allow((instant + offset) // 86400 + EPOCH_DAY):
        return ""
    # A repeated wall time whose first occurrence is over has fired already.
    low = before if skips else max(after, (floor(now) + old.offset) // 60 + 1)
    wall_time = next(wall_times(table.schedule, table.dates, low, max(before, after)), None)
    if wall_time is None:
        return ""
    local, shown, then = (
        datetime(1970, 1, 1, tzinfo=table.zone) + timedelta(minutes=each)
        for each in (wall_time, before, after)
    )
    where = f"on {local:%Y-%m-%d} in {table.zone}, where the clock goes from {shown:%H:%M}"
    if skips:
        at = datetime.fromtimestamp(instant, table.zone).isoformat()
        return f"{local:%H:%M} does not exist {where} to {then:%H:%M}; it fires at {at} instead"
    return f"{local:%H:%M} occurs twice {where} back to {then:%H:%M}; it fires once, at {local.isoformat()}"
