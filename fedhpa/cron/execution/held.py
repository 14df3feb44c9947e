"""The events of a plan that a hold keeps waiting: executions, and the ends and edits of open windows.

An event waits if the present value of a field that it sets would change in a held direction. It stays due,
and acts when the hold ends. Source: docs/how-to/hold-scaling.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.default_values import MIN_REPLICAS
from fedhpa.api.hold import Hold, HoldRequest, hold_in_force
from fedhpa.api.times import format_time
from fedhpa.cron.execution.model import (
    EXECUTION,
    CronPlan,
    ObservedTarget,
    ScheduledObject,
    WriteCause,
    cause_of_window,
)

# People read conditions, so they name only so many events.
_MAX_NAMED: Final = 3


def held_events(
    objects: Sequence[ScheduledObject],
    target: ObservedTarget,
    planned: CronPlan,
    now: float,
    holds: Sequence[HoldRequest] = (),
) -> dict[WriteCause, Hold]:
    """Returns the events behind a plan's write that must wait, each with the hold.

    The hold of the event's own object comes first, then that of the target, then those of namespaces.
    """
    own = {each.name: each.hold for each in objects}
    found = {}
    for field, cause in planned.field_causes.items():
        hold = hold_in_force((own.get(cause.object), target.hold, *holds), now)
        if hold is not None:
            before, after = _replicas(target.values.get(field)), _replicas(planned.write[field])
            if (hold.stops_down and after < before) or (hold.stops_up and after > before):
                found[cause] = hold
    return found


def _replicas(value: int | None) -> int:
    """Returns a value; an absent one counts as the default of minReplicas, which alone may be absent."""
    return MIN_REPLICAS if value is None else value


class Waiting(NamedTuple):
    """The events of one object that wait: since when the oldest one is due, and a text for people."""

    due: float
    text: str


def waiting_events(planned: CronPlan, now: float) -> dict[str, Waiting]:
    """Returns what waits for the end of a hold, by object."""
    closes = {cause_of_window(window): window.closes for window in planned.kept}
    events: dict[str, list[tuple[float, str, Hold]]] = {}
    for cause, hold in planned.held.items():
        if cause.kind == EXECUTION:
            due, what = cause.at, f"rule {cause.rule}, due {format_time(cause.at)}"
        else:
            due = min(closes.get(cause, now), now)
            what = f"the end of the window of rule {cause.rule}, due {format_time(due // 1)}"
        events.setdefault(cause.object, []).append((due, what, hold))
    return {name: _waiting(sorted(found, key=lambda one: one[:2])) for name, found in events.items()}


def _waiting(events: Sequence[tuple[float, str, Hold]]) -> Waiting:
    named = ", ".join(what for _, what, _ in events[:_MAX_NAMED])
    more = f" and {len(events) - _MAX_NAMED} more" if len(events) > _MAX_NAMED else ""
    return Waiting(events[0][0], f"{named}{more} waits for the end of a hold: {events[0][2]}")


def next_look(held: Mapping[WriteCause, Hold], now: float, period: float) -> float:
    """Returns when to look for the end of a hold again, in POSIX seconds: its end, or `period` from now."""
    ends = [hold.until for hold in held.values() if hold.until is not None]
    return min([now + period, *ends])


def with_held(planned: CronPlan, held: Mapping[WriteCause, Hold]) -> CronPlan:
    """Returns the plan with the events that wait, of those that it leaves out."""
    return msgspec.structs.replace(planned, held=dict(held)) if held else planned
