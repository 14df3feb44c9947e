"""Rules that set the bounds of a FederatedHPA so that the lower one is above the upper one.

A rule may set one bound alone, so whether it crosses the other depends on what was there before and on what
other rules set: the rules are played through, fire by fire, a bounded number of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from fedhpa.cron.forecast.rules import Plan
from fedhpa.cron.timetable import later

# How many plans are played, and how many of their fires and ends of windows.
_MAX_PLAYED: Final = 100
MAX_EVENTS: Final = 200
# What a FederatedHPA without minReplicas has.
_DEFAULT_MINIMUM: Final = 1


class TargetBounds(msgspec.Struct, frozen=True):
    """The present bounds of the FederatedHPA that the rules change, as written (None: not given)."""

    minimum: int | None = None
    maximum: int | None = None


class Crossing(NamedTuple):
    """The first time that a plan leaves the lower bound above the upper one.

    `bound` ("minReplicas") is what it sets to `value`, or, with `closes`, what is `value` again as its window
    ends, at `at`; `other` is the opposite bound, whose value `against` is present in the target, or was set
    by `setter`.
    """

    plan: Plan
    at: datetime
    closes: bool
    bound: str
    value: int
    other: str
    against: int
    setter: Plan | None

    def __str__(self) -> str:
        does = (
            f"ends its window at {self.at.isoformat()}, and {self.bound} is {self.value} again"
            if self.closes
            else f"fires at {self.at.isoformat()} and sets {self.bound} {self.value}"
        )
        relation = "above" if self.bound == "minReplicas" else "below"
        setter = "that the target has now" if self.setter is None else f"that {self.setter} sets"
        return (
            f"{self.plan} {does}, {relation} the {self.other} {self.against} {setter}; that is refused then"
        )


class _Bound(NamedTuple):
    """A bound that holds, and who set it (None: it is present in the target)."""

    value: int | None
    setter: Plan | None


class _Event(NamedTuple):
    """A fire, or the end of a window, in the order in which they come; at one instant, by rule."""

    instant: datetime
    rule: int
    closes: bool


_State = tuple[_Bound, _Bound]


def crossings(
    plans: list[Plan], target: TargetBounds | None, now: datetime, until: datetime
) -> Iterator[Crossing]:
    """The first crossing of each plan after `now` and not after `until`, in the order of time."""
    if not _can_cross(plans, target):
        return
    yield from _Play(plans[:_MAX_PLAYED], target, until).run(now)


def _can_cross(plans: list[Plan], target: TargetBounds | None) -> bool:
    """Whether any lower bound is above any upper one: if not, no order of events leads there."""
    state = _present(target)
    lows = [bound for bound in (state[0].value, *(plan.minimum for plan in plans)) if bound is not None]
    highs = [bound for bound in (state[1].value, *(plan.maximum for plan in plans)) if bound is not None]
    return bool(lows and highs) and max(lows) > min(highs)


def _present(target: TargetBounds | None) -> _State:
    if target is None:
        return _Bound(None, None), _Bound(None, None)
    minimum = _DEFAULT_MINIMUM if target.minimum is None else target.minimum
    return _Bound(minimum, None), _Bound(target.maximum, None)


class _Play:
    """Plays plans through: what holds, what held before each open window, and what comes next."""

    def __init__(self, plans: list[Plan], target: TargetBounds | None, until: datetime) -> None:
        self._plans = plans
        self._until = until
        self._state = _present(target)
        self._before: dict[int, _State] = {}
        self._closing: dict[int, datetime] = {}
        self._events: list[_Event] = []

    def run(self, now: datetime) -> Iterator[Crossing]:
        """Plays on from `now`; a plan is named once."""
        named: set[str] = set()
        for index, plan in enumerate(self._plans):
            self._expect(index, plan.timetable.next(now, self._until))
        left = MAX_EVENTS
        while self._events and left > 0:
            instant = self._events[0].instant
            held = self._state
            due = self._due(instant)
            left -= len(due)
            happened = [event for event in due if self._happens(event)]
            crossing = self._crossing(happened, instant)
            if crossing is not None:
                # Such an update is refused: what held goes on.
                self._state = held
                if crossing.plan.shown not in named:
                    named.add(crossing.plan.shown)
                    yield crossing
            fired = [event.rule for event in happened if not event.closes]
            # Rules of one timetable always fire together, and are as one.
            alone = len({self._plans[index].timetable for index in fired}) == 1
            for index in fired:
                self._expect(index, self._after(index, instant, alone=alone))

    def _expect(self, index: int, fire: datetime | None) -> None:
        if fire is not None:
            heapq.heappush(self._events, _Event(fire.astimezone(UTC), index, closes=False))

    def _due(self, instant: datetime) -> list[_Event]:
        """Takes the events of an instant: ends of windows first, then fires, each by rule."""
        due = []
        while self._events and self._events[0].instant == instant:
            due.append(heapq.heappop(self._events))
        return sorted(due, key=lambda event: (not event.closes, event.rule))

    def _happens(self, event: _Event) -> bool:
        """Changes what holds; says whether anything did."""
        plan = self._plans[event.rule]
        if event.closes:
            # A window that was renewed closes later.
            if self._closing.get(event.rule) != event.instant:
                return False
            self._return_before(event.rule)
            return True
        duration = plan.timetable.duration
        if duration is not None:
            if event.rule not in self._closing:
                self._before[event.rule] = self._state
            closes = later(event.instant, duration)
            self._closing[event.rule] = closes
            heapq.heappush(self._events, _Event(closes, event.rule, closes=True))
        low, high = self._state
        if plan.minimum is not None:
            low = _Bound(plan.minimum, plan)
        if plan.maximum is not None:
            high = _Bound(plan.maximum, plan)
        self._state = (low, high)
        return True

    def _return_before(self, index: int) -> None:
        """Ends a window: what it set, and nobody else since, becomes again what was before."""
        del self._closing[index]
        plan, before = self._plans[index], self._before.pop(index)
        low, high = self._state
        self._state = (
            before[0] if low.setter is plan else low,
            before[1] if high.setter is plan else high,
        )

    def _after(self, index: int, instant: datetime, *, alone: bool) -> datetime | None:
        """The next fire that may change something: until something else happens, firing again does not."""
        plan = self._plans[index]
        if plan.timetable.duration is not None or not alone:
            return plan.timetable.next(instant, self._until)
        if not self._events:
            return None
        return plan.timetable.at_or_after(self._events[0].instant, self._until)

    def _crossing(self, happened: list[_Event], instant: datetime) -> Crossing | None:
        low, high = self._state
        if low.value is None or high.value is None or low.value <= high.value:
            return None
        for event in reversed(happened):
            plan = self._plans[event.rule]
            at = instant.astimezone(plan.timetable.zone)
            if event.closes:
                sets_low = plan.minimum is not None
            elif low.setter is plan or high.setter is plan:
                sets_low = low.setter is plan
            else:
                continue
            bounds = ("minReplicas", low.value, "maxReplicas", high.value, high.setter)
            if not sets_low:
                bounds = ("maxReplicas", high.value, "minReplicas", low.value, low.setter)
            return Crossing(plan, at, event.closes, *bounds)
        return None
