"""Rules that set the minReplicas of a FederatedHPA above its maxReplicas.

A rule may set one bound only, so a conflict depends on the present bounds and on the other rules. The
simulation of `fedhpa.cron.execution` gives the coming writes, as the controller would make them. Each
conflict is here given to the rule that causes it.

A window that a rule may have opened before the forecast begins hides the baseline of its bounds. These bounds
count as unknown until a rule sets them, so they cause no warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from fedhpa.cron.execution.model import (
    MAXIMUM,
    MINIMUM,
    CronPlan,
    OpenWindow,
    Rule,
    ScheduledObject,
    Values,
    WindowRecord,
)
from fedhpa.cron.execution.simulation import DEFAULT_MINIMUM, UNKNOWN, CrossedBounds, Simulation
from fedhpa.cron.forecast.rules import ActiveRule
from fedhpa.cron.timetables import elapsed

# Executions and ends of windows that are followed at least, of all rules together.
MAX_EVENTS: Final = 200
# The work of a simulation for these events, which counts the steps, too.
_MAX_WORK: Final = 2 * MAX_EVENTS
# Rules that are followed; those that never apply do not count.
_MAX_RULES: Final = 100
# The object whose rules are forecast, and a made-up one with the windows that may be open already.
_OBJECT: Final = "object"
_BEFORE: Final = "before"


class TargetBounds(msgspec.Struct, frozen=True):
    """The present bounds of the FederatedHPA that the rules change, as written (None: not given)."""

    minimum: int | None = None
    maximum: int | None = None

    @property
    def known(self) -> dict[str, int]:
        """The bounds by field. A minimum that is not given is the default."""
        found = {MINIMUM: DEFAULT_MINIMUM if self.minimum is None else self.minimum}
        return found if self.maximum is None else found | {MAXIMUM: self.maximum}


class BoundsConflict(NamedTuple):
    """The first time that a rule leaves minReplicas above maxReplicas.

    The rule sets `bound` ("minReplicas" or "maxReplicas") to `value`. If `closes` is true, the end of its
    window restores that value instead. `other` is the opposite bound with the value `other_value`, set by
    `setter` (None: present in the target).
    """

    rule: ActiveRule
    at: datetime
    closes: bool
    bound: str
    value: int
    other: str
    other_value: int
    setter: ActiveRule | None

    def __str__(self) -> str:
        event = (
            f"ends its window at {self.at.isoformat()}, and {self.bound} is {self.value} again"
            if self.closes
            else f"fires at {self.at.isoformat()} and sets {self.bound} {self.value}"
        )
        relation = "above" if self.bound == "minReplicas" else "below"
        setter = "that the target has now" if self.setter is None else f"that {self.setter} sets"
        return (
            f"{self.rule} {event}, {relation} the {self.other} {self.other_value} {setter}; "
            "the change will be refused"
        )


class _Bound(NamedTuple):
    """The value of a bound, and the rule that set it (None: the target had it before, or it is unknown)."""

    value: int | None
    setter: ActiveRule | None


def bounds_conflicts(
    rules: list[ActiveRule], target: TargetBounds | None, now: datetime, until: datetime
) -> Iterator[BoundsConflict]:
    """Yields the first conflict of each rule in (now, until], in the order of time."""
    if _can_conflict(rules, target):
        yield from _Forecast(rules, target, now, until).run()


def _can_conflict(rules: list[ActiveRule], target: TargetBounds | None) -> bool:
    """True if any minimum is above any maximum. Otherwise no order of events leads to a conflict."""
    lows = [rule.minimum for rule in rules if rule.minimum is not None]
    highs = [rule.maximum for rule in rules if rule.maximum is not None]
    if target is not None:
        lows.append(DEFAULT_MINIMUM if target.minimum is None else target.minimum)
        highs += [] if target.maximum is None else [target.maximum]
    return bool(lows and highs) and max(lows) > min(highs)


class _Forecast:
    """Finds the rules that cause the conflicts of a preview."""

    def __init__(
        self, rules: list[ActiveRule], target: TargetBounds | None, now: datetime, until: datetime
    ) -> None:
        self._rules = {rule.label: rule for rule in rules}
        values: Values = {MINIMUM: UNKNOWN, MAXIMUM: UNKNOWN}
        if target is not None:
            values = {MINIMUM: target.minimum, MAXIMUM: target.maximum}
        planned = _planned(rules)
        windows = _open_windows([self._rules[rule.name] for rule in planned], now)
        hidden: Values = {field: UNKNOWN for window in windows for field in window.values}
        record = WindowRecord(dict(hidden), None, dict(hidden), tuple(windows)) if windows else None
        before = tuple(_holder(self._rules[window.rule], window) for window in windows)
        self._simulation = Simulation(
            [ScheduledObject(_OBJECT, 0.0, planned), ScheduledObject(_BEFORE, 0.0, before)],
            record,
            values | hidden,
            now=now.timestamp(),
            until=until.timestamp(),
            skips_repeats=True,
            max_work=_MAX_WORK,
        )
        # The rule that set each bound without a window. The value may lie below a window.
        self._plain: dict[str, ActiveRule] = {}
        self._bounds = self._attributed(record, values, self._plain)

    def run(self) -> Iterator[BoundsConflict]:
        """Yields the conflicts, at most one for each rule."""
        reported: set[str] = set()
        for step in self._simulation.steps():
            if step.conflict is not None and step.refused is not None:
                bounds, _ = self._after(step.refused, step.values)
                found = self._conflict(step.at, step.refused, step.conflict, bounds)
                if found is not None and found.rule.label not in reported:
                    reported.add(found.rule.label)
                    yield found
            self._bounds, self._plain = self._after(step.plan, step.values)

    def _after(self, planned: CronPlan, values: Values) -> tuple[dict[str, _Bound], dict[str, ActiveRule]]:
        """Returns the bounds after a plan, and the rule that set each of them without a window."""
        plain = dict(self._plain)
        for execution, set_values, window in planned.applied:
            if window is None:
                plain |= dict.fromkeys(set_values, self._rules[execution.rule.name])
        return self._attributed(planned.record, values | planned.write, plain), plain

    def _attributed(
        self, record: WindowRecord | None, values: Values, plain: dict[str, ActiveRule]
    ) -> dict[str, _Bound]:
        """Returns each bound with the rule that set it: that of the top window, else of an execution."""
        setters: dict[str, ActiveRule] = dict(plain)
        for window in () if record is None else record.open:
            setters |= dict.fromkeys(window.values, self._rules[window.rule])
        return {field: _Bound(values[field], setters.get(field)) for field in (MINIMUM, MAXIMUM)}

    def _conflict(
        self, at: float, planned: CronPlan, conflict: CrossedBounds, bounds: dict[str, _Bound]
    ) -> BoundsConflict | None:
        """Returns the conflict with the rule that caused it: the last that fired, else that closed."""
        low, high = bounds[MINIMUM].setter, bounds[MAXIMUM].setter
        retried = {applied.execution.rule.name for applied in planned.applied if applied.execution.at < at}
        if any(rule is not None and rule.label in retried for rule in (low, high)):
            # The refusal of the earlier execution, which is tried again, was reported.
            return None
        fired = sorted(applied.execution.order for applied in planned.applied if applied.execution.at == at)
        by_order = {applied.execution.order: applied.execution.rule.name for applied in planned.applied}
        for order in reversed(fired):
            rule = self._rules[by_order[order]]
            if rule in (low, high):
                return _reported(rule, at, conflict, low, high, sets_low=low is rule)
        closed = sorted(self._rules[window.rule].label for window in planned.closed if window.closes == at)
        changed = bounds[MINIMUM] != self._bounds[MINIMUM]
        for label in reversed(closed):
            rule = self._rules[label]
            if rule.minimum is not None and changed:
                return _reported(rule, at, conflict, low, high, sets_low=True, closes=True)
            if rule.maximum is not None:
                return _reported(rule, at, conflict, low, high, sets_low=False, closes=True)
        return None


def _planned(rules: list[ActiveRule]) -> tuple[Rule, ...]:
    """Returns the rules that can matter, for a plan.

    A plain rule never applies if a later one with the same timetable sets the same bounds.
    """
    found: list[Rule] = []
    covered: dict[object, set[str]] = {}
    for place in range(len(rules) - 1, -1, -1):
        rule = rules[place]
        if not rule.values:
            continue
        if rule.timetable.duration is None:
            fields = covered.setdefault(rule.timetable, set())
            if fields.issuperset(rule.values):
                continue
            fields.update(rule.values)
        found.append(Rule(rule.label, place, rule.timetable, rule.values, "", max_delay=rule.max_delay))
    return tuple(reversed(found))[:_MAX_RULES]


def _open_windows(rules: list[ActiveRule], now: datetime) -> list[OpenWindow]:
    """Returns the windows of executions before `now`, with unknown values.

    Nothing shows if they are open: a rule does not say since when it exists.
    """
    found = []
    for rule in rules:
        duration = rule.timetable.duration
        if duration is None or not rule.values:
            continue
        fired = rule.timetable.previous(now, now.astimezone(UTC) - duration)
        if fired is not None and elapsed(fired, now) < duration:
            opened = fired.timestamp()
            closes = opened + duration.total_seconds()
            found.append(OpenWindow(_BEFORE, rule.label, opened, closes, dict.fromkeys(rule.values, UNKNOWN)))
    return sorted(found, key=lambda window: window.opened)


def _holder(rule: ActiveRule, window: OpenWindow) -> Rule:
    """Returns the made-up rule of a window that may be open. It is suspended, so it never fires."""
    return Rule(rule.label, 0, rule.timetable, window.values, "", suspended=True)


def _reported(
    rule: ActiveRule,
    instant: float,
    conflict: CrossedBounds,
    low: ActiveRule | None,
    high: ActiveRule | None,
    *,
    sets_low: bool,
    closes: bool = False,
) -> BoundsConflict:
    at = datetime.fromtimestamp(instant, rule.timetable.zone)
    if sets_low:
        return BoundsConflict(rule, at, closes, MINIMUM, conflict.minimum, MAXIMUM, conflict.maximum, high)
    return BoundsConflict(rule, at, closes, MAXIMUM, conflict.maximum, MINIMUM, conflict.minimum, low)
