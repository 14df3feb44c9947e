"""The instant up to which the fires of a rule are handled.

A rule owes the fires after its watermark. A new object starts at its creation or at its last edit, and an
edited schedule at the edit. So no fire of the past is ever applied because somebody wrote an object. Fires
while no controller ran are after the watermark, and so they are still owed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fedhpa.cron.execution.records import Rule, RuleState, ScheduledObject
from fedhpa.cron.fires import LONGEST_INTERVAL

# A clock that was ahead by more than this wrote a watermark that would block the rule.
_MOST_AHEAD: Final = 86400.0


class Watermark(NamedTuple):
    """An instant, and True if the stored one was too far ahead of the clock to be believed."""

    at: float
    was_ahead: bool = False


def watermark(rule: Rule, owner: ScheduledObject, now: float, newest: float | None) -> Watermark:
    """Returns the watermark of a rule, at most a day ahead of `now` and at most nine years before it.

    `newest` is the newest execution of any rule of the target.
    """
    at = _stored(rule, owner, now, newest)
    if at > now + _MOST_AHEAD:
        return Watermark(now, was_ahead=True)
    return Watermark(max(at, now - LONGEST_INTERVAL.total_seconds()))


def newest_execution(owners: Iterable[ScheduledObject]) -> float | None:
    """Returns the newest execution that was applied or failed, of all rules of a target; None without one."""
    return max(
        (at for owner in owners for state in owner.states.values() for at in _tried(state)), default=None
    )


def _tried(state: RuleState) -> list[float]:
    return [*(done.scheduled for done in state.successes), *(each.scheduled for each in state.failures)]


def _stored(rule: Rule, owner: ScheduledObject, now: float, newest: float | None) -> float:
    state = owner.states.get(rule.name)
    if state is None:
        return _edited(owner, now) if owner.known else _first_seen(owner)
    if state.handled_until is None:
        return min(_without_record(state, now, newest), now)
    if state.hash and state.hash != rule.hash:
        # A later handled fire still counts: a fire is never applied twice.
        return max(_edited(owner, now), min(state.handled_until, now))
    return state.handled_until


def _first_seen(owner: ScheduledObject) -> float:
    """Returns the creation, or the later edit: the schedule may be as new as that."""
    return owner.created if owner.edited is None else max(owner.created, owner.edited)


def _edited(owner: ScheduledObject, now: float) -> float:
    """Returns when the spec was last written; `now` if unknown.

    It may be later than `now`, because it is a time of the hub. An earlier time would make the rule owe fires
    that precede the edit.
    """
    return now if owner.edited is None else owner.edited


def _without_record(state: RuleState, now: float, newest: float | None) -> float:
    """Returns the newest execution of any rule, or the instant before the fire that the status expects.

    It is that of any rule of the target: otherwise `up@09:00` would be applied at noon although `down@11:00`
    holds.
    """
    own = _tried(state)
    if newest is not None and (own or state.next_execution is None or state.next_execution <= newest):
        return newest
    return now if state.next_execution is None else state.next_execution - 1
