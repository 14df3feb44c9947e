"""The values that plain executions and open windows give to a target.

For each field the open window that opened last decides. When it closes, the one below it decides again, and
after the last one the baseline: the value from before the first window, or the one that a plain execution set
meanwhile.

New values of an edited rule apply at once, and a new duration counts from the execution that opened the
window. A new schedule, zone or excluded date closes the window only if the calendar does not have its opening
any more. A new target, suspension, renaming and removal close it. What somebody else changes stays.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from fedhpa.cron.execution.model import (
    REPLICAS,
    Key,
    Note,
    ObservedTarget,
    OpenWindow,
    RuleState,
    ScheduledObject,
    Values,
    WindowRecord,
    newest_execution,
)
from fedhpa.cron.execution.objects import marker_of


def fields_of(windows: Iterable[OpenWindow]) -> set[str]:
    """Returns the fields that windows set."""
    return {field for window in windows for field in window.values}


_DELETED: Final = "the record of its window was deleted, and the replicas from before with it"
# The place of a window among all: its opening, its object, and the place and the name of its rule.
Order = tuple[float, str, int, str]


class ValueStack:
    """The values of one target, with its open windows over a baseline, while events are applied in order.

    `values` are those of the target. For the fields of windows, the values of an unfinished write take their
    place. `baseline` and `windows` are those of the stored record. `places` has the place of each rule in its
    object, which orders windows of one instant.
    """

    def __init__(self, values: Values, record: WindowRecord | None, places: Mapping[Key, int]) -> None:
        self._places = places
        self._stored = record
        self.values: Values = dict(values)
        if record is not None and record.pending is not None:
            # The value of a plain execution is left out: it is still due, unless it is too late by now.
            fields = fields_of(record.open) | record.baseline.keys()
            self.values |= {field: value for field, value in record.pending.items() if field in fields}
        self.baseline: Values = {} if record is None else dict(record.baseline)
        self._windows: dict[Key, OpenWindow] = {}
        self._over: dict[str, list[tuple[Order, OpenWindow]]] = {}
        self._present = dict(values)
        for window in () if record is None else record.open:
            self._put(window)

    @property
    def windows(self) -> list[OpenWindow]:
        """The open windows, in order."""
        return sorted(self._windows.values(), key=self.order)

    def get(self, key: Key) -> OpenWindow | None:
        """Returns the open window of a rule, or None."""
        return self._windows.get(key)

    def apply(self, values: dict[str, int], *, at_least: bool = False, done: bool = False) -> dict[str, int]:
        """Applies a plain execution, and returns what it sets. Under an open window it changes the baseline.

        With `at_least` it lowers nothing. `done` is True if its values were written before, and somebody may
        have changed them since.
        """
        applied = {}
        for field, value in values.items():
            below = self.baseline if self._over.get(field) else self.values
            applied[field] = max(value, below.get(field) or 0) if at_least else value
            if below is self.baseline or not done:
                below[field] = applied[field]
        self._settle()
        return applied

    def open(self, window: OpenWindow) -> None:
        """Opens a window, or gives an open one other values or another time: a rule has one window.

        The present values of fields that only this window holds are kept as their baseline.
        """
        self._put(window)
        for field in window.values:
            if field not in self.baseline and field in self.values:
                self.baseline[field] = self.values[field]
        self._settle()

    def order(self, window: OpenWindow) -> Order:
        """Returns the place of a window among all windows."""
        return window.opened, window.object, self._places.get(window.key, 0), window.rule

    def close(self, window: OpenWindow) -> None:
        """Closes a window, unless its rule has opened another one since. What held before it holds again."""
        if self._windows.get(window.key) is window:
            self._take(window)
            self._settle()

    def abandon(self, window: OpenWindow) -> None:
        """Ends a window and leaves the values that no other window holds as they are."""
        self._take(window)
        for field in window.values.keys() - self.covered():
            self.baseline.pop(field, None)
            if field in self._present:
                self.values[field] = self._present[field]
        self._settle()

    def leave(self, field: str) -> list[OpenWindow]:
        """Leaves a field as it is: no window sets it any more. Returns the windows that this ended."""
        self.baseline.pop(field, None)
        ended = []
        for _, window in list(self._over.get(field, ())):
            values = {name: value for name, value in window.values.items() if name != field}
            self._take(window)
            if values:
                self._put(replace(window, values=values, left=(*window.left, field)))
            else:
                ended.append(window)
        return ended

    def covered(self) -> set[str]:
        """Returns the fields that open windows set."""
        return {field for field, windows in self._over.items() if windows}

    def write(self) -> Values:
        """Returns the values that differ from those of the target, by field."""
        return dict(each for each in self.values.items() if each not in self._present.items())

    def record_after(self, target: ObservedTarget, *, read: bool) -> WindowRecord | None:
        """Returns the record once the write is done, or None if nothing is left to record.

        If the target was not `read`, only its windows differ from the stored one.
        """
        windows = tuple(self.windows)
        if not windows:
            return None
        if not read and self._stored is not None:
            return replace(self._stored, open=windows)
        applied = {field: self.values[field] for field in sorted(self.covered())}
        return self._record(target, baseline=self.baseline, pending=None, applied=applied, open=windows)

    def record_before(
        self, target: ObservedTarget, write: Values, restoring: Sequence[OpenWindow]
    ) -> WindowRecord | None:
        """Returns the record to store before a write, or None if the write concerns no window.

        The windows in `restoring` stay in it with the values that the write restores, until it is done.
        """
        stored, covered, windows = self._stored or WindowRecord(), self.covered(), self.windows
        if not write or (self._stored is None and not windows):
            return None
        # Covered fields that need no write have their values already.
        unchanged = {field: self.values[field] for field in sorted(covered - write.keys())}
        # A value that is neither the one before the write nor the one of the write is then somebody else's.
        before = {field: target.values.get(field) for field in stored.applied if field in write}
        # An edit takes fields from a window that stays open.
        ending = fields_of(restoring) | (fields_of(stored.open) & write.keys())
        restored = {field: self.values[field] for field in sorted(ending - covered) if field in self.values}
        return self._record(
            target,
            baseline=self.baseline | restored,
            pending=write,
            applied=stored.applied | unchanged | before,
            open=tuple(sorted((*restoring, *windows), key=self.order)),
        )

    def _record(self, target: ObservedTarget, **changes: Any) -> WindowRecord:
        """Returns the stored record with changes, and with the clusters as they were read last."""
        before = self._stored or WindowRecord()
        shares, uids = before.shares | target.shares, before.uids | target.uids
        return replace(before, shares=shares, uids=uids, **changes)

    def covering(self, field: str) -> OpenWindow | None:
        """Returns the window that opened last among those that set a field, or None."""
        windows = self._over.get(field)
        return windows[-1][1] if windows else None

    def _put(self, window: OpenWindow) -> None:
        if (former := self._windows.get(window.key)) is not None:
            self._take(former)
        self._windows[window.key] = window
        for field in window.values:
            insort(self._over.setdefault(field, []), (self.order(window), window))

    def _take(self, window: OpenWindow) -> None:
        del self._windows[window.key]
        for field in window.values:
            windows = self._over[field]
            del windows[bisect_left(windows, (self.order(window),))]

    def _settle(self) -> None:
        """Makes each field hold the value of its top window, or its baseline without one."""
        for field in {*self.baseline, *self._over}:
            if self._over.get(field):
                self.values[field] = self._value(field)
            elif field in self.baseline:
                self.values[field] = self.baseline.pop(field)

    def _value(self, field: str) -> int:
        """Returns the value of a covered field: that of the top window, or more with `at_least`."""
        value = None
        for _, window in reversed(self._over[field]):
            value = window.values[field] if value is None else max(value, window.values[field])
            if not window.at_least:
                return value
        return max(value or 0, self.baseline.get(field) or 0)


# Seconds for which the end of a window is tried: of a deleted object, and of one that has another target now.
LONGEST_DELETION: Final = 60.0
LONGEST_CLOSING: Final = 3600.0


def given_up(window: OpenWindow, owner: ScheduledObject | None, now: float) -> str:
    """Returns why nothing tries to end a window any more, or ""."""
    limit, text = LONGEST_CLOSING, "within an hour after the object had left the target"
    if owner is not None and owner.deleted is not None:
        limit, text = LONGEST_DELETION, f"within {LONGEST_DELETION:.0f} s of the deletion"
    stays = owner is not None and owner.runs
    if stays or window.ending is None or now - window.ending <= limit:
        return ""
    return f"its values could not be restored {text}, so they stay"


# Stands for a client that the managed fields do not name.
SOMEBODY: Final = "somebody"


def lost_target(record: WindowRecord, target: ObservedTarget) -> str:
    """Returns why no window can restore anything: the target, as it was when they opened, is gone. Or ""."""
    common = [record.uids[cluster] == target.uids[cluster] for cluster in record.uids.keys() & target.uids]
    what = "was made anew" if common and not any(common) else "is gone" if target.gone else ""
    return what and f"the target {what}, so its window is closed and nothing is restored"


def lost_windows(owners: Iterable[ScheduledObject], target: ObservedTarget) -> list[Note]:
    """Returns the windows of a scale whose record somebody deleted. Nobody knows what to restore."""
    size = target.values.get(REPLICAS)
    return [
        Note(owner.name, "NotRestored", f"rule {rule.name}: {_DELETED}, so {size} replicas stay: set them")
        for owner in owners
        for rule in owner.rules
        if owner.waits and size is not None and rule.duration is not None
        if [done.values for done in owner.states.get(rule.name, RuleState()).successes[:1]]
        == [{REPLICAS: size}]
    ]


def leave_changes(
    stack: ValueStack, record: WindowRecord, target: ObservedTarget
) -> tuple[list[OpenWindow], list[Note]]:
    """Leaves a field as it is if its value is not the one that a rule wrote last.

    Returns the windows that this ends, which the stack does not have any more, and what people should hear.
    """
    ended: list[OpenWindow] = []
    notes: list[Note] = []
    known = stack.covered() & target.values.keys() & record.applied.keys()
    for field in sorted(known - (record.pending or {}).keys()):
        new, old, place = target.values[field], record.applied[field], ""
        if field == REPLICAS and target.shares:
            # Clusters that joined, left or are silent, and workloads that were made anew, changed nothing.
            changed = (
                cluster
                for cluster in sorted(record.shares.keys() & target.shares.keys())
                if record.uids.get(cluster) == target.uids.get(cluster)
                if record.shares[cluster] != target.shares[cluster]
            )
            if (cluster := next(changed, None)) is None:
                continue
            new, old, place = target.shares[cluster], record.shares[cluster], f" in cluster {cluster}"
        elif new == old:
            continue
        change = change_text(target, field, new)
        text = f"{change}{place} while a window set it to {_shown(old)}; it stays, and nothing is restored"
        holders = {window.object for window in stack.windows if field in window.values}
        notes += (Note(name, "WindowOverridden", text, change=change) for name in sorted(holders))
        ended += stack.leave(field)
    return ended, notes


def change_text(target: ObservedTarget, field: str, value: int | None) -> str:
    """Returns who set a field to a value, for people."""
    return f"{target.managers.get(field, SOMEBODY)} set {field} to {_shown(value)}"


def _shown(value: int | None) -> str:
    return "no value" if value is None else str(value)


def recovered(owners: Collection[ScheduledObject], baseline: Values, now: float) -> WindowRecord | None:
    """Returns the record of the windows whose baseline the target names, for one that is lost.

    The newest window of each rule whose execution counts as handled is in it, also one that is over: it
    closes, and the baseline returns. A target whose values are not those of the windows was changed by
    somebody, and keeps its values.
    """
    newest = newest_execution(owners)
    windows = [
        OpenWindow.of(owner.name, rule, opened)
        for owner in owners
        for rule in owner.rules
        if rule.duration is not None and (opened := rule.latest_time(now)) is not None
        if opened <= owner.watermark(rule, now, newest)[0]
    ]
    windows.sort(key=lambda window: (window.opened, window.key))
    applied: Values = {field: value for window in windows for field, value in window.values.items()}
    kept = {field: value for field, value in baseline.items() if field in applied}
    return WindowRecord(kept, None, applied, tuple(windows)) if windows else None


def acknowledged(
    record: WindowRecord | None, owners: Mapping[str, ScheduledObject], target: ObservedTarget, now: float
) -> WindowRecord | None:
    """Returns the record without the parts of the unfinished write that the target shows as done or changed.

    The values of a write that is done then count as applied, so later changes of them are those of a person.
    """
    if record is None or record.pending is None:
        return record
    applied, left = dict(record.applied), Values()
    done = bool(target.done) and any(
        _is_done(window, owners.get(window.object), target, now) for window in record.open
    )
    for field, value in record.pending.items():
        present, before = target.values.get(field), applied.get(field)
        unchanged = field in applied and present == before
        # Such a field may have had another write since. That one is repeated.
        if done and not (unchanged and before != value):
            applied[field] = value
        # Before the write it had the value in `applied`. Any other value is that of the client that wrote it.
        elif field not in target.managers or field not in applied or unchanged or present == value:
            left[field] = value
    # A field that neither a window nor the write has is not restored a second time.
    kept = fields_of(record.open) | left.keys()
    baseline = {field: value for field, value in record.baseline.items() if field in kept}
    return replace(record, pending=left or None, applied=applied, baseline=baseline)


def _is_done(window: OpenWindow, owner: ScheduledObject | None, target: ObservedTarget, now: float) -> bool:
    """True if the target shows that a window opened, and its execution is due, or that it closed."""
    if window.closes <= now and marker_of(window.key, window.closes) in target.done:
        return True
    if owner is None or marker_of(window.key, window.opened) not in target.done:
        return False
    rule = next((rule for rule in owner.rules if rule.name == window.rule), None)
    return rule is not None and owner.watermark(rule, now, None)[0] < window.opened
