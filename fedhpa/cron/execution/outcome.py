"""The outcome of a plan: the states after its write succeeded or failed, and what to write after a refusal.

A hub that refuses a write does not say which of its events is wrong. The second plan leaves out all events
that failed before. The next ones leave out the events that gave the written fields their values, first one of
them, then two, and so on, until a write is admitted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.hold import Hold, HoldRequest
from fedhpa.api.times import format_time
from fedhpa.cron.execution.due import next_time
from fedhpa.cron.execution.held import held_events, with_held
from fedhpa.cron.execution.model import (
    EXECUTION,
    CronPlan,
    Execution,
    Failed,
    Key,
    Missed,
    Note,
    ObservedTarget,
    OpenWindow,
    ScheduledObject,
    States,
    Succeeded,
    WindowRecord,
    WriteCause,
    cause_of_execution,
    cause_of_window,
)
from fedhpa.cron.execution.planning import plan

# Records of missed executions that a rule keeps. The oldest ones become one record.
MAX_MISSED: Final = 10
# A message may quote the answer of an API server. This many characters are kept.
MAX_MESSAGE: Final = 1024


class Settled(NamedTuple):
    """The outcome of a write, to store: the state of each rule by object and name, and the record of windows.

    `failed` are the executions that will be tried again.
    """

    states: States
    record: WindowRecord | None
    notes: list[Note]
    failed: tuple[Execution, ...]


def settle(
    plan: CronPlan, now: float, error: str = "", refusals: Mapping[WriteCause, str] | None = None
) -> Settled:
    """Returns the statuses after a plan was carried out at `now`. `error` says why its write failed.

    `refusals` says why the hub refused the events that the plan leaves out.
    """
    error = plan.error or error
    settler = _Settler(plan, now, error[:MAX_MESSAGE])
    settler.skip()
    settler.settle_invalid()
    settler.settle_applied()
    settler.settle_left_out(refusals or {})
    settler.settle_ends(refusals or {})
    if not error:
        settler.note_closed()
    record = settler.record(plan.record if not error else (plan.pending or plan.record))
    failed = tuple(applied.execution for applied in plan.applied) if error else ()
    return Settled(settler.states, record, settler.notes, (*failed, *_refused(plan)))


def _refused(plan: CronPlan) -> list[Execution]:
    """Returns the executions that a plan leaves out because the hub refused them."""
    return [one for one in plan.left_out if cause_of_execution(one) not in plan.held]


class _Settler:
    """Builds the new states of one plan."""

    def __init__(self, plan: CronPlan, now: float, error: str) -> None:
        self._plan = plan
        self._now = now
        self._error = error
        self.states: States = {name: dict(rules) for name, rules in plan.states.items()}
        self.notes = list(plan.notes)
        self._not_ended: set[Key] = set()

    def skip(self) -> None:
        """Records the executions that are never applied, and moves the watermarks past them."""
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
        """Records a failure for each execution that sets nothing. Only an edit of its rule helps."""
        for execution in self._plan.invalid:
            self._fail(execution, execution.rule.problem)
            self._handled(execution)

    def settle_applied(self) -> None:
        """Records the result of the write for each execution that it applies."""
        for execution, values, window in self._plan.applied:
            if self._error:
                self._fail(execution, self._error)
                continue
            states, rule = self.states[execution.object], execution.rule
            done = Succeeded(execution.at, self._now, values)
            kept = (done, *states[rule.name].successes)[: rule.successes_kept]
            states[rule.name] = msgspec.structs.replace(states[rule.name], successes=kept)
            self._handled(execution)
            until = "" if window is None else f" until {format_time(window.closes)}"
            text = f"rule {rule.name}, due {format_time(execution.at)}: set {shown_values(values)}{until}"
            self.notes.append(Note(execution.object, "RuleApplied", text, warning=False))

    def settle_left_out(self, refusals: Mapping[WriteCause, str]) -> None:
        """Records a failure for each execution that was left out because the hub refused it."""
        for execution in _refused(self._plan):
            self._fail(execution, refusals.get(cause_of_execution(execution), "")[:MAX_MESSAGE])

    def settle_ends(self, refusals: Mapping[WriteCause, str]) -> None:
        """Records which windows could not end. Their rules are not ready until they do."""
        plan = self._plan
        still_open = () if plan.record is None else plan.record.open
        failed = [
            (window, refusals.get(cause, ""))
            for window in plan.kept
            if (cause := cause_of_window(window)) not in plan.held
        ]
        if self._error:
            ending = [window for window in still_open if window.closes <= self._now]
            failed += [(window, self._error) for window in (*plan.closed, *plan.ending, *ending)]
        for window, message in failed:
            self._fail_end(window, message)
        self._not_ended = {window.key for window, _ in failed}
        for window in (*still_open, *plan.closed):
            if window.key not in self._not_ended:
                self._forget_failed_end(window)

    def record(self, found: WindowRecord | None) -> WindowRecord | None:
        """Returns the record of windows with the time since which the end of a window is tried in vain."""
        if found is None:
            return None
        windows = tuple(
            window
            if (window.ending is not None) == (window.key in self._not_ended)
            else msgspec.structs.replace(window, ending=self._now if window.key in self._not_ended else None)
            for window in found.open
        )
        return msgspec.structs.replace(found, open=windows)

    def _fail_end(self, window: OpenWindow, message: str) -> None:
        """Notes once that a window cannot end."""
        state = self.states.get(window.object, {}).get(window.rule)
        if state is None:
            return
        text = f"its window cannot end: {message}"
        reported = any(each.scheduled == window.opened for each in state.failing)
        failure = Failed(window.opened, self._now, text[:MAX_MESSAGE])
        failing = (*_others(state.failing, window.opened), failure)
        self.states[window.object][window.rule] = msgspec.structs.replace(state, failing=failing)
        if not reported:
            text = f"rule {window.rule}, due {format_time(window.opened)}: {text}"
            self.notes.append(Note(window.object, "WindowNotClosed", text[:MAX_MESSAGE]))

    def _forget_failed_end(self, window: OpenWindow) -> None:
        state = self.states.get(window.object, {}).get(window.rule)
        if state is None or state.handled_until is None or state.handled_until < window.opened:
            return
        failing = _others(state.failing, window.opened)
        self.states[window.object][window.rule] = msgspec.structs.replace(state, failing=failing)

    def note_closed(self) -> None:
        """Notes the windows that ended and whose values returned."""
        reported = {(note.object, note.reason) for note in self._plan.notes}
        for window in self._plan.closed:
            if not reported & {(window.object, "NotRestored"), (window.object, "WindowOverridden")}:
                text = f"rule {window.rule}: the window of {format_time(window.opened)} is closed"
                self.notes.append(Note(window.object, "WindowClosed", text, warning=False))

    def _fail(self, execution: Execution, message: str) -> None:
        """Records one failure for an execution, however often it is tried."""
        name, rule = execution.object, execution.rule
        state = self.states[name][rule.name]
        known = (*state.failures, *state.failing)
        earlier = next((entry for entry in known if entry.scheduled == execution.at), None)
        failure = Failed(execution.at, self._now if earlier is None else earlier.executed, message)
        others = tuple(entry for entry in state.failures if entry.scheduled != execution.at)
        kept = (failure, *others)[: rule.failures_kept]
        failing = (*_others(state.failing, execution.at), failure)
        self.states[name][rule.name] = msgspec.structs.replace(state, failures=kept, failing=failing)
        if earlier is None:
            text = f"rule {rule.name}, due {format_time(execution.at)}: {message}"
            self.notes.append(Note(name, "ScaleFailed", text[:MAX_MESSAGE]))

    def _handled(self, execution: Execution) -> None:
        state = self.states[execution.object][execution.rule.name]
        mark = max(state.handled_until or 0.0, execution.at)
        failing = _others(state.failing, execution.at)
        handled = msgspec.structs.replace(state, handled_until=mark, failing=failing)
        self.states[execution.object][execution.rule.name] = handled
        self._advance(execution.object, execution.rule.name)

    def _advance(self, name: str, rule_name: str) -> None:
        """Moves the next execution of a rule to the first one after its watermark."""
        state = self.states[name][rule_name]
        rule = self._plan.rules[name, rule_name]
        assert state.handled_until is not None
        newest, coming = self._plan.following.get((name, rule_name), (None, None))
        if newest != state.handled_until:
            coming = next_time(rule, state.handled_until)
        self.states[name][rule_name] = msgspec.structs.replace(state, next_execution=coming)


def shown_values(values: dict[str, int]) -> str:
    """Returns values for people: `minReplicas 3, maxReplicas 9`."""
    return ", ".join(f"{field} {value}" for field, value in values.items())


def _others(failing: tuple[Failed, ...], scheduled: float) -> tuple[Failed, ...]:
    return tuple(each for each in failing if each.scheduled != scheduled)


def _missed_text(rule: str, missed: Missed) -> str:
    if missed.count == 1:
        return f"rule {rule}: the execution of {format_time(missed.first)} is missed: {missed.message}"
    span = f"{format_time(missed.first)} to {format_time(missed.last)}"
    return f"rule {rule}: {missed.count} executions of {span} are missed: {missed.message}"


def _bounded(missed: tuple[Missed, ...]) -> tuple[Missed, ...]:
    """Returns at most MAX_MISSED records, newest first. The oldest ones become one."""
    if len(missed) <= MAX_MISSED:
        return missed
    kept, old = missed[: MAX_MISSED - 1], missed[MAX_MISSED - 1 :]
    total = sum(each.count for each in old)
    return (
        *kept,
        Missed(min(each.first for each in old), max(each.last for each in old), total, "earlier executions"),
    )


# People read conditions, so they name only so many events.
_MAX_NAMED: Final = 3


class Waiting(NamedTuple):
    """The events of one object that wait: since when the oldest one is due, and a text for people."""

    due: float
    text: str


def waiting_events(planned: CronPlan, now: float) -> dict[str, Waiting]:
    """Returns what waits for the end of a hold, by object."""
    closes = {cause_of_window(window): window.closes for window in planned.kept}
    events: dict[str, list[tuple[float, str, Hold]]] = {}
    for cause, hold in planned.held.items():
        if cause.kind == EXECUTION:
            due, what = cause.at, f"rule {cause.rule}, due {format_time(cause.at)}"
        else:
            due = min(closes.get(cause, now), now)
            what = f"the end of the window of rule {cause.rule}, due {format_time(due // 1)}"
        events.setdefault(cause.object, []).append((due, what, hold))
    return {name: _waiting(sorted(found, key=lambda one: one[:2])) for name, found in events.items()}


def _waiting(events: Sequence[tuple[float, str, Hold]]) -> Waiting:
    named = ", ".join(what for _, what, _ in events[:_MAX_NAMED])
    more = f" and {len(events) - _MAX_NAMED} more" if len(events) > _MAX_NAMED else ""
    return Waiting(events[0][0], f"{named}{more} waits for the end of a hold: {events[0][2]}")


def next_look(held: Mapping[WriteCause, Hold], now: float, period: float) -> float:
    """Returns when to look for the end of a hold again, in POSIX seconds: its end, or `period` from now."""
    ends = [hold.until for hold in held.values() if hold.until is not None]
    return min([now + period, *ends])


# Plans that are tried at one instant. A target has two fields at most, so few events can be at fault.
MAX_ATTEMPTS: Final = 16


class Attempts:
    """The plans to try, one after another. `plan` is the present one; `refusals` are for `settle`.

    `holds` are those of namespaces, the narrowest first.
    """

    def __init__(
        self,
        objects: Sequence[ScheduledObject],
        record: WindowRecord | None,
        target: ObservedTarget,
        now: float,
        holds: Sequence[HoldRequest] = (),
    ) -> None:
        self._objects = objects
        self._record = record
        self._target = target
        self._now = now
        self._holds = holds
        self._left = MAX_ATTEMPTS
        self._left_out: frozenset[WriteCause] = frozenset()
        self._coming: deque[frozenset[WriteCause]] = deque()
        self._seen: set[frozenset[WriteCause]] = {self._left_out}
        # The first events without which nothing is left to write.
        self._nothing: frozenset[WriteCause] = frozenset()
        self._excluded: frozenset[WriteCause] = frozenset()
        self.refusals: dict[WriteCause, str] = {}
        self.plan = self._without(self._left_out)

    def exclude(self, causes: Collection[WriteCause], error: str) -> bool:
        """Leaves out events that cannot act because of `error`, and sets the next plan.

        Returns False if they are left out already.
        """
        if self._excluded.issuperset(causes):
            return False
        self.refusals |= dict.fromkeys(causes, error)
        self._excluded |= frozenset(causes)
        self.plan = self._without(self._left_out)
        return True

    def refused(self, error: str) -> bool:
        """Notes that the hub refused the write of `plan`, and sets the next plan.

        Returns False if there is none. The present plan has then failed with `error`.
        """
        for cause in (*self.plan.causes, *self.plan.failed_before):
            self.refusals.setdefault(cause, error)
        if not self._left_out:
            self._push(frozenset(self.plan.failed_before))
        for cause in self.plan.causes:
            self._push(self._left_out | {cause})
        while self._coming and self._left > 0:
            self._left -= 1
            left_out = self._coming.popleft() if self._left else frozenset(self.refusals)
            if self._choose(left_out, accepts_nothing=self._left == 0):
                return True
        left_out, self._nothing = self._nothing, frozenset()
        return bool(left_out) and self._choose(left_out, accepts_nothing=True)

    def _choose(self, left_out: frozenset[WriteCause], *, accepts_nothing: bool) -> bool:
        """Makes the plan without some events the present one, if it still writes something."""
        found = self._without(left_out)
        if not found.write and not accepts_nothing:
            self._nothing = self._nothing or left_out
            return False
        self._left_out, self.plan = left_out, found
        return True

    def _without(self, left_out: frozenset[WriteCause]) -> CronPlan:
        """Returns the plan without some events, and without those that a hold then keeps waiting."""
        left_out |= self._excluded
        held: dict[WriteCause, Hold] = {}
        asked = self._holds or self._target.hold or any(each.hold for each in self._objects)
        while asked:
            found = plan(self._objects, self._record, self._target, self._now, left_out | held.keys())
            more = held_events(self._objects, self._target, found, self._now, self._holds)
            # A write that no event asks for any more, such as one that was interrupted, is not held twice.
            if more.keys() <= held.keys():
                return with_held(found, held)
            held |= more
        return plan(self._objects, self._record, self._target, self._now, left_out)

    def _push(self, left_out: frozenset[WriteCause]) -> None:
        if left_out not in self._seen:
            self._seen.add(left_out)
            self._coming.append(left_out)
