"""decide(snapshot, history, now, settings) -> Decision: one reconcile of one autoscaler, as a pure function.

Source: Kubernetes HPA 1.36, reconcile 4 (the order matters); docs/reference/decision-record.md for several
clusters.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedhpa.assignment import Outcome
from fedhpa.decision.context import Context, NoDecision
from fedhpa.decision.coverage import no_cluster
from fedhpa.decision.distributed import decide_bounds
from fedhpa.decision.history import History
from fedhpa.decision.messages import ABLE_TO_SCALE, ASSIGNED, GOT_SCALE
from fedhpa.decision.metrics import check_ambiguity
from fedhpa.decision.model import Decision
from fedhpa.decision.outcome import decided, undecided
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.size import decide_size
from fedhpa.decision.snapshot import Failure, Snapshot
from fedhpa.decision.spec.federatedhpa import CENTRALIZED, DISTRIBUTED


def decide(
    snapshot: Snapshot,
    history: History,
    now: float,
    settings: ControllerSettings,
    *,
    write_error: str | None = None,
    written_change: int = 0,
    outcomes: Sequence[Outcome] | None = None,
) -> Decision:
    """Returns the decision on one FederatedHPA at `now` (POSIX seconds). No snapshot makes it raise.

    The decision assumes that the scale write succeeds. If it failed, the caller decides again on the same
    input with the error as `write_error`: then conditions and events name the error, and only
    `written_change` counts as a scale: by how many replicas the writes that succeeded changed the size.
    In mode Distributed, `outcomes` are the writes of member HPAs with their results.
    """
    context = Context(snapshot, history, now, settings)
    try:
        _check_blocked(context)
        if context.spec.mode == CENTRALIZED:
            context.builder.forget(ASSIGNED)  # it is about the member HPAs of mode Distributed
        current = _read_scale(context)
    except NoDecision as stop:
        return undecided(context, 0, str(stop), have_scale=False)
    try:
        if context.spec.mode == DISTRIBUTED:
            check_ambiguity(context)
            return decide_bounds(context, outcomes=outcomes, write_error=write_error)
        context.seed(current)
        verdict = decide_size(context, current)
    except NoDecision as stop:
        return undecided(context, current, str(stop), have_scale=True)
    return decided(
        context,
        current,
        verdict.replicas,
        verdict.reason,
        write_error=write_error,
        written_change=written_change,
    )


def _check_blocked(context: Context) -> None:
    blocked = context.snapshot.blocked
    if blocked is not None:
        context.builder.warn(blocked.event or blocked.reason, blocked.message)
        context.builder.condition(blocked.condition, False, blocked.reason, blocked.message)
        raise NoDecision(blocked.message)


def _read_scale(context: Context) -> int:
    """Returns the present size; sets AbleToScale. Raises NoDecision."""
    target, fleet = context.snapshot.target, context.fleet
    error = ""
    if isinstance(target, Failure):
        error = target.error or "the target's scale could not be read"
    elif not fleet.answered and not fleet.selector_errors:
        error = no_cluster(context.coverage)
    if error:
        context.builder.warn("FailedGetScale", error)
        message = f"the HPA controller was unable to get the target's current scale: {error}"
        context.builder.condition(ABLE_TO_SCALE, False, "FailedGetScale", message)
        raise NoDecision(error)
    context.builder.condition(ABLE_TO_SCALE, True, "SucceededGetScale", GOT_SCALE)
    return fleet.current
