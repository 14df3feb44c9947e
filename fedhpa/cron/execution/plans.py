"""The plan of one target at one instant, and the events that it is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.times import format_time
from fedhpa.cron.execution.owed import Fire
from fedhpa.cron.execution.records import (
    Missed,
    Note,
    OpenWindow,
    Rule,
    RuleState,
    Values,
    WindowRecord,
)

FIRE: Final = "fire"
WINDOW: Final = "window"
# Events that the marker of one write names. Further ones are the oldest, and their values are written again.
MAX_MARKED: Final = 64

States = dict[str, dict[str, RuleState]]


class Applied(NamedTuple):
    """A fire that the write applies, with the values that it sets and the window that it opens (or None)."""

    fire: Fire
    values: dict[str, int]
    window: OpenWindow | None = None


class Skipped(NamedTuple):
    """Fires of a rule that are never applied: the object, the rule, and the record of the fires."""

    object: str
    rule: str
    missed: Missed


class Cause(NamedTuple):
    """An event that gives a written field its value: a fire, or the end or the edit of an open window.

    `at` is when the fire was due, or when the window opened.
    """

    kind: str
    object: str
    rule: str
    at: float


def cause_of_fire(fire: Fire) -> Cause:
    """Returns a fire as the cause of a write."""
    return Cause(FIRE, *fire.key, fire.at)


def cause_of_opening(window: OpenWindow) -> Cause:
    """Returns the fire that opened a window as the cause of a write."""
    return Cause(FIRE, window.object, window.rule, window.opened)


def cause_of_window(window: OpenWindow) -> Cause:
    """Returns the end or the edit of a window as the cause of a write."""
    return Cause(WINDOW, window.object, window.rule, window.opened)


class Plan(msgspec.Struct, frozen=True):
    """The changes of one target that are due now. `settle` turns it into statuses once the write is done.

    `write` has the values that must change, by field; it is empty if the target has them all. `marker` names
    the events of the write, the oldest first. `causes` are the events that gave the written fields their
    values, and `failed_before` those events of the plan that failed at an earlier instant.
    `applied` are the fires that the write applies, `invalid` those of rules that set nothing, and
    `skipped` those that are never applied. `closed` are windows that end. `held` and `kept` are the fires and
    the ends of windows that this plan leaves out.

    `record` is what to store about open windows once the write is done. `pending` is what to store before it,
    so that an interrupted write is repeated. Either is None if there is nothing to store.

    `error` says why nothing can be written; all fires then fail.
    `states` are the stored states with their watermarks, by object and rule, and `rules` are their rules.
    `wake` is the next instant at which something is due; None if nothing ever is.
    """

    write: Values
    states: States
    rules: dict[tuple[str, str], Rule]
    marker: str = ""
    applied: tuple[Applied, ...] = ()
    invalid: tuple[Fire, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    closed: tuple[OpenWindow, ...] = ()
    record: WindowRecord | None = None
    pending: WindowRecord | None = None
    error: str = ""
    notes: tuple[Note, ...] = ()
    wake: float | None = None
    held: tuple[Fire, ...] = ()
    kept: tuple[OpenWindow, ...] = ()
    causes: tuple[Cause, ...] = ()
    failed_before: tuple[Cause, ...] = ()

    @property
    def holders(self) -> frozenset[str]:
        """The objects with an open window. Each of them needs the finalizer."""
        return frozenset() if self.record is None else frozenset(each.object for each in self.record.open)


def marker_of(label: str, at: float) -> str:
    """Returns the name of an event: `object/rule@time`.

    A comma separates names, so a comma in the name of a rule is escaped.
    """
    return f"{label.replace('%', '%25').replace(',', '%2C')}@{format_time(at)}"


def joined_markers(markers: Iterable[str]) -> str:
    """Returns the marker of a write that has these events, in order."""
    return ",".join(list(dict.fromkeys(markers))[-MAX_MARKED:])


def split_markers(text: str) -> frozenset[str]:
    """Returns the events that the marker of a write names. A text that is no marker names no event."""
    return frozenset(text.split(",", MAX_MARKED)[:MAX_MARKED])
