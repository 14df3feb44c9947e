"""Rules that set the minReplicas of a FederatedHPA above its maxReplicas.

A rule may set one bound only, so a conflict depends on the present bounds and on the other rules. The rules
are simulated fire by fire, up to a limit.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from fedhpa.cron.forecast.rules import ActiveRule
from fedhpa.cron.timetable import later

_MAX_RULES: Final = 100
# Fires and ends of windows, of all rules together.
MAX_EVENTS: Final = 200
# The default of a FederatedHPA without minReplicas.
_DEFAULT_MINIMUM: Final = 1


class TargetBounds(msgspec.Struct, frozen=True):
    """The present bounds of the FederatedHPA that the rules change, as written (None: not given)."""

    minimum: int | None = None
    maximum: int | None = None


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
    """The present value of a bound, and the rule that set it (None: the target had it before)."""

    value: int | None
    setter: ActiveRule | None


class _Event(NamedTuple):
    """A fire of the rule with this index, or the end of its window. Events sort by time, then by rule."""

    instant: datetime
    rule: int
    closes: bool


_State = tuple[_Bound, _Bound]


def bounds_conflicts(
    rules: list[ActiveRule], target: TargetBounds | None, now: datetime, until: datetime
) -> Iterator[BoundsConflict]:
    """Yields the first conflict of each rule in (now, until], in the order of time."""
    if not _can_conflict(rules, target):
        return
    yield from _Simulation(rules[:_MAX_RULES], target, until).run(now)


def _can_conflict(rules: list[ActiveRule], target: TargetBounds | None) -> bool:
    """True if any minimum is above any maximum. Otherwise no order of events leads to a conflict."""
    state = _present(target)
    lows = [bound for bound in (state[0].value, *(rule.minimum for rule in rules)) if bound is not None]
    highs = [bound for bound in (state[1].value, *(rule.maximum for rule in rules)) if bound is not None]
    return bool(lows and highs) and max(lows) > min(highs)


def _present(target: TargetBounds | None) -> _State:
    if target is None:
        return _Bound(None, None), _Bound(None, None)
    minimum = _DEFAULT_MINIMUM if target.minimum is None else target.minimum
    return _Bound(minimum, None), _Bound(target.maximum, None)


class _Simulation:
    """Simulates rules: the present bounds, the bounds before each open window, and the coming events."""

    def __init__(self, rules: list[ActiveRule], target: TargetBounds | None, until: datetime) -> None:
        self._rules = rules
        self._until = until
        self._state = _present(target)
        self._before: dict[int, _State] = {}
        self._closing: dict[int, datetime] = {}
        self._events: list[_Event] = []

    def run(self, now: datetime) -> Iterator[BoundsConflict]:
        """Yields the conflicts after `now`, at most one for each rule."""
        reported: set[str] = set()
        for index, rule in enumerate(self._rules):
            self._schedule(index, rule.timetable.next(now, self._until))
        left = MAX_EVENTS
        while self._events and left > 0:
            instant = self._events[0].instant
            previous = self._state
            due = self._due(instant)
            left -= len(due)
            applied = [event for event in due if self._apply(event)]
            conflict = self._conflict(applied, instant)
            if conflict is not None:
                # Admission will refuse the update, so the bounds stay.
                self._state = previous
                if conflict.rule.label not in reported:
                    reported.add(conflict.rule.label)
                    yield conflict
            fired = [event.rule for event in applied if not event.closes]
            # Rules with the same timetable always fire together, so they count as one.
            alone = len({self._rules[index].timetable for index in fired}) == 1
            for index in fired:
                self._schedule(index, self._next_fire(index, instant, alone=alone))

    def _schedule(self, index: int, fire: datetime | None) -> None:
        if fire is not None:
            heapq.heappush(self._events, _Event(fire.astimezone(UTC), index, closes=False))

    def _due(self, instant: datetime) -> list[_Event]:
        """Removes and returns the events of an instant: ends of windows before fires, each by rule."""
        due = []
        while self._events and self._events[0].instant == instant:
            due.append(heapq.heappop(self._events))
        return sorted(due, key=lambda event: (not event.closes, event.rule))

    def _apply(self, event: _Event) -> bool:
        """Applies an event to the bounds. False if it had no effect."""
        rule = self._rules[event.rule]
        if event.closes:
            # A renewed window closes later.
            if self._closing.get(event.rule) != event.instant:
                return False
            self._close_window(event.rule)
            return True
        duration = rule.timetable.duration
        if duration is not None:
            if event.rule not in self._closing:
                self._before[event.rule] = self._state
            closes = later(event.instant, duration)
            self._closing[event.rule] = closes
            heapq.heappush(self._events, _Event(closes, event.rule, closes=True))
        low, high = self._state
        if rule.minimum is not None:
            low = _Bound(rule.minimum, rule)
        if rule.maximum is not None:
            high = _Bound(rule.maximum, rule)
        self._state = (low, high)
        return True

    def _close_window(self, index: int) -> None:
        """Restores the bounds from before a window, except those that another rule has set since."""
        del self._closing[index]
        rule, before = self._rules[index], self._before.pop(index)
        low, high = self._state
        self._state = (
            before[0] if low.setter is rule else low,
            before[1] if high.setter is rule else high,
        )

    def _next_fire(self, index: int, instant: datetime, *, alone: bool) -> datetime | None:
        """Returns the next fire that may change something.

        A rule without a window changes nothing when it fires again before any other event.
        """
        rule = self._rules[index]
        if rule.timetable.duration is not None or not alone:
            return rule.timetable.next(instant, self._until)
        if not self._events:
            return None
        return rule.timetable.at_or_after(self._events[0].instant, self._until)

    def _conflict(self, applied: list[_Event], instant: datetime) -> BoundsConflict | None:
        low, high = self._state
        if low.value is None or high.value is None or low.value <= high.value:
            return None
        for event in reversed(applied):
            rule = self._rules[event.rule]
            at = instant.astimezone(rule.timetable.zone)
            if event.closes:
                sets_low = rule.minimum is not None
            elif low.setter is rule or high.setter is rule:
                sets_low = low.setter is rule
            else:
                continue
            bounds = ("minReplicas", low.value, "maxReplicas", high.value, high.setter)
            if not sets_low:
                bounds = ("maxReplicas", high.value, "minReplicas", low.value, low.setter)
            return BoundsConflict(rule, at, event.closes, *bounds)
        return None
