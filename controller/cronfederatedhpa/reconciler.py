"""One pass over one target: read its values, plan, write what should hold, and store the result.

The order of writes keeps the rules right if this process ends between two of them: the finalizer, the record
of what is about to be written, the effect, then the records of the target and of its objects, and at last
the statuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
import structlog

from controller.cronfederatedhpa.effects import Effect, Effects
from controller.cronfederatedhpa.objects import (
    CRD_PATH,
    FINALIZER,
    PATHS,
    CronObject,
    NotLeading,
    ObjectsByTarget,
    ObjectWriter,
    TargetKey,
    off_loop,
)
from controller.cronfederatedhpa.reporter import (
    CronMetrics,
    Reporter,
    changes,
    conditions,
    failure_of,
    render_status,
)
from controller.cronfederatedhpa.targets import CronTargets, unreadable
from controller.cronfederatedhpa.units import READ_AHEAD_SECONDS, RulesMemory, Unit, Units, open_rules
from controller.failure_log import FailureLog, Lines, names
from controller.hub_check import HubCheck
from fedhpa.api.errors import FedHPAError
from fedhpa.api.hold import HoldRequest
from fedhpa.cron.execution.model import Note, ObjectRecord, ScheduledObject
from fedhpa.cron.execution.outcome import Settled, Waiting, next_look, settle, waiting_events
from fedhpa.cron.execution.planning import plan
from fedhpa.decision import NO_RECORD, Finding
from fedhpa.kube import ApiClient, Backoff, EventRecorder, Key

log = structlog.get_logger(__name__)

FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
# The end of a hold that keeps events waiting is noticed within this time.
HELD_SECONDS: Final = 10.0
# A change that somebody makes in an open window is told within a minute.
WATCH_SECONDS: Final = 50.0
# An object that another controller runs is looked at again after this time.
BLOCKED_SECONDS: Final = 60.0
PASSES: Final = Lines("rules fail", "rules still fail", "rules run again")
LINES: Final = Lines("status not written", "status still not written", "status is written again")

Gate = Callable[[], Awaitable[None]]
# Brings an object of another process into this one's objects, if it exists. Raises ApiError.
Adopt = Callable[[Key], Awaitable[None]]


class CronReconciler:
    """Reconciles the targets of `objects`; `reconcile` runs for different targets at once.

    `leads` returns True while this process may write. `blocked` returns why an object must not be touched, or
    None. `owners` returns the FederatedHPAs that scale a target, or None while they are unknown. `holds`
    returns what the namespaces that concern an object's namespace ask for. `adopt` is set if objects may
    belong to other processes: it brings in one whose windows are open on a target of this process.
    """

    adopt: Adopt | None = None

    def __init__(
        self,
        hub: ApiClient,
        targets: CronTargets,
        events: EventRecorder,
        metrics: CronMetrics,
        *,
        paused: bool,
        leads: Callable[[], bool] = lambda: True,
        blocked: Callable[[CronObject, float], Finding | None] = lambda *_: None,
        owners: Callable[[TargetKey], tuple[str, ...] | None] = lambda _: None,
        holds: Callable[[str], Sequence[HoldRequest]] = lambda _: (),
        check: HubCheck | None = None,
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.objects = ObjectsByTarget()
        self._hub = hub
        self._check = check or HubCheck(hub, CRD_PATH, PATHS, clock=clock)
        self._metrics = metrics
        self._memories: dict[Key, RulesMemory] = {}
        self._reporter = Reporter(self.objects, events, metrics, self._memory)
        self._paused = paused
        self._writer = ObjectWriter(hub, self.objects, leads)
        self.units = Units(hub, self._writer.check_lease)
        self._blocked = blocked
        self._owners = owners
        self._wall = wall
        self._unstored: FailureLog[RulesMemory] = FailureLog(
            LINES, clock, lambda memory: names(memory.key), WeakKeyDictionary()
        )
        self.failures: FailureLog[TargetKey] = FailureLog(
            PASSES, clock, lambda one: {"namespace": one.namespace, "target": f"{one.kind}/{one.name}"}
        )
        self._effects = Effects(targets, self._writer, self._scheduled, paused=paused, wall=wall, holds=holds)

    def forget_object(self, key: Key) -> None:
        """Drops what is known of a deleted object."""
        self._memories.pop(key, None)

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
        self._memories.clear()
        self._check.end()

    async def reconcile(self, target: TargetKey, results: Gate) -> float | None:
        """Does what is due for a target. Returns when it is due next (POSIX seconds), or None.

        `results` is awaited between the effect and the statuses, so that all effects of a minute come first.
        """
        unit = await self._open(target)
        if unit is None:
            return None
        objects = self._of(unit)
        await self._check.refresh()
        now = self._wall()
        if self._paused:
            await self._free_deleted(objects)
        for owner in objects:
            finding = self._blocked(owner, now)
            self._check.note_contest(self._memory(owner.key).contest, None if finding is None else now)
            if finding is not None:
                return await self._block(objects, finding, now)
        for owner in objects:
            await self._recall(owner)
        unit.recall_shares(self._memory(owner.key).rules.state for owner in objects)
        if unit.is_due(objects, now):
            return await self._apply(unit, objects, results)
        scheduled = [self._scheduled(owner, unit) for owner in objects]
        unread = unreadable("not read yet", unread=True).target
        planned = await off_loop(scheduled, lambda: plan(scheduled, None, unread, now))
        if planned.applied or planned.invalid or planned.unjudged:
            return await self._apply(unit, objects, results)
        if planned.wake is not None and planned.wake - now <= READ_AHEAD_SECONDS:
            await self._effects.read_ahead(unit, now, planned.wake)
        elif not self._paused and unit.next_look <= now:
            await self._effects.look(unit)
        return await self._finish(unit, objects, Effect(planned, "", {}), now)

    async def _open(self, target: TargetKey) -> Unit | None:
        """Returns the unit of a target; None, and nothing is known of it any more, if it has no rules."""
        objects, unit = self.objects.of(target), self.units.get(target)
        if unit is None:
            if not objects:
                return None
            unit = self.units.of(target, objects[0].reference)
        if objects:
            unit.reference = objects[0].reference
        await unit.windows.read(writes=not self._paused)
        self.units.note(unit)
        for key in ((target.namespace, name) for name in unit.holders):
            if self.adopt is not None and self.objects.get(key) is None:
                await self.adopt(key)
        if not objects and unit.windows.state is None:
            self.units.leave(target)
            return None
        return unit

    def _of(self, unit: Unit) -> list[CronObject]:
        """Returns the objects with this target, and those that have windows open on it, by name."""
        here = {owner.key: owner for owner in self.objects.of(unit.target)}
        others = ((unit.target.namespace, name) for name in unit.holders)
        found = here | {key: owner for key in others if (owner := self.objects.get(key)) is not None}
        return [found[key] for key in sorted(found)]

    async def _recall(self, owner: CronObject) -> None:
        """Reads the record of an object at its first pass. Raises ApiError if the hub does not answer."""
        memory = self._memory(owner.key)
        if memory.rules.known:
            return
        await memory.rules.read(writes=not self._paused)
        memory.elsewhere = FINALIZER in owner.cron.metadata.finalizers and await self._opened_elsewhere(owner)
        lost = memory.rules.lost
        if memory.rules.state is None and not lost and owner.cron.status.observed_generation is not None:
            lost = f"{memory.rules.file} is gone"
        if lost and not self._paused and not memory.rules.obstacle:
            text = f"{lost}; the rules go on after the newest execution in the status"
            self._reporter.record(owner.key[0], Note(owner.key[1], "MemoryLost", text))

    def _memory(self, key: Key) -> RulesMemory:
        owner = self.objects.get(key)
        uid = "" if owner is None else owner.cron.metadata.uid
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            rules = open_rules(self._hub, key, uid, self._writer.check_lease)
            memory = RulesMemory(key, uid, rules)
            stored = () if owner is None else owner.cron.status.conditions
            memory.told = {(each.reason, each.message) for each in stored}
            if owner is not None:  # otherwise it would stay for ever
                self._metrics.follow(key, memory)
                self._memories[key] = memory
        return memory

    async def _apply(self, unit: Unit, objects: list[CronObject], results: Gate) -> float | None:
        """Makes the effect of a target, and then stores its result."""
        effect = await self._effects.make(unit, objects)
        now = self._wall()
        await results()
        return await self._finish(unit, objects, effect, now)

    async def _finish(
        self, unit: Unit, objects: list[CronObject], effect: Effect, now: float
    ) -> float | None:
        """Stores the result of a plan and reports it. Returns when the target is due next."""
        planned, error = effect.plan, effect.error
        settled = settle(planned, now, error, effect.refusals)
        if effect.shares and settled.record is not None:
            record = msgspec.structs.replace(settled.record, shares=dict(effect.shares))
            settled = settled._replace(record=record)
        waiting = waiting_events(planned, now) if planned.held else {}
        ran = {} if error else {one.execution.object: effect.shares for one in planned.applied}
        unstored, failed = await self._store(unit, objects, settled, waiting, ran)
        if not self._paused:
            self._reporter.report(unit.target, planned, settled, now, unstored, failed=bool(error))
        if not (error or failed) and (planned.applied or planned.closed):
            # Events that the hub refused may be admitted with the results of this pass.
            unit.retry = None
        refused = any(one.cause not in planned.held for one in planned.kept)
        if failed or error or settled.failed or refused:
            unit.retry = unit.retry or Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
            retry = now + unit.retry.next()
            return retry if planned.wake is None else min(retry, planned.wake)
        unit.retry = None
        if planned.held:
            look = next_look(planned.held, now, HELD_SECONDS)
            return look if planned.wake is None else min(look, planned.wake)
        if settled.record is not None:
            watch = now + WATCH_SECONDS
            return watch if planned.wake is None else min(watch, planned.wake)
        return unit.next_pass(planned.wake, now, looks=not self._paused)

    async def _store(
        self,
        unit: Unit,
        objects: list[CronObject],
        settled: Settled,
        waiting: Mapping[str, Waiting],
        ran: Mapping[str, Mapping[str, int]],
    ) -> tuple[frozenset[str], bool]:
        """Writes the records and statuses that changed, that of the target first.

        `ran` has the objects of which an execution was applied, with the replicas of each cluster after it.
        Returns the objects whose result is not stored, and True if anything has to be written again.
        """
        if self._paused:
            return frozenset(), False
        now, unstored, failed = self._wall(), set[str](), False
        try:
            failed = not await unit.windows.store(settled.record)
        except NotLeading:
            raise
        except FedHPAError as error:
            for owner in objects:
                self._note_unstored(owner.key, error)
            return frozenset(owner.key[1] for owner in objects), True
        finally:
            self.units.note(unit)
        for owner in objects:
            recorded = False
            try:
                failed |= not await self._record_one(unit, owner, settled, ran.get(owner.key[1]))
                recorded = True
                await self._show_one(unit, owner, settled, now, waiting.get(owner.key[1]))
                await self._release(owner)
            except NotLeading:
                raise
            except FedHPAError as error:
                self._note_unstored(owner.key, error)
                failed = True
                if not recorded:
                    unstored.add(owner.key[1])
            else:
                self._note_unstored(owner.key, None)
        return frozenset(unstored), failed

    def _note_unstored(self, key: Key, error: FedHPAError | None) -> None:
        """Note that a result was not stored, or with None that it was. The object may be gone meanwhile."""
        memory = self._memories.get(key)
        if memory is not None and error is None:
            self._unstored.well(memory)
        elif memory is not None:
            self._unstored.failing(memory, "FailedUpdateStatus", str(error))

    def _runs(self, unit: Unit, owner: CronObject) -> CronObject | None:
        """Returns the newest form of an object whose rules run on a target; None if they do not."""
        latest = self.objects.get(owner.key)
        if latest is None or latest.target != unit.target or latest.cron.metadata.deletion_timestamp:
            return None
        return latest

    async def _record_one(
        self, unit: Unit, owner: CronObject, settled: Settled, shares: Mapping[str, int] | None
    ) -> bool:
        """Writes the record of one object if it changed. Returns False if the hub refuses it."""
        if self._runs(unit, owner) is None:
            return True
        memory, target = self._memory(owner.key).rules, str(unit.target)
        if shares is None and memory.state is not None and memory.state.target == target:
            shares = memory.state.shares
        generation = owner.cron.metadata.generation
        states = settled.states[owner.key[1]]
        record = ObjectRecord(states, generation, dict(shares or {}), target if shares else "")
        return await memory.store(record)

    async def _show_one(
        self, unit: Unit, owner: CronObject, settled: Settled, now: float, waits: Waiting | None
    ) -> None:
        """Writes the status of one object if it changed."""
        latest = self._runs(unit, owner)
        if latest is None:
            return
        rules, states, hub = (
            self._scheduled(latest, unit).rules,
            settled.states[owner.key[1]],
            self._check.pruned,
        )
        finding = failure_of(rules, states) or self._unrecorded(unit, latest) or unit.unusable
        held = "" if waits is None else waits.text
        status = render_status(latest, rules, states, finding, now, self._owners(unit.target), held, hub)
        coming = [state.next_execution for state in states.values() if state.next_execution is not None]
        due = None if waits is None else waits.due
        self._metrics.show(owner.key, min(coming, default=None), due, status["conditions"])
        patch = changes(latest.raw.get("status") or {}, status)
        if patch:
            await self._writer.patch_status(latest, patch)
        self._reporter.tell(latest, status["conditions"], rules, hub, held)

    def _unrecorded(self, unit: Unit, owner: CronObject) -> Finding | None:
        """Returns why the memory of an object, or of the windows that it opens, cannot be stored."""
        windows = unit.windows.obstacle if owner.has_windows else ""
        obstacle = self._memory(owner.key).rules.obstacle or windows
        return Finding(NO_RECORD, obstacle) if obstacle else None

    def _scheduled(self, owner: CronObject, unit: Unit) -> ScheduledObject:
        """Returns an object as a plan needs it, without the rules whose fields the hub dropped."""
        drops, memory = (
            self._writer.hub_drops_fields or self._check.pruned is not None,
            self._memory(owner.key),
        )
        found = owner.scheduled(unit.target, memory.rules.state, drops=drops)
        known = memory.elsewhere or self.units.targets_of(owner.key)
        waits = FINALIZER in owner.cron.metadata.finalizers and not known
        return msgspec.structs.replace(found, waits=True) if waits else found

    async def _release(self, owner: CronObject) -> None:
        """Removes the finalizer of an object that has no open window on any target."""
        latest = self.objects.get(owner.key)
        if latest is None or FINALIZER not in latest.cron.metadata.finalizers:
            return
        if not self.units.targets_of(owner.key) and not await self._opened_elsewhere(owner):
            await self._writer.set_finalizer(latest, wanted=False)

    async def _opened_elsewhere(self, owner: CronObject) -> bool:
        """Returns True if another process may have an open window of an object. Raises ApiError."""
        return self.adopt is not None and await self.units.opened_elsewhere(owner.key)

    async def _free_deleted(self, objects: list[CronObject]) -> None:
        """Removes the finalizer of deleted objects, whose values this process must not restore."""
        for owner in objects:
            if owner.cron.metadata.deletion_timestamp and FINALIZER in owner.cron.metadata.finalizers:
                await self._writer.set_finalizer(owner, wanted=False)

    async def _block(self, objects: list[CronObject], finding: Finding, now: float) -> float:
        """Shows why nothing is written, and returns when to look again."""
        await self._free_deleted(objects)
        for owner in () if self._paused else objects:
            found = conditions(owner, finding, self._check.pruned, now)
            patch = changes(owner.raw.get("status") or {}, {"conditions": found})
            if patch:
                await self._writer.patch_status(owner, patch)
        return now + BLOCKED_SECONDS
