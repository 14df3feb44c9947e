"""A pass under a hold: bounds and scales that it stops stay as they are (mode Distributed).

The states go on as if nothing were held, but for what a cluster really has. So the first pass after the hold
writes what is due then. Source: docs/how-to/hold-scaling.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec.structs import replace as with_fields

from fedhpa.api.hold import Hold
from fedhpa.assignment.clusters import Bounds, Member, PlanStep
from fedhpa.assignment.plan import Plan, Previous
from fedhpa.assignment.state import NO_STATE


def under_hold(made: Plan, hold: Hold, members: Sequence[Member], previous: Previous) -> Plan:
    """Returns what the hold allows of a pass. A failover may grow what it needs under every hold.

    No maximum and no minimum falls below what runs under `down`. Under `up` a minimum rises only to what
    runs, or as far as minReplicas asks.
    """
    down, up = hold.stops_down, hold.stops_up and not made.lost
    goals, scales, states = dict(made.goals), dict(made.scales), dict(made.states)
    for one in members:
        cluster = one.cluster
        if not one.answers:
            continue
        was, state = previous.states.get(cluster, NO_STATE), states[cluster]
        now, goal = made.present.get(cluster), goals.get(cluster)
        loses = down and now is not None and goal is None
        enters = up and now is None and goal is not None and state.minimum == 0
        if loses or enters:
            goals[cluster], states[cluster] = now, was
            scales.pop(cluster, None)
            continue
        if goal is not None:
            runs, least, most = one.running, goal.minimum, goal.maximum
            if down:
                most = max(most, runs if now is None else min(now.maximum, runs))
                least = max(least, 0 if now is None else min(now.minimum, runs))
            if up:
                least = min(least, max(0 if now is None else now.minimum, state.minimum or 0, runs, 1))
            goal = goals[cluster] = Bounds(minimum=min(least, most), maximum=most)
            states[cluster] = with_fields(state, floor=goal.minimum, maximum=goal.maximum)
        scale = scales.get(cluster, one.running)
        # The first replicas of a cluster belong to minReplicas.
        wakes = was.zero_since is not None or was.minimum == 0
        if (down and scale < one.running) or (up and scale > one.running and wakes):
            del scales[cluster]
            zeroed = {"zero_since": was.zero_since, "idle_since": was.idle_since}
            states[cluster] = with_fields(states[cluster], **zeroed)
    found = {cluster: bounds for cluster, bounds in goals.items() if bounds is not None}
    least = sum(bounds.minimum for bounds in made.goals.values() if bounds is not None)
    most = sum(bounds.maximum for cluster, bounds in found.items() if cluster not in made.lost)
    after = sum(bounds.minimum for bounds in found.values())
    return replace(
        made,
        goals=goals,
        scales=scales,
        states=states,
        # A pass after the hold decides anew what it stopped, and a lowered maxReplicas acts at once then.
        assigned_for=made.assigned_for if goals == made.goals else previous.assigned_for,
        exceeded=0 if made.total is None else max(most - made.total + made.exceeded, 0),
        steps=(*made.steps, PlanStep("hold", least, after, str(hold))),
    )
