"""The oracle of random histories: it visits every event in order, one execution after another.

It knows what the controller knows: the present objects, the windows that were opened, and up to where each
status says that a rule was handled. It shares no code with the plan but the calendar.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fedhpa.cron.execution.model import Rule, ScheduledObject, Values
from tests.property.cron.hub import BEGINNING

Key = tuple[str, str]
Order = tuple[float, str, int]


@dataclass
class Open:
    """A window. `left` are fields that a person changed since."""

    key: Key
    order: Order
    closes: float
    values: dict[str, int]
    left: set[str] = field(default_factory=set)


class Event(NamedTuple):
    """A closing (0), a plain execution (1) or an opening (2). Events sort by their first four fields."""

    at: float
    kind: int
    name: str
    place: int
    rule: Rule | None = None
    window: Open | None = None

    @property
    def fired(self) -> Order:
        return self.at, self.name, self.place


class Oracle:
    """The values that should hold, and how often each rule fired."""

    def __init__(self) -> None:
        self._base: Values = dict(BEGINNING)
        self._windows: dict[Key, Open] = {}
        self._marks: dict[Key, tuple[float, str]] = {}
        self._decided: dict[str, Order] = {}
        self._changed: Values = {}
        # The executions whose values were written. They are not written again.
        self._written: set[tuple[Key, float]] = set()
        self.fired: dict[Key, int] = defaultdict(int)

    @property
    def values(self) -> Values:
        """The values of the top window of each field, over the baseline."""
        effective = dict(self._base)
        for window in sorted(self._windows.values(), key=lambda each: each.order):
            effective |= window.values
        return effective | self._changed

    def person(self, name: str, value: int | None) -> None:
        """Somebody changes the target."""
        self._changed[name] = value

    def elsewhere(self, names: Collection[str]) -> None:
        """The rules of these objects were run for another target."""
        for key, (mark, _) in self._marks.items():
            if key[0] in names:
                self._marks[key] = (mark, "elsewhere")

    def advance(self, owners: list[ScheduledObject], now: float, stored: Collection[str]) -> None:
        """Applies all events up to an instant. `stored` are the objects whose status is stored then."""
        self._notice_person()
        self._notice_edits({owner.name: owner for owner in owners}, now)
        running = [owner for owner in owners if owner.present and owner.deleted is None]
        due = {
            (owner.name, rule.name): (rule, mark, self._times(rule, mark, now))
            for owner in running
            for rule in owner.rules
            for mark in [self._mark(owner, rule, now)]
        }
        self._apply(self._events(due, now), now)
        for owner in running:
            if owner.name in stored:
                self._store(owner, due)

    def _notice_person(self) -> None:
        for name, value in self._changed.items():
            covering = [window for window in self._windows.values() if name in window.values]
            top = max(covering, key=lambda each: each.order, default=None)
            if top is not None and top.values[name] == value:
                continue
            self._base[name] = value
            for window in covering:
                del window.values[name]
                window.left.add(name)
                if not window.values:
                    del self._windows[window.key]
        self._changed = {}

    def leave(self, owners: dict[str, ScheduledObject], now: float, tried: Mapping[Key, float]) -> None:
        """Ends the windows that somebody has tried to end for a minute, or for an hour on a former target.

        Their values stay.
        """
        effective = self.values
        for window in list(self._windows.values()):
            owner = owners.get(window.key[0])
            limit = 60 if owner is not None and owner.deleted is not None else 3600
            leaves = owner is None or owner.deleted is not None or not owner.present
            if leaves and now - tried.get(window.key, now) > limit:
                del self._windows[window.key]
                self._base |= {name: effective[name] for name in window.values if not self._covers(name)}

    def _notice_edits(self, owners: dict[str, ScheduledObject], now: float) -> None:
        for window in list(self._windows.values()):
            owner = owners.get(window.key[0])
            found = [] if owner is None else [rule for rule in owner.rules if rule.name == window.key[1]]
            if owner is None or owner.deleted is not None or not owner.present or not found:
                del self._windows[window.key]
                continue
            rule = found[0]
            left = {name: value for name, value in rule.values.items() if name not in window.left}
            opens = bool(self._times(rule, window.order[0] - 1, window.order[0]))
            if not opens or _length(rule) is None or not left:
                del self._windows[window.key]
                continue
            window.values = left
            window.closes = window.order[0] + (_length(rule) or 0)

    def _covers(self, name: str) -> bool:
        return any(name in window.values for window in self._windows.values())

    def _mark(self, owner: ScheduledObject, rule: Rule, now: float) -> float:
        """Returns the instant after which the executions of a rule are due."""
        assert owner.edited is not None
        if (owner.name, rule.name) not in self._marks:
            return owner.edited
        handled, known = self._marks[owner.name, rule.name]
        return handled if known == rule.hash else max(owner.edited, min(handled, now))

    @staticmethod
    def _times(rule: Rule, mark: float, now: float) -> list[float]:
        if rule.timetable is None or mark >= now:
            return []
        return list(rule.timetable.times(mark, now))

    def _events(self, due: dict[Key, tuple[Rule, float, list[float]]], now: float) -> list[Event]:
        events = [
            Event(window.closes, 0, window.key[0], 0, window=window)
            for window in self._windows.values()
            if window.closes <= now
        ]
        for key, (rule, _, times) in due.items():
            kind = 1 if _length(rule) is None else 2
            events += [Event(at, kind, key[0], rule.place, rule) for at in times]
        return sorted(events, key=lambda event: event[:4])

    def _apply(self, events: list[Event], now: float) -> None:
        """Applies events in order. Of the plain executions of a field only the last one counts."""
        for event in events:
            if event.kind == 1 and event.rule is not None:
                for name in event.rule.values:
                    self._decided[name] = max(self._decided.get(name, event.fired), event.fired)
        for event in events:
            if event.window is not None and self._windows.get(event.window.key) is event.window:
                del self._windows[event.window.key]
            elif event.rule is not None:
                self._execute(event, event.rule, now)

    def _execute(self, event: Event, rule: Rule, now: float) -> None:
        late = rule.max_delay is not None and now - event.at > rule.max_delay
        length = _length(rule)
        done = ((event.name, rule.name), event.at)
        if length is None:
            if done in self._written:
                return
            if not late:
                self._written.add(done)
            deciding = [name for name in rule.values if self._decided[name] == event.fired]
            self._base |= {name: rule.values[name] for name in deciding if not late}
            return
        key = (event.name, rule.name)
        window = self._windows.get(key)
        reopened = window is not None and window.order[0] == event.at
        if not late and not reopened and event.at + length > now:
            self._windows[key] = Open(key, event.fired, event.at + length, dict(rule.values))

    def _store(self, owner: ScheduledObject, due: dict[Key, tuple[Rule, float, list[float]]]) -> None:
        names = {rule.name for rule in owner.rules}
        for key in [key for key in self._marks if key[0] == owner.name and key[1] not in names]:
            del self._marks[key]
        for rule in owner.rules:
            _, mark, times = due[owner.name, rule.name]
            self.fired[owner.name, rule.name] += len(times)
            self._marks[owner.name, rule.name] = (max([mark, *times]), rule.hash)

    def forget(self, names: Collection[str]) -> None:
        """Drops objects that are gone."""
        for key in [key for key in self._marks if key[0] in names]:
            del self._marks[key]


def _length(rule: Rule) -> float | None:
    return None if rule.timetable is None else rule.timetable.duration
