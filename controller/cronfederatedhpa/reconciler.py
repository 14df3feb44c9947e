"""One pass over one target: read its values, plan, write what should hold, and store the result.

The order of writes keeps the rules right if this process ends between two of them: the finalizer, the record
of what is about to be written, the effect, and then the statuses, the one with the record first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from controller.cronfederatedhpa.effects import Effect, Effects, Stored, reference_of
from controller.cronfederatedhpa.hub import CronHubCheck
from controller.cronfederatedhpa.object_writes import FINALIZER, NotLeading, ObjectWriter
from controller.cronfederatedhpa.objects import CronObject, ObjectsByTarget, TargetKey
from controller.cronfederatedhpa.reporter import Reporter
from controller.cronfederatedhpa.status import (
    Json,
    changes,
    conditions,
    render_status,
    render_window,
    replaced,
    with_hub,
)
from controller.cronfederatedhpa.targets import Targets, unreadable
from controller.cronfederatedhpa.telemetry import CronMetrics
from controller.failure_log import FailureLog, Lines
from controller.hub_check import FIELDS_PRUNED
from fedhpa.api.errors import FedHPAError
from fedhpa.cron.execution import (
    SCALE_FAILED,
    Failure,
    Note,
    Plan,
    Rule,
    RuleState,
    ScheduledObject,
    Settled,
    WindowRecord,
    failing_text,
    plan,
    settle,
    with_failing,
)
from fedhpa.decision import Finding
from fedhpa.kube import (
    ApiClient,
    Backoff,
    EventRecorder,
    Key,
)

log = structlog.get_logger(__name__)

# A target that is due this soon is read ahead of its fire.
READ_AHEAD_SECONDS: Final = 5.0
FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
# An object that another controller runs is looked at again after this time.
BLOCKED_SECONDS: Final = 60.0
LINES: Final = Lines("status not written", "status still not written", "status is written again")

Gate = Callable[[], Awaitable[None]]


class CronReconciler:
    """Reconciles targets; `reconcile` runs for different targets at once.

    `leads` tells if this process may write. `blocked` returns why an object must not be touched, or None.
    `owners` returns the FederatedHPAs that scale a target, or None while they are unknown.
    """

    def __init__(
        self,
        hub: ApiClient,
        objects: ObjectsByTarget,
        targets: Targets,
        events: EventRecorder,
        metrics: CronMetrics,
        *,
        paused: bool,
        leads: Callable[[], bool] = lambda: True,
        blocked: Callable[[CronObject, float], Finding | None] = lambda *_: None,
        owners: Callable[[TargetKey], tuple[str, ...] | None] = lambda _: None,
        check: CronHubCheck | None = None,
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._check = check or CronHubCheck(hub, clock=clock)
        self._objects = objects
        self._metrics = metrics
        self._reporter = Reporter(objects, events, metrics)
        self._paused = paused
        self._writer = ObjectWriter(hub, objects, leads)
        self._blocked = blocked
        self._owners = owners
        self._wall = wall
        self._unstored: FailureLog[Key] = FailureLog(LINES, clock, _about)
        self._effects = Effects(objects, targets, self._writer, self._scheduled, paused=paused, wall=wall)
        # The failures of each object that are tried again, by rule. Its status may not have all of them.
        self._failing: dict[Key, dict[str, tuple[Failure, ...]]] = {}
        self._retries: dict[TargetKey, Backoff] = {}

    def forget(self, target: TargetKey) -> None:
        """Drops what is known of a target that no object has any more."""
        self._effects.forget(target)
        self._retries.pop(target, None)

    def forget_object(self, key: Key) -> None:
        """Drops what is known of a deleted object."""
        self._check.forget(key)
        self._failing.pop(key, None)
        self._unstored.forget(key)
        self._reporter.forget(key)

    async def remind(self) -> None:
        """Logs again, until cancelled, which statuses could not be written for long."""
        await self._unstored.remind()

    def end(self) -> None:
        """Withdraws what the series say of the hub."""
        self._check.end()

    async def reconcile(self, target: TargetKey, results: Gate) -> float | None:
        """Does what is due for a target. Returns when it is due next (POSIX seconds), or None.

        `results` is awaited between the effect and the statuses, so that all effects of a minute come first.
        """
        objects = self._objects.of(target)
        if not objects:
            self.forget(target)
            return None
        await self._check.refresh()
        now = self._wall()
        if self._paused:
            await self._free_deleted(objects)
        for owner in objects:
            finding = self._blocked(owner, now)
            self._check.note_contest(owner.key, contested=finding is not None)
            if finding is not None:
                return await self._hold(objects, finding, now)
        if any(owner.target == target and owner.holds not in (None, target) for owner in objects):
            # One status has one record: the windows on the former target close first.
            return now + FIRST_RETRY_SECONDS
        record, carrier = self._objects.record_of(target)
        if self._effects.is_due(target, now):
            return await self._apply(target, objects, Stored(record, carrier), results)
        scheduled = [self._scheduled(owner, target) for owner in objects]
        planned = plan(scheduled, record, unreadable("not read yet").target, now)
        if _concerns_target(planned, record):
            return await self._apply(target, objects, Stored(record, carrier), results)
        if planned.wake is not None and planned.wake - now <= READ_AHEAD_SECONDS:
            await self._effects.read_ahead(target, objects, now, planned.wake)
        return await self._finish(target, objects, Effect(planned, "", {}), carrier, now)

    async def _apply(
        self, target: TargetKey, objects: list[CronObject], stored: Stored, results: Gate
    ) -> float | None:
        """Makes the effect of a target, and then stores its result."""
        effect = await self._effects.make(target, objects, stored)
        now = self._wall()
        await results()
        return await self._finish(target, objects, effect, effect.plan.carrier or stored.carrier, now)

    async def _finish(
        self, target: TargetKey, objects: list[CronObject], effect: Effect, carrier: str, now: float
    ) -> float | None:
        """Stores the result of a plan and tells of it. Returns when the target is due next."""
        planned, error = effect.plan, effect.error
        settled = settle(planned, now, error, effect.refusals)
        unstored = await self._store(target, objects, settled, carrier)
        if not unstored:
            self._objects.adopt(target)
        if not self._paused:
            self._reporter.tell(target, planned, settled, now, unstored, failed=bool(error))
        if not (error or unstored) and (planned.applied or planned.closed):
            # Events that the hub refused may be admitted with the results of this pass.
            self._retries.pop(target, None)
        if unstored or error or settled.failed or planned.kept:
            backoff = self._retries.setdefault(target, Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS))
            retry = now + backoff.next()
            return retry if planned.wake is None else min(retry, planned.wake)
        self._retries.pop(target, None)
        return self._next(planned.wake, now)

    async def _store(
        self, target: TargetKey, objects: list[CronObject], settled: Settled, carrier: str
    ) -> frozenset[str]:
        """Writes the statuses that changed, the one with the record first. Returns the objects not stored."""
        if self._paused:
            return frozenset()
        now, unstored = self._wall(), set[str]()
        reference = reference_of(target, objects)
        for owner in sorted(objects, key=lambda each: each.key[1] != carrier):
            holds = settled.record is not None and owner.key[1] == carrier
            window = render_window(settled.record, reference) if holds and settled.record else None
            try:
                await self._store_one(target, owner, settled, window, now)
                await self._release(target, owner, settled.record)
            except NotLeading:
                raise
            except FedHPAError as error:
                self._unstored.failing(owner.key, "FailedUpdateStatus", str(error))
                unstored.add(owner.key[1])
            else:
                self._unstored.well(owner.key)
        return frozenset(unstored)

    async def _store_one(
        self,
        target: TargetKey,
        owner: CronObject,
        settled: Settled,
        window: Json | None,
        now: float,
    ) -> None:
        """Writes the status of one object if it changed."""
        latest = self._objects.get(owner.key)
        if latest is None:
            return
        stored = latest.raw.get("status") or {}
        patch: Json = {}
        if latest.target == target and latest.cron.metadata.deletion_timestamp is None:
            rules, states = self._scheduled(latest, target).rules, settled.states[owner.key[1]]
            self._remember_failing(owner.key, states)
            owners = self._owners(target)
            status = render_status(latest, rules, states, _failure(rules, states), now, owners)
            status["conditions"] = with_hub(status["conditions"], self._check.finding, now)
            for line in self._check.news(owner.key, rules):
                self._reporter.record(owner.key[0], Note(owner.key[1], FIELDS_PRUNED, line))
            patch = changes(stored, status)
            coming = [state.next_execution for state in states.values() if state.next_execution is not None]
            self._metrics.set_next_fire(owner.key, min(coming, default=None))
        if latest.holds in (None, target) and stored.get("window") != window:
            patch["window"] = replaced(stored.get("window"), window)
        if patch:
            await self._writer.patch_status(latest, patch)
            self._reporter.tell_owners(latest, patch.get("conditions", []))

    def _scheduled(self, owner: CronObject, target: TargetKey) -> ScheduledObject:
        """Returns an object as a plan needs it, without the rules whose fields the hub dropped."""
        drops = self._writer.hub_drops_fields or self._check.finding is not None
        found = owner.scheduled(target, drops=drops)
        failing = self._failing.get(owner.key)
        return found if failing is None else with_failing(found, failing)

    def _remember_failing(self, key: Key, states: Mapping[str, RuleState]) -> None:
        """Keeps the fires of an object that are tried again."""
        failing = {rule: state.failing for rule, state in states.items() if state.failing}
        if failing:
            self._failing[key] = failing
        else:
            self._failing.pop(key, None)

    async def _release(self, target: TargetKey, owner: CronObject, record: WindowRecord | None) -> None:
        """Removes the finalizer of an object that has no open window."""
        latest = self._objects.get(owner.key)
        if latest is None or FINALIZER not in latest.cron.metadata.finalizers:
            return
        holds_here = record is not None and any(each.object == owner.key[1] for each in record.open)
        holds_elsewhere = latest.holds not in (None, target)
        if not holds_here and not holds_elsewhere:
            await self._writer.set_finalizer(latest, wanted=False)

    async def _free_deleted(self, objects: list[CronObject]) -> None:
        """Removes the finalizer of deleted objects, whose values this process must not restore."""
        for owner in objects:
            meta = owner.cron.metadata
            if meta.deletion_timestamp is not None and FINALIZER in meta.finalizers:
                await self._writer.set_finalizer(owner, wanted=False)

    async def _hold(self, objects: list[CronObject], finding: Finding, now: float) -> float:
        """Shows why nothing is written, and returns when to look again."""
        await self._free_deleted(objects)
        for owner in () if self._paused else objects:
            patch = changes(owner.raw.get("status") or {}, {"conditions": conditions(owner, finding, now)})
            if patch:
                await self._writer.patch_status(owner, patch)
        return now + BLOCKED_SECONDS

    def _next(self, wake: float | None, now: float) -> float | None:
        """Returns when to look again: before the next fire, to read its target ahead."""
        if wake is None:
            return None
        early = wake - READ_AHEAD_SECONDS
        return early if early > now else wake


def _about(key: Key) -> dict[str, str]:
    return {"namespace": key[0], "name": key[1]}


def _concerns_target(planned: Plan, record: WindowRecord | None) -> bool:
    """True if the values of the target matter now: something is due, or a window is open."""
    return record is not None or bool(planned.applied or planned.invalid or planned.skipped)


def _failure(rules: Sequence[Rule], states: Mapping[str, RuleState]) -> Finding | None:
    """Returns the first rule with a fire that is tried again, as a finding."""
    for rule in rules:
        state = states.get(rule.name)
        if state is not None and state.failing:
            return Finding(SCALE_FAILED, failing_text(rule.name, state.failing[0]))
    return None
