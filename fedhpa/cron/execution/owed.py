"""The fires that rules owe, and which of them will never be applied.

Only the newest owed fire of a rule can matter, so the older ones are counted and not visited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from fedhpa.api.times import format_time
from fedhpa.cron.execution.records import Missed, Rule, ScheduledObject
from fedhpa.cron.timetable import Timetable


class Fire(NamedTuple):
    """A fire of a rule. Fires sort by time, then by the name of the object, then by the place of the rule."""

    at: float
    object: str
    place: int
    rule: Rule

    @property
    def key(self) -> tuple[str, str]:
        """The object and the name of the rule."""
        return self.object, self.rule.name

    @property
    def label(self) -> str:
        """The rule's name for people: `object/rule`."""
        return f"{self.object}/{self.rule.name}"

    @property
    def order(self) -> tuple[float, str, int]:
        """The place of the fire among all fires of a target."""
        return self.at, self.object, self.place


class Due(NamedTuple):
    """The fires that a rule owes: the newest one, and the older ones as `earlier` (None: there are none)."""

    newest: Fire
    earlier: Missed | None


def due(rule: Rule, owner: ScheduledObject, after: float, now: float) -> Due | None:
    """Returns what a rule owes in (after, now], or None."""
    table = rule.timetable
    if table is None or after >= now:
        return None
    start, end = _time(after), _time(now)
    newest = table.previous(end, start)
    if newest is None:
        return None
    fire = Fire(newest.timestamp(), owner.name, rule.place, rule)
    return Due(fire, _earlier(table, start, fire))


def _earlier(table: Timetable, start: datetime, fire: Fire) -> Missed | None:
    """Returns the fires of a rule after `start` and before its newest one."""
    end = _time(fire.at - 1)
    first = table.next(start, end)
    if first is None:
        return None
    last = table.previous(end, start)
    assert last is not None
    count = table.count(start, end)
    return Missed(first.timestamp(), last.timestamp(), count, _superseded_by(fire))


def last_handled(rule: Rule, owner: ScheduledObject, handled_until: float) -> Fire | None:
    """Returns the fire at the watermark of a rule, or None if the watermark is no fire of it.

    A fire that was handled still supersedes the earlier fires of other rules.
    """
    if rule.timetable is None or not handled_until.is_integer():
        return None
    at = rule.timetable.at_or_after(_time(handled_until), _time(handled_until))
    return None if at is None else Fire(handled_until, owner.name, rule.place, rule)


def latest_of_fields(fires: Iterable[Fire]) -> dict[str, Fire]:
    """Returns the latest of some fires for each field that they set."""
    latest: dict[str, Fire] = {}
    for fire in fires:
        for field in fire.rule.values:
            if field not in latest or fire.order > latest[field].order:
                latest[field] = fire
    return latest


def superseding(fire: Fire, latest: Mapping[str, Fire]) -> tuple[Fire | None, set[str]]:
    """Returns the latest fire that overtook one, and the fields of the fire that no later fire sets.

    `latest` has the latest plain fire of each field. The first result is None while any field is left.
    """
    later = [latest[field] for field in fire.rule.values if latest[field].order > fire.order]
    left = {field for field in fire.rule.values if latest[field].order <= fire.order}
    return (None if left else max(later, key=lambda each: each.order)), left


def missed_because_late(fire: Fire, now: float) -> Missed | None:
    """Returns the record of a fire that is later than maxDelaySeconds or whose window is over; else None."""
    rule = fire.rule
    late = now - fire.at
    if rule.max_delay is not None and late > rule.max_delay:
        text = f"{_seconds(late)} late, and maxDelaySeconds is {rule.max_delay}"
        return Missed(fire.at, fire.at, 1, text)
    duration = window_seconds(rule)
    if duration is not None and late >= duration:
        return Missed(fire.at, fire.at, 1, f"its window was over at {format_time(fire.at + duration)}")
    return None


def superseded(fire: Fire, by: Fire) -> Missed:
    """Returns the record of a fire that a later one overtook."""
    return Missed(fire.at, fire.at, 1, _superseded_by(by))


def window_seconds(rule: Rule) -> float | None:
    """Returns how long the windows of a rule are, or None for a plain rule."""
    if rule.timetable is None or rule.timetable.duration is None:
        return None
    return rule.timetable.duration.total_seconds()


def next_fire(rule: Rule, after: float, until: float | None = None) -> float | None:
    """Returns the first fire of a rule in (after, until], or None for a suspended or unreadable rule."""
    if rule.timetable is None:
        return None
    fire = rule.timetable.next(_time(after), None if until is None else _time(until))
    return None if fire is None else fire.timestamp()


def latest_fire(rule: Rule, at: float) -> float | None:
    """Returns the latest fire of a rule at or before an instant, or None."""
    if rule.timetable is None:
        return None
    fire = rule.timetable.previous(_time(at))
    return None if fire is None else fire.timestamp()


def _superseded_by(fire: Fire) -> str:
    return f"superseded by {fire.label} at {format_time(fire.at)}"


def _seconds(late: float) -> str:
    return f"{int(late)} s"


def _time(instant: float) -> datetime:
    return datetime.fromtimestamp(instant, UTC)
