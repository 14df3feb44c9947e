"""Changes of a target that somebody else made: of a value in an open window or after an execution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.cron.execution.due import window_seconds
from fedhpa.cron.execution.model import (
    REPLICAS,
    Key,
    Note,
    ObservedTarget,
    OpenWindow,
    Rule,
    ScheduledObject,
    WindowRecord,
)
from fedhpa.cron.execution.windows import ValueStack

# Stands for a client that the managed fields do not name.
SOMEBODY: Final = "somebody"


def lost_target(record: WindowRecord | None, target: ObservedTarget) -> str:
    """Returns why no window can restore anything: the target, as it was when they opened, is gone. Or ""."""
    before = {} if record is None else record.uids
    common = [before[cluster] == target.uids[cluster] for cluster in before.keys() & target.uids.keys()]
    made_anew = bool(common) and not any(common)
    if not (target.gone or made_anew):
        return ""
    what = "was made anew" if made_anew else "is gone"
    return f"the target {what}, so its window is closed and nothing is restored"


def leave_changes(
    stack: ValueStack, record: WindowRecord | None, target: ObservedTarget
) -> tuple[list[OpenWindow], list[Note]]:
    """Leaves a field as it is if its value is not the one that a rule wrote last.

    Returns the windows that this ends, which the stack does not have any more, and what people should hear.
    """
    ended: list[OpenWindow] = []
    notes: list[Note] = []
    for field in sorted(stack.covered()) if record is not None else ():
        assert record is not None
        unfinished = record.pending is not None and field in record.pending
        if unfinished or field not in target.values or field not in record.applied:
            continue
        present, applied = target.values[field], record.applied[field]
        share = _changed_share(record, target) if field == REPLICAS else None
        if share is None and (target.shares or present == applied):
            continue
        where, new, old = share or ("", present, applied)
        change = _change(target, field, new)
        place = f" in cluster {where}" if where else ""
        text = f"{change}{place} while a window set it to {_shown(old)}; it stays, and nothing is restored"
        holders = {window.object for window in stack.windows if field in window.values}
        notes += (Note(name, "WindowOverridden", text, change=change) for name in sorted(holders))
        ended += stack.leave(field)
    return ended, notes


def _changed_share(record: WindowRecord, target: ObservedTarget) -> tuple[str, int, int] | None:
    """Returns a cluster that answered with other replicas than a rule wrote there, both numbers, or None.

    Clusters that joined, left or are silent, and workloads that were made anew, are no change of anybody.
    """
    for cluster in sorted(record.shares.keys() & target.shares.keys()):
        same = record.uids.get(cluster) == target.uids.get(cluster)
        if same and record.shares[cluster] != target.shares[cluster]:
            return cluster, target.shares[cluster], record.shares[cluster]
    return None


def reverts(
    owners: Mapping[str, ScheduledObject],
    rules: Mapping[Key, Rule],
    target: ObservedTarget,
    record: WindowRecord | None,
) -> list[Note]:
    """Returns which fields somebody has set since a plain execution did; none while a window is open."""
    if record is not None:
        return []
    newest: dict[str, tuple[float, str, int]] = {}
    for owner in owners.values():
        for name, state in owner.states.items():
            rule = rules.get((owner.name, name))
            if rule is None or window_seconds(rule) is not None or not state.successes:
                continue
            done = state.successes[0]
            for field, value in done.values.items():
                entry = (done.scheduled, owner.name, value)
                newest[field] = max(newest.get(field, entry), entry)
    notes = []
    for field, (_, name, value) in sorted(newest.items()):
        present = target.values.get(field, value)
        if present != value:
            change = _change(target, field, present)
            text = f"{change} after a rule had set it to {value}"
            notes.append(Note(name, "RevertedAgain", text, change=change))
    return notes


def _change(target: ObservedTarget, field: str, value: int | None) -> str:
    """Returns who set a field to a value, for people."""
    return f"{target.managers.get(field, SOMEBODY)} set {field} to {_shown(value)}"


def _shown(value: int | None) -> str:
    return "no value" if value is None else str(value)
