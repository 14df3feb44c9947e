"""One reconcile of one FederatedHPA: build the snapshot, decide, write.

Status, events, series and log are all derived from the one `Decision`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from controller.apply.plan import WriteTargets
from controller.background import Background
from controller.decision_series import ControllerMetrics
from controller.failure_log import HealthLog, ObjectHealth, names
from controller.federatedhpa.ambiguity import Neighbour
from controller.federatedhpa.centralized import CentralizedDecisions
from controller.federatedhpa.clusters import HUB_DEADLINE_SECONDS, NOT_BUILT, has_finalizer, unknown_fields
from controller.federatedhpa.competition import CompetingAutoscalers, clients_of
from controller.federatedhpa.distributed import DistributedDecisions
from controller.federatedhpa.memory import ObjectMemory, SteppedClock
from controller.federatedhpa.publication import Publisher, latest, log_decision
from controller.federatedhpa.recording import INVALID_OBJECT, Recording, lost_memory
from controller.federatedhpa.removal import ModeChanges
from controller.federatedhpa.snapshot import SnapshotBuilder, until_slot
from controller.flags import Settings
from controller.holds import asked_at_once
from controller.hub_check import ANOTHER_CONTROLLER, CRD_PATH, OUR_PATHS, PLURAL, HubCheck, HubIdentity
from controller.loop import RETRY_SECONDS, Foreign, Object, Objects, Slot
from controller.publish import FEDERATED_HPAS, record_events
from controller.scaling_records import RecordFile
from fedhpa.api.errors import Conflict, InvalidObject
from fedhpa.api.member_hpas import Owner
from fedhpa.decision import ASSIGNED, DISTRIBUTED, NO_RECORD, Blocked, Decision, Event, Snapshot
from fedhpa.kube import ApiClient, EventRecorder, Key

log = structlog.get_logger(__name__)

HUB_UNKNOWN: Final = "HubUnknown"
NO_POLICY: Final = "NoPolicy"
# Objects whose scales and records are written at once. With 2 s a write they are hundreds in a period.
WRITE_CONCURRENCY: Final = 128
# Concurrent writes to the objects. A slow hub then has connections left for scales and records.
PUBLISH_CONCURRENCY: Final = 16
# Reasons for which this controller must not scale an object.
NOT_OURS: Final = frozenset((NOT_BUILT, ANOTHER_CONTROLLER))


class FederatedHPAReconciler:
    """Reconciles objects one by one; `reconcile` may run for different objects at once."""

    def __init__(
        self,
        hub: ApiClient,
        snapshots: SnapshotBuilder,
        events: EventRecorder,
        metrics: ControllerMetrics,
        settings: Settings,
        *,
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._hub = hub
        self._snapshots = snapshots
        self._events = events
        self._metrics = metrics
        self._settings = settings
        self._wall = wall
        self._clock = clock
        self.memories: dict[Key, ObjectMemory] = {}
        self._times = SteppedClock(wall, clock)
        self._writes = asyncio.Semaphore(WRITE_CONCURRENCY)
        self._health = HealthLog(clock, metrics.status_failures.inc)
        self._publications: Background[Key] = Background("publish", PUBLISH_CONCURRENCY, names)
        self._publisher = Publisher(
            hub, events, metrics, self._health, self._publications, self.memories, settings, wall
        )
        self._identity = HubIdentity(hub, settings.hub_id, clock=clock)
        writer = snapshots.propagation.writer(self._owner)
        self._distributed = DistributedDecisions(hub, writer, metrics, settings)
        self._centralized = CentralizedDecisions(hub, metrics, settings)
        self._modes = ModeChanges(hub, snapshots, writer, events, settings)
        self._autoscalers = CompetingAutoscalers(clock=clock)
        found = metrics.set_hub_finding
        self._hub_check = HubCheck(hub, CRD_PATH, OUR_PATHS, plural=PLURAL, clock=clock, on_finding=found)

    def _owner(self, key: Key) -> Owner:
        return Owner(self._identity.id, *key, self.memories[key].uid)

    def keeps(self, raw: Mapping[str, Any]) -> bool:
        """False for an object that is being deleted without a finalizer of ours."""
        return not raw["metadata"].get("deletionTimestamp") or has_finalizer(raw)

    def foreign(self, raw: Mapping[str, Any]) -> Neighbour:
        """Return the selectors of an object of another shard."""
        return Neighbour.of(raw)

    def foreign_changed(self, key: Key, known: Foreign | None) -> None:
        """Note an object of another shard; None if it is none any more."""
        self._snapshots.ambiguities.note_neighbour(key, known if isinstance(known, Neighbour) else None)

    async def begin(self) -> Iterable[Key]:
        """Nothing is due but what changed."""
        return ()

    def changed(self, key: Key, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return an object whose spec or hold changed, and forget one that is gone."""
        if new is None:
            self.forget(key)
            return ()
        return () if old is not None and asked_at_once(old) == asked_at_once(new) else (key,)

    def taken(self, key: Key) -> None:
        """Nothing waits for other objects."""

    async def work(
        self,
        key: Key,
        objects: Objects,
        *,
        late: float,
        slot: Slot,
    ) -> float | None:
        """Reconcile an object. Returns the seconds until its next slot, or until a quick retry."""
        raw = objects.get(key)
        if raw is None:
            self.forget(key)
            return None
        retry = await self.reconcile(key, raw, objects, late=late, slot=slot)
        return RETRY_SECONDS if retry else until_slot(key, self._snapshots.period(raw), self._clock())

    def forget(self, key: Key) -> None:
        """Drop all that is known of a deleted object, also the selectors that its neighbours compare."""
        self.memories.pop(key, None)
        self._snapshots.ambiguities.forget(key)

    async def reconcile(
        self,
        key: Key,
        raw: Mapping[str, Any],
        known: Iterable[Key] = (),
        *,
        late: float = 0.0,
        slot: Slot | None = None,
    ) -> bool:
        """Reconcile the object read as `raw`, `late` seconds after it was due; True asks for a quick retry.

        The caller holds the `slot`, which others get once the object was read.
        `known` are the keys of all objects. Nothing is scaled while an object of the same namespace was never
        reconciled, because it may select the same pods. Errors of members are part of the decision, and the
        object shows refusals of the hub. Any other exception is a failure of this object: see `failed`.
        """
        began = self._clock()
        await self._identity.read()
        self._snapshots.hpas.hub = self._identity.id
        memory = await self._memory(key, raw)
        if self.memories.get(key) is not memory:
            return False  # deleted in between
        first = not memory.reconciled
        if raw["metadata"].get("deletionTimestamp"):
            await self._delete(key, raw, memory)
            return False
        try:
            if refusal := memory.spec_of(raw).judgement.refusal:
                raise InvalidObject(refusal)
            now = self._times.now(memory)
            if replaced := memory.forget_replaced(self._snapshots.members):
                text = "is another cluster than before: what was remembered of the old one is dropped"
                events = [Event("Normal", "ClusterReplaced", f"cluster {one} {text}") for one in replaced]
                record_events(self._events, FEDERATED_HPAS, raw, events)
            blocked = await self._leave_distributed(key, raw, memory, now)
            # Conditions and passes of mode Distributed go on from the last status.
            newest = latest(raw, memory)
            snapshot, targets = await self._snapshots.build(key, newest, self.memories, now, late=late)
        except InvalidObject as error:
            self._metrics.record_failure(self._clock() - began)
            self._publisher.report_failure(memory.health, raw, INVALID_OBJECT, str(error))
            return False
        finally:
            memory.reconciled = True
        if self.memories.get(key) is not memory:
            return False  # deleted in between
        if slot is not None:
            slot.release()
        async with self._writes:
            now = self._times.now(memory)
            snapshot = self._with_conflicts(memory, raw, snapshot, targets, now, blocked)
            waits = partial(self._snapshots.ambiguities.waits, key, known, self.memories)
            decide = partial(self._decide, key, raw, memory, targets, now)
            try:
                outcome = await decide(snapshot, lambda: not waits())
                if outcome is None and isinstance(others := waits(), Blocked):
                    snapshot = msgspec.structs.replace(snapshot, blocked=others)
                    outcome = await decide(snapshot, lambda: False)
                if outcome is None:
                    return True
                decision, written = outcome
                seconds = self._clock() - began
                self._show(key, memory, decision, snapshot, written=written, late=late, seconds=seconds)
                await self._publisher.record(memory, decision, snapshot)
            except Conflict as error:
                return self._begin_anew(key, error, first=first)
        leaves = blocked is None and self._modes.leaves(raw)
        finish = partial(self._modes.finish, key, raw) if leaves else None
        done = partial(self._published, key, decision, snapshot)
        self._publisher.publish(key, raw, memory, decision, snapshot, targets.hub_problem, finish, done)
        await self._hub_check.refresh()
        return False

    async def _decide(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memory: ObjectMemory,
        targets: WriteTargets,
        now: float,
        snapshot: Snapshot,
        may_write: Callable[[], bool],
    ) -> tuple[Decision, bool] | None:
        """Decide and write, by the object's mode. Raises Conflict if another process wrote the record."""
        given = (memory, snapshot, targets, now, may_write)
        if snapshot.hpa.spec.mode == DISTRIBUTED:
            outcome = await self._distributed.decide_and_write(key, raw, *given)
        else:
            outcome = await self._centralized.decide_and_write(key, *given)
        decision = None if outcome is None else outcome[0]
        if decision is not None and decision.placement is not None:
            await self._snapshots.placements.carry_out(raw, decision.placement, memory)
        if decision is not None and memory.status is not None:
            memory.status = decision.status
        new = decision is not None and decision.memory is not snapshot.memory
        if decision is not None and new and decision.plan is not None and not snapshot.hpa.spec.dry_run:
            self._modes.report_unregistered(key, raw, snapshot.memory, decision.memory)
        return outcome

    def _begin_anew(self, key: Key, error: Conflict, *, first: bool) -> bool:
        """Drop the memory after another process wrote the record. Returns True for a quick retry.

        A conflict in the first reconcile may come again at once, so that one waits for the next period.
        """
        log.warning("record written by another process", namespace=key[0], name=key[1], error=str(error))
        self.memories.pop(key, None)
        return not first

    def _show(
        self,
        key: Key,
        memory: ObjectMemory,
        decision: Decision,
        snapshot: Snapshot,
        *,
        written: bool,
        late: float,
        seconds: float,
    ) -> None:
        """Show a decision in series and log."""
        if self.memories.get(key) is memory:  # otherwise a deleted object's series would stay for ever
            spec = snapshot.hpa.spec
            self._metrics.record_decision(*key, decision, written=written, seconds=seconds)
            others, resets = len(snapshot.competitors), decision.memory.resets
            self._metrics.set_conflicts(*key, dry_run=spec.dry_run, competitors=others, resets=resets)
            self._metrics.set_bounds(*key, spec.min_replicas, spec.max_replicas, late=late)
        log_decision(key, decision, written)
        memory.health.reported = ""

    async def _delete(self, key: Key, raw: Mapping[str, Any], memory: ObjectMemory) -> None:
        """Remove the member HPAs of an object that is being deleted. It scales no workload any more."""
        memory.reconciled, memory.workloads, memory.selectors = True, {}, {}
        self._snapshots.ambiguities.forget(key)
        self._metrics.unwatch_success(*key)
        await self._modes.delete(key, raw, memory, self._times.now(memory))

    async def _leave_distributed(
        self, key: Key, raw: Mapping[str, Any], memory: ObjectMemory, now: float
    ) -> Blocked | None:
        """Remove the member HPAs of an object of another mode. Returns why it must not be scaled yet."""
        blocked: Blocked | None = None
        found = self._autoscalers.has_ours(key, self._snapshots.members)
        if not found and not has_finalizer(raw):
            memory.leaving_since = None
        else:
            blocked = await self._modes.blocked(key, raw, memory, now, found=found)
            if self._modes.leaves(raw):
                memory.leave_distributed()
        if blocked is not None or (raw.get("spec") or {}).get("mode") != DISTRIBUTED:
            return blocked
        if problem := memory.recording.problem:
            return Blocked(NO_RECORD, problem, condition=ASSIGNED)
        if not memory.spec_of(raw).assignment.policy and (problem := self._snapshots.propagation.no_policy):
            return Blocked(NO_POLICY, problem, condition=ASSIGNED)
        problem = self._identity.problem
        return Blocked(HUB_UNKNOWN, problem, condition=ASSIGNED) if problem else None

    def _with_conflicts(
        self,
        memory: ObjectMemory,
        raw: Mapping[str, Any],
        snapshot: Snapshot,
        targets: WriteTargets,
        now: float,
        blocked: Blocked | None,
    ) -> Snapshot:
        """The snapshot with the other actors on the workload and the object, which are read less often."""
        clients = clients_of(targets, self._hub)
        unknown = unknown_fields(snapshot.hpa.spec.judgement)
        # A watch that nobody needs ends, so only mode Distributed may use it.
        watch = self._snapshots.hpa_watch if snapshot.hpa.spec.mode == DISTRIBUTED else lambda _: None
        return msgspec.structs.replace(
            snapshot,
            competitors=self._autoscalers.find(raw, self._hub, clients, self._identity.id, watch),
            hub_findings=(*self._hub_check.findings, *snapshot.hub_findings, *unknown),
            blocked=blocked or snapshot.blocked or self._hub_check.other_controller(memory.contest, raw, now),
            record_problem=memory.recording.obstacle,
        )

    async def failed(self, key: Key, objects: Objects, reason: str, message: str) -> float:
        """Show on the object that its reconcile raised or took too long. The hub may refuse that."""
        raw = objects.get(key)
        if raw is None:
            return self.retry(key)
        self._publisher.report_failure(self._known(key, raw).health, raw, reason, message)
        self._metrics.watch_success(*key)
        return until_slot(key, self._snapshots.period(raw), self._clock())

    def retry(self, key: Key) -> float:
        """Seconds until the next reconcile, without the object's own period."""
        return until_slot(key, self._settings.sync_period, self._clock())

    def unreadable(self, key: Key, uid: str, message: str) -> None:
        """Show that an object cannot even be decoded, and is therefore left out; with "" it is gone."""
        if not message:
            self.forget(key)
            return
        raw = {"metadata": {"namespace": key[0], "name": key[1], "uid": uid}}
        self._publisher.note_failure(self._known(key, raw).health, raw, INVALID_OBJECT, message)

    def _known(self, key: Key, raw: Mapping[str, Any]) -> ObjectMemory:
        """The memory of an object, whose record may not be read yet."""
        memory, uid = self.memories.get(key), str(raw["metadata"].get("uid", ""))
        if memory is None or memory.uid != uid:
            file = RecordFile.of(self._hub, FEDERATED_HPAS, raw["metadata"], HUB_DEADLINE_SECONDS)
            memory = ObjectMemory(uid, Recording(file), health=ObjectHealth(key))
            self._metrics.follow(key, memory)
            self.memories[key] = memory
        return memory

    async def _memory(self, key: Key, raw: Mapping[str, Any]) -> ObjectMemory:
        """The memory of an object, read from its record before its first reconcile. Raises ApiError."""
        memory = self._known(key, raw)
        if memory.recording.is_open:
            return memory
        file = memory.recording.file
        recording = memory.recording = await Recording.open(file, writes=not self._settings.paused)
        memory.restore(raw, self._wall())
        if lost := lost_memory(recording, raw):
            log.warning("memory lost", namespace=key[0], name=key[1], error=lost)
            record_events(self._events, FEDERATED_HPAS, raw, [Event("Warning", "MemoryLost", lost)])
        self._metrics.watch_success(*key)
        return memory

    def _published(self, key: Key, decision: Decision, snapshot: Snapshot, stored: bool) -> None:
        """Show for how long the object was not reconciled, unless it is not for this controller to scale."""
        if snapshot.blocked is not None and snapshot.blocked.reason in NOT_OURS:
            self._metrics.unwatch_success(*key)
        elif stored and decision.error is None:
            self._metrics.record_success(*key)
        else:
            self._metrics.watch_success(*key)

    async def end(self, objects: Objects) -> None:  # noqa: ARG002
        """Store what the next leader would want to know, and drop the memories."""
        try:
            await asyncio.gather(self._publisher.end(), self._autoscalers.end())
        finally:
            # Another process reconciles these objects now, so the series here would show old values.
            for key in list(self.memories):
                self.forget(key)

    async def settle(self) -> None:
        """Wait until nothing is left to be done in the background."""
        await asyncio.gather(self._publications.settle(), self._autoscalers.settle())

    async def remind(self) -> None:
        """Log reminders of objects that fail, until cancelled."""
        await self._health.remind()
