"""The outcome of a plan: the states after its write succeeded or failed, and what to write after a refusal.

A hub that refuses a write does not say which of its events is wrong. The second plan leaves out all events
that failed before. The next ones leave out the events that gave the written fields their values, first one of
them, then two, and so on, until a write is admitted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.times import format_time
from fedhpa.cron.execution.due import next_fire
from fedhpa.cron.execution.model import (
    Cause,
    Execution,
    Failure,
    Fire,
    Missed,
    Note,
    OpenWindow,
    Plan,
    ScheduledObject,
    States,
    Target,
    WindowRecord,
    cause_of_fire,
    cause_of_window,
)
from fedhpa.cron.execution.planning import plan

# Records of missed fires that a rule keeps. The oldest ones become one record.
MAX_MISSED: Final = 10
# A message may hold an answer of an API server. This many characters are kept.
MAX_MESSAGE: Final = 1024


class Settled(NamedTuple):
    """The outcome of a write, to store: the state of each rule by object and name, and the record of windows.

    `failed` are the fires that will be tried again.
    """

    states: States
    record: WindowRecord | None
    notes: list[Note]
    failed: tuple[Fire, ...]


def settle(plan: Plan, now: float, error: str = "", refusals: Mapping[Cause, str] | None = None) -> Settled:
    """Returns the statuses after a plan was carried out at `now`. `error` says why its write failed.

    `refusals` says why the hub refused the events that the plan leaves out.
    """
    error = plan.error or error
    settler = _Settler(plan, now, error[:MAX_MESSAGE])
    settler.skip()
    settler.settle_invalid()
    settler.settle_applied()
    settler.settle_held(refusals or {})
    settler.settle_ends(refusals or {})
    if not error:
        settler.note_closed()
    record = plan.record if not error else (plan.pending or plan.record)
    failed = tuple(applied.fire for applied in plan.applied) if error else ()
    return Settled(settler.states, record, settler.notes, (*failed, *plan.held))


class _Settler:
    """Builds the new states of one plan."""

    def __init__(self, plan: Plan, now: float, error: str) -> None:
        self._plan = plan
        self._now = now
        self._error = error
        self.states: States = {name: dict(rules) for name, rules in plan.states.items()}
        self.notes = list(plan.notes)

    def skip(self) -> None:
        """Records the fires that are never applied, and moves the watermarks past them."""
        for name, rule, missed in self._plan.skipped:
            state = self.states[name][rule]
            self.states[name][rule] = msgspec.structs.replace(
                state,
                missed=_bounded((missed, *state.missed)),
                handled_until=max(state.handled_until or 0.0, missed.last),
                failing=tuple(
                    each for each in state.failing if not missed.first <= each.scheduled <= missed.last
                ),
            )
            self.notes.append(Note(name, "RuleMissed", _missed_text(rule, missed)))
        for name, rule, _ in self._plan.skipped:
            self._advance(name, rule)

    def settle_invalid(self) -> None:
        """Records a failure for each fire of a rule that sets nothing. Only an edit of the rule helps."""
        for fire in self._plan.invalid:
            self._fail(fire, fire.rule.problem)
            self._handled(fire)

    def settle_applied(self) -> None:
        """Records the result of the write for each fire that it applies."""
        for fire, values, window in self._plan.applied:
            if self._error:
                self._fail(fire, self._error)
                continue
            state = self.states[fire.object][fire.rule.name]
            done = Execution(fire.at, self._now, values)
            kept = (done, *state.successes)[: fire.rule.successes_kept]
            self.states[fire.object][fire.rule.name] = msgspec.structs.replace(state, successes=kept)
            self._handled(fire)
            until = "" if window is None else f" until {format_time(window.closes)}"
            text = f"rule {fire.rule.name}, due {format_time(fire.at)}: set {shown_values(values)}{until}"
            self.notes.append(Note(fire.object, "RuleApplied", text, warning=False))

    def settle_held(self, refusals: Mapping[Cause, str]) -> None:
        """Records a failure for each fire that was left out because the hub refused it."""
        for fire in self._plan.held:
            self._fail(fire, refusals.get(cause_of_fire(fire), "")[:MAX_MESSAGE])

    def settle_ends(self, refusals: Mapping[Cause, str]) -> None:
        """Records which windows could not end. Their rules are not ready until they do."""
        plan = self._plan
        still_open = () if plan.record is None else plan.record.open
        failed = [(window, refusals.get(cause_of_window(window), "")) for window in plan.kept]
        if self._error:
            ending = [window for window in still_open if window.closes <= self._now]
            failed += [(window, self._error) for window in (*plan.closed, *ending)]
        for window, message in failed:
            self._fail_end(window, message)
        names = {cause_of_window(window) for window, _ in failed}
        for window in still_open:
            if cause_of_window(window) not in names:
                self._forget_failed_end(window)

    def _fail_end(self, window: OpenWindow, message: str) -> None:
        """Notes once that a window cannot end."""
        state = self.states.get(window.object, {}).get(window.rule)
        if state is None:
            return
        text = f"its window cannot end: {message}"
        told = any(each.scheduled == window.opened for each in state.failing)
        failure = Failure(window.opened, self._now, text[:MAX_MESSAGE])
        failing = (*_others(state.failing, window.opened), failure)
        self.states[window.object][window.rule] = msgspec.structs.replace(state, failing=failing)
        if not told:
            text = f"rule {window.rule}, due {format_time(window.opened)}: {text}"
            self.notes.append(Note(window.object, "WindowNotClosed", text[:MAX_MESSAGE]))

    def _forget_failed_end(self, window: OpenWindow) -> None:
        state = self.states.get(window.object, {}).get(window.rule)
        if state is None or state.handled_until is None or state.handled_until < window.opened:
            return
        failing = _others(state.failing, window.opened)
        self.states[window.object][window.rule] = msgspec.structs.replace(state, failing=failing)

    def note_closed(self) -> None:
        """Tells of the windows that ended and whose values returned."""
        told = {(note.object, note.reason) for note in self._plan.notes}
        for window in self._plan.closed:
            if not told & {(window.object, "NotRestored"), (window.object, "WindowOverridden")}:
                text = f"rule {window.rule}: the window of {format_time(window.opened)} is closed"
                self.notes.append(Note(window.object, "WindowClosed", text, warning=False))

    def _fail(self, fire: Fire, message: str) -> None:
        """Records one failure for a fire, however often it is tried."""
        name, rule = fire.object, fire.rule
        state = self.states[name][rule.name]
        known = (*state.failures, *state.failing)
        earlier = next((entry for entry in known if entry.scheduled == fire.at), None)
        failure = Failure(fire.at, self._now if earlier is None else earlier.executed, message)
        others = tuple(entry for entry in state.failures if entry.scheduled != fire.at)
        kept = (failure, *others)[: rule.failures_kept]
        failing = (*_others(state.failing, fire.at), failure)
        self.states[name][rule.name] = msgspec.structs.replace(state, failures=kept, failing=failing)
        if earlier is None:
            text = f"rule {rule.name}, due {format_time(fire.at)}: {message}"
            self.notes.append(Note(name, "ScaleFailed", text[:MAX_MESSAGE]))

    def _handled(self, fire: Fire) -> None:
        state = self.states[fire.object][fire.rule.name]
        mark = max(state.handled_until or 0.0, fire.at)
        failing = _others(state.failing, fire.at)
        handled = msgspec.structs.replace(state, handled_until=mark, failing=failing)
        self.states[fire.object][fire.rule.name] = handled
        self._advance(fire.object, fire.rule.name)

    def _advance(self, name: str, rule_name: str) -> None:
        """Moves the next execution of a rule to its first fire after the watermark."""
        state = self.states[name][rule_name]
        rule = self._plan.rules[name, rule_name]
        assert state.handled_until is not None
        coming = next_fire(rule, state.handled_until)
        self.states[name][rule_name] = msgspec.structs.replace(state, next_execution=coming)


def shown_values(values: dict[str, int]) -> str:
    """Returns values for people: `minReplicas 3, maxReplicas 9`."""
    return ", ".join(f"{field} {value}" for field, value in values.items())


def _others(failing: tuple[Failure, ...], scheduled: float) -> tuple[Failure, ...]:
    return tuple(each for each in failing if each.scheduled != scheduled)


def _missed_text(rule: str, missed: Missed) -> str:
    if missed.count == 1:
        return f"rule {rule}: the fire of {format_time(missed.first)} is missed: {missed.message}"
    span = f"{format_time(missed.first)} to {format_time(missed.last)}"
    return f"rule {rule}: {missed.count} fires of {span} are missed: {missed.message}"


def _bounded(missed: tuple[Missed, ...]) -> tuple[Missed, ...]:
    """Returns at most MAX_MISSED records, newest first. The oldest ones become one."""
    if len(missed) <= MAX_MISSED:
        return missed
    kept, old = missed[: MAX_MISSED - 1], missed[MAX_MISSED - 1 :]
    total = sum(each.count for each in old)
    return (
        *kept,
        Missed(min(each.first for each in old), max(each.last for each in old), total, "earlier fires"),
    )


# Plans that are tried at one instant. A target has two fields at most, so few events can be at fault.
MAX_ATTEMPTS: Final = 16


class Attempts:
    """The plans to try, one after another. `plan` is the present one; `refusals` are for `settle`."""

    def __init__(
        self, objects: Sequence[ScheduledObject], record: WindowRecord | None, target: Target, now: float
    ) -> None:
        self._objects = objects
        self._record = record
        self._target = target
        self._now = now
        self._left = MAX_ATTEMPTS
        self._held: frozenset[Cause] = frozenset()
        self._coming: deque[frozenset[Cause]] = deque()
        self._seen: set[frozenset[Cause]] = {self._held}
        # The first events without which nothing is left to write.
        self._nothing: frozenset[Cause] = frozenset()
        self.refusals: dict[Cause, str] = {}
        self.plan = plan(objects, record, target, now)

    def refused(self, error: str) -> bool:
        """Notes that the hub refused the write of `plan`, and sets the next plan.

        Returns False if there is none. The present plan has then failed with `error`.
        """
        for cause in (*self.plan.causes, *self.plan.failed_before):
            self.refusals.setdefault(cause, error)
        if not self._held:
            self._push(frozenset(self.plan.failed_before))
        for cause in self.plan.causes:
            self._push(self._held | {cause})
        while self._coming and self._left > 0:
            self._left -= 1
            held = self._coming.popleft() if self._left else frozenset(self.refusals)
            if self._choose(held, accepts_nothing=self._left == 0):
                return True
        held, self._nothing = self._nothing, frozenset()
        return bool(held) and self._choose(held, accepts_nothing=True)

    def _choose(self, held: frozenset[Cause], *, accepts_nothing: bool) -> bool:
        """Makes the plan without some events the present one, if it still writes something."""
        found = self._without(held)
        if not found.write and not accepts_nothing:
            self._nothing = self._nothing or held
            return False
        self._held, self.plan = held, found
        return True

    def _without(self, held: frozenset[Cause]) -> Plan:
        return plan(self._objects, self._record, self._target, self._now, held)

    def _push(self, held: frozenset[Cause]) -> None:
        if held not in self._seen:
            self._seen.add(held)
            self._coming.append(held)
