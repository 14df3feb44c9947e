"""Rules that cannot all act: two values for one minute, or a minReplicas above the maxReplicas.

A rule with a window and one without do not conflict: the values of the second hold when the window closes.
Bit sets of the minutes of a day rule out most pairs of rules of one zone. For the other pairs, the two
timetables are followed in turn. All pairs together share a bounded number of steps.

A rule may set one bound only, so a conflict of bounds depends on the present bounds and on the other rules.
The simulation of `fedhpa.cron.execution` gives the coming writes, as the controller would make them. Each
conflict is here given to the rule that causes it. A window that a rule may have opened before the forecast
begins hides the baseline of its bounds. These bounds count as unknown until a rule sets them, so they cause
no warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from fedhpa.api.default_values import MIN_REPLICAS
from fedhpa.cron.execution.model import (
    EXECUTION,
    MAXIMUM,
    MINIMUM,
    OpenWindow,
    Rule,
    ScheduledObject,
    Values,
    WindowRecord,
)
from fedhpa.cron.execution.simulation import (
    UNKNOWN,
    CrossedBounds,
    SimulatedStep,
    Simulation,
)

_MAX_PAIRS: Final = 2000
_MAX_STEPS: Final = 300
# Two rules in different zones can share a minute of the day and still never fire together.
_MAX_STEPS_OF_PAIR: Final = 40
# Executions and ends of windows that are followed at least, of all rules together.
MAX_EVENTS: Final = 200
# The work of a simulation for these events, which counts the steps, too.
_MAX_WORK: Final = 2 * MAX_EVENTS
# Rules that are followed; those that never apply do not count.
_MAX_RULES: Final = 100
# The object whose rules are forecast, and a made-up one with the windows that may be open already.
_OBJECT: Final = "object"
_BEFORE: Final = "before"
_BOUNDS: Final = (MINIMUM, MAXIMUM)


class Conflict(NamedTuple):
    """The rules at fault, the first instant of their conflict, the warning, and the bounds that cross."""

    rules: tuple[Rule, ...]
    at: float
    text: str
    bounds: CrossedBounds | None = None


def local_time(at: float, rule: Rule) -> str:
    """Returns an instant in the zone of a rule, as ISO 8601."""
    return datetime.fromtimestamp(at, rule.table.zone).isoformat()


def value_conflicts(rules: list[Rule], now: float, until: float) -> Iterator[Conflict]:
    """Yields the pairs of rules with two values for one time in (now, until], in the order of the rules."""
    steps = iter(range(_MAX_STEPS))
    for first, second in islice(_pairs(rules), _MAX_PAIRS):
        if first.table.zone is second.table.zone and not _share_a_minute(first, second):
            continue
        values = " and ".join(
            f"target{field[0].upper()}{field[1:]} {size} and {second.values[field]}"
            for field, size in first.values.items()
            if second.values.get(field, size) != size
        )
        if values and _exclude_each_other(first.duration, second.duration):
            at = _first_common_time(first, second, now, until, steps)
            if at is not None:
                what = f"fire in the same minute, first at {local_time(at, first)}"
                text = f"{first} and {second} {what}; only the latter applies ({values})"
                yield Conflict((first, second), at, text)


def _pairs(rules: list[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Yields the pairs of rules, without rules that share no minute of the day with any before them."""
    before: dict[tzinfo, int] = {}
    for index, second in enumerate(rules):
        zone, minutes = second.table.zone, second.table.schedule.minutes_of_day
        if minutes & before.get(zone, 0) or before.keys() - {zone}:
            yield from ((first, second) for first in rules[:index])
        before[zone] = before.get(zone, 0) | minutes


def _exclude_each_other(first: float | None, second: float | None) -> bool:
    """True if the value of one rule never applies when both fire together; windows have these lengths.

    The window of the second rule lies above that of the first, whose values hold if its window lasts longer.
    """
    return first is second if first is None or second is None else first <= second


def _share_a_minute(first: Rule, second: Rule) -> bool:
    """True if two rules of one zone have a minute of a day in common; False for weekdays and weekends."""
    one, other = first.table.schedule, second.table.schedule
    by_date = one.any_weekday and other.any_weekday
    by_weekday = one.any_day and other.any_day
    return bool(
        one.minutes_of_day & other.minutes_of_day
        and one.months & other.months
        and not (by_date and not one.days & other.days)
        and not (by_weekday and not one.weekdays & other.weekdays)
    )


def _first_common_time(
    first: Rule, second: Rule, now: float, until: float, steps: Iterator[int]
) -> float | None:
    """Returns the first time of both rules, or None if a few `steps` find none.

    Each step continues one timetable from the time of the other.
    """
    ahead, behind = first, second
    at = ahead.next_time(now, until)
    for _ in islice(steps, _MAX_STEPS_OF_PAIR):
        if at is None:
            break
        other = behind.next_time(at - 1, until)
        if other == at:
            return at
        at, ahead, behind = other, behind, ahead
    return None


def known_bounds(target: Values | None) -> dict[str, int]:
    """Returns the present bounds that are known. A minimum that is not given is the default."""
    found = {MINIMUM: MIN_REPLICAS} if target is not None else {}
    return found | {field: value for field, value in (target or {}).items() if value is not None}


def bounds_conflicts(
    rules: list[Rule], target: Values | None, now: float, until: float
) -> Iterator[Conflict]:
    """Yields the first time in (now, until] that each rule leaves minReplicas above maxReplicas, in order."""
    known = (known_bounds(target), *(rule.values for rule in rules))
    lows, highs = ([values[field] for values in known if field in values] for field in _BOUNDS)
    # Otherwise no order of events leads to a conflict.
    if not lows or not highs or max(lows) <= min(highs):
        return
    named = {rule.name: rule for rule in rules}
    reported: set[str] = set()
    for step in _simulation(rules, target, now, until).steps():
        found = _bounds_conflict(step, named)
        if found is not None and found.rules[0].name not in reported:
            reported.add(found.rules[0].name)
            yield found


def _simulation(rules: list[Rule], target: Values | None, now: float, until: float) -> Simulation:
    values: Values = dict.fromkeys(_BOUNDS, UNKNOWN) if target is None else target
    followed = _followed(rules)
    # Nothing shows if a window is open: a rule does not say since when it exists.
    open_rules = [
        (opened, replace(rule, values=dict.fromkeys(rule.values, UNKNOWN)))
        for rule in followed
        if rule.duration is not None and (opened := rule.latest_time(now)) is not None
        if opened + rule.duration > now
    ]
    open_rules.sort(key=lambda each: each[0])
    windows = tuple(OpenWindow.of(_BEFORE, rule, opened) for opened, rule in open_rules)
    hidden: Values = {field: UNKNOWN for window in windows for field in window.values}
    # The made-up rules of windows that may be open are suspended, so they never fire.
    before = tuple(replace(rule, suspended=True) for _, rule in open_rules)
    return Simulation(
        [ScheduledObject(_OBJECT, 0.0, followed), ScheduledObject(_BEFORE, 0.0, before)],
        WindowRecord(dict(hidden), None, dict(hidden), windows) if windows else None,
        values | hidden,
        now=now,
        until=until,
        skips_repeats=True,
        max_work=_MAX_WORK,
    )


def _bounds_conflict(step: SimulatedStep, rules: dict[str, Rule]) -> Conflict | None:
    """Returns the conflict of a step with the rule that caused it: the last that fired, else that closed."""
    planned, crossed = step.refused, step.conflict
    if planned is None or crossed is None:
        return None
    limits = dict(zip(_BOUNDS, crossed, strict=True))
    ends = {window.cause: window.closes for window in planned.closed}
    causes = [
        (cause.kind == EXECUTION, rules[cause.rule].place, bound, cause.rule)
        for bound, cause in planned.field_causes.items()
        if ends.get(cause, cause.at) == step.at
    ]
    # The refusal of an earlier execution, which is tried again, was reported.
    if not causes or any(each.kind == EXECUTION and each.at < step.at for each in planned.causes):
        return None
    fires, _, bound, name = max(causes)
    other, order = (MAXIMUM, "above") if bound == MINIMUM else (MINIMUM, "below")
    rule, value, at = rules[name], limits[bound], local_time(step.at, rules[name])
    event = f"fires at {at} and sets {bound} {value}"
    if not fires:
        event = f"ends its window at {at}, and {bound} is {value} again"
    setter = next((each for each in rules.values() if each.values.get(other) == limits[other]), None)
    whose = "that the target has now" if setter is None else f"that {setter} sets"
    text = f"{rule} {event}, {order} the {other} {limits[other]} {whose}; the change will be refused"
    return Conflict((rule,), step.at, text, crossed)


def _followed(rules: list[Rule]) -> tuple[Rule, ...]:
    """Returns the rules that can matter.

    A plain rule never applies if a later one with the same timetable sets the same bounds.
    """
    found: list[Rule] = []
    covered: dict[object, set[str]] = {}
    for rule in reversed(rules):
        fields = set() if rule.duration is not None else covered.setdefault(rule.table, set())
        if not fields.issuperset(rule.values):
            fields.update(rule.values)
            found.append(rule)
    return tuple(reversed(found))[:_MAX_RULES]
