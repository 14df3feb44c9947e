"""The executions of rules that are due, and which of them will never be applied.

The executions of a rule after its watermark are due. A new object starts at its creation or at its last edit,
and an edited schedule at the edit, so no execution of the past is ever applied because somebody wrote an
object. Executions while no controller ran are after the watermark, and so they are still due. Only the newest
due execution of a rule can matter, so the older ones are counted and not visited.

A write whose result was not stored, because the controller ended between the two, is still due, too. The
windows of a lost record are taken from the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.times import format_time
from fedhpa.cron.execution.model import (
    Execution,
    Missed,
    ObjectRecord,
    ObservedTarget,
    OpenWindow,
    Rule,
    RuleState,
    ScheduledObject,
    Values,
    WindowRecord,
)
from fedhpa.cron.timetables import LONGEST_INTERVAL, count_times


class Due(NamedTuple):
    """The due executions of a rule: the newest one, and the older ones as `earlier` (None without any)."""

    newest: Execution
    earlier: Missed | None


def find_due(rule: Rule, owner: ScheduledObject, after: float, now: float) -> Due | None:
    """Returns the executions of a rule in (after, now], or None without any."""
    newest = None if after >= now else rule.latest_time(now, after)
    if newest is None:
        return None
    execution, end = Execution(newest, owner.name, rule.place, rule), newest - 1
    first, last = rule.next_time(after, end), rule.latest_time(end, after)
    if first is None or last is None:
        return Due(execution, None)
    count = count_times(rule.table, after, end)
    return Due(execution, Missed(first, last, count, _superseded_by(execution)))


def latest_of_fields(executions: Iterable[Execution]) -> dict[str, Execution]:
    """Returns the latest of some executions for each field that they set."""
    latest: dict[str, Execution] = {}
    for execution in executions:
        for field in execution.rule.values:
            if field not in latest or execution.order > latest[field].order:
                latest[field] = execution
    return latest


def superseding(execution: Execution, latest: Mapping[str, Execution]) -> tuple[Execution | None, set[str]]:
    """Returns the latest execution that overtook one, and the fields that no later execution sets.

    `latest` has the latest plain execution of each field. The first result is None while any field is left.
    """
    later = [latest[field] for field in execution.rule.values if latest[field].order > execution.order]
    left = {field for field in execution.rule.values if latest[field].order <= execution.order}
    return (None if left else max(later, key=lambda each: each.order)), left


def superseded(execution: Execution, by: Execution) -> Missed:
    """Returns the record of an execution that a later one overtook."""
    return Missed(execution.at, execution.at, 1, _superseded_by(by))


def _superseded_by(execution: Execution) -> str:
    return f"superseded by {execution.label} at {format_time(execution.at)}"


# Events that the marker of one write names. Further ones are the oldest, and their values are written again.
MAX_MARKED: Final = 64


def marker_of(label: str, at: float) -> str:
    """Returns the name of an event: `object/rule@time`.

    A comma separates names, so a comma in the name of a rule is escaped.
    """
    return f"{label.replace('%', '%25').replace(',', '%2C')}@{format_time(at)}"


def joined_markers(events: Iterable[tuple[str, float]]) -> str:
    """Returns the marker of a write that has these events, in order: each a label and a time."""
    return ",".join(marker_of(*event) for event in list(dict.fromkeys(events))[-MAX_MARKED:])


def split_markers(text: str) -> frozenset[str]:
    """Returns the events that the marker of a write names. A text that is no marker names no event."""
    return frozenset(text.split(",", MAX_MARKED)[:MAX_MARKED])


# A clock that was ahead by more than this wrote watermarks and windows of a future that is gone.
MOST_AHEAD_SECONDS: Final = 3600.0
_MOST_AHEAD_OF_HUB: Final = 86400.0


def watermark(rule: Rule, owner: ScheduledObject, now: float, newest: float | None) -> tuple[float, bool]:
    """Returns the watermark of a rule, at most an hour ahead of `now` and at most nine years before it.

    The second value is True if the stored one was so far ahead of the clock that it would block the rule.
    `newest` is the newest execution of any rule of the target.
    """
    at = _stored(rule, owner, now, newest)
    # Of the hub's own clock, which may differ, more is believed.
    most = _MOST_AHEAD_OF_HUB if at in (owner.created, owner.edited) else MOST_AHEAD_SECONDS
    if at > now + most:
        return now, True
    return max(at, now - LONGEST_INTERVAL.total_seconds()), False


def newest_execution(owners: Iterable[ScheduledObject]) -> float | None:
    """Returns the newest execution that was applied or failed, of all rules of a target; None without one."""
    return max(
        (at for owner in owners for state in owner.states.values() for at in _tried(state)), default=None
    )


def newest_success(record: ObjectRecord) -> float:
    """Returns the newest execution that was applied, of all rules of a record; 0 without one."""
    return max((done.scheduled for state in record.rules.values() for done in state.successes), default=0.0)


def _tried(state: RuleState) -> list[float]:
    return [*(done.scheduled for done in state.successes), *(each.scheduled for each in state.failures)]


def _stored(rule: Rule, owner: ScheduledObject, now: float, newest: float | None) -> float:
    state = owner.states.get(rule.name)
    # The time of the last edit is the hub's, so it may be later than `now`. An earlier time would make
    # executions due that precede the edit.
    edit = now if owner.edited is None else owner.edited
    if state is None:
        # The schedule of a new object may be as new as its last edit.
        return edit if owner.known else max(owner.created, owner.edited or 0.0)
    if state.handled_until is None:
        return min(_without_record(state, now, newest), now)
    # Two edits since the record may have suspended and resumed the rule.
    edited = bool(state.hash) and state.hash != rule.hash
    if edited or (owner.edits > 1 and owner.edited is not None):
        # A later handled execution still counts: an execution is never applied twice.
        return max(edit, min(state.handled_until, now))
    return state.handled_until


def _without_record(state: RuleState, now: float, newest: float | None) -> float:
    """Returns the newest execution of any rule, or the instant before the one that the status expects.

    It is that of any rule of the target: otherwise `up@09:00` would be applied at noon although `down@11:00`
    holds.
    """
    own = _tried(state)
    if newest is not None and (own or state.next_execution is None or state.next_execution <= newest):
        return newest
    return now if state.next_execution is None else state.next_execution - 1


def recovered(owners: Collection[ScheduledObject], target: ObservedTarget, now: float) -> WindowRecord | None:
    """Returns the record of the windows whose baseline the target names, for one that is lost.

    The newest window of each rule is in it, also one that is over: it closes, and the baseline returns. A
    target whose values are not those of the windows was changed by somebody, and keeps its values.
    """
    baseline = target.baseline or {}
    windows = sorted(_newest_windows(owners, now), key=lambda window: (window.opened, window.label))
    applied: Values = {field: value for window in windows for field, value in window.values.items()}
    if not windows:
        return None
    kept = {field: value for field, value in baseline.items() if field in applied}
    return WindowRecord(kept, None, applied, tuple(windows))


def _newest_windows(owners: Collection[ScheduledObject], now: float) -> Iterator[OpenWindow]:
    """Yields the window that each rule opened last, as far as its execution counts as handled."""
    newest = newest_execution(owners)
    for owner in owners:
        for rule in owner.rules:
            opened = None if rule.duration is None else rule.latest_time(now)
            if opened is not None and opened <= watermark(rule, owner, now, newest)[0]:
                yield OpenWindow.of(owner.name, rule, opened)


def is_unfinished(record: WindowRecord | None, target: ObservedTarget) -> bool:
    """True if a write was begun, and the target does not have all of its values."""
    pending = None if record is None else record.pending
    present = target.values
    return pending is not None and any(present.get(field) != value for field, value in pending.items())


def acknowledged(
    record: WindowRecord | None, owners: Mapping[str, ScheduledObject], target: ObservedTarget, now: float
) -> WindowRecord | None:
    """Returns the record without the parts of the unfinished write that the target shows as done or changed.

    The values of a write that is done then count as applied, so later changes of them are those of a person.
    """
    if record is None or record.pending is None:
        return record
    found = _without_changes_of_others(_without_done_write(record, owners, target, now), target)
    # A field that neither a window nor the write has is not restored a second time.
    kept = {field for window in found.open for field in window.values} | (found.pending or {}).keys()
    baseline = {field: value for field, value in found.baseline.items() if field in kept}
    return msgspec.structs.replace(found, baseline=baseline)


def _without_done_write(
    record: WindowRecord, owners: Mapping[str, ScheduledObject], target: ObservedTarget, now: float
) -> WindowRecord:
    """Returns the record without the values that the target names as written."""
    if record.pending is None or not target.done:
        return record
    if not any(_is_done(window, owners.get(window.object), target, now) for window in record.open):
        return record
    present, applied = target.values, record.applied
    # Such a field may have had another write since. That one is repeated.
    unclear = {
        field: value
        for field, value in record.pending.items()
        if field in applied and present.get(field) == applied[field] != value
    }
    done = {field: value for field, value in record.pending.items() if field not in unclear}
    return msgspec.structs.replace(record, pending=unclear or None, applied={**applied, **done})


def _without_changes_of_others(record: WindowRecord, target: ObservedTarget) -> WindowRecord:
    """Returns the record without the unfinished values of fields that another client has set since.

    The target shows who wrote a field last. Before the unfinished write it had the value in `applied`, so any
    other value is that client's.
    """
    pending = {
        field: value
        for field, value in (record.pending or {}).items()
        if field not in target.managers
        or field not in record.applied
        or target.values.get(field) in (record.applied[field], value)
    }
    return msgspec.structs.replace(record, pending=pending or None)


def _is_done(window: OpenWindow, owner: ScheduledObject | None, target: ObservedTarget, now: float) -> bool:
    """True if the target shows that a window opened, and its execution is due, or that it closed."""
    if window.closes <= now and marker_of(window.label, window.closes) in target.done:
        return True
    if owner is None or marker_of(window.label, window.opened) not in target.done:
        return False
    rule = next((rule for rule in owner.rules if rule.name == window.rule), None)
    return rule is not None and watermark(rule, owner, now, None)[0] < window.opened
