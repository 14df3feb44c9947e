"""The effects of edited objects on the open windows of their rules.

New values apply at once, and a new duration counts from the fire that opened the window. Any other edit of
the rule closes the window: a new schedule, zone, excluded date or target, suspension, renaming and removal.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from fedhpa.cron.execution.holding import Holding
from fedhpa.cron.execution.owed import window_seconds
from fedhpa.cron.execution.plans import Cause, cause_of_window
from fedhpa.cron.execution.records import Note, OpenWindow, Rule, ScheduledObject, Target

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
    holding: Holding,
    owners: dict[str, ScheduledObject],
    now: float,
    held: AbstractSet[Cause],
    target: Target,
    *,
    tried: bool,
) -> Edits:
    """Adapts the open windows to their rules in place, and returns the windows that end.

    The edits of the windows in `held` wait. `tried` is True if a write was begun and has not succeeded.
    Without that nobody tried to restore the values of a deleted object, for example because no controller
    ran. While the target cannot be read, only deletions that waited too long end windows.
    """
    if target.error and not target.gone:
        return _overdue_deletions(holding, owners, now)
    edits = Edits([], [])
    for window in holding.windows:
        owner = owners.get(window.object)
        rule = _rule_of(window, owner)
        if target.gone:
            edits.closings.append(Closing(window, restores=False))
            text = f"rule {window.rule}: the target is gone, so its window is closed and nothing is restored"
            edits.notes.append(Note(window.object, "NotRestored", text))
        elif _is_overdue(owner, now) and (tried or cause_of_window(window) in held):
            edits.closings.append(Closing(window, restores=False))
            edits.notes.append(_not_restored(window))
        elif cause_of_window(window) in held:
            continue
        elif rule is None or not _values_left(window, rule):
            edits.closings.append(Closing(window, restores=True))
        else:
            _adapt(holding, window, rule)
    return edits


def _overdue_deletions(holding: Holding, owners: dict[str, ScheduledObject], now: float) -> Edits:
    overdue = [window for window in holding.windows if _is_overdue(owners.get(window.object), now)]
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


def _adapt(holding: Holding, window: OpenWindow, rule: Rule) -> None:
    """Gives a window the present values and duration of its rule."""
    length = window_seconds(rule)
    assert length is not None
    values = _values_left(window, rule)
    closes = window.opened + length
    if values != window.values or closes != window.closes:
        holding.replace(window, msgspec.structs.replace(window, values=values, closes=closes))


def _values_left(window: OpenWindow, rule: Rule) -> dict[str, int]:
    """Returns the values of a rule, without the fields that somebody else has changed in its window."""
    return {field: value for field, value in rule.values.items() if field not in window.left}
