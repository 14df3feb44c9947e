"""Plans the next write to a target from the rules, their stored state, the present values and the time.

At one instant windows close first, then plain executions are applied, then windows open. All of it makes one
write, in which the latest value of each field holds. An execution that the target shows as applied is not
written again: after a crash between the write and its result only the result is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from fedhpa.cron.execution.due import (
    Due,
    acknowledged,
    find_due,
    is_unfinished,
    joined_markers,
    latest_of_fields,
    marker_of,
    newest_execution,
    recovered,
    superseded,
    superseding,
    watermark,
)
from fedhpa.cron.execution.model import (
    EXECUTION,
    Applied,
    CronPlan,
    Execution,
    Key,
    Note,
    ObservedTarget,
    OpenWindow,
    Rule,
    RuleState,
    ScheduledObject,
    Skipped,
    States,
    Values,
    WindowRecord,
    WriteCause,
)
from fedhpa.cron.execution.windows import (
    Edits,
    ValueStack,
    bring_back,
    edited_windows,
    leave_changes,
    lost_target,
    lost_windows,
    reverts,
)


def plan(
    objects: Sequence[ScheduledObject],
    record: WindowRecord | None,
    target: ObservedTarget,
    now: float,
    left_out: AbstractSet[WriteCause] = frozenset(),
) -> CronPlan:
    """Returns the plan of a target for all CronFederatedHPAs that have it, or that have a window open on it.

    The events in `left_out` wait: their executions stay due, and their windows stay as they are.
    """
    return _Planner({each.name: each for each in objects}, record, target, now, left_out).plan()


class _Planner:
    """Collects what is due for one target, and applies it in order."""

    def __init__(
        self,
        owners: dict[str, ScheduledObject],
        record: WindowRecord | None,
        target: ObservedTarget,
        now: float,
        left_out: AbstractSet[WriteCause],
    ) -> None:
        self._owners = owners
        self._target = target
        self._now = now
        self._left_out = left_out
        if record is None and target.baseline is not None:
            record = recovered(owners.values(), target, now)
        self._record = acknowledged(record, owners, target, now)
        # Of two rules with one name the first counts.
        self._rules = {
            (name, rule.name): rule for name, each in owners.items() for rule in reversed(each.rules)
        }
        places = {key: rule.place for key, rule in self._rules.items()}
        self._stack = ValueStack(target.values, self._record, places)
        self._unfinished = is_unfinished(self._record, target)
        # Without a reading nobody knows what was applied, so nothing is closed and nothing is missed.
        windows = self._record is not None and not target.gone
        self._unread = target.unread or (bool(target.error) and windows)
        self._states: States = {name: {} for name in owners}
        self._newest = newest_execution(owners.values())
        self._notes = lost_windows(owners.values(), target) if record is None else []
        self._reverts: list[Note] = []
        self._closed: list[OpenWindow] = []
        self._restoring: list[OpenWindow] = []
        self._applied: list[Applied] = []
        self._invalid: list[Execution] = []
        self._skipped: list[Skipped] = []
        self._unjudged: list[Execution] = []
        self._ending: list[OpenWindow] = []
        self._waiting: list[Execution] = []
        self._markers: list[tuple[str, float]] = []
        self._following: dict[Key, tuple[float, float | None]] = {}
        self._events: list[WriteCause] = []
        # The executions that set a field in this plan: the last plain one, and openings.
        self._plain: dict[str, WriteCause] = {}
        self._opened: set[WriteCause] = set()
        # The plain executions that the target shows as applied.
        self._done: set[WriteCause] = set()
        self._wakes: list[float] = []

    def plan(self) -> CronPlan:
        error = self._target.error
        self._follow_changes()
        fires = self._due_executions()
        if error:
            self._applied += fires
        else:
            self._reverts = reverts(self._owners, self._rules, self._target, self._record)
            self._apply(fires)
        # An end that is overdue, because the target could not be read, waits for the next attempt.
        self._wakes += (window.closes for window in self._stack.windows if window.closes > self._now)
        write = {} if error else self._stack.write()
        causes = {field: cause for field in write if (cause := self._cause(field)) is not None}
        return CronPlan(
            write,
            self._states,
            self._rules,
            self._following,
            joined_markers(self._markers),
            tuple(self._applied),
            tuple(self._invalid),
            tuple(self._skipped),
            tuple(self._unjudged),
            tuple(self._closed),
            tuple(self._ending),
            self._record_after(),
            self._record_before(write),
            error,
            notes=tuple(self._notes),
            reverts=tuple(self._reverts) if self._applied else (),
            wake=min(self._wakes, default=None),
            left_out=tuple(self._waiting),
            kept=tuple(each for each in self._stack.windows if each.cause in self._left_out),
            causes=self._in_order(causes.values()),
            field_causes=causes,
            failed_before=tuple(filter(self._has_failed, self._events)),
        )

    def _follow_changes(self) -> None:
        """Ends or adapts the open windows whose target, object or rule somebody changed."""
        stack = self._stack
        if self._unfinished:
            for window in stack.windows:
                if window.opening in self._left_out:
                    stack.abandon(window)
        if not self._unread:
            ended, notes = leave_changes(stack, self._record, self._target)
            self._closed += ended
            self._notes += notes
            self._end(bring_back(stack, self._rules, self._now))
        lost = lost_target(self._record, self._target)
        self._end(edited_windows(stack, self._owners, self._rules, self._now, self._left_out, lost))

    def _end(self, edits: Edits) -> None:
        self._notes += edits.notes
        for window in edits.closed:
            if self._unread:
                self._ending.append(window)
            else:
                self._close(window)
        for window in edits.abandoned:
            self._closed.append(window)
            self._stack.abandon(window)

    def _close(self, window: OpenWindow) -> None:
        self._closed.append(window)
        self._restoring.append(window)
        self._events.append(window.cause)
        self._stack.close(window)

    def _due_executions(self) -> list[Applied]:
        """Returns the plain executions and openings that are due, without those that are never applied."""
        found: list[Due] = []
        handled: list[Execution] = []
        for owner in self._owners.values():
            if owner.present and owner.deleted is None:
                self._read_rules(owner, found, handled)
        events = (*(due.newest for due in found), *handled)
        latest = latest_of_fields([one for one in events if one.rule.duration is None])
        return [fire for due in found if (fire := self._fire(due, latest)) is not None]

    def _read_rules(self, owner: ScheduledObject, found: list[Due], handled: list[Execution]) -> None:
        """Adds the due executions of an object's rules, and those at their watermarks."""
        for rule in owner.rules:
            if rule.name in self._states[owner.name]:
                # A later rule of the same name; it does not run.
                continue
            mark, was_ahead = watermark(rule, owner, self._now, self._newest)
            if was_ahead:
                text = f"rule {rule.name}: its status was over a day ahead of the clock, so it starts anew"
                self._notes.append(Note(owner.name, "StatusFromFuture", text))
            due = find_due(rule, owner, mark, self._now)
            self._states[owner.name][rule.name] = self._state(owner, rule, mark, due)
            if due is not None:
                found.append(due)
                continue
            # An execution that was handled still supersedes the earlier executions of other rules.
            if rule.name in owner.states and rule.fires_at(mark):
                handled.append(Execution(mark, owner.name, rule.place, rule))

    def _state(self, owner: ScheduledObject, rule: Rule, mark: float, due: Due | None) -> RuleState:
        """Returns the stored state of a rule with its watermark, and notes when the rule fires next."""
        stored = owner.states.get(rule.name, RuleState())
        same = stored.handled_until == mark and stored.hash == rule.hash
        coming = stored.next_execution if same and due is None else None
        if rule.timetable is None:
            coming = None
        elif coming is None or coming <= self._now:
            coming = rule.next_time(max(mark, self._now))
        if due is not None:
            self._following[owner.name, rule.name] = due.newest.at, coming
        if coming is not None:
            self._wakes.append(coming)
        failing = tuple(
            each for each in stored.failing if self._still_fails(owner, rule, each.scheduled, due)
        )
        return msgspec.structs.replace(
            stored,
            handled_until=mark,
            hash=rule.hash,
            next_execution=coming if due is None else due.newest.at,
            failing=failing,
        )

    def _still_fails(self, owner: ScheduledObject, rule: Rule, at: float, due: Due | None) -> bool:
        """True if an execution that failed is still due, or if the window that it opened could not end."""
        window = self._stack.get((owner.name, rule.name))
        return (due is not None and due.newest.at == at) or (window is not None and window.opened == at)

    def _fire(self, due: Due, latest: Mapping[str, Execution]) -> Applied | None:
        """Returns the newest execution of a rule with the values to set; None if none are set now."""
        execution, rule = due.newest, due.newest.rule
        if due.earlier is not None and not self._unread:
            self._skipped.append(Skipped(execution.object, rule.name, due.earlier))
        if not rule.values:
            self._invalid.append(execution)
            return None
        opens = rule.duration is not None
        window = self._stack.get(execution.key) if opens else None
        stored = window if window is not None and window.opened == execution.at else None
        by, fields = (None, set(rule.values)) if opens else superseding(execution, latest)
        marks = frozenset() if opens else self._target.done
        done = bool(marks) and marker_of(execution.label, execution.at) in marks
        if (stored is not None and not self._unfinished and not self._unread) or (done and by is not None):
            # It was applied in time, and only its result was not stored.
            self._applied.append(Applied(execution, rule.values, stored))
            self._markers.append((execution.label, execution.at))
            return None
        missed = None
        if not done:
            missed = execution.too_late(self._now) if by is None else superseded(execution, by)
        if self._unread and (missed is not None or stored is not None):
            self._unjudged.append(execution)
            return None
        if missed is not None:
            self._skipped.append(Skipped(execution.object, rule.name, missed))
            if stored is not None:
                self._close(stored)
            return None
        if execution.cause in self._left_out:
            self._waiting.append(execution)
            self._wakes += [] if rule.duration is None else [execution.at + rule.duration]
            return None
        values = {field: value for field, value in rule.values.items() if field in fields}
        if done:
            self._done.add(execution.cause)
        return Applied(execution, values)

    def _apply(self, fires: list[Applied]) -> None:
        """Applies what is due, in order: at one instant ends of windows, plain executions, openings."""
        events: list[tuple[float, int, str, int, str, OpenWindow | Applied]] = [
            (window.closes, 0, window.object, 0, window.label, window)
            for window in self._stack.windows
            if window.closes <= self._now and window.cause not in self._left_out
        ]
        for fire in fires:
            at, name, place, rule = fire.execution
            kind = 1 if rule.duration is None else 2
            events.append((at, kind, name, place, fire.execution.label, fire))
        for at, _, _, _, label, event in sorted(events, key=lambda each: each[:5]):
            self._markers.append((label, at))
            if isinstance(event, OpenWindow):
                self._close(event)
                continue
            execution = event.execution
            self._events.append(execution.cause)
            if execution.rule.duration is not None:
                self._open(execution)
                continue
            done = execution.cause in self._done
            values = self._stack.apply(event.values, at_least=execution.rule.at_least, done=done)
            self._plain |= dict.fromkeys(event.values, execution.cause)
            self._applied.append(Applied(execution, values))

    def _open(self, execution: Execution) -> None:
        rule = execution.rule
        window = OpenWindow.of(execution.object, rule, execution.at)
        self._stack.open(window)
        self._opened.add(execution.cause)
        values = (
            {field: self._stack.values[field] or 0 for field in rule.values} if rule.at_least else rule.values
        )
        self._applied.append(Applied(execution, values, window))

    def _in_order(self, causes: Iterable[WriteCause]) -> tuple[WriteCause, ...]:
        """Returns events once: those that failed before come first, then the latest ones."""
        found = dict.fromkeys(causes)
        return tuple(sorted(found, key=lambda cause: (not self._has_failed(cause), -cause.at)))

    def _cause(self, field: str) -> WriteCause | None:
        """Returns the event that gave a field its value; None if it is that of an unfinished write."""
        top = self._stack.covering(field)
        if top is not None and top.opening in self._opened:
            return top.opening
        if top is None and field in self._plain:
            return self._plain[field]
        closed = [window for window in self._restoring if field in window.values]
        if closed:
            return max(closed, key=self._stack.order).cause
        return None if top is None else top.cause

    def _has_failed(self, cause: WriteCause) -> bool:
        state = self._states.get(cause.object, {}).get(cause.rule)
        if state is None:
            return False
        # The execution that opened a window may have failed before it was applied.
        failures = state.failures if cause.kind == EXECUTION else ()
        return any(failure.scheduled == cause.at for failure in (*failures, *state.failing))

    def _record_after(self) -> WindowRecord | None:
        """Returns the record once the write is done, or None if nothing is left to record."""
        stack, windows = self._stack, tuple(self._stack.windows)
        if not windows:
            return None
        if self._target.error and self._record is not None:
            return msgspec.structs.replace(self._record, open=windows)
        applied = {field: stack.values[field] for field in sorted(stack.covered())}
        return self._record_of(stack.baseline, None, applied, windows)

    def _record_of(
        self, baseline: Values, pending: Values | None, applied: Values, windows: tuple[OpenWindow, ...]
    ) -> WindowRecord:
        """Returns a record with the replicas and uids of each cluster, as they were read last."""
        before = self._record or WindowRecord()
        shares, uids = before.shares | self._target.shares, before.uids | self._target.uids
        return WindowRecord(baseline, pending, applied, windows, shares, uids)

    def _record_before(self, write: Values) -> WindowRecord | None:
        """Returns the record to store before the write, or None if the write concerns no window.

        Windows that close stay in it with the values that it restores, until the write is done.
        """
        stack = self._stack
        if not write or (self._record is None and not stack.windows):
            return None
        # Covered fields that need no write have their values already.
        unchanged = {field: stack.values[field] for field in sorted(stack.covered() - write.keys())}
        stored = self._record or WindowRecord()
        # A value that is neither the one before the write nor the one of the write is then somebody else's.
        before = {field: self._target.values.get(field) for field in stored.applied if field in write}
        # An edit takes fields from a window that stays open.
        taken = {field for window in stored.open for field in window.values} & write.keys()
        restoring = {field for window in self._restoring for field in window.values}
        ending = (restoring | taken) - stack.covered()
        restored = {field: stack.values[field] for field in sorted(ending) if field in stack.values}
        windows = tuple(sorted((*self._restoring, *stack.windows), key=stack.order))
        applied = stored.applied | unchanged | before
        return self._record_of(stack.baseline | restored, write, applied, windows)
