"""Plans the next write to a target from the rules, their stored state, the present values and the time.

The executions of a rule after its watermark are due. A new object starts at its creation or at its last edit,
and an edited schedule at the edit, so no execution of the past is ever applied because somebody wrote an
object. Only the newest due execution of a rule can matter, so the older ones are counted and not visited.

At one instant windows close first, then plain executions are applied, then windows open. All of it makes one
write, in which the latest value of each field holds. An execution that the target shows as applied is not
written again: after a crash between the write and its result only the result is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from fedhpa.api.hold import Hold
from fedhpa.api.times import format_time
from fedhpa.cron.execution.model import (
    EXECUTION,
    MOST_AHEAD_SECONDS,
    Applied,
    Execution,
    Key,
    Missed,
    Note,
    ObservedTarget,
    OpenWindow,
    Rule,
    RuleState,
    ScheduledObject,
    States,
    Values,
    WindowRecord,
    WriteCause,
    newest_execution,
)
from fedhpa.cron.execution.objects import MAX_MARKED, marker_of
from fedhpa.cron.execution.windows import (
    ValueStack,
    acknowledged,
    given_up,
    leave_changes,
    lost_target,
    lost_windows,
    recovered,
)
from fedhpa.cron.timetables import count_times


class CronPlan:
    """The changes that are due now on one target, for all CronFederatedHPAs that have it or windows on it.

    `settle` turns it into states once the write is done. The events in `left_out` wait: their executions stay
    due, and their windows stay as they are.

    - `write`: the values that must change, by field; empty if the target has them all. `field_causes` has the
      event behind each, and `marker` names all events of the write, the oldest first.
    - `applied`: executions that the write applies. `invalid`: those of rules that set nothing. `skipped`:
      those that are never applied. `unjudged`: those that only a reading of the target can judge.
    - `closed`: windows that end, or that should end while the target cannot be read.
    - `left_out` and `kept`: the executions and windows that wait. Of these, a hold keeps the `held` ones.
    - `record`: what to store about open windows once the write is done. `pending`: what to store before it,
      so that an interrupted write is repeated. Either is None if there is nothing to store.
    - `error`: why nothing can be written; all executions then fail.
    - `owners`, `rules`, `target`, `stored`: what the plan is made from; the last is the record of windows.
    - `states`: the stored states with their watermarks. `following`: the time after the due execution.
    - `wake`: the next instant at which something is due; None if nothing ever is.
    """

    def __init__(
        self,
        objects: Sequence[ScheduledObject],
        record: WindowRecord | None,
        target: ObservedTarget,
        now: float,
        left_out: AbstractSet[WriteCause] = frozenset(),
    ) -> None:
        self.owners = {each.name: each for each in objects}
        self.target = target
        self._now = now
        self._left_out = left_out
        if record is None and target.baseline is not None:
            record = recovered(objects, target.baseline, now)
        self.stored = stored = acknowledged(record, self.owners, target, now)
        # Of two rules with one name the first counts.
        self.rules = {(each.name, rule.name): rule for each in objects for rule in reversed(each.rules)}
        self._stack = ValueStack(target.values, stored, {key: rule.place for key, rule in self.rules.items()})
        pending = {} if stored is None else stored.pending or {}
        self._unfinished = any(target.values.get(field) != value for field, value in pending.items())
        # Without a reading nobody knows what was applied, so nothing is closed and nothing is missed.
        self._unread = target.unread or (bool(target.error) and stored is not None and not target.gone)
        self._newest = newest_execution(objects)
        self._markers: list[tuple[Key, float]] = []
        self._events: list[WriteCause] = []
        self._restoring: list[OpenWindow] = []
        # The last plain execution that sets a field.
        self._plain: dict[str, WriteCause] = {}
        self._wakes: list[float] = []

        self.error = target.error
        self.states: States = {name: {} for name in self.owners}
        self.following: dict[Key, float | None] = {}
        self.notes = lost_windows(objects, target) if record is None else []
        self.applied: list[Applied] = []
        self.invalid: list[Execution] = []
        self.skipped: list[tuple[Key, Missed]] = []
        self.unjudged: list[Execution] = []
        self.closed: list[OpenWindow] = []
        self.left_out: list[Execution] = []
        self.held: dict[WriteCause, Hold] = {}
        self._follow_changes()
        fires = self._due_executions()
        if self.error:
            self.applied += fires
        else:
            self._apply(fires)
        windows = self._stack.windows
        # An end that is overdue, because the target could not be read, waits for the next attempt.
        self._wakes += (window.closes for window in windows if window.closes > now)
        self.wake = min(self._wakes, default=None)
        self.kept = [window for window in windows if window.cause in left_out]
        marked = list(dict.fromkeys(self._markers))[-MAX_MARKED:]
        self.marker = ",".join(marker_of(*event) for event in marked)
        self.write: Values = {} if self.error else self._stack.write()
        causes = {field: self._cause(field) for field in self.write}
        self.field_causes = {field: cause for field, cause in causes.items() if cause is not None}
        self.record = self._stack.record_after(target, read=not self.error)
        self.pending = self._stack.record_before(target, self.write, self._restoring)

    @property
    def causes(self) -> list[WriteCause]:
        """The events behind the written fields: those that failed before come first, then the latest ones."""
        found = dict.fromkeys(self.field_causes.values())
        return sorted(found, key=lambda cause: (not self._has_failed(cause), -cause.at))

    @property
    def failed_before(self) -> list[WriteCause]:
        """The events of the plan that failed at an earlier instant."""
        return [cause for cause in self._events if self._has_failed(cause)]

    @property
    def holders(self) -> frozenset[str]:
        """The objects with an open window. Each of them needs the finalizer."""
        return frozenset() if self.record is None else self.record.holders

    def openings(self, name: str = "") -> frozenset[WriteCause]:
        """Returns the executions that open a window now, of the object of this name or of all."""
        found = (one.execution for one in self.applied if one.window is not None)
        return frozenset(one.cause for one in found if name in ("", one.object))

    def _follow_changes(self) -> None:
        """Ends or adapts the open windows whose target, object or rule somebody changed."""
        stack, stored = self._stack, self.stored
        if stored is None:
            return
        if self._unfinished:
            for window in stack.windows:
                if window.opening in self._left_out:
                    stack.abandon(window)
        if not self._unread:
            ended, notes = leave_changes(stack, stored, self.target)
            self.closed += ended
            self.notes += notes
        lost = lost_target(stored, self.target)
        abandoned = []
        for window in stack.windows:
            if text := lost or given_up(window, self.owners.get(window.object), self._now):
                abandoned.append(window)
                self.notes.append(Note(window.object, "NotRestored", f"rule {window.rule}: {text}"))
            elif window.cause not in self._left_out:
                changed = self._adapted(window)
                if changed is None:
                    self._close(window)
                elif changed != window:
                    stack.open(changed)
        self.closed += abandoned
        for window in abandoned:
            stack.abandon(window)

    def _adapted(self, window: OpenWindow) -> OpenWindow | None:
        """Returns an open window as its rule has it now; None if the rule has it no more.

        A window of a future that is gone, because the clock was ahead, takes the time of its last execution.
        """
        owner, rule = self.owners.get(window.object), self.rules.get(window.key)
        opened: float | None = window.opened
        if not self._unread and window.opened > self._now + MOST_AHEAD_SECONDS:
            opened = None if rule is None else rule.latest_time(self._now)
            text = "its window opened when the clock was ahead, so it is set to the present"
            self.notes.append(Note(window.object, "StatusFromFuture", f"rule {window.rule}: {text}"))
        if owner is None or rule is None or rule.duration is None or opened is None:
            return None
        # Fields that somebody else has changed in the window are not set any more.
        values = {field: value for field, value in rule.values.items() if field not in window.left}
        if not (owner.runs and rule.fires_at(opened) and values):
            return None
        closes = opened + rule.duration
        return replace(window, values=values, opened=opened, closes=closes, at_least=rule.at_least)

    def _close(self, window: OpenWindow) -> None:
        """Closes a window, or notes that it should end while the target cannot be read."""
        self.closed.append(window)
        if not self._unread:
            self._restoring.append(window)
            self._events.append(window.cause)
            self._stack.close(window)

    def _due_executions(self) -> list[Applied]:
        """Returns the plain executions and openings that are due, without those that are never applied."""
        found: list[Execution] = []
        handled: list[Execution] = []
        for owner in self.owners.values():
            for rule in owner.rules if owner.runs else ():
                # A later rule of the same name does not run.
                if rule.name not in self.states[owner.name]:
                    self._read_rule(owner, rule, found, handled)
        plain = [one for one in (*found, *handled) if one.rule.duration is None]
        plain.sort(key=lambda one: one.order)
        latest = {field: one for one in plain for field in one.rule.values}
        return [fire for one in found if (fire := self._fire(one, latest)) is not None]

    def _read_rule(
        self, owner: ScheduledObject, rule: Rule, found: list[Execution], handled: list[Execution]
    ) -> None:
        """Notes the state of a rule, and adds its newest due execution, else the one at its watermark."""
        key, now, stored = (owner.name, rule.name), self._now, owner.states.get(rule.name, RuleState())
        mark, was_ahead = owner.watermark(rule, now, self._newest)
        if was_ahead:
            text = f"rule {rule.name}: its status was over a day ahead of the clock, so it starts anew"
            self.notes.append(Note(owner.name, "StatusFromFuture", text))
        due = None if mark >= now else rule.latest_time(now, mark)
        if due is not None:
            found.append(Execution(due, owner.name, rule))
        elif rule.name in owner.states and rule.fires_at(mark):
            # An execution that was handled still supersedes the earlier executions of other rules.
            handled.append(Execution(mark, owner.name, rule))
        same = stored.handled_until == mark and stored.hash == rule.hash
        coming = stored.next_execution if same and due is None and rule.timetable is not None else None
        if coming is None or coming <= now:
            coming = rule.next_time(max(mark, now))
        if due is not None:
            self.following[key] = coming
        if coming is not None:
            self._wakes.append(coming)
        # A failure is kept while its execution is due, or while the window that it opened cannot end.
        window = self._stack.get(key)
        tried = {due, None if window is None else window.opened}
        self.states[owner.name][rule.name] = replace(
            stored,
            handled_until=mark,
            hash=rule.hash,
            next_execution=coming if due is None else due,
            failing=tuple(each for each in stored.failing if each.scheduled in tried),
        )

    def _fire(self, execution: Execution, latest: Mapping[str, Execution]) -> Applied | None:
        """Returns an execution with the values to set; None if none are set now.

        `latest` has the latest plain execution of each field.
        """
        rule, at = execution.rule, execution.at
        if not self._unread:
            self._skip_earlier(execution)
        if not rule.values:
            self.invalid.append(execution)
            return None
        window = None if rule.duration is None else self._stack.get(execution.key)
        stored = window if window is not None and window.opened == at else None
        later: dict[str, Execution] = {}
        if rule.duration is None:
            later = {name: one for name in rule.values if (one := latest[name]).order > execution.order}
        by = max(later.values(), key=lambda one: one.order) if len(later) == len(rule.values) else None
        done = self._is_done(execution)
        missed = "" if done else execution.too_late(self._now) if by is None else _superseded_by(by)
        if (stored is not None and not self._unfinished and not self._unread) or (done and by is not None):
            # It was applied in time, and only its result was not stored.
            self.applied.append(Applied(execution, rule.values, stored))
            self._markers.append((execution.key, at))
        elif self._unread and (missed or stored is not None):
            self.unjudged.append(execution)
        elif missed:
            self.skipped.append((execution.key, Missed(at, at, 1, missed)))
            if stored is not None:
                self._close(stored)
        elif execution.cause in self._left_out:
            self.left_out.append(execution)
            self._wakes += [] if rule.duration is None else [at + rule.duration]
        else:
            return Applied(execution, {name: each for name, each in rule.values.items() if name not in later})
        return None

    def _is_done(self, execution: Execution) -> bool:
        """True if the target shows that a plain execution was applied."""
        marker = marker_of(execution.key, execution.at) if self.target.done else ""
        return execution.rule.duration is None and marker in self.target.done

    def _skip_earlier(self, execution: Execution) -> None:
        """Counts the due executions of a rule before the newest one as missed."""
        rule, end = execution.rule, execution.at - 1
        mark = self.states[execution.object][rule.name].handled_until or 0.0
        first, last = rule.next_time(mark, end), rule.latest_time(end, mark)
        if first is not None and last is not None:
            count = count_times(rule.table, mark, end)
            missed = Missed(first, last, count, _superseded_by(execution))
            self.skipped.append((execution.key, missed))

    def _apply(self, fires: list[Applied]) -> None:
        """Applies what is due, in order: at one instant ends of windows, plain executions, openings."""
        events: list[tuple[float, int, str, int, Key, OpenWindow | Applied]] = [
            (window.closes, 0, window.object, 0, window.key, window)
            for window in self._stack.windows
            if window.closes <= self._now and window.cause not in self._left_out
        ]
        for fire in fires:
            one, kind = fire.execution, 1 if fire.execution.rule.duration is None else 2
            events.append((one.at, kind, one.object, one.rule.place, one.key, fire))
        for at, _, _, _, key, event in sorted(events, key=lambda each: each[:5]):
            self._markers.append((key, at))
            if isinstance(event, OpenWindow):
                self._close(event)
            else:
                self._execute(event)

    def _execute(self, fire: Applied) -> None:
        """Applies a plain execution, or opens a window."""
        execution, rule, stack, window = fire.execution, fire.execution.rule, self._stack, None
        cause, values = execution.cause, fire.values
        self._events.append(cause)
        if rule.duration is None:
            values = stack.apply(values, at_least=rule.at_least, done=self._is_done(execution))
            self._plain |= dict.fromkeys(values, cause)
        else:
            window = OpenWindow.of(execution.object, rule, execution.at)
            stack.open(window)
            if rule.at_least:
                values = {field: stack.values[field] or 0 for field in values}
        self.applied.append(Applied(execution, values, window))

    def _cause(self, field: str) -> WriteCause | None:
        """Returns the event that gave a field its value; None if it is that of an unfinished write."""
        top = self._stack.covering(field)
        if top is not None and top.opening in self._events:
            return top.opening
        if top is None and field in self._plain:
            return self._plain[field]
        closed = [window for window in self._restoring if field in window.values]
        if closed:
            return max(closed, key=self._stack.order).cause
        return None if top is None else top.cause

    def _has_failed(self, cause: WriteCause) -> bool:
        state = self.states.get(cause.object, {}).get(cause.rule, RuleState())
        # The execution that opened a window may have failed before it was applied.
        failures = state.failures if cause.kind == EXECUTION else ()
        return any(failure.scheduled == cause.at for failure in (*failures, *state.failing))


def _superseded_by(execution: Execution) -> str:
    return f"superseded by {'/'.join(execution.key)} at {format_time(execution.at)}"
