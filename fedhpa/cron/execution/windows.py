"""The values that plain executions and open windows give to a target.

For each field the open window that opened last decides. When it closes, the one below decides again, and
after the last one the baseline: the value from before the first window, or the one that a plain execution set
meanwhile.

New values of an edited rule apply at once, and a new duration counts from the execution that opened the
window. Any other edit closes the window: a new schedule, zone, excluded date or target, suspension, renaming
and removal. A write whose result was not stored, because the controller ended between the two, is completed;
the windows of a lost record are taken from the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from fedhpa.cron.execution.due import latest_time, newest_execution, watermark, window_seconds
from fedhpa.cron.execution.model import (
    Note,
    ObservedTarget,
    OpenWindow,
    Rule,
    ScheduledObject,
    Values,
    WindowRecord,
    WriteCause,
    cause_of_window,
    marker_of,
)


class ValueStack:
    """The values of one target, with its open windows over a baseline, while events are applied in order.

    `values` are those of the target. For the fields of windows, the values of an unfinished write take their
    place. `baseline` and `windows` are those of the stored record. `places` has the place of each rule in its
    object, which orders windows of one instant.
    """

    def __init__(
        self, values: Values, record: WindowRecord | None, places: Mapping[tuple[str, str], int]
    ) -> None:
        self._places = places
        self.values: Values = dict(values)
        if record is not None and record.pending is not None:
            # The value of a plain execution is left out: it is still due, unless it is too late by now.
            fields = {field for window in record.open for field in window.values} | record.baseline.keys()
            self.values |= {field: value for field, value in record.pending.items() if field in fields}
        self.baseline: Values = {} if record is None else dict(record.baseline)
        self.windows: list[OpenWindow] = [] if record is None else list(record.open)
        self._present = dict(values)

    def apply(self, values: dict[str, int], *, done: bool = False) -> None:
        """Applies a plain execution. Under an open window it changes the baseline only.

        `done` is True if its values were written before, and somebody may have changed them since.
        """
        for field, value in values.items():
            if self.covering(field) is None:
                if not done:
                    self.values[field] = value
            else:
                self.baseline[field] = value

    def open(self, window: OpenWindow) -> None:
        """Opens a window. It takes the place of the earlier window of its rule. Opened twice, it stays."""
        if any(_same(window, other) for other in self.windows):
            return
        self.windows = [*(other for other in self.windows if not _same_rule(window, other)), window]
        self.windows.sort(key=self.order)
        self._take_baseline(window)
        self._settle()

    def order(self, window: OpenWindow) -> tuple[float, str, int]:
        """Returns the place of a window among all windows: by its opening, its object and its rule."""
        return window.opened, window.object, self._places.get((window.object, window.rule), 0)

    def close(self, window: OpenWindow) -> None:
        """Closes a window. What held before it holds again."""
        self.windows = [other for other in self.windows if other is not window]
        self._settle()

    def abandon(self, window: OpenWindow) -> None:
        """Ends a window and leaves the values that no other window holds as they are."""
        self.windows = [other for other in self.windows if other is not window]
        for field in window.values.keys() - self.covered():
            self.baseline.pop(field, None)
            if field in self._present:
                self.values[field] = self._present[field]
        self._settle()

    def replace(self, window: OpenWindow, changed: OpenWindow) -> None:
        """Gives an open window other values or another end."""
        self.windows = [changed if other is window else other for other in self.windows]
        self._take_baseline(changed)
        self._settle()

    def leave(self, field: str) -> list[OpenWindow]:
        """Leaves a field as it is: no window sets it any more. Returns the windows that this ended."""
        self.baseline.pop(field, None)
        ended: list[OpenWindow] = []
        kept: list[OpenWindow] = []
        for window in self.windows:
            values = {name: value for name, value in window.values.items() if name != field}
            if field not in window.values:
                kept.append(window)
            elif values:
                kept.append(msgspec.structs.replace(window, values=values, left=(*window.left, field)))
            else:
                ended.append(window)
        self.windows = kept
        return ended

    def covered(self) -> set[str]:
        """Returns the fields that open windows set."""
        return {field for window in self.windows for field in window.values}

    def write(self) -> Values:
        """Returns the values that differ from those of the target, by field."""
        nothing = object()
        return {
            field: value for field, value in self.values.items() if self._present.get(field, nothing) != value
        }

    def covering(self, field: str) -> OpenWindow | None:
        """Returns the window that opened last among those that set a field, or None."""
        return next((window for window in reversed(self.windows) if field in window.values), None)

    def _take_baseline(self, window: OpenWindow) -> None:
        """Keeps the present values of the fields that only this window holds."""
        for field in window.values:
            if field not in self.baseline and field in self.values:
                self.baseline[field] = self.values[field]

    def _settle(self) -> None:
        """Makes each field hold the value of its top window, or its baseline without one."""
        for field in {*self.baseline, *self.covered()}:
            window = self.covering(field)
            if window is not None:
                self.values[field] = window.values[field]
            elif field in self.baseline:
                self.values[field] = self.baseline.pop(field)


def _same(one: OpenWindow, other: OpenWindow) -> bool:
    return _same_rule(one, other) and one.opened == other.opened


def _same_rule(one: OpenWindow, other: OpenWindow) -> bool:
    return (one.object, one.rule) == (other.object, other.rule)


# Seconds for which the deletion of an object waits for its values to be restored.
LONGEST_DELETION: Final = 60.0


class Closing(NamedTuple):
    """A window that ends because of an edit. `restores` is False if its values stay as they are."""

    window: OpenWindow
    restores: bool


class Edits(NamedTuple):
    """The windows that end, and what people should hear of it."""

    closings: list[Closing]
    notes: list[Note]


def edited_windows(
    stack: ValueStack,
    owners: dict[str, ScheduledObject],
    now: float,
    left_out: AbstractSet[WriteCause],
    target: ObservedTarget,
    *,
    tried: bool,
) -> Edits:
    """Adapts the open windows to their rules in place, and returns the windows that end.

    The edits of the windows in `left_out` wait. `tried` is True if a write was begun and has not succeeded.
    Without that nobody tried to restore the values of a deleted object, for example because no controller
    ran. While the target cannot be read, only deletions that waited too long end windows.
    """
    if target.error and not target.gone:
        return _overdue_deletions(stack, owners, now)
    edits = Edits([], [])
    for window in stack.windows:
        owner = owners.get(window.object)
        rule = _rule_of(window, owner)
        if target.gone:
            edits.closings.append(Closing(window, restores=False))
            text = f"rule {window.rule}: the target is gone, so its window is closed and nothing is restored"
            edits.notes.append(Note(window.object, "NotRestored", text))
        elif _is_overdue(owner, now) and (tried or cause_of_window(window) in left_out):
            edits.closings.append(Closing(window, restores=False))
            edits.notes.append(_not_restored(window))
        elif cause_of_window(window) in left_out:
            continue
        elif rule is None or not _values_left(window, rule):
            edits.closings.append(Closing(window, restores=True))
        else:
            _adapt(stack, window, rule)
    return edits


def _overdue_deletions(stack: ValueStack, owners: dict[str, ScheduledObject], now: float) -> Edits:
    overdue = [window for window in stack.windows if _is_overdue(owners.get(window.object), now)]
    closings = [Closing(window, restores=False) for window in overdue]
    return Edits(closings, [_not_restored(window) for window in overdue])


def _not_restored(window: OpenWindow) -> Note:
    text = (
        f"rule {window.rule}: its values could not be restored within "
        f"{LONGEST_DELETION:.0f} s of the deletion, so they stay"
    )
    return Note(window.object, "NotRestored", text)


def _rule_of(window: OpenWindow, owner: ScheduledObject | None) -> Rule | None:
    """Returns the rule that may keep its window open, or None."""
    if owner is None or not owner.present or owner.deleted is not None:
        return None
    rule = next((rule for rule in owner.rules if rule.name == window.rule), None)
    if rule is None or rule.hash != window.hash or not rule.values or window_seconds(rule) is None:
        return None
    return rule


def _is_overdue(owner: ScheduledObject | None, now: float) -> bool:
    """True if an object was deleted so long ago that its deletion need not wait any more."""
    return owner is not None and owner.deleted is not None and now - owner.deleted > LONGEST_DELETION


def _adapt(stack: ValueStack, window: OpenWindow, rule: Rule) -> None:
    """Gives a window the present values and duration of its rule."""
    length = window_seconds(rule)
    assert length is not None
    values = _values_left(window, rule)
    closes = window.opened + length
    if values != window.values or closes != window.closes:
        stack.replace(window, msgspec.structs.replace(window, values=values, closes=closes))


def _values_left(window: OpenWindow, rule: Rule) -> dict[str, int]:
    """Returns the values of a rule, without the fields that somebody else has changed in its window."""
    return {field: value for field, value in rule.values.items() if field not in window.left}


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
    return WindowRecord(
        {field: value for field, value in baseline.items() if field in applied}, None, applied, tuple(windows)
    )


def _newest_windows(owners: Collection[ScheduledObject], now: float) -> Iterator[OpenWindow]:
    """Yields the window that each rule opened last, as far as its execution counts as handled."""
    newest = newest_execution(owners)
    for owner in owners:
        for rule in owner.rules:
            length, opened = window_seconds(rule), latest_time(rule, now)
            if length is None or opened is None:
                continue
            if opened <= watermark(rule, owner, now, newest).at:
                yield OpenWindow(owner.name, rule.name, opened, opened + length, rule.values, rule.hash)


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
