"""One pass over one target: read its values, plan, write what should hold, and store the result.

The order of writes keeps the rules right if this process ends between two of them: the finalizer, the record
of what is about to be written, the effect, then the records of the target and of its objects, and at last
the statuses. A write that the hub refuses is planned again without the events at fault, so that the other
ones are applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from controller.apply.scales import Superseded
from controller.cronfederatedhpa.objects import (
    OUR_FIELDS,
    RULE_FIELDS,
    CronObject,
    CronObjects,
    NotLeading,
    RulesMemory,
    TargetKey,
)
from controller.cronfederatedhpa.reporter import CronMetrics, Reporter
from controller.cronfederatedhpa.targets import CronTargets, Reading, unreadable
from controller.cronfederatedhpa.units import READ_AHEAD_SECONDS, Ahead, Unit, Units, other_controller
from controller.failure_log import FAILED_UPDATE_STATUS, FailureLog, Lines, names
from controller.hub_check import CRON_CRD_PATH, HubCheck
from controller.scaling_records import NotRecorded
from fedhpa.api.errors import ApiError, Conflict, FedHPAError
from fedhpa.api.hold import HoldRequest
from fedhpa.cron.execution.model import Note, ObjectRecord, WriteCause
from fedhpa.cron.execution.outcome import Attempts, Settled, Waiting, next_look, settle, waiting_events
from fedhpa.cron.execution.planning import CronPlan
from fedhpa.decision import Finding
from fedhpa.kube import ApiClient, Backoff, EventRecorder, Key

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
# The end of a hold that keeps events waiting is noticed within this time.
HELD_SECONDS: Final = 10.0
# A change that somebody makes in an open window is told within a minute.
WATCH_SECONDS: Final = 50.0
# An object that another controller runs is looked at again after this time.
BLOCKED_SECONDS: Final = 60.0
PASSES: Final = Lines("rules fail", "rules still fail", "rules run again")
LINES: Final = Lines("status not written", "status still not written", "status is written again")
# A reading is used for an execution if it is no older. The resourceVersion shows if it is outdated, so an
# execution that waits for its turn in a busy minute need not read again.
MAX_READING_AGE_SECONDS: Final = 60.0
PLAN_TRIES: Final = 3
# Answers that are not about the values of a write. All others from 400 to 499 may be.
NO_REFUSALS: Final = frozenset({401, 404, 408, 409, 429})

# More rules are planned in a thread, so that the loop runs. A rule takes up to 0.1 ms, and the first rule
# of each time zone 1 ms.
MANY_RULES: Final = 200

# The fields that Karmada's CRD lacks.
PATHS: Final = (
    *(f"spec.rules[].{field}" for field in RULE_FIELDS),
    *(f"status.{field}" for field in OUR_FIELDS),
)

T = TypeVar("T")
Gate = Callable[[], Awaitable[None]]


class Effect(NamedTuple):
    """A plan whose write was made, or failed with `error`.

    `refusals` says why the events cannot act that the plan leaves out. `shares` are the replicas of each
    cluster after the write, for a workload in the members.
    """

    plan: CronPlan
    error: str
    refusals: Mapping[WriteCause, str]
    shares: Mapping[str, int] = {}


class _Refused(FedHPAError):
    """The hub refused the values of a write, or what its events in `causes` need, if there are some."""

    def __init__(self, message: str, causes: Collection[WriteCause] = ()) -> None:
        super().__init__(message)
        self.causes = causes


class CronReconciler:
    """Reconciles the targets of `objects`; `reconcile` runs for different targets at once.

    `leads` returns True while this process may write. `owners` returns the FederatedHPAs that scale a target,
    or None while they are unknown. `holds` returns what the namespaces that concern an object's namespace ask
    for.
    """

    def __init__(
        self,
        hub: ApiClient,
        targets: CronTargets,
        events: EventRecorder,
        metrics: CronMetrics,
        *,
        paused: bool,
        leads: Callable[[], bool] = lambda: True,
        owners: Callable[[TargetKey], tuple[str, ...] | None] = lambda _: None,
        holds: Callable[[str], Sequence[HoldRequest]] = lambda _: (),
        on_finding: Callable[[str, bool], None] = lambda *_: None,
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.objects = CronObjects(hub, leads, metrics.follow)
        self._check = HubCheck(hub, CRON_CRD_PATH, PATHS, clock=clock, on_finding=on_finding)
        self._paused = paused
        self.units = Units(hub, self.objects, self._check)
        self._reporter = Reporter(self.units, events, metrics)
        self._owners = owners
        self._targets = targets
        self._holds = holds
        self._wall = wall
        self._unstored: FailureLog[RulesMemory] = FailureLog(
            LINES, clock, lambda memory: names(memory.key), WeakKeyDictionary()
        )
        self.failures: FailureLog[TargetKey] = FailureLog(
            PASSES, clock, lambda one: {"namespace": one.namespace, "target": f"{one.kind}/{one.name}"}
        )

    async def remind(self) -> None:
        """Logs again, until cancelled, which results could not be written and which passes fail for long."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._unstored.remind())
            group.create_task(self.failures.remind())

    def report(self, key: Key, reason: str, message: str, uid: str = "") -> None:
        """Records an event about an object. The `uid` is used if the object is not known."""
        if not self._paused:
            self._reporter.record(key[0], Note(key[1], reason, message), uid)

    def end(self) -> None:
        """Drops what is known of all objects, and what the series say."""
        self.units.end()
        self._check.end()

    async def reconcile(self, target: TargetKey, results: Gate) -> float | None:
        """Does what is due for a target. Returns when it is due next (POSIX seconds), or None.

        `results` is awaited between the effect and the statuses, so that all effects of a minute come first.
        """
        unit = await self.units.open(target, writes=not self._paused)
        if unit is None:
            return None
        await self._check.refresh()
        now = self._wall()
        if self._paused:
            await self._free_deleted(unit)
        for owner in unit.objects:
            finding = other_controller(owner, now)
            self._check.note_contest(owner.memory.contest, None if finding is None else now)
            if finding is not None:
                return await self._block(unit, finding, now)
        for owner in unit.objects:
            if lost := await self.units.recall(owner, writes=not self._paused):
                text = f"{lost}; the rules go on after the newest execution in the status"
                self.report(owner.key, "MemoryLost", text)
        unit.recall_shares(owner.memory.rules.state for owner in unit.objects)
        effect = None if unit.is_due(now) else await self._nothing_due(unit, now)
        if effect is None:
            effect = await self._make(unit)
            now = self._wall()
            await results()
        elif effect.plan.wake is not None and effect.plan.wake - now <= READ_AHEAD_SECONDS:
            unit.ahead = Ahead(await self._read(unit), now, effect.plan.wake)
        elif not self._paused and unit.next_look <= now:
            await self._read(unit)
        return await self._finish(unit, effect, now)

    async def _nothing_due(self, unit: Unit, now: float) -> Effect | None:
        """Returns the plan of a pass without an effect; None if something may be due."""
        unread = unreadable("not read yet", unread=True).target
        planned = await self._off_loop(unit, CronPlan, None, unread, now)
        return None if planned.applied or planned.invalid or planned.unjudged else Effect(planned, "", {})

    async def _off_loop(self, unit: Unit, plans: Callable[..., T], *known: object) -> T:
        """Returns what `plans` makes of the objects, as a plan needs them, and of all else that is known."""
        objects = [self.units.scheduled(owner, unit) for owner in unit.objects]
        if sum(len(each.rules) for each in objects) <= MANY_RULES:
            return plans(objects, *known)
        return await asyncio.to_thread(plans, objects, *known)

    async def _make(self, unit: Unit) -> Effect:
        """Reads the target, plans and writes; plans anew if somebody changed the target or its record."""
        reading = await self._reading(unit)
        record = unit.windows.state
        for attempt in range(1, PLAN_TRIES + 1):
            known = record, reading.target, self._wall(), self._holds(unit.target.namespace)
            attempts = await self._off_loop(unit, Attempts, *known)
            try:
                error = await self._try_all(unit, attempts, reading)
                break
            except Superseded as changed:
                error = str(changed)
                if attempt == PLAN_TRIES:
                    break
                # The record comes first: a write of another process between the two requests is then known.
                if not unit.windows.known:
                    await unit.windows.read()
                    record = unit.windows.state
                reading = await self._read(unit)
        if attempts.plan.applied or attempts.plan.closed:
            error = error or reading.awaited
        shares = dict(unit.shares.replicas) if reading.target.shares else {}
        return Effect(attempts.plan, error, attempts.refusals, shares)

    async def _try_all(self, unit: Unit, attempts: Attempts, reading: Reading) -> str:
        """Writes the first of some plans that is not refused. Returns why the last one failed, or ""."""
        while True:
            try:
                await self._write(unit, attempts.plan, reading)
                return attempts.plan.error
            except (NotLeading, Superseded):
                raise
            except _Refused as refused:
                text, causes = str(refused), refused.causes
                if not (attempts.exclude(causes, text) if causes else attempts.refused(text)):
                    return text
            except FedHPAError as failure:
                return str(failure)

    async def _write(self, unit: Unit, planned: CronPlan, reading: Reading) -> None:
        """Makes the writes of a plan before its result. Raises _Refused if the hub refuses the values."""
        if self._paused or planned.error:
            return
        await self._prepare(unit, planned)
        baseline = None if planned.record is None else planned.record.baseline
        # The target must not name a baseline that nobody restores any more.
        if not planned.write and (reading.target.baseline is None or baseline is not None):
            return
        self.objects.check_lease()
        try:
            await reading.write(planned.write, planned.marker, baseline)
        except ApiError as error:
            if 400 <= error.status < 500 and error.status not in NO_REFUSALS:
                raise _Refused(str(error)) from error
            raise

    async def _prepare(self, unit: Unit, planned: CronPlan) -> None:
        """Sets the finalizers of objects whose windows open, and stores the write that is about to begin.

        Raises _Refused if that is refused: then these windows do not open, and all others act.
        """
        for owner in unit.objects:
            if owner.name in planned.holders and not owner.has_finalizer:
                try:
                    await self.objects.set_finalizer(owner, wanted=True)
                except ApiError as error:
                    # Of a window that is open already the finalizer was removed by somebody.
                    if causes := planned.openings(owner.name):
                        raise _Refused(str(error), causes) from error
        if planned.pending is None:
            return
        try:
            await unit.windows.write(planned.pending)
        except Conflict as error:
            raise Superseded(f"{unit.windows.file} was written by another process") from error
        except NotRecorded as error:
            # Windows do not begin where a restart would not know them. Other executions of the plan do.
            raise _Refused(str(error), planned.openings()) from error

    async def _reading(self, unit: Unit) -> Reading:
        """Returns the values of a target, read ahead of the execution if that is recent enough.

        A window takes its baseline from the reading, so then it is always read at the execution.
        """
        ahead, unit.ahead = unit.ahead, None
        windows = unit.windows.state is not None or any(owner.has_windows for owner in unit.objects)
        if ahead is not None and not windows and 0 <= self._wall() - ahead.at <= MAX_READING_AGE_SECONDS:
            return ahead.reading
        return await self._read(unit)

    async def _read(self, unit: Unit) -> Reading:
        reading = await self._targets.read(unit.target, unit.reference.api_version, unit.shares)
        unit.saw(reading.target, self._wall())
        return reading

    async def _finish(self, unit: Unit, effect: Effect, now: float) -> float | None:
        """Stores the result of a plan and reports it. Returns when the target is due next."""
        planned, error = effect.plan, effect.error
        settled = settle(planned, now, error, effect.refusals)
        if effect.shares and settled.record is not None:
            record = msgspec.structs.replace(settled.record, shares=dict(effect.shares))
            settled = settled._replace(record=record)
        unstored, failed = set[str](), False
        if not self._paused:
            unstored, failed = await self._store(unit, effect, settled, waiting_events(planned, now))
            self._reporter.report(unit.target, planned, settled, now, unstored, failed=bool(error))
        if not (error or failed) and (planned.applied or planned.closed):
            # Events that the hub refused may be admitted with the results of this pass.
            unit.retry = None
        refused = any(one.cause not in planned.held for one in planned.kept)
        if failed or error or settled.failed or refused:
            unit.retry = unit.retry or Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
            again = now + unit.retry.next()
        else:
            unit.retry = None
            if planned.held:
                again = next_look(planned.held, now, HELD_SECONDS)
            elif settled.record is not None:
                again = now + WATCH_SECONDS
            else:
                return unit.next_pass(planned.wake, now, looks=not self._paused)
        return again if planned.wake is None else min(again, planned.wake)

    async def _store(
        self, unit: Unit, effect: Effect, settled: Settled, waiting: Mapping[str, Waiting]
    ) -> tuple[set[str], bool]:
        """Writes the records and statuses that changed, that of the target first.

        Returns the objects whose result is not stored, and True if anything has to be written again.
        """
        now, unstored, failed = self._wall(), set[str](), False
        owners = self._owners(unit.target)
        ran = set() if effect.error else {one.execution.object for one in effect.plan.applied}
        try:
            failed = not await unit.windows.store(settled.record)
        except NotLeading:
            raise
        except FedHPAError as error:
            for owner in unit.objects:
                self._unstored.failing(owner.memory, FAILED_UPDATE_STATUS, str(error))
            return {owner.name for owner in unit.objects}, True
        finally:
            self.units.note(unit)
        for owner in unit.objects:
            unstored.add(owner.name)
            try:
                latest = self.objects.get(owner.key)
                runs = latest is not None and latest.target == unit.target and not latest.deleted
                if runs:
                    shares = effect.shares if owner.name in ran else None
                    failed |= not await self._record_one(unit, owner, settled, shares)
                unstored.discard(owner.name)
                if latest is not None and runs:
                    waits = waiting.get(owner.name)
                    await self._reporter.show(unit, latest, settled, now, waits, owners)
                await self._release(owner)
            except NotLeading:
                raise
            except FedHPAError as error:
                self._unstored.failing(owner.memory, FAILED_UPDATE_STATUS, str(error))
                failed = True
            else:
                self._unstored.well(owner.memory)
        return unstored, failed

    async def _record_one(
        self, unit: Unit, owner: CronObject, settled: Settled, shares: Mapping[str, int] | None
    ) -> bool:
        """Writes the record of one object if it changed. Returns False if the hub refuses it.

        `shares` are the replicas of each cluster after an execution of the object, None without one.
        """
        memory, target = owner.memory.rules, str(unit.target)
        if shares is None and memory.state is not None and memory.state.target == target:
            shares = memory.state.shares
        states, generation = settled.states[owner.name], owner.cron.metadata.generation
        return await memory.store(
            ObjectRecord(states, generation, dict(shares or {}), target if shares else "")
        )

    async def _release(self, owner: CronObject) -> None:
        """Removes the finalizer of an object that has no open window on any target."""
        latest = self.objects.get(owner.key) or owner
        if not latest.has_finalizer:
            return
        if not self.units.targets_of(owner.key) and not await self.units.opened_elsewhere(owner.key):
            await self.objects.set_finalizer(latest, wanted=False)

    async def _free_deleted(self, unit: Unit) -> None:
        """Removes the finalizer of deleted objects, whose values this process must not restore."""
        for owner in unit.objects:
            if owner.deleted and owner.has_finalizer:
                await self.objects.set_finalizer(owner, wanted=False)

    async def _block(self, unit: Unit, finding: Finding, now: float) -> float:
        """Shows why nothing is written, and returns when to look again."""
        await self._free_deleted(unit)
        for owner in () if self._paused else unit.objects:
            await self._reporter.show_blocked(owner, finding, now)
        return now + BLOCKED_SECONDS
