"""Rules that set the minReplicas of a FederatedHPA above its maxReplicas.

A rule may set one bound only, so a conflict depends on the present bounds and on the other rules. The rules
are simulated fire by fire, up to a limit. For each bound the open window that started last decides, else the
baseline. Rules without a window change the baseline, also while a window is open.

A window that a rule may have opened before the forecast begins hides the baseline of its bounds. These bounds
count as unknown until a rule sets them, so they cause no warning.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from fedhpa.cron.forecast.rules import ActiveRule
from fedhpa.cron.timetable import elapsed, later

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
    """The value of a bound (None: unknown), and the rule that set it (None: the target had it before)."""

    value: int | None
    setter: ActiveRule | None


_UNKNOWN: Final = _Bound(None, None)


class _Event(NamedTuple):
    """A fire of the rule with this index, or the end of its window. Events sort by time, then by rule."""

    instant: datetime
    rule: int
    closes: bool


class _OpenWindow(NamedTuple):
    """The open window of the rule with this index, and the bounds that it covers (None: not covered)."""

    rule: int
    closes: datetime
    minimum: _Bound | None
    maximum: _Bound | None


class _State(NamedTuple):
    """The baseline of both bounds, and the open windows in the order in which they started."""

    minimum: _Bound
    maximum: _Bound
    windows: tuple[_OpenWindow, ...] = ()

    def bounds(self) -> tuple[_Bound, _Bound]:
        """Returns the minimum and the maximum that the target has."""
        low, high = self.minimum, self.maximum
        for window in self.windows:
            low, high = window.minimum or low, window.maximum or high
        return low, high


def bounds_conflicts(
    rules: list[ActiveRule], target: TargetBounds | None, now: datetime, until: datetime
) -> Iterator[BoundsConflict]:
    """Yields the first conflict of each rule in (now, until], in the order of time."""
    if not _can_conflict(rules, target):
        return
    yield from _Simulation(rules[:_MAX_RULES], target, until).run(now)


def _can_conflict(rules: list[ActiveRule], target: TargetBounds | None) -> bool:
    """True if any minimum is above any maximum. Otherwise no order of events leads to a conflict."""
    present = _present(target)
    lows = [
        bound for bound in (present.minimum.value, *(rule.minimum for rule in rules)) if bound is not None
    ]
    highs = [
        bound for bound in (present.maximum.value, *(rule.maximum for rule in rules)) if bound is not None
    ]
    return bool(lows and highs) and max(lows) > min(highs)


def _present(target: TargetBounds | None) -> _State:
    if target is None:
        return _State(_UNKNOWN, _UNKNOWN)
    minimum = _DEFAULT_MINIMUM if target.minimum is None else target.minimum
    return _State(_Bound(minimum, None), _Bound(target.maximum, None))


class _Simulation:
    """Simulates rules: the present state and the coming events."""

    def __init__(self, rules: list[ActiveRule], target: TargetBounds | None, until: datetime) -> None:
        self._rules = rules
        self._until = until
        self._state = _present(target)
        self._events: list[_Event] = []

    def run(self, now: datetime) -> Iterator[BoundsConflict]:
        """Yields the conflicts after `now`, at most one for each rule."""
        reported: set[str] = set()
        self._open_windows(now)
        for index, rule in enumerate(self._rules):
            self._schedule(index, rule.timetable.next(now, self._until))
        left = MAX_EVENTS
        while self._events and left > 0:
            instant = self._events[0].instant
            due = self._due(instant)
            left -= len(due)
            previous = self._state
            closed = self._close_windows(instant)
            fired = [event.rule for event in due if not event.closes]
            self._fire(fired, instant)
            if _is_crossed(self._state):
                conflict = self._conflict(previous, closed, fired, instant)
                # Admission will refuse the update, so the bounds stay.
                self._state = previous
                if conflict is not None and conflict.rule.label not in reported:
                    reported.add(conflict.rule.label)
                    yield conflict
            # Rules with the same timetable always fire together, so they count as one.
            alone = len({self._rules[index].timetable for index in fired}) == 1
            for index in fired:
                self._schedule(index, self._next_fire(index, instant, alone=alone))

    def _open_windows(self, now: datetime) -> None:
        """Opens the windows of fires before `now`, with unknown values over an unknown baseline.

        Whether they are open is unknown too: a rule does not say since when it exists.
        """
        found = []
        for index, rule in enumerate(self._rules):
            duration = rule.timetable.duration
            fired = None if duration is None else rule.timetable.previous(now)
            if fired is not None and duration is not None and elapsed(fired, now) < duration:
                found.append((fired.astimezone(UTC), index, later(fired, duration).astimezone(UTC)))
        low, high, windows = self._state
        for _, index, closes in sorted(found):
            rule = self._rules[index]
            minimum = None if rule.minimum is None else _UNKNOWN
            maximum = None if rule.maximum is None else _UNKNOWN
            low, high = minimum or low, maximum or high
            windows = (*windows, _OpenWindow(index, closes, minimum, maximum))
            heapq.heappush(self._events, _Event(closes, index, closes=True))
        self._state = _State(low, high, windows)

    def _schedule(self, index: int, fire: datetime | None) -> None:
        if fire is not None:
            heapq.heappush(self._events, _Event(fire.astimezone(UTC), index, closes=False))

    def _due(self, instant: datetime) -> list[_Event]:
        """Removes and returns the events of an instant, by rule."""
        due = []
        while self._events and self._events[0].instant == instant:
            due.append(heapq.heappop(self._events))
        return due

    def _close_windows(self, instant: datetime) -> list[int]:
        """Closes the windows whose end has come, also those whose end was refused before."""
        windows = self._state.windows
        closed = [window.rule for window in windows if window.closes <= instant]
        if closed:
            left = tuple(window for window in windows if window.closes > instant)
            self._state = self._state._replace(windows=left)
        return closed

    def _fire(self, fired: list[int], instant: datetime) -> None:
        """Applies the rules without a window to the baseline, then opens the windows of the others."""
        low, high, windows = self._state
        for index in fired:
            rule = self._rules[index]
            minimum = None if rule.minimum is None else _Bound(rule.minimum, rule)
            maximum = None if rule.maximum is None else _Bound(rule.maximum, rule)
            duration = rule.timetable.duration
            if duration is None:
                low, high = minimum or low, maximum or high
                continue
            closes = later(instant, duration)
            heapq.heappush(self._events, _Event(closes, index, closes=True))
            others = tuple(window for window in windows if window.rule != index)
            windows = (*others, _OpenWindow(index, closes, minimum, maximum))
        self._state = _State(low, high, windows)

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

    def _conflict(
        self, previous: _State, closed: list[int], fired: list[int], instant: datetime
    ) -> BoundsConflict | None:
        """Returns the conflict with the rule that caused it: of the fires the last, else of the closings."""
        low, high = self._state.bounds()
        for index in reversed(fired):
            rule = self._rules[index]
            if rule is low.setter or rule is high.setter:
                return _reported(rule, instant, low, high, sets_low=low.setter is rule)
        before, _ = previous.bounds()
        for index in reversed(closed):
            rule = self._rules[index]
            if rule.minimum is not None and low != before:
                return _reported(rule, instant, low, high, sets_low=True, closes=True)
            if rule.maximum is not None:
                return _reported(rule, instant, low, high, sets_low=False, closes=True)
        return None


def _is_crossed(state: _State) -> bool:
    low, high = state.bounds()
    return low.value is not None and high.value is not None and low.value > high.value


def _reported(
    rule: ActiveRule, instant: datetime, low: _Bound, high: _Bound, *, sets_low: bool, closes: bool = False
) -> BoundsConflict:
    assert low.value is not None
    assert high.value is not None
    at = instant.astimezone(rule.timetable.zone)
    if sets_low:
        return BoundsConflict(
            rule, at, closes, "minReplicas", low.value, "maxReplicas", high.value, high.setter
        )
    return BoundsConflict(rule, at, closes, "maxReplicas", high.value, "minReplicas", low.value, low.setter)
