"""A write whose result was not stored, because the controller ended between the two, and a lost record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from fedhpa.cron.execution.owed import latest_fire, window_seconds
from fedhpa.cron.execution.plans import marker_of
from fedhpa.cron.execution.records import OpenWindow, ScheduledObject, Target, Values, WindowRecord
from fedhpa.cron.execution.watermark import newest_execution, watermark


def recovered(owners: Collection[ScheduledObject], target: Target, now: float) -> WindowRecord | None:
    """Returns the record of the windows whose baseline the target names, for one that is lost.

    The newest window of each rule is in it, also one that is over: it closes, and the baseline returns. A
    target whose values are not those of the windows was changed by somebody, and keeps its values.
    """
    baseline = target.baseline or {}
    windows = sorted(_newest_windows(owners, now), key=lambda window: (window.opened, window.label))
    applied: Values = {field: value for window in windows for field, value in window.values.items()}
    if not windows:
        return None
    return WindowRecord(
        {field: value for field, value in baseline.items() if field in applied}, None, applied, tuple(windows)
    )


def _newest_windows(owners: Collection[ScheduledObject], now: float) -> Iterator[OpenWindow]:
    """Yields the window that each rule opened last, as far as its fire counts as handled."""
    newest = newest_execution(owners)
    for owner in owners:
        for rule in owner.rules:
            length, opened = window_seconds(rule), latest_fire(rule, now)
            if length is None or opened is None:
                continue
            if opened <= watermark(rule, owner, now, newest).at:
                yield OpenWindow(owner.name, rule.name, opened, opened + length, rule.values, rule.hash)


def is_unfinished(record: WindowRecord | None, target: Target) -> bool:
    """True if a write was begun, and the target does not have all of its values."""
    pending = None if record is None else record.pending
    present = target.values
    return pending is not None and any(present.get(field) != value for field, value in pending.items())


def acknowledged(
    record: WindowRecord | None, owners: Mapping[str, ScheduledObject], target: Target, now: float
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
    record: WindowRecord, owners: Mapping[str, ScheduledObject], target: Target, now: float
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


def _without_changes_of_others(record: WindowRecord, target: Target) -> WindowRecord:
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


def _is_done(window: OpenWindow, owner: ScheduledObject | None, target: Target, now: float) -> bool:
    """True if the target shows that a window opened, and its fire is owed, or that it closed."""
    if window.closes <= now and marker_of(window.label, window.closes) in target.done:
        return True
    if owner is None or marker_of(window.label, window.opened) not in target.done:
        return False
    rule = next((rule for rule in owner.rules if rule.name == window.rule), None)
    return rule is not None and watermark(rule, owner, now, None).at < window.opened
