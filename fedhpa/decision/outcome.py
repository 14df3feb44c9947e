"""From a size to the whole decision: what is said, remembered, assigned and written into the status.

Source: Kubernetes HPA 1.36, reconcile 4.9-4.12 and zero 9.
"""

from __future__ import annotations

from typing import Final

from fedhpa.decision import coverage as partial
from fedhpa.decision.context import Context
from fedhpa.decision.messages import (
    ABLE_TO_SCALE,
    HUB_COMPATIBLE,
    HUB_IS_OURS,
    IS_SCALED_TO_ZERO,
    NO_OTHER_AUTOSCALER,
    NOT_SCALED_TO_ZERO,
    SCALED_TO_ZERO,
    SOLE_OWNER,
)
from fedhpa.decision.metrics.highest import tolerances
from fedhpa.decision.model import Assignment, Coverage, Decision
from fedhpa.decision.normalize import remember_scale
from fedhpa.decision.placement import Placing
from fedhpa.decision.record.settings import encode_settings
from fedhpa.decision.snapshot import Failure
from fedhpa.decision.status import build_status

# An event and a condition are read by people.
_SHOWN: Final = 4


def decided(
    context: Context, current: int, desired: int, reason: str, *, write_error: str | None = None
) -> Decision:
    """The decision for a size; with `write_error` one whose write failed: then nothing counts as scaled."""
    error: str | None = None
    rescale = moves = False
    shares: tuple[Assignment, ...] = ()
    changes = ""
    if context.world.direct:
        placing = Placing(context)
        wanted, desired = desired, placing.limited(desired)
        shares = placing.shares(desired)
        if desired == current:
            changes = placing.changes(shares)
            reason = placing.cause if changes else reason if desired == wanted else ""
    if context.spec.dry_run:
        context.draft.step("dryRun", desired, desired, "spec.dryRun: nothing is written to the target")
        stored = context.stored
        if desired != current and (stored.current_replicas, stored.desired_replicas) != (current, desired):
            context.draft.note("DryRun", f"New size would be: {desired}; reason: {reason}")
    elif (desired != current or changes) and write_error is not None:
        _not_scaled(context, desired, reason, write_error)
        error, desired = write_error, context.stored.desired_replicas
    elif desired != current:
        rescale = True
        _scaled(context, current, desired, reason)
    elif changes:
        moves = True
        context.draft.step("assignment", current, desired, f"{reason}: {changes}")
        context.draft.note("ReplicasMoved", f"{reason}: {changes}")
    assignment = shares if error is None else ()
    return _decision(context, current, desired, reason, error, assignment, rescale=rescale, moves=moves)


def undecided(context: Context, current: int, error: str, *, have_scale: bool) -> Decision:
    """The decision that none could be made; without the target's scale the stored size stays."""
    shown = current if have_scale else context.stored.current_replicas
    return _decision(context, shown, context.stored.desired_replicas, "", error, have_scale=have_scale)


def _scaled(context: Context, current: int, desired: int, reason: str) -> None:
    draft = context.draft
    message = f"the HPA controller was able to update the target scale to {desired}"
    draft.condition(ABLE_TO_SCALE, True, "SucceededRescale", message)
    draft.note("SuccessfulRescale", f"New size: {desired}; reason: {reason}")
    context.history = remember_scale(context.spec, context.history, desired - current, context.now)
    # Only a workload that we put to zero, and that a metric can wake, is ours to wake again.
    if current > 0 and desired == 0 and context.spec.min_replicas == 0 and context.wakes_on_metrics:
        draft.condition(SCALED_TO_ZERO, True, "ScaledToZero", IS_SCALED_TO_ZERO)
    else:
        draft.condition(SCALED_TO_ZERO, False, "NotScaledToZero", NOT_SCALED_TO_ZERO)


def _not_scaled(context: Context, desired: int, reason: str, error: str) -> None:
    context.draft.warn("FailedRescale", f"New size: {desired}; reason: {reason}; error: {error}")
    message = f"the HPA controller was unable to update the target scale: {error}"
    context.draft.condition(ABLE_TO_SCALE, False, "FailedUpdateScale", message)


def _decision(
    context: Context,
    current: int,
    desired: int,
    reason: str,
    error: str | None,
    assignment: tuple[Assignment, ...] = (),
    *,
    rescale: bool = False,
    moves: bool = False,
    have_scale: bool = True,
) -> Decision:
    states = {cluster.name: cluster.state for cluster in context.stored.clusters}
    allowed = tolerances(context)
    _tell_contest(context)
    _tell_hub(context)
    absences = partial.clocks(context.world, context.snapshot, context.coverage, context.now)
    partial.report(context.draft, context.world, context.coverage, states, absences)
    decision = Decision(
        now=context.now,
        current_replicas=current,
        desired_replicas=desired,
        rescale=rescale,
        reason=reason,
        error=error,
        coverage=_coverage(context),
        metrics=context.metrics,
        steps=tuple(context.draft.steps),
        conditions=context.draft.conditions,
        events=tuple(context.draft.events),
        status={},
        history=context.history,
        assignment=assignment,
        moves=moves,
        absences=absences,
        propagation=_propagation(context),
        tolerance=(allowed.scale_up, allowed.scale_down),
        settings=encode_settings(context.settings, changed_only=True),
    )
    return build_status(decision, context.snapshot, context.world, have_scale=have_scale)


def _tell_contest(context: Context) -> None:
    """Says who else scales the workload, once; and that nobody does any more, where somebody did."""
    others, draft = context.snapshot.contested_by, context.draft
    if not others:
        if draft.message(SOLE_OWNER) is not None:
            draft.condition(SOLE_OWNER, True, "NoOtherAutoscaler", NO_OTHER_AUTOSCALER)
        return
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    message = f"the target is also scaled by {', '.join(others[:_SHOWN])}{more}: remove either"
    if draft.message(SOLE_OWNER) != message:
        draft.warn("AnotherAutoscaler", message)
    draft.condition(SOLE_OWNER, False, "AnotherAutoscaler", message)


def _tell_hub(context: Context) -> None:
    """Says once what is wrong with the hub; and that nothing is any more, where something was."""
    found, draft = context.snapshot.hub_findings, context.draft
    if not found:
        if draft.message(HUB_COMPATIBLE) is not None:
            draft.condition(HUB_COMPATIBLE, True, "NothingFound", HUB_IS_OURS)
        return
    message = "; ".join(finding.message for finding in found)
    if draft.message(HUB_COMPATIBLE) != message:
        for finding in found:
            draft.warn(finding.reason, finding.message)
    draft.condition(HUB_COMPATIBLE, False, found[0].reason, message)


def _propagation(context: Context) -> str:
    if isinstance(context.snapshot.target, Failure):
        return ""
    return "direct" if context.world.direct else "karmada"


def _coverage(context: Context) -> Coverage:
    known = context.coverage
    return Coverage(
        known.expected, known.answered, known.missing, known.policy, context.policy_in_force, known.lost
    )
