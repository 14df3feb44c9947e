"""The rebalance that an annotation asks for: once for each timestamp (mode Centralized, propagation direct).

The size stays meanwhile, but for a scale-up. The state is stored before the first replica moves, so that a
restarted controller goes on and never begins again. Source: docs/explanation/placement.md, "Rebalance".
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.rebalance import REBALANCE_ANNOTATION, rebalance_time
from fedhpa.api.texts import listed
from fedhpa.api.times import format_time
from fedhpa.assignment import DUPLICATED, ended, rebalance_step, release_step
from fedhpa.decision.context import Context
from fedhpa.decision.memory import Rebalance
from fedhpa.decision.messages import REBALANCED
from fedhpa.decision.metrics import tolerances
from fedhpa.decision.model import Assignment
from fedhpa.decision.placement import PlacementPlan
from fedhpa.decision.spec import DISTRIBUTED
from fedhpa.scaling import Recommendation

# Pods that never become ready must not keep the size for ever.
MAX_SECONDS: Final = 3600
_FINISHED, _TIMED_OUT, _STOPPED = "Rebalanced", "TimedOut", "Stopped"


class Moves(NamedTuple):
    """The shares to write in this pass of a rebalance, and why."""

    shares: tuple[Assignment, ...]
    reason: str

    @property
    def size(self) -> int:
        """The sum of the shares, the surge included."""
        return sum(share.replicas for share in self.shares)


def is_surging(context: Context, current: int) -> bool:
    """True if the replicas above maxReplicas are the surge of a rebalance."""
    state, maximum = context.rebalance, context.spec.max_replicas
    if state is None or state.ended or state.requested != context.snapshot.hpa.rebalance:
        return False
    return state.size <= maximum and current <= maximum + release_step(maximum)


def report_refusal(context: Context) -> bool:
    """Returns True if the annotation asks for what cannot be; sets the condition with the remedy."""
    value = context.snapshot.hpa.rebalance
    if not value:
        return False
    try:
        rebalance_time(value)
    except InvalidObject as error:
        _refuse(context, "InvalidTimestamp", str(error))
        return True
    text = ""
    if context.spec.mode == DISTRIBUTED:
        text = "mode Distributed moves bounds by itself; remove the annotation"
    elif not context.fleet.direct:
        text = (
            "Karmada's scheduler places the replicas; remove the annotation, and create a WorkloadRebalancer "
            "(apps.karmada.io/v1alpha1) that names the workload"
        )
    elif context.spec.assignment.policy == DUPLICATED:
        text = "Duplicated divides nothing: every cluster has the whole size; remove the annotation"
    if text:
        _refuse(context, "NotSupported", f"annotation {REBALANCE_ANNOTATION}: {text}")
    return bool(text)


def rebalance(context: Context, plan: PlacementPlan, current: int, desired: int) -> Moves | None:
    """Returns what a rebalance writes now instead of the usual shares; None without a rebalance.

    `desired` is the size that the metrics ask for while `current` replicas run, the surge included.
    """
    value, state = context.snapshot.hpa.rebalance, context.rebalance
    if state is not None and not state.ended and state.requested != value:
        state = context.rebalance = msgspec.structs.replace(state, ended=_STOPPED)
    if not value:
        if context.builder.found(REBALANCED) is not None:
            context.builder.condition(REBALANCED, True, "NotAsked", "no annotation asks for a rebalance")
        return None
    if context.spec.dry_run or report_refusal(context) or context.snapshot.record_problem:
        return None
    if state is None or state.requested != value:
        _begin(context, value, current, desired)
        return None
    if state.ended or context.coverage.missing:
        return None
    if desired > current:
        context.rebalance = msgspec.structs.replace(state, size=desired)
        return None
    return _continue(context, plan, state, current, desired)


def _begin(context: Context, value: str, current: int, desired: int) -> None:
    at, waits = rebalance_time(value), ""
    if at > context.now:
        waits = f"begins at {format_time(at)}"
    elif context.coverage.missing:
        waits = f"waits for an answer of {next(iter(context.coverage.missing))}"
    elif desired != current or not current:
        waits = "waits for a size that stays"
    if waits:
        context.builder.condition(REBALANCED, False, "Waiting", f"the rebalance of {value} {waits}")
        return
    context.rebalance = Rebalance(value, context.now, current)
    context.builder.condition(REBALANCED, False, "Rebalancing", f"the rebalance of {value} begins")


def _continue(context: Context, plan: PlacementPlan, state: Rebalance, current: int, desired: int) -> Moves:
    builder, maximum = context.builder, context.spec.max_replicas
    size = min(max(min(state.size, desired), _needed(context, current)), maximum, current)
    ready, policy = plan.ready(), context.spec.assignment.policy
    reason = f"rebalance of {state.requested}"
    if context.now - state.since >= MAX_SECONDS:
        shares = ended(size, plan.places, ready, policy)
        state = msgspec.structs.replace(state, size=size, ended=_TIMED_OUT)
        text = (
            f"the {reason} took more than {MAX_SECONDS // 60} minutes and ended; "
            "write a new timestamp to go on"
        )
        builder.warn("RebalanceTimedOut", text)
        builder.condition(REBALANCED, False, _TIMED_OUT, text)
    else:
        step = rebalance_step(size, plan.places, ready, maximum, policy)
        shares = dict(step.shares)
        state = msgspec.structs.replace(state, size=size, ended=_FINISHED if step.done else "")
        if step.done:
            text = f"the {reason} is done: {_listed(shares)}"
            builder.event("Rebalanced", text)
            builder.condition(REBALANCED, True, _FINISHED, text)
        else:
            pods = "pod" if step.waits_for == 1 else "pods"
            waits = f"; it waits for {step.waits_for} {pods} to be ready" if step.waits_for else ""
            text = f"the {reason} goes on to {_listed(dict(step.goal))}{waits}"
            builder.condition(REBALANCED, False, "Rebalancing", text)
    context.rebalance = state
    _forget_surge(context, size)
    return Moves(tuple(Assignment(cluster, replicas) for cluster, replicas in shares.items()), reason)


def _needed(context: Context, current: int) -> int:
    """Returns the fewest replicas at which usage is not above a target by more than the tolerance."""
    # The ratio is that of the pods that count. New pods whose usage does not count yet carry none of it.
    busy = [
        metric.usage_ratio * (current if metric.pods is None else metric.pods.ready)
        for metric in context.metrics
        if metric.usage_ratio is not None and math.isfinite(metric.usage_ratio)
    ]
    # A hair below, because a ratio of exactly the tolerance asks for no replica more.
    return math.ceil(max(busy, default=0.0) / (1 + tolerances(context).scale_up) - 1e-9)


def _forget_surge(context: Context, size: int) -> None:
    """Lower the recommendation of this pass to the size: no window may bring the surge back."""
    known = context.history.recommendations
    if known and any(one.time == context.now and one.replicas > size for one in known):
        context.recommend(
            tuple(
                Recommendation(one.time, min(one.replicas, size)) if one.time == context.now else one
                for one in known
            )
        )


def _listed(shares: dict[str, int]) -> str:
    # People read conditions, so they name only so many clusters.
    return listed([f"{cluster} {replicas}" for cluster, replicas in shares.items()], 8)


def _refuse(context: Context, reason: str, text: str) -> None:
    if context.builder.message(REBALANCED) != text:
        context.builder.warn("RebalanceRefused", text)
    context.builder.condition(REBALANCED, False, reason, text)
