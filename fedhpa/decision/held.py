"""The effects of a hold on a decision: the size, the shares of the clusters, and the condition Held.

Source: docs/how-to/hold-scaling.md, "What a hold stops".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.api.hold import ALL, DOWN, UP, Hold
from fedhpa.decision.context import Context
from fedhpa.decision.messages import HELD
from fedhpa.decision.placement import PlacementPlan

UNREADABLE: Final = "HoldUnreadable"
_REASONS: Final = {DOWN: "HoldDown", UP: "HoldUp", ALL: "HoldAll"}


def held_size(context: Context, hold: Hold, current: int, size: int) -> int:
    """Returns the size that the hold allows, and adds its step.

    `current` is what runs. Failover and minReplicas may grow the size under every hold.
    """
    after = size
    if hold.stops_down:
        after = max(after, current)
    if hold.stops_up and after > current:
        floor = 0 if context.failover is None else context.failover.floor
        after = min(after, max(current, floor, context.spec.min_replicas))
    return context.builder.step("hold", size, after, str(hold))


def held_shares(
    context: Context,
    hold: Hold,
    plan: PlacementPlan,
    current: int,
    desired: int,
    shares: Mapping[str, int],
) -> Mapping[str, int]:
    """Returns the shares that the hold allows: a size that stays moves nothing but what leaves or is stuck.

    A size that changes is divided as ever, and no cluster changes against the hold's direction.
    """
    fleet = context.fleet
    going = {one.name for one in fleet.leaving} | set(fleet.stuck)
    copies = context.spec.assignment.policy.copies
    if desired == current and not copies and (hold.stops_moves or not going):
        return {name: plan.places[name].present for name in shares}
    found = {}
    for name, share in shares.items():
        present = plan.places[name].present
        # Replicas of such a cluster go only as far as others are ready, or serve nothing.
        if hold.stops_down and (copies or name not in going):
            share = max(share, present)
        if hold.stops_up and desired <= current:
            share = min(share, present)
        found[name] = share
    return found


def report_hold(context: Context) -> None:
    """Set Held, with an event when a hold begins, changes or ends. Without any hold ever, it is absent."""
    hold, builder = context.hold, context.builder
    before = builder.found(HELD)
    if hold is None:
        if before is not None and before.status == "True":
            builder.event("HoldEnded", "the hold ended: scaling goes on")
            builder.condition(HELD, False, "NotHeld", "no hold is in force")
        return
    reason = UNREADABLE if hold.problem else _REASONS[hold.direction]
    if before is None or before.status != "True" or before.message != str(hold):
        (builder.warn if hold.problem else builder.event)(reason if hold.problem else HELD, str(hold))
    builder.condition(HELD, True, reason, str(hold))
