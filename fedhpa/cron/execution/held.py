"""The events of a plan that a hold keeps waiting: executions, and the ends and edits of open windows.

An event waits if the present value of a field that it sets would change in a held direction. It stays due,
and acts when the hold ends. Source: docs/how-to/hold-scaling.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fedhpa.api.default_values import MIN_REPLICAS
from fedhpa.api.hold import Hold, HoldRequest, hold_in_force
from fedhpa.cron.execution.model import CronPlan, ObservedTarget, ScheduledObject, WriteCause


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


def with_held(planned: CronPlan, held: Mapping[WriteCause, Hold]) -> CronPlan:
    """Returns the plan with the events that wait, of those that it leaves out."""
    return msgspec.structs.replace(planned, held=dict(held)) if held else planned
