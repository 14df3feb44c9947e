"""Rules that set the minReplicas of a FederatedHPA above its maxReplicas.

A rule may set one bound only, so a conflict depends on the present bounds and on the other rules. The
simulation of `fedhpa.cron.execution` gives the coming writes, as the controller would make them. Each
conflict is here given to the rule that causes it.

A window that a rule may have opened before the forecast begins hides the baseline of its bounds. These bounds
count as unknown until a rule sets them, so they cause no warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from fedhpa.cron.execution.model import (
    MAXIMUM,
    MINIMUM,
    OpenWindow,
    Rule,
    ScheduledObject,
    Values,
    WindowRecord,
)
from fedhpa.cron.execution.simulation import (
    DEFAULT_MINIMUM,
    UNKNOWN,
    CrossedBounds,
    SimulatedStep,
    Simulation,
)

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


def known_bounds(target: Values | None) -> dict[str, int]:
    """Returns the present bounds that are known. A minimum that is not given is the default."""
    found = {MINIMUM: DEFAULT_MINIMUM} if target is not None else {}
    return found | {field: value for field, value in (target or {}).items() if value is not None}


class BoundsConflict(NamedTuple):
    """The first time that a rule leaves minReplicas above maxReplicas.

    The rule sets `bound` ("minReplicas" or "maxReplicas"), or the end of its window restores it if `closes`
    is true. `setter` is a rule that sets the other bound to its value (None: the target has it now).
    """

    rule: Rule
    at: datetime
    closes: bool
    bound: str
    values: CrossedBounds
    setter: Rule | None

    def __str__(self) -> str:
        least, most = self.values
        value, other = (
            (least, f"above the maxReplicas {most}")
            if self.bound == MINIMUM
            else (most, f"below the minReplicas {least}")
        )
        event = (
            f"ends its window at {self.at.isoformat()}, and {self.bound} is {value} again"
            if self.closes
            else f"fires at {self.at.isoformat()} and sets {self.bound} {value}"
        )
        setter = "that the target has now" if self.setter is None else f"that {self.setter} sets"
        return f"{self.rule} {event}, {other} {setter}; the change will be refused"


def bounds_conflicts(
    rules: list[Rule], target: Values | None, now: datetime, until: datetime
) -> Iterator[BoundsConflict]:
    """Yields the first conflict of each rule in (now, until], in the order of time."""
    known = (known_bounds(target), *(rule.values for rule in rules))
    lows, highs = ([values[field] for values in known if field in values] for field in _BOUNDS)
    # Otherwise no order of events leads to a conflict.
    if not lows or not highs or max(lows) <= min(highs):
        return
    reported: set[str] = set()
    for step in _simulation(rules, target, now.timestamp(), until.timestamp()).steps():
        found = _conflict(step, {rule.name: rule for rule in rules})
        if found is not None and found.rule.name not in reported:
            reported.add(found.rule.name)
            yield found


def _simulation(rules: list[Rule], target: Values | None, now: float, until: float) -> Simulation:
    values: Values = dict.fromkeys(_BOUNDS, UNKNOWN) if target is None else target
    followed = _followed(rules)
    windows = sorted(_open_windows(followed, now), key=lambda window: window.opened)
    hidden: Values = {field: UNKNOWN for window in windows for field in window.values}
    # The made-up rules of windows that may be open are suspended, so they never fire.
    before = tuple(
        msgspec.structs.replace(rule, values=window.values, suspended=True)
        for window in windows
        for rule in followed
        if rule.name == window.rule
    )
    return Simulation(
        [ScheduledObject(_OBJECT, 0.0, followed), ScheduledObject(_BEFORE, 0.0, before)],
        WindowRecord(dict(hidden), None, dict(hidden), tuple(windows)) if windows else None,
        values | hidden,
        now=now,
        until=until,
        skips_repeats=True,
        max_work=_MAX_WORK,
    )


def _conflict(step: SimulatedStep, rules: dict[str, Rule]) -> BoundsConflict | None:
    """Returns the conflict of a step with the rule that caused it: the last that fired, else that closed."""
    planned, values = step.refused, step.conflict
    if planned is None or values is None:
        return None
    limits = dict(zip(_BOUNDS, values, strict=True))
    fired = sorted(planned.applied, key=lambda one: one.execution.order, reverse=True)
    causes = [
        (one.execution.rule.name, one.execution.at, bound, False)
        for one in fired
        for bound, limit in limits.items()
        if one.values.get(bound) == limit
    ]
    if any(at < step.at for _, at, _, _ in causes):
        # The refusal of the earlier execution, which is tried again, was reported.
        return None
    causes += [
        (window.rule, step.at, bound, True)
        for window in planned.closed
        for bound in _BOUNDS
        if window.closes == step.at and bound in rules[window.rule].values and bound in planned.write
    ]
    for name, _, bound, closes in causes[:1]:
        other = MAXIMUM if bound == MINIMUM else MINIMUM
        setter = next((each for each in rules.values() if each.values.get(other) == limits[other]), None)
        at = datetime.fromtimestamp(step.at, rules[name].table.zone)
        return BoundsConflict(rules[name], at, closes, bound, values, setter)
    return None


def _followed(rules: list[Rule]) -> tuple[Rule, ...]:
    """Returns the rules that can matter.

    A plain rule never applies if a later one with the same timetable sets the same bounds.
    """
    found: list[Rule] = []
    covered: dict[object, set[str]] = {}
    for rule in reversed(rules):
        if not rule.values:
            continue
        if rule.duration is None:
            fields = covered.setdefault(rule.table, set())
            if fields.issuperset(rule.values):
                continue
            fields.update(rule.values)
        found.append(rule)
    return tuple(reversed(found))[:_MAX_RULES]


def _open_windows(rules: tuple[Rule, ...], now: float) -> Iterator[OpenWindow]:
    """Yields the windows of executions before `now`, with unknown values.

    Nothing shows if they are open: a rule does not say since when it exists.
    """
    for rule in rules:
        opened = None if rule.duration is None else rule.latest_time(now)
        if opened is not None:
            window = OpenWindow.of(_BEFORE, rule, opened)
            if window.closes > now:
                yield msgspec.structs.replace(window, values=dict.fromkeys(rule.values, UNKNOWN))
