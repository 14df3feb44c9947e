"""Runs the rules of the CronFederatedHPAs of one shard, by the targets that they scale.

One pass over a target reads its values, plans, writes what should hold, and stores the result. The order of
writes keeps the rules right if this process ends between two of them: the finalizer, the record of what is
about to be written, the effect, then the records of the target and of its objects, and at last the statuses.

An object whose target was edited may have windows open on the former target; the shard of that target closes
them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
import structlog

from controller.cronfederatedhpa.objects import (
    CRON_FEDERATED_HPAS,
    OUR_FIELDS,
    RULE_FIELDS,
    CronObject,
    CronObjects,
    NotLeading,
    RulesMemory,
    TargetKey,
)
from controller.cronfederatedhpa.reporter import CronMetrics, Reporter, WorkloadOwners
from controller.cronfederatedhpa.targets import CronTargets, Effect, Effects
from controller.cronfederatedhpa.units import Ahead, Unit, Units, other_controller
from controller.failure_log import FAILED_UPDATE_STATUS, FailureLog, Lines, names
from controller.hub_check import CRON_CRD_PATH, HubCheck
from controller.loop import Foreign, Loop, Objects, Slot, Worker
from controller.shards import ALL, Shard, place_of
from fedhpa.api.autoscalers import Autoscaler
from fedhpa.api.errors import FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import GROUP, KIND
from fedhpa.api.hold import HoldRequest
from fedhpa.cron.execution.model import Note, ObjectRecord
from fedhpa.cron.execution.outcome import Settled, Waiting, next_look, settle, waiting_events
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
# A target that is due this soon is read ahead of its execution.
READ_AHEAD_SECONDS: Final = 5.0
# Targets that are worked on at once. The hub's fairness decides about more.
CONCURRENT_TARGETS: Final = 64
# Results wait this long at most for the effects of the same minute, and events for the results.
LONGEST_WAIT_SECONDS: Final = 20.0
# The wall clock is read again after this time, so that steps and a suspended machine are noticed.
LONGEST_SLEEP_SECONDS: Final = 5.0
# The delay after a pass that failed unexpectedly.
RETRY_SECONDS: Final = 5.0

# The fields that Karmada's CRD lacks.
PATHS: Final = (
    *(f"spec.rules[].{field}" for field in RULE_FIELDS),
    *(f"status.{field}" for field in OUR_FIELDS),
)

Object = dict[str, Any]
log = structlog.get_logger(__name__)


class Barrier:
    """Lets the next step of a busy minute wait until all targets have finished the step before it."""

    def __init__(self) -> None:
        self._count = 0
        self._began = 0.0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """Notes a target whose step is outstanding."""
        if self._count == 0:
            self._began = asyncio.get_running_loop().time()
        self._count += 1
        self._idle.clear()

    def end(self) -> None:
        """Notes that a target has finished its step, or skips it."""
        self._count -= 1
        if self._count == 0:
            self._idle.set()

    async def wait(self) -> None:
        """Waits until no step is outstanding. The first of them bounds the wait for all."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._began + LONGEST_WAIT_SECONDS):
                await self._idle.wait()


class CronReconciler(Worker[TargetKey]):
    """Runs the rules of each target of a shard when it is due. Several objects may have one.

    `loop` calls it, for different targets at once. Targets are due on the wall clock, which is read every few
    seconds. `leads` returns True while this process may write. `holds` returns what the namespaces that
    concern an object's namespace ask for.
    """

    def __init__(
        self,
        hub: ApiClient,
        targets: CronTargets,
        owners: WorkloadOwners,
        events: EventRecorder,
        metrics: CronMetrics,
        *,
        paused: bool,
        shard: Shard = ALL,
        namespaces: Collection[str] = (),
        leads: Callable[[], bool] = lambda: True,
        holds: Callable[[str], Sequence[HoldRequest]] = lambda _: (),
        on_finding: Callable[[str, bool], None] = lambda *_: None,
        on_count: Callable[[int], None] = lambda _: None,
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.objects = CronObjects(hub, leads, metrics.follow)
        self._check = HubCheck(hub, CRON_CRD_PATH, PATHS, clock=clock, on_finding=on_finding)
        self._paused = paused
        self._units = Units(hub, self.objects, self._check, shared=shard.division.splits_namespaces)
        self._effects = Effects(self._units, targets, paused=paused, holds=holds, wall=wall)
        self._reporter = Reporter(self._units, owners, events, metrics)
        self._owners = owners
        self._shard = shard
        self._wall = wall
        self._unstored: FailureLog[RulesMemory] = FailureLog(
            LINES, clock, lambda memory: names(memory.key), WeakKeyDictionary()
        )
        self._failures: FailureLog[TargetKey] = FailureLog(
            PASSES, clock, lambda one: {"namespace": one.namespace, "target": f"{one.kind}/{one.name}"}
        )
        self._written = Barrier()
        # Events wait until the results of a busy minute are stored.
        self.results = Barrier()
        self.loop: Loop[TargetKey] = Loop(
            hub,
            CRON_FEDERATED_HPAS.path(),
            self,
            slots=CONCURRENT_TARGETS,
            owns=lambda raw: shard.owns(place_of(raw)),
            namespaces=namespaces,
            on_count=on_count,
            clock=clock,
            due_clock=wall,
            longest_wait=LONGEST_SLEEP_SECONDS,
            on_step=self._stepped,
        )
        owners.reflector.subscribe(self._owner_changed)

    async def remind(self) -> None:
        """Logs again, until cancelled, which results could not be written and which passes fail for long."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._unstored.remind())
            group.create_task(self._failures.remind())

    def _report(self, key: Key, reason: str, message: str, uid: str = "") -> None:
        """Records an event about an object. The `uid` is used if the object is not known."""
        if not self._paused:
            self._reporter.record(key[0], Note(key[1], reason, message), uid)

    def _owner_changed(self, key: Key, old: Autoscaler | None, new: Autoscaler | None) -> None:
        """Wakes the workloads of a FederatedHPA, and itself as a target if it came or went."""
        for each in (old, new):
            if each is not None and self.objects.of(target := TargetKey(*each.target)):
                self.loop.wake(target)
        itself = TargetKey(key[0], GROUP, KIND, key[1])
        if self._units.looks_again(itself, present=new is not None):
            self.loop.wake(itself)

    async def forget_former_owners(self) -> None:
        """Reconciles the objects whose SoleOwner is False, because the owner may be gone since."""
        await self._owners.reflector.synced.wait()
        await self.loop.listed()
        for target in {each.target for each in self.objects if each.contested}:
            self.loop.wake(target)

    async def begin(self) -> list[TargetKey]:
        """Read the records of open windows. Returns their targets, also those whose objects are gone."""
        return await self._units.load(lambda one: self._shard.owns((one.namespace, one.kind, one.name)))

    def foreign_changed(self, key: Key, known: Foreign | None) -> None:
        """Objects of other shards do not matter."""

    def changed(self, key: Key, old: Object | None, new: Object | None) -> set[TargetKey]:  # noqa: ARG002
        """Note an object. Returns the targets that it had and has, and those with windows of it."""
        windows = self._units.targets_of(key)
        if new is None:
            return self.objects.remove(key) | windows
        try:
            touched = self.objects.put(CronObject.of(new))
        except InvalidObject as error:
            self.unreadable(key, str(new["metadata"].get("uid", "")), str(error))
            return self.objects.remove(key)
        return touched | windows if touched else touched

    def unreadable(self, key: Key, uid: str, message: str) -> None:
        """Report that an object cannot be decoded, and is left out."""
        if message:
            self._report(key, "InvalidObject", message, uid)

    def _stepped(self, seconds: float) -> None:
        """Reports that the wall clock was stepped, so that all targets are planned anew."""
        log.warning("wall clock stepped; all rules are planned anew", seconds=round(seconds, 1))
        text = f"the controller's clock was stepped by {seconds:+.0f} s, so the rules are planned anew"
        for one in self.objects:
            self._report(one.key, "ClockStepped", text)

    def taken(self, key: TargetKey) -> None:  # noqa: ARG002  # all targets count
        """Let the results of others wait for the effect of this target, and events for its result."""
        self._written.begin()
        self.results.begin()

    async def work(
        self,
        key: TargetKey,
        objects: Objects,  # noqa: ARG002  # they are known by target
        *,
        late: float,  # noqa: ARG002  # lateness counts from the schedule
        slot: Slot,
    ) -> float | None:
        """Do what is due for a target. Other targets get the slot while this one waits for their effects."""
        effect_done = False

        async def results() -> None:
            nonlocal effect_done
            effect_done = True
            self._written.end()
            slot.release()
            try:
                await self._written.wait()
            finally:
                await slot.acquire()

        try:
            wake = await self.reconcile(key, results)
        except NotLeading:
            return RETRY_SECONDS
        finally:
            if not effect_done:
                self._written.end()
            self.results.end()
        self._failures.well(key)
        return None if wake is None else wake - self._wall()

    async def failed(self, key: TargetKey, objects: Objects, reason: str, message: str) -> float:  # noqa: ARG002
        """Log the failure. What is due stays due."""
        self._failures.failing(key, reason, message)
        return RETRY_SECONDS

    def retry(self, key: TargetKey) -> float:  # noqa: ARG002
        """Seconds until a target is tried again."""
        return RETRY_SECONDS

    async def end(self, objects: Objects) -> None:  # noqa: ARG002
        """Drop what is known of all objects, and what the series say. All memory is in the records."""
        self._units.end()
        self._check.end()

    async def reconcile(self, target: TargetKey, results: Callable[[], Awaitable[None]]) -> float | None:
        """Does what is due for a target. Returns when it is due next (POSIX seconds), or None.

        `results` is awaited between the effect and the statuses, so that all effects of a minute come first.
        """
        unit = await self._units.open(target, writes=not self._paused)
        if unit is None:
            return None
        await self._check.refresh()
        now = self._wall()
        if self._paused:
            await self._units.free_deleted(unit)
        for owner in unit.objects:
            finding = other_controller(owner, now)
            self._check.note_contest(owner.memory.contest, None if finding is None else now)
            if finding is not None:
                return await self._block(unit, finding, now)
        for owner in unit.objects:
            if lost := await self._units.recall(owner, writes=not self._paused):
                text = f"{lost}; the rules go on after the newest execution in the status"
                self._report(owner.key, "MemoryLost", text)
        unit.recall_shares(owner.memory.rules.state for owner in unit.objects)
        effect = None if unit.is_due(now) else await self._effects.none_due(unit, now)
        if effect is None:
            effect = await self._effects.make(unit)
            now = self._wall()
            await results()
        elif effect.plan.wake is not None and effect.plan.wake - now <= READ_AHEAD_SECONDS:
            unit.ahead = Ahead(await self._effects.read(unit), now, effect.plan.wake)
        elif not self._paused and unit.next_look <= now:
            await self._effects.read(unit)
        return await self._finish(unit, effect, now)

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
                times = [] if self._paused else [unit.next_look]
                if planned.wake is not None:
                    ahead = planned.wake - READ_AHEAD_SECONDS
                    times.append(ahead if ahead > now else planned.wake)
                return min(times, default=None)
        return again if planned.wake is None else min(again, planned.wake)

    async def _store(
        self, unit: Unit, effect: Effect, settled: Settled, waiting: Mapping[str, Waiting]
    ) -> tuple[set[str], bool]:
        """Writes the records and statuses that changed, that of the target first.

        Returns the objects whose result is not stored, and True if anything has to be written again.
        """
        now, unstored, failed = self._wall(), set[str](), False
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
            self._units.note(unit)
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
                    await self._reporter.show(unit, latest, settled, now, waiting.get(owner.name))
                await self._units.release(owner)
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

    async def _block(self, unit: Unit, finding: Finding, now: float) -> float:
        """Shows why nothing is written, and returns when to look again."""
        await self._units.free_deleted(unit)
        for owner in () if self._paused else unit.objects:
            await self._reporter.show_blocked(owner, finding, now)
        return now + BLOCKED_SECONDS
