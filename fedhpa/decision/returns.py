"""The return: replicas go back to the division of the policy once nothing has changed for ten minutes.

It follows from facts that are known anyway: the pods' own times, and the last change of each cluster. Source:
docs/explanation/placement.md, "Return".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from fedhpa.api.quantity import parse_milli
from fedhpa.api.times import format_time
from fedhpa.assignment import needed_replicas
from fedhpa.decision.context import Context
from fedhpa.decision.memory import ANSWERED, QUIET_SECONDS, Rebalance
from fedhpa.decision.metrics import follows_pods, tolerances
from fedhpa.decision.model import MetricResult
from fedhpa.decision.placement import PlacementPlan
from fedhpa.metric_types.table import metric_type
from fedhpa.scaling import IGNORED

# A return begins at most this often.
PERIOD_SECONDS: Final = 3600.0
# Less than this is not worth the restarts of pods.
_FEWEST: Final = 2
_FEWEST_PER_CENT: Final = 10


def misplaced(plan: PlacementPlan, goal: Mapping[str, int]) -> int:
    """Returns how many replicas run in other clusters than the goal says."""
    return sum(max(place.present - goal[name], 0) for name, place in plan.places.items())


def is_worth_it(replicas: int, size: int) -> bool:
    """True if so many misplaced replicas of a size are worth a return."""
    return replicas >= _FEWEST and replicas * 100 >= size * _FEWEST_PER_CENT


def obstacle(context: Context, current: int, desired: int, changed: float) -> str:
    """Returns what a return waits for; "" if it may begin. A member scaled last at `changed`."""
    fleet, state = context.fleet, context.rebalance
    if state is not None and state.rests_until is not None and context.now < state.rests_until:
        return (
            f"rests until {format_time(state.rests_until)}, because no cluster could give a replica at the "
            "last one: load that is tied to its cluster stays there"
        )
    if context.coverage.unanswered:
        return f"waits for an answer of {context.coverage.unanswered}"
    if fleet.leaving:
        return f"waits until {fleet.leaving[0].name} has left"
    if desired != current or fleet.running != current or not current:
        return "waits for a size that stays"
    for view in fleet.answered:
        if view.ready_pods != view.replicas or view.is_rolling:
            return f"waits until all pods of {view.name} are ready"
    begins = max(_last_change(context), min(changed, context.now)) + QUIET_SECONDS
    if state is not None:
        begins = max(begins, min(state.since, context.now) + PERIOD_SECONDS)
    return (
        f"begins at {format_time(math.ceil(begins))} if nothing changes before"
        if begins > context.now
        else ""
    )


def _last_change(context: Context) -> float:
    """Returns when a pod became ready, a share changed, or data came back last, in POSIX seconds."""
    times = [pod.ready_since for view in context.fleet.answered for pod in view.pods if pod.state != IGNORED]
    for view in context.fleet.answered:
        known = context.memory.clusters.get(view.name)
        if known is None or known.state != ANSWERED:
            return context.now
        changes = (known.scaled, known.answered_since, known.standing.since)
        times += [time for time in changes if time is not None]
    # The clock of a former leader or of a member may be ahead of ours.
    return min(max(times, default=0.0), context.now)


def needed(context: Context, plan: PlacementPlan, state: Rebalance) -> dict[str, int]:
    """Returns the fewest replicas that each cluster needs for its own part of the load.

    Only metrics of pods say that. A cluster whose part is unknown needs what runs there.
    """
    grown = [name for name, share in state.before.items() if plan.places[name].present > share]
    found = dict.fromkeys(plan.places, 0)
    present = {name: place.present for name, place in plan.places.items()}
    above = 1 + tolerances(context).scale_up
    for metric in context.metrics:
        if metric_type(metric.type).per_pod and follows_pods(metric):
            parts = _parts(metric, plan.ready)
            known = needed_replicas(parts, plan.ready, grown, above, spare=above)
            found = {name: max(least, known.get(name, present[name])) for name, least in found.items()}
    return found


def _truncated(metric: MetricResult) -> float:
    """Returns how much more than its ratio a metric may use: Kubernetes truncates the mean of all pods.

    Idle pods of a cluster that only claims room make the mean smaller, and so this part larger.
    """
    per_cent, amount = metric.target.get("averageUtilization"), metric.target.get("averageValue")
    target = per_cent if isinstance(per_cent, int) else parse_milli(amount) if isinstance(amount, str) else 0
    return 1 / target if target > 0 else 0.0


def _parts(metric: MetricResult, ready: Mapping[str, int]) -> dict[str, float]:
    """Returns each cluster's part of the load, in replicas at exactly the target; {} if it is unknown."""
    if metric.usage_ratio is None or metric.pods is None or not math.isfinite(metric.usage_ratio):
        return {}
    values = {name: max(parse_milli(share.value), 0) for name, share in metric.clusters.items() if share.pods}
    whole, counted = sum(values.values()), sum(share.pods for share in metric.clusters.values())
    load = (metric.usage_ratio + _truncated(metric)) * counted / whole if whole else 0.0
    # A cluster without a ready pod has no load, and needs no metrics.
    return dict.fromkeys((name for name, pods in ready.items() if not pods), 0.0) | {
        name: value * load for name, value in values.items()
    }
