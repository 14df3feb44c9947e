"""decide(snapshot, history, now) -> Decision: one reconcile of one autoscaler, as a function.

Source: Kubernetes HPA 1.36, reconcile 4 (the order matters), with several clusters as docs/contracts.md section 5
lays down. Reads no clock and does no I/O.
"""

from __future__ import annotations

from typing import NamedTuple

from fedhpa.assignment.direct import split_difference
from fedhpa.decision import coverage as partial
from fedhpa.decision.draft import Draft
from fedhpa.decision.history import History, Recommendation
from fedhpa.decision.measure import Measured, measure
from fedhpa.decision.model import Assignment, Coverage, Decision
from fedhpa.decision.normalize import normalize, remember_scale
from fedhpa.decision.snapshot import ControllerSettings, Failure, Snapshot
from fedhpa.decision.spec import CENTRALIZED, EXTERNAL, OBJECT, ScalingSpec
from fedhpa.decision.status import build_status
from fedhpa.decision.wording import (
    ABLE_TO_SCALE,
    ABOVE_MAXIMUM,
    ALL_BELOW_TARGET,
    BELOW_MINIMUM,
    DISABLED_AT_ZERO,
    GOT_SCALE,
    IS_SCALED_TO_ZERO,
    NO_CLUSTER,
    NO_SELECTOR,
    NOT_SCALED_TO_ZERO,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SELECTOR_REQUIRED,
    metric_name,
)
from fedhpa.decision.world import World
from fedhpa.scaling.grouping import Readiness
from fedhpa.scaling.replicas import Scale
from fedhpa.scaling.rules import Tolerances


class NoDecision(Exception):
    """Nothing can be decided; the message is the decision's error. Conditions and events are set already."""


class _Verdict(NamedTuple):
    """A size, why, and the recommendations to remember."""

    desired: int
    reason: str
    recommendations: tuple[Recommendation, ...] | None


def decide(
    snapshot: Snapshot,
    history: History,
    now: float,
    settings: ControllerSettings,
    *,
    write_error: str | None = None,
) -> Decision:
    """Decides on one FederatedHPA at `now` (POSIX seconds). Never raises for what the snapshot holds.

    The outcome assumes that a scale write succeeds. Whose write failed decides again on the same input with
    the error as `write_error`: then nothing counts as scaled, and conditions and events say why.
    """
    return _Reconcile(snapshot, history, now, settings, write_error).run()


class _Reconcile:
    def __init__(
        self,
        snapshot: Snapshot,
        history: History,
        now: float,
        settings: ControllerSettings,
        write_error: str | None,
    ) -> None:
        self.snapshot = snapshot
        self.spec = snapshot.hpa.spec
        self.stored = snapshot.hpa.status
        self.history = history
        self.now = now
        self.settings = settings
        self.write_error = write_error
        self.world = World(snapshot, settings)
        self.draft = Draft(self.stored, now)
        self.measured: list[Measured] | None = None
        failed = self.world.note_failures(self.spec.metrics)
        self.coverage: Coverage = partial.coverage_of(self.world, self.spec, failed)
        self.policy_in_force = False

    def run(self) -> Decision:
        error: str | None = None
        current = self.world.current
        desired, reason = self.stored.desired_replicas, ""
        have_scale = True
        try:
            self._check_blocked()
            self._check_built()
            self._read_scale()
        except NoDecision as stop:
            error, have_scale = str(stop), False
            current = self.stored.current_replicas
        else:
            if self.history.recommendations is None:
                seeded = (Recommendation(self.now, current),)
                self.history = History(seeded, self.history.scale_ups, self.history.scale_downs)
            try:
                verdict = self._size(current)
            except NoDecision as stop:
                error = str(stop)
            else:
                desired, reason = verdict.desired, verdict.reason
                self.history = History(
                    verdict.recommendations, self.history.scale_ups, self.history.scale_downs
                )
        return self._finish(current, desired, reason, error, have_scale)

    # --- the size ---------------------------------------------------------------------------------------

    def _check_blocked(self) -> None:
        blocked = self.snapshot.blocked
        if blocked is not None:
            self.draft.warn(blocked.event or blocked.reason, blocked.message)
            self.draft.condition(ABLE_TO_SCALE, False, blocked.reason, blocked.message)
            raise NoDecision(blocked.message)

    def _check_built(self) -> None:
        field = ""
        if self.spec.mode != CENTRALIZED:
            field = "spec.mode"
        elif self.world.direct and self.spec.assignment_type is not None:
            field = "spec.federatedHPAAssignment.federatedHPAAssignmentType"
        if field:
            message = f"{field} asks for what this version does not do yet; nothing is written"
            self.draft.condition(SCALING_ACTIVE, False, "NotBuilt", message)
            raise NoDecision(message)

    def _read_scale(self) -> None:
        target = self.snapshot.target
        error = ""
        if isinstance(target, Failure):
            error = target.error
        elif not self.world.members and not self.world.selector_errors:
            error = NO_CLUSTER
        if error:
            self.draft.warn("FailedGetScale", error)
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            self.draft.condition(ABLE_TO_SCALE, False, "FailedGetScale", message)
            raise NoDecision(error)
        self.draft.condition(ABLE_TO_SCALE, True, "SucceededGetScale", GOT_SCALE)

    def _size(self, current: int) -> _Verdict:
        spec, draft = self.spec, self.draft
        kept = self.history.recommendations
        if current == 0 and not self._may_wake():
            draft.condition(SCALING_ACTIVE, False, "ScalingDisabled", DISABLED_AT_ZERO)
            draft.step("metrics", 0, 0, DISABLED_AT_ZERO)
            return _Verdict(0, "", kept)
        if current > spec.max_replicas:
            draft.step("bounds", current, spec.max_replicas, ABOVE_MAXIMUM)
            return _Verdict(spec.max_replicas, ABOVE_MAXIMUM, kept)
        if 0 < current < spec.min_replicas:
            draft.step("bounds", current, spec.min_replicas, BELOW_MINIMUM)
            return _Verdict(spec.min_replicas, BELOW_MINIMUM, kept)
        return self._size_by_metrics(current)

    def _may_wake(self) -> bool:
        """Whether a workload at zero was put there by us and may be scaled again."""
        return self.draft.has(SCALED_TO_ZERO) and (self.spec.min_replicas != 0 or self._wakes_on_metrics())

    def _wakes_on_metrics(self) -> bool:
        return any(metric.type in (OBJECT, EXTERNAL) for metric in self.spec.metrics)

    def _size_by_metrics(self, current: int) -> _Verdict:
        spec, draft = self.spec, self.draft
        try:
            proposal, name = self._propose(current)
        except NoDecision as stop:
            if not partial.falls_back(spec, self.coverage):
                draft.warn("FailedComputeMetricsReplicas", str(stop))
                raise
            proposal, name = current, ""
        wanted = max(0, proposal)
        reason = ""
        if wanted != current:
            reason = f"{name} above target" if wanted > current else ALL_BELOW_TARGET
        draft.step("metrics", current, wanted, reason or "usage is within the tolerance of the targets")

        self.policy_in_force = bool(self.coverage.missing)
        covered = partial.apply_policy(draft, spec, self.coverage, current, wanted)
        if covered != wanted:
            reason = draft.steps[-1].reason
        if partial.holds(spec, self.coverage):
            return _Verdict(current, reason, self._recommended(current, covered))
        allowed, recommendations = normalize(
            draft, spec, self.settings, self.history.recommendations or (), self.history, current, covered
        )
        if current == 0 and spec.min_replicas and allowed < spec.min_replicas:
            allowed = draft.step("bounds", allowed, spec.min_replicas, BELOW_MINIMUM)
            reason = reason or BELOW_MINIMUM
        return _Verdict(allowed, reason, recommendations)

    def _recommended(self, current: int, covered: int) -> tuple[Recommendation, ...]:
        """Runs the normalisation for its memory alone: while held, nothing else comes of it."""
        aside = Draft(self.stored, self.now)
        _, recommendations = normalize(
            aside,
            self.spec,
            self.settings,
            self.history.recommendations or (),
            self.history,
            current,
            covered,
        )
        return recommendations

    def _propose(self, current: int) -> tuple[int, str]:
        """The highest proposal and the name of its metric. Raises NoDecision."""
        self._check_selectors()
        scale = Scale(current, self._tolerances(), self.world.calibration)
        readiness = Readiness(
            self.now, self.settings.cpu_initialization_period, self.settings.initial_readiness_delay
        )
        self.measured = [
            measure(self.world, scale, readiness, index, metric)
            for index, metric in enumerate(self.spec.metrics)
        ]
        best, name = 0, ""
        failed: list[Measured] = []
        for measured, metric in zip(self.measured, self.spec.metrics, strict=True):
            proposal = measured.result.proposal
            if proposal is None:
                failed.append(measured)
                self.draft.warn(measured.failure_reason, measured.failure_text)
            elif best == 0 or proposal > best:
                best, name = proposal, metric_name(metric)
        if failed and (len(failed) == len(self.measured) or best < current):
            first = failed[0]
            message = f"the HPA was unable to compute the replica count: {first.failure_text}"
            self.draft.condition(SCALING_ACTIVE, False, first.failure_reason, message)
            raise NoDecision(
                f"invalid metrics ({len(failed)} invalid out of {len(self.measured)}), "
                f"first error is: {first.result.error}"
            )
        message = f"the HPA was able to successfully calculate a replica count from {name}"
        self.draft.condition(SCALING_ACTIVE, True, "ValidMetricFound", message)
        return best, name

    def _check_selectors(self) -> None:
        if not self.world.members:
            reason, text = self.world.selector_errors[0]
            message = NO_SELECTOR if reason == "SelectorRequired" else text
            self.draft.warn(reason, SELECTOR_REQUIRED if reason == "SelectorRequired" else text)
            self.draft.condition(SCALING_ACTIVE, False, "InvalidSelector", message)
            raise NoDecision(SELECTOR_REQUIRED if reason == "SelectorRequired" else text)
        if len(self.snapshot.ambiguous_with) > 1:
            selector = self.world.members[0].selector
            others = " ".join(self.snapshot.ambiguous_with)
            text = f"pods by selector {selector} are controlled by multiple HPAs: [{others}]"
            self.draft.warn("AmbiguousSelector", text)
            self.draft.condition(SCALING_ACTIVE, False, "AmbiguousSelector", text)
            raise NoDecision(text)

    def _tolerances(self) -> Tolerances:
        up = down = self.settings.tolerance
        if self.spec.behavior is not None:
            own_up, own_down = self.spec.behavior.scale_up.tolerance, self.spec.behavior.scale_down.tolerance
            up = up if own_up is None else own_up
            down = down if own_down is None else own_down
        return Tolerances(up, down)

    # --- the outcome ------------------------------------------------------------------------------------

    def _finish(
        self, current: int, desired: int, reason: str, error: str | None, have_scale: bool
    ) -> Decision:
        changed = error is None and desired != current
        rescale = changed and not self.spec.dry_run and self.write_error is None
        if error is None and self.spec.dry_run:
            self.draft.step("dryRun", desired, desired, "spec.dryRun: nothing is written to the target")
        if rescale:
            self._scaled(current, desired, reason)
        elif changed and self.write_error is not None:
            self._not_scaled(desired, reason, self.write_error)
            error, desired = self.write_error, self.stored.desired_replicas
        known_lost = frozenset(cluster.name for cluster in self.stored.clusters if cluster.state == "Lost")
        partial.report(self.draft, self.world, self.coverage, known_lost)
        assignment = self._assign(desired) if error is None and self.world.direct else ()
        results = tuple(measured.result for measured in self.measured or ())
        covered = Coverage(
            self.coverage.expected,
            self.coverage.answered,
            self.coverage.missing,
            self.coverage.policy,
            self.policy_in_force,
            self.coverage.lost,
        )
        decision = Decision(
            now=self.now,
            current_replicas=current,
            desired_replicas=desired,
            rescale=rescale,
            reason=reason,
            error=error,
            coverage=covered,
            metrics=results,
            steps=tuple(self.draft.steps),
            conditions=self.draft.conditions,
            events=tuple(self.draft.events),
            status={},
            history=self.history,
            assignment=assignment,
        )
        return build_status(decision, self.snapshot, self.world, have_scale=have_scale)

    def _not_scaled(self, desired: int, reason: str, error: str) -> None:
        """What is said once the write has failed; nothing is remembered as done."""
        self.draft.warn("FailedRescale", f"New size: {desired}; reason: {reason}; error: {error}")
        message = f"the HPA controller was unable to update the target scale: {error}"
        self.draft.condition(ABLE_TO_SCALE, False, "FailedUpdateScale", message)

    def _scaled(self, current: int, desired: int, reason: str) -> None:
        """What is said and remembered once the write has succeeded."""
        self.draft.condition(
            ABLE_TO_SCALE,
            True,
            "SucceededRescale",
            f"the HPA controller was able to update the target scale to {desired}",
        )
        self.draft.note("SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        self.history = remember_scale(self.spec, self.history, desired - current, self.now)
        to_zero = current > 0 and desired == 0 and _may_reach_zero(self.spec)
        if to_zero and self._wakes_on_metrics():
            self.draft.condition(SCALED_TO_ZERO, True, "ScaledToZero", IS_SCALED_TO_ZERO)
        else:
            self.draft.condition(SCALED_TO_ZERO, False, "NotScaledToZero", NOT_SCALED_TO_ZERO)

    def _assign(self, desired: int) -> tuple[Assignment, ...]:
        world = self.world
        present = {cluster.name: world.known_replicas(cluster) for cluster in world.expected}
        reachable = {member.name for member in world.members}
        shares = split_difference(desired, present, reachable)
        return tuple(Assignment(cluster, replicas) for cluster, replicas in shares.items())


def _may_reach_zero(spec: ScalingSpec) -> bool:
    return spec.min_replicas == 0
