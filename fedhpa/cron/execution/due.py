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
from datetime import UTC, datetime
from functools import lru_cache
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
    marker_of,
)
from fedhpa.cron.timetables import LONGEST_INTERVAL, Timetable


class Due(NamedTuple):
    """The due executions of a rule: the newest one, and the older ones as `earlier` (None without any)."""

    newest: Execution
    earlier: Missed | None


def find_due(rule: Rule, owner: ScheduledObject, after: float, now: float) -> Due | None:
    """Returns the executions of a rule in (after, now], or None without any."""
    table = rule.timetable
    if table is None or after >= now:
        return None
    newest = _newest_time(table, after, now)
    if newest is None:
        return None
    execution = Execution(newest, owner.name, rule.place, rule)
    earlier = _earlier_times(table, after, newest)
    return Due(execution, None if earlier is None else Missed(*earlier, _superseded_by(execution)))


# The rules of a target often have one schedule, so the answers for one pass are kept.
@lru_cache(maxsize=4096)
def _newest_time(table: Timetable, after: float, now: float) -> float | None:
    found = table.previous(_time(now), _time(after))
    return None if found is None else found.timestamp()


@lru_cache(maxsize=4096)
def _earlier_times(table: Timetable, after: float, newest: float) -> tuple[float, float, int] | None:
    """Returns the first and the last time after an instant and before the newest time, and their number."""
    start, end = _time(after), _time(newest - 1)
    first, last = table.next(start, end), table.previous(end, start)
    if first is None or last is None:
        return None
    return first.timestamp(), last.timestamp(), table.count(start, end)


@lru_cache(maxsize=4096)
def _next_time(table: Timetable, after: float, until: float | None) -> float | None:
    found = table.next(_time(after), None if until is None else _time(until))
    return None if found is None else found.timestamp()


def last_handled(rule: Rule, owner: ScheduledObject, handled_until: float) -> Execution | None:
    """Returns the execution at the watermark of a rule, or None if the watermark is no execution of it.

    An execution that was handled still supersedes the earlier executions of other rules.
    """
    found = fires_at(rule, handled_until)
    return Execution(handled_until, owner.name, rule.place, rule) if found else None


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


def next_time(rule: Rule, after: float, until: float | None = None) -> float | None:
    """Returns the first time of a rule in (after, until], or None for a suspended or unreadable rule."""
    return None if rule.timetable is None else _next_time(rule.timetable, after, until)


def fires_at(rule: Rule, at: float) -> bool:
    """True if an instant is a time of a rule that can run."""
    return rule.timetable is not None and at.is_integer() and _has_time(rule.timetable, at)


# The openings of windows are checked in each pass.
@lru_cache(maxsize=4096)
def _has_time(table: Timetable, at: float) -> bool:
    return table.at_or_after(_time(at), _time(at)) is not None


def latest_time(rule: Rule, at: float) -> float | None:
    """Returns the latest time of a rule at or before an instant, or None."""
    if rule.timetable is None:
        return None
    found = rule.timetable.previous(_time(at))
    return None if found is None else found.timestamp()


def _superseded_by(execution: Execution) -> str:
    return f"superseded by {execution.label} at {format_time(execution.at)}"


def _time(instant: float) -> datetime:
    return datetime.fromtimestamp(instant, UTC)


# A clock that was ahead by more than this wrote watermarks and windows of a future that is gone.
MOST_AHEAD_SECONDS: Final = 3600.0
_MOST_AHEAD_OF_HUB: Final = 86400.0


class Watermark(NamedTuple):
    """An instant, and True if the stored one was so far ahead of the clock that it would block the rule."""

    at: float
    was_ahead: bool = False


def watermark(rule: Rule, owner: ScheduledObject, now: float, newest: float | None) -> Watermark:
    """Returns the watermark of a rule, at most an hour ahead of `now` and at most nine years before it.

    `newest` is the newest execution of any rule of the target.
    """
    at = _stored(rule, owner, now, newest)
    # Of the hub's own clock, which may differ, more is believed.
    most = _MOST_AHEAD_OF_HUB if at in (owner.created, owner.edited) else MOST_AHEAD_SECONDS
    if at > now + most:
        return Watermark(now, was_ahead=True)
    return Watermark(max(at, now - LONGEST_INTERVAL.total_seconds()))


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
    if state is None:
        return _edited(owner, now) if owner.known else _first_seen(owner)
    if state.handled_until is None:
        return min(_without_record(state, now, newest), now)
    # Two edits since the record may have suspended and resumed the rule.
    edited = bool(state.hash) and state.hash != rule.hash
    if edited or (owner.edits > 1 and owner.edited is not None):
        # A later handled execution still counts: an execution is never applied twice.
        return max(_edited(owner, now), min(state.handled_until, now))
    return state.handled_until


def _first_seen(owner: ScheduledObject) -> float:
    """Returns the creation, or the later edit: the schedule may be as new as that."""
    return owner.created if owner.edited is None else max(owner.created, owner.edited)


def _edited(owner: ScheduledObject, now: float) -> float:
    """Returns when the spec was last written; `now` if unknown.

    It may be later than `now`, because it is a time of the hub. An earlier time would make executions due
    that precede the edit.
    """
    return now if owner.edited is None else owner.edited


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
            length, opened = rule.duration, latest_time(rule, now)
            if length is None or opened is None:
                continue
            if opened <= watermark(rule, owner, now, newest).at:
                yield OpenWindow(owner.name, rule.name, opened, opened + length, rule.values, rule.at_least)


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
    return rule is not None and watermark(rule, owner, now, None).at < window.opened
