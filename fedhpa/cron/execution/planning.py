"""Plans the next write to a target from the rules, their stored state, the present values and the time.

At one instant windows close first, then plain fires are applied, then windows open. All of it makes one
write, in which the latest value of each field holds. A fire that the target shows as applied is not written
again: after a crash between the write and its result only the result is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from fedhpa.cron.execution.due import (
    CLOSES,
    FIRES,
    OPENS,
    Due,
    Occurrence,
    fires_due,
    last_handled,
    latest_of_fields,
    missed_because_late,
    newest_execution,
    next_fire,
    superseded,
    superseding,
    watermark,
    window_seconds,
)
from fedhpa.cron.execution.model import (
    FIRE,
    Applied,
    Cause,
    Fire,
    Note,
    OpenWindow,
    Plan,
    Rule,
    RuleState,
    ScheduledObject,
    Skipped,
    States,
    Target,
    Values,
    WindowRecord,
    cause_of_fire,
    cause_of_opening,
    cause_of_window,
    joined_markers,
    marker_of,
)
from fedhpa.cron.execution.windows import (
    Closing,
    Holding,
    acknowledged,
    edited_windows,
    is_unfinished,
    recovered,
)

# Stands for a client that the managed fields do not name.
SOMEBODY: Final = "somebody"


def plan(
    objects: Sequence[ScheduledObject],
    record: WindowRecord | None,
    target: Target,
    now: float,
    held: AbstractSet[Cause] = frozenset(),
) -> Plan:
    """Returns the plan of a target for all CronFederatedHPAs that have it, or that hold a window on it.

    The events in `held` are left out: their fires stay owed, and their windows stay as they are.
    """
    return _Planner({each.name: each for each in objects}, record, target, now, held).plan()


class _Planner:
    """Collects what is due for one target, and applies it in order."""

    def __init__(
        self,
        owners: dict[str, ScheduledObject],
        record: WindowRecord | None,
        target: Target,
        now: float,
        held: AbstractSet[Cause],
    ) -> None:
        self._owners = owners
        self._target = target
        self._now = now
        self._left_out = held
        if record is None and target.baseline is not None:
            record = recovered(owners.values(), target, now)
        self._record = acknowledged(record, owners, target, now)
        # Of two rules with one name the first counts.
        self._rules = {
            (name, rule.name): rule for name, each in owners.items() for rule in reversed(each.rules)
        }
        places = {key: rule.place for key, rule in self._rules.items()}
        self._holding = Holding(target.values, self._record, places)
        self._unfinished = is_unfinished(self._record, target)
        self._states: States = {name: {} for name in owners}
        self._newest = newest_execution(owners.values())
        self._notes: list[Note] = []
        self._closed: list[OpenWindow] = []
        self._restoring: list[OpenWindow] = []
        self._applied: list[Applied] = []
        self._invalid: list[Fire] = []
        self._skipped: list[Skipped] = []
        self._held: list[Fire] = []
        self._markers: list[str] = []
        self._events: list[Cause] = []
        # The fires that set a field in this plan: the last plain one, and openings.
        self._plain: dict[str, Cause] = {}
        self._opened: set[Cause] = set()
        self._wakes: list[float] = []

    def plan(self) -> Plan:
        error = self._target.error
        self._follow_changes()
        events = self._due_fires()
        if error:
            self._applied += (Applied(event.fire, event.values) for event in events if event.fire)
        else:
            self._apply(sorted((*self._closings(), *events), key=lambda event: event[:5]))
        # An end that is overdue, because the target could not be read, waits for the next attempt.
        self._wakes += (window.closes for window in self._holding.windows if window.closes > self._now)
        write = {} if error else self._holding.write()
        return Plan(
            write,
            self._states,
            self._rules,
            joined_markers(self._markers),
            tuple(self._applied),
            tuple(self._invalid),
            tuple(self._skipped),
            tuple(self._closed),
            self._record_after(),
            self._record_before(write),
            error,
            notes=tuple(self._notes),
            wake=min(self._wakes, default=None),
            held=tuple(self._held),
            kept=tuple(each for each in self._holding.windows if cause_of_window(each) in self._left_out),
            causes=self._causes(write),
            failed_before=tuple(filter(self._has_failed, self._events)),
        )

    def _follow_changes(self) -> None:
        """Ends or adapts the open windows whose target, object or rule somebody changed."""
        if self._unfinished:
            for window in self._holding.windows:
                if cause_of_opening(window) in self._left_out:
                    self._holding.abandon(window)
        self._leave_what_others_changed()
        edits = edited_windows(
            self._holding, self._owners, self._now, self._left_out, self._target, tried=self._unfinished
        )
        self._notes += edits.notes
        for closing in edits.closings:
            self._end(closing)

    def _leave_what_others_changed(self) -> None:
        """Gives up the fields whose values are not those that a rule wrote last."""
        record, present = self._record, self._target.values
        if record is None:
            return
        for field in sorted(self._holding.covered()):
            unfinished = record.pending is not None and field in record.pending
            if unfinished or field not in present or field not in record.applied:
                continue
            if present[field] == record.applied[field]:
                continue
            client = self._target.managers.get(field, SOMEBODY)
            text = (
                f"{client} set {field} to {_shown(present[field])} while a window held "
                f"{_shown(record.applied[field])}; it stays, and nothing is restored"
            )
            holders = {window.object for window in self._holding.windows if field in window.values}
            self._notes += (Note(name, "WindowOverridden", text) for name in sorted(holders))
            self._closed += self._holding.give_up(field)

    def _end(self, closing: Closing) -> None:
        if closing.restores:
            self._close(closing.window)
        else:
            self._closed.append(closing.window)
            self._holding.abandon(closing.window)

    def _close(self, window: OpenWindow) -> None:
        self._closed.append(window)
        self._restoring.append(window)
        self._events.append(cause_of_window(window))
        self._holding.close(window)

    def _due_fires(self) -> list[Occurrence]:
        """Returns the plain fires and the openings that are due, without those that are never applied."""
        owing: list[Due] = []
        handled: list[Fire] = []
        for owner in self._owners.values():
            if owner.present and owner.deleted is None:
                self._read_rules(owner, owing, handled)
        newest = [due.newest for due in owing]
        plain = [fire for fire in (*newest, *handled) if window_seconds(fire.rule) is None]
        latest = latest_of_fields(plain)
        return [event for due in owing if (event := self._event(due, latest)) is not None]

    def _read_rules(self, owner: ScheduledObject, owing: list[Due], handled: list[Fire]) -> None:
        """Adds what the rules of an object owe, and the fires at their watermarks."""
        for rule in owner.rules:
            if rule.name in self._states[owner.name]:
                # A later rule of the same name; it does not run.
                continue
            mark = watermark(rule, owner, self._now, self._newest)
            if mark.was_ahead:
                text = f"rule {rule.name}: its status was over a day ahead of the clock, so it starts anew"
                self._notes.append(Note(owner.name, "StatusFromFuture", text))
            due = fires_due(rule, owner, mark.at, self._now)
            self._states[owner.name][rule.name] = self._state(owner, rule, mark.at, due)
            if due is not None:
                owing.append(due)
                continue
            fire = last_handled(rule, owner, mark.at)
            if fire is not None and owner.states.get(rule.name) is not None:
                handled.append(fire)

    def _state(self, owner: ScheduledObject, rule: Rule, mark: float, due: Due | None) -> RuleState:
        """Returns the stored state of a rule with its watermark, and notes when the rule fires next."""
        stored = owner.states.get(rule.name, RuleState())
        same = stored.handled_until == mark and stored.hash == rule.hash
        coming = stored.next_execution if same and due is None else None
        if rule.timetable is None:
            coming = None
        elif coming is None or coming <= self._now:
            coming = next_fire(rule, max(mark, self._now))
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
        """True if a fire that failed is still owed, or if the window that it opened could not end."""
        ends = {
            window.opened for window in self._holding.windows if window.label == f"{owner.name}/{rule.name}"
        }
        return (due is not None and due.newest.at == at) or at in ends

    def _event(self, due: Due, latest: Mapping[str, Fire]) -> Occurrence | None:
        """Returns the event of the newest fire of a rule, or None if it is never applied."""
        fire = due.newest
        if due.earlier is not None:
            self._skipped.append(Skipped(fire.object, fire.rule.name, due.earlier))
        if not fire.rule.values:
            self._invalid.append(fire)
            return None
        opens = window_seconds(fire.rule) is not None
        stored = self._stored_window(fire) if opens else None
        if stored is not None and not self._unfinished:
            # The window was opened in time, and only its result was not stored.
            self._applied.append(Applied(fire, fire.rule.values, stored))
            self._markers.append(marker_of(fire.label, fire.at))
            return None
        by, fields = (None, set(fire.rule.values)) if opens else superseding(fire, latest)
        missed = missed_because_late(fire, self._now) if by is None else superseded(fire, by)
        if missed is not None:
            self._skipped.append(Skipped(fire.object, fire.rule.name, missed))
            if stored is not None:
                self._close(stored)
            return None
        if cause_of_fire(fire) in self._left_out:
            self._held.append(fire)
            self._wakes += [] if (length := window_seconds(fire.rule)) is None else [fire.at + length]
            return None
        values = {field: value for field, value in fire.rule.values.items() if field in fields}
        kind = OPENS if opens else FIRES
        done = not opens and marker_of(fire.label, fire.at) in self._target.done
        return Occurrence(fire.at, kind, fire.object, fire.place, fire.label, fire, values, done=done)

    def _stored_window(self, fire: Fire) -> OpenWindow | None:
        """Returns the window that a fire opened already, or None."""
        for window in self._holding.windows:
            if (window.object, window.rule, window.opened) == (fire.object, fire.rule.name, fire.at):
                return window
        return None

    def _closings(self) -> Iterator[Occurrence]:
        """Yields the ends of windows that are due."""
        for window in self._holding.windows:
            if window.closes <= self._now and cause_of_window(window) not in self._left_out:
                yield Occurrence(window.closes, CLOSES, window.object, 0, window.label, window=window)

    def _apply(self, events: list[Occurrence]) -> None:
        """Applies events in order."""
        for event in events:
            self._markers.append(marker_of(event.label, event.at))
            if event.window is not None:
                self._close(event.window)
            elif event.fire is not None and event.kind == OPENS:
                self._open(event.fire)
            elif event.fire is not None:
                self._holding.fire(event.values, done=event.done)
                self._plain |= dict.fromkeys(event.values, cause_of_fire(event.fire))
                self._events.append(cause_of_fire(event.fire))
                self._applied.append(Applied(event.fire, event.values))

    def _open(self, fire: Fire) -> None:
        rule = fire.rule
        length = window_seconds(rule)
        assert length is not None
        window = OpenWindow(fire.object, rule.name, fire.at, fire.at + length, rule.values, rule.hash)
        self._holding.open(window)
        self._opened.add(cause_of_fire(fire))
        self._events.append(cause_of_fire(fire))
        self._applied.append(Applied(fire, rule.values, window))

    def _causes(self, write: Values) -> tuple[Cause, ...]:
        """Returns the events that gave the written fields their values.

        Those that failed before come first, then the latest ones.
        """
        found = dict.fromkeys(cause for field in write if (cause := self._cause(field)) is not None)
        return tuple(sorted(found, key=lambda cause: (not self._has_failed(cause), -cause.at)))

    def _cause(self, field: str) -> Cause | None:
        """Returns the event that gave a field its value; None if it is that of an unfinished write."""
        top = self._holding.covering(field)
        if top is not None and cause_of_opening(top) in self._opened:
            return cause_of_opening(top)
        if top is None and field in self._plain:
            return self._plain[field]
        closed = [window for window in self._restoring if field in window.values]
        if closed:
            return cause_of_window(max(closed, key=self._holding.order))
        return None if top is None else cause_of_window(top)

    def _has_failed(self, cause: Cause) -> bool:
        state = self._states.get(cause.object, {}).get(cause.rule)
        if state is None:
            return False
        # The fire that opened a window may have failed before it was applied.
        failures = state.failures if cause.kind == FIRE else ()
        return any(failure.scheduled == cause.at for failure in (*failures, *state.failing))

    def _record_after(self) -> WindowRecord | None:
        """Returns the record once the write is done, or None if nothing is left to record."""
        holding = self._holding
        if not holding.windows:
            return None
        if self._target.error:
            return self._record
        applied = {field: holding.values[field] for field in sorted(holding.covered())}
        return WindowRecord(holding.baseline, None, applied, tuple(holding.windows))

    def _record_before(self, write: Values) -> WindowRecord | None:
        """Returns the record to store before the write, or None if the write concerns no window.

        Windows that close stay in it with the values that it restores, until the write is done.
        """
        holding = self._holding
        if not write or (self._record is None and not holding.windows):
            return None
        # Covered fields that need no write have their values already.
        held = {field: holding.values[field] for field in sorted(holding.covered() - write.keys())}
        former = {} if self._record is None else self._record.applied
        # A value that is neither the one before the write nor the one of the write is then somebody else's.
        before = {field: self._target.values.get(field) for field in former if field in write}
        stored = () if self._record is None else self._record.open
        # An edit takes fields from a window that stays open.
        taken = {field for window in stored for field in window.values} & write.keys()
        restoring = {field for window in self._restoring for field in window.values}
        ending = (restoring | taken) - holding.covered()
        restored = {field: holding.values[field] for field in sorted(ending) if field in holding.values}
        windows = tuple(sorted((*self._restoring, *holding.windows), key=holding.order))
        applied = former | held | before
        return WindowRecord(holding.baseline | restored, write, applied, windows)


def _shown(value: int | None) -> str:
    return "no value" if value is None else str(value)
