"""The values that plain fires and open windows make hold on a target.

For each field the open window that opened last decides. When it closes, the one below decides again, and
after the last one the baseline: the value from before the first window, or the one that a plain fire set
meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.cron.execution.records import OpenWindow, Values, WindowRecord


class Holding:
    """The values of one target while events are applied to it in order.

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
            # The value of a plain fire is left out: its fire is still owed, unless it is too late by now.
            held = {field for window in record.open for field in window.values} | record.baseline.keys()
            self.values |= {field: value for field, value in record.pending.items() if field in held}
        self.baseline: Values = {} if record is None else dict(record.baseline)
        self.windows: list[OpenWindow] = [] if record is None else list(record.open)
        self._present = dict(values)

    def fire(self, values: dict[str, int], *, done: bool = False) -> None:
        """Applies a plain fire. Under an open window it changes the baseline only.

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

    def give_up(self, field: str) -> list[OpenWindow]:
        """Leaves a field as it is: no window holds it any more. Returns the windows that this ended."""
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
        """Returns the fields that open windows hold."""
        return {field for window in self.windows for field in window.values}

    def write(self) -> Values:
        """Returns the values that differ from those of the target, by field."""
        nothing = object()
        return {
            field: value for field, value in self.values.items() if self._present.get(field, nothing) != value
        }

    def covering(self, field: str) -> OpenWindow | None:
        """Returns the window that opened last among those that hold a field, or None."""
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
