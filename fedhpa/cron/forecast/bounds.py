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
from fedhpa.cron.execution.planning import CronPlan
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
    is true. `setter` set the other bound (None: present in the target).
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
    present = known_bounds(target)
    lows = [values[MINIMUM] for values in (present, *(rule.values for rule in rules)) if MINIMUM in values]
    highs = [values[MAXIMUM] for values in (present, *(rule.values for rule in rules)) if MAXIMUM in values]
    # Otherwise no order of events leads to a conflict.
    if lows and highs and max(lows) > min(highs):
        yield from _Forecast(rules, target, now.timestamp(), until.timestamp()).run()


class _Forecast:
    """Finds the rules that cause the conflicts of a simulation."""

    def __init__(self, rules: list[Rule], target: Values | None, now: float, until: float) -> None:
        self._rules = {rule.name: rule for rule in rules}
        values: Values = dict.fromkeys(_BOUNDS, UNKNOWN) if target is None else target
        followed = _followed(rules)
        windows = sorted(_open_windows(followed, now), key=lambda window: window.opened)
        hidden: Values = {field: UNKNOWN for window in windows for field in window.values}
        record = WindowRecord(dict(hidden), None, dict(hidden), tuple(windows)) if windows else None
        # The made-up rules of windows that may be open are suspended, so they never fire.
        before = tuple(
            msgspec.structs.replace(self._rules[window.rule], values=window.values, suspended=True)
            for window in windows
        )
        self._simulation = Simulation(
            [ScheduledObject(_OBJECT, 0.0, followed), ScheduledObject(_BEFORE, 0.0, before)],
            record,
            values | hidden,
            now=now,
            until=until,
            skips_repeats=True,
            max_work=_MAX_WORK,
        )
        # The rule that set each bound without a window. The value may lie below a window.
        self._plain: dict[str, Rule] = {}
        self._minimum = values[MINIMUM], self._setters(record).get(MINIMUM)

    def run(self) -> Iterator[BoundsConflict]:
        """Yields the conflicts, at most one for each rule."""
        reported: set[str] = set()
        for step in self._simulation.steps():
            if step.conflict is not None and step.refused is not None:
                before = dict(self._plain)
                self._note_plain(step.refused)
                found = self._conflict(step, step.refused, step.conflict)
                self._plain = before
                if found is not None and found.rule.name not in reported:
                    reported.add(found.rule.name)
                    yield found
            self._note_plain(step.plan)
            self._minimum = step.values[MINIMUM], self._setters(step.plan.record).get(MINIMUM)

    def _note_plain(self, planned: CronPlan) -> None:
        for execution, values, window in planned.applied:
            if window is None:
                self._plain |= dict.fromkeys(values, self._rules[execution.rule.name])

    def _setters(self, record: WindowRecord | None) -> dict[str, Rule]:
        """Returns the rule that set each bound: that of the top window, else of an execution."""
        setters = dict(self._plain)
        for window in () if record is None else record.open:
            setters |= dict.fromkeys(window.values, self._rules[window.rule])
        return setters

    def _conflict(
        self, step: SimulatedStep, planned: CronPlan, values: CrossedBounds
    ) -> BoundsConflict | None:
        """Returns the conflict with the rule that caused it: the last that fired, else that closed."""
        setters = self._setters(planned.record)
        causes = [setters[field].name if field in setters else "" for field in _BOUNDS]
        fired = {one.execution.rule.name: one.execution for one in planned.applied}
        if any(name in fired and fired[name].at < step.at for name in causes):
            # The refusal of the earlier execution, which is tried again, was reported.
            return None

        def found(name: str, bound: str, *, closes: bool = False) -> BoundsConflict:
            rule, other = self._rules[name], MAXIMUM if bound == MINIMUM else MINIMUM
            at = datetime.fromtimestamp(step.at, rule.table.zone)
            return BoundsConflict(rule, at, closes, bound, values, setters.get(other))

        for execution in sorted(fired.values(), key=lambda one: one.order, reverse=True):
            if execution.at == step.at and execution.rule.name in causes:
                return found(execution.rule.name, _BOUNDS[causes.index(execution.rule.name)])
        changed = (step.values | planned.write)[MINIMUM], setters.get(MINIMUM)
        for name in sorted((one.rule for one in planned.closed if one.closes == step.at), reverse=True):
            if MINIMUM in self._rules[name].values and changed != self._minimum:
                return found(name, MINIMUM, closes=True)
            if MAXIMUM in self._rules[name].values:
                return found(name, MAXIMUM, closes=True)
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
