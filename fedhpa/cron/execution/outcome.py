"""The outcome of a plan: the states after its write succeeded or failed, and what to write after a refusal.

A hub that refuses a write does not say which of its events is wrong. The second plan leaves out all events
that failed before. The next ones leave out the events that gave the written fields their values, first one of
them, then two, and so on, until a write is admitted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from fedhpa.api.default_values import MIN_REPLICAS
from fedhpa.api.hold import Hold, HoldRequest, hold_in_force
from fedhpa.api.times import format_time
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
    RuleState,
    ScheduledObject,
    States,
    Succeeded,
    WindowRecord,
    WriteCause,
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
    error = (plan.error or error)[:MAX_MESSAGE]
    settler = _Settler(plan, now, error)
    settler.skip()
    for execution in plan.invalid:
        # Only an edit of its rule helps.
        settler.fail(execution, execution.rule.problem)
        settler.handled(execution.key, execution.at)
    settler.settle_applied()
    refused = [one for one in plan.left_out if one.cause not in plan.held]
    for execution in refused:
        settler.fail(execution, (refusals or {}).get(execution.cause, "")[:MAX_MESSAGE])
    not_ended = settler.settle_ends(refusals or {})
    if not error:
        settler.note_closed()
    record = plan.record if not error else (plan.pending or plan.record)
    if record is not None:
        windows = tuple(_ending(window, now if window.key in not_ended else None) for window in record.open)
        record = msgspec.structs.replace(record, open=windows)
    failed = tuple(applied.execution for applied in plan.applied) if error else ()
    return Settled(settler.states, record, settler.notes, (*failed, *refused))


def _ending(window: OpenWindow, since: float | None) -> OpenWindow:
    """Returns a window with the time since which its end is tried in vain."""
    if (window.ending is None) == (since is None):
        return window
    return msgspec.structs.replace(window, ending=since)


class _Settler:
    """Builds the new states of one plan."""

    def __init__(self, plan: CronPlan, now: float, error: str) -> None:
        self._plan = plan
        self._now = now
        self._error = error
        self.states: States = {name: dict(rules) for name, rules in plan.states.items()}
        self.notes = list(plan.notes)

    def _change(self, key: Key, **changes: Any) -> None:
        name, rule = key
        self.states[name][rule] = msgspec.structs.replace(self.states[name][rule], **changes)

    def _note(self, key: Key, reason: str, text: str, *, warning: bool = True) -> None:
        self.notes.append(Note(key[0], reason, f"rule {key[1]}{text}"[:MAX_MESSAGE], warning))

    def skip(self) -> None:
        """Records the executions that are never applied, and moves the watermarks past them."""
        for name, rule, missed in self._plan.skipped:
            state = self.states[name][rule]
            failing = (each for each in state.failing if not missed.first <= each.scheduled <= missed.last)
            self._change((name, rule), missed=_bounded((missed, *state.missed)), failing=tuple(failing))
            self._note((name, rule), "RuleMissed", _missed_text(missed))
            self._advance((name, rule), missed.last)

    def settle_applied(self) -> None:
        """Records the result of the write for each execution that it applies."""
        for execution, values, window in self._plan.applied:
            if self._error:
                self.fail(execution, self._error)
                continue
            done = Succeeded(execution.at, self._now, values)
            state = self.states[execution.object][execution.rule.name]
            self._change(execution.key, successes=(done, *state.successes)[: execution.rule.successes_kept])
            self.handled(execution.key, execution.at)
            until = "" if window is None else f" until {format_time(window.closes)}"
            text = f", due {format_time(execution.at)}: set {shown_values(values)}{until}"
            self._note(execution.key, "RuleApplied", text, warning=False)

    def settle_ends(self, refusals: Mapping[WriteCause, str]) -> set[Key]:
        """Records and returns which windows could not end. Their rules are not ready until they do."""
        plan = self._plan
        still_open = () if plan.record is None else plan.record.open
        failed = {
            window.key: (window, refusals.get(cause, ""))
            for window in plan.kept
            if (cause := window.cause) not in plan.held
        }
        if self._error:
            overdue = (window for window in still_open if window.closes <= self._now)
            failed |= {each.key: (each, self._error) for each in (*plan.closed, *plan.ending, *overdue)}
        for window, message in failed.values():
            self._fail_end(window, f"its window cannot end: {message}")
        for window in (*still_open, *plan.closed):
            state = self.states.get(window.object, {}).get(window.rule, RuleState())
            if window.key not in failed and (state.handled_until or 0.0) >= window.opened:
                self._change(window.key, failing=_others(state.failing, window.opened))
        return set(failed)

    def _fail_end(self, window: OpenWindow, text: str) -> None:
        """Notes once that a window cannot end."""
        state = self.states.get(window.object, {}).get(window.rule)
        if state is None:
            return
        failure = Failed(window.opened, self._now, text[:MAX_MESSAGE])
        self._change(window.key, failing=(*_others(state.failing, window.opened), failure))
        if not any(each.scheduled == window.opened for each in state.failing):
            self._note(window.key, "WindowNotClosed", f", due {format_time(window.opened)}: {text}")

    def note_closed(self) -> None:
        """Notes the windows that ended and whose values returned."""
        reported = {(note.object, note.reason) for note in self._plan.notes}
        for window in self._plan.closed:
            if not reported & {(window.object, "NotRestored"), (window.object, "WindowOverridden")}:
                text = f": the window of {format_time(window.opened)} is closed"
                self._note(window.key, "WindowClosed", text, warning=False)

    def fail(self, execution: Execution, message: str) -> None:
        """Records one failure for an execution, however often it is tried."""
        state, at = self.states[execution.object][execution.rule.name], execution.at
        known = (*state.failures, *state.failing)
        earlier = next((entry for entry in known if entry.scheduled == at), None)
        failure = Failed(at, self._now if earlier is None else earlier.executed, message)
        kept = (failure, *_others(state.failures, at))[: execution.rule.failures_kept]
        self._change(execution.key, failures=kept, failing=(*_others(state.failing, at), failure))
        if earlier is None:
            self._note(execution.key, "ScaleFailed", f", due {format_time(at)}: {message}")

    def handled(self, key: Key, at: float) -> None:
        """Moves the watermark of a rule to an execution."""
        self._change(key, failing=_others(self.states[key[0]][key[1]].failing, at))
        self._advance(key, at)

    def _advance(self, key: Key, at: float) -> None:
        """Moves the watermark of a rule, and its next execution to the first one after it."""
        mark = max(self.states[key[0]][key[1]].handled_until or 0.0, at)
        newest, coming = self._plan.following.get(key, (None, None))
        if newest != mark:
            coming = self._plan.rules[key].next_time(mark)
        self._change(key, handled_until=mark, next_execution=coming)


def shown_values(values: dict[str, int]) -> str:
    """Returns values for people: `minReplicas 3, maxReplicas 9`."""
    return ", ".join(f"{field} {value}" for field, value in values.items())


def _others(failing: tuple[Failed, ...], scheduled: float) -> tuple[Failed, ...]:
    return tuple(each for each in failing if each.scheduled != scheduled)


def _missed_text(missed: Missed) -> str:
    if missed.count == 1:
        return f": the execution of {format_time(missed.first)} is missed: {missed.message}"
    span = f"{format_time(missed.first)} to {format_time(missed.last)}"
    return f": {missed.count} executions of {span} are missed: {missed.message}"


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
    closes = {window.cause: window.closes for window in planned.kept}
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


def _held_events(
    objects: Sequence[ScheduledObject],
    target: ObservedTarget,
    planned: CronPlan,
    now: float,
    holds: Sequence[HoldRequest] = (),
) -> dict[WriteCause, Hold]:
    """Returns the events behind a plan's write that a hold keeps waiting, each with the hold.

    An event waits if the present value of a field that it sets would change in a held direction. It stays
    due, and acts when the hold ends. Source: docs/how-to/hold-scaling.md.

    The hold of the event's own object comes first, then that of the target, then those of namespaces.
    """
    own = {each.name: each.hold for each in objects}
    found = {}
    for field, cause in planned.field_causes.items():
        hold = hold_in_force((own.get(cause.object), target.hold, *holds), now)
        if hold is not None:
            before, after = _replicas(target.values.get(field)), _replicas(planned.write[field])
            if (hold.stops_down and after < before) or (hold.stops_up and after > before):
                found[cause] = hold
    return found


def _replicas(value: int | None) -> int:
    """Returns a value; an absent one counts as the default of minReplicas, which alone may be absent."""
    return MIN_REPLICAS if value is None else value


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
            more = _held_events(self._objects, self._target, found, self._now, self._holds)
            # A write that no event asks for any more, such as one that was interrupted, is not held twice.
            if more.keys() <= held.keys():
                return msgspec.structs.replace(found, held=held) if held else found
            held |= more
        return plan(self._objects, self._record, self._target, self._now, left_out)

    def _push(self, left_out: frozenset[WriteCause]) -> None:
        if left_out not in self._seen:
            self._seen.add(left_out)
            self._coming.append(left_out)
