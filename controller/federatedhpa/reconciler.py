"""One reconcile of one FederatedHPA: build the snapshot, decide, write.

Status, events, series and log are all derived from the one `Decision`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from controller.federatedhpa.clock_steps import SteppedClock
from controller.federatedhpa.competition import CompetingAutoscalers
from controller.federatedhpa.failures import INVALID_OBJECT, FailureReports
from controller.federatedhpa.health import HealthLog
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.records import StatusRecords
from controller.federatedhpa.scale_writes import (
    NotWritten,
    Superseded,
    WriteFailed,
    may_be_written,
    write_assignment,
    write_scale,
)
from controller.federatedhpa.snapshot import HUB_DEADLINE_SECONDS, Observation, SnapshotBuilder
from controller.federatedhpa.status import QUIET_SECONDS, Unstored, Windows, worth_writing
from controller.federatedhpa.unsupported import NOT_BUILT
from controller.flags import Settings
from controller.hub_check import ANOTHER_CONTROLLER, HubCheck
from controller.publish import FEDERATED_HPAS, record_events
from controller.telemetry import ControllerMetrics
from fedhpa.api.errors import FedHPAError, InvalidObject
from fedhpa.decision import ClusterScale, Decision, Snapshot, TemplateScale, decide, history_after_scale
from fedhpa.kube import ApiClient, EventRecorder, Key, contain, reason_of

log = structlog.get_logger(__name__)

# After the loss of a Lease, five seconds remain before another process leads; releasing it takes two.
FLUSH_SECONDS: Final = 2.0
FLUSH_CONCURRENCY: Final = 16
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
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub = hub
        self._snapshots = snapshots
        self._events = events
        self._metrics = metrics
        self._settings = settings
        self._wall = wall
        self._clock = clock
        self._memories: dict[Key, ObjectMemory] = {}
        self._times = SteppedClock(wall, clock)
        self._health = HealthLog(metrics, clock)
        self._failures = FailureReports(hub, events, metrics, self._health, wall, writes=not settings.paused)
        self._records = StatusRecords(hub)
        self._unstored: dict[Key, Unstored] = {}
        # The objects and statuses that a former leader's successor would want to know.
        self._unwritten: dict[Key, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._autoscalers = CompetingAutoscalers(clock=clock)
        self._hub_check = HubCheck(hub, clock=clock, on_finding=metrics.set_hub_finding)
        self._competitors: dict[Key, tuple[str, ...]] = {}

    def period(self, raw: Mapping[str, Any]) -> float:
        """Seconds between two reconciles of the object."""
        return self._snapshots.period(raw)

    def forget(self, key: Key) -> None:
        """Drop the memory of a deleted object."""
        for table in (self._competitors, self._unstored, self._unwritten):
            table.pop(key, None)
        self._hub_check.forget(key)
        self._records.forget(key)
        self._times.forget(key)
        self._failures.clear(key)
        self._health.forget(key)
        self._snapshots.forget(key)
        if self._memories.pop(key, None) is not None:
            self._metrics.forget(*key)

    async def reconcile(
        self, key: Key, raw: Mapping[str, Any], known: Iterable[Key] = (), *, late: float = 0.0
    ) -> bool:
        """Reconcile the object read as `raw`, `late` seconds after it was due; True asks for a quick retry.

        `known` are the keys of all objects. Nothing is scaled while an object of the same namespace was never
        reconciled, because it may select the same pods. Errors of members are part of the decision, and the
        object shows refusals of the hub. Any other exception is a failure of this object: see `failed`.
        """
        began = self._clock()
        raw = self._records.complete(key, raw)
        memory = self._memory(key, raw)
        try:
            now = self._times.now(key, memory)
            observed = await self._snapshots.build(key, raw, self._memories, now, late=late)
        except InvalidObject as error:
            self._metrics.record_failure(self._clock() - began)
            await self._failures.report(key, raw, INVALID_OBJECT, str(error))
            return False
        finally:
            memory.reconciled = True
        if self._memories.get(key) is not memory:
            return False  # deleted in between
        now = self._times.now(key, memory)
        observed = replace(observed, snapshot=self._with_conflicts(key, raw, observed.snapshot, now))
        outcome = await self._decide_and_write(key, memory, observed, known, now)
        if outcome is None:
            return True
        (decision, written), snapshot = outcome, observed.snapshot
        if self._memories.get(key) is memory:  # otherwise a deleted object's series would stay for ever
            self._metrics.record_decision(*key, decision, written=written, seconds=self._clock() - began)
            self._metrics.set_conflicts(
                *key, dry_run=snapshot.hpa.spec.dry_run, competitors=len(snapshot.competitors)
            )
            bounds = snapshot.hpa.spec.min_replicas, snapshot.hpa.spec.max_replicas
            self._metrics.set_bounds(*key, *bounds, late=late)
        _log(key, decision, written)
        self._failures.clear(key)
        stored = self._settings.paused or await self._publish(key, raw, memory, decision, snapshot)
        if self._memories.get(key) is memory:
            self._health.decided(key, decision, observed.hub_problem)
            self._show_success(key, decision, snapshot, stored=stored)
        # The results are used by the next reconcile, so that no write waits for them.
        competitors = await self._autoscalers.find(raw, self._hub, observed.clients(self._hub))
        if self._memories.get(key) is memory:
            self._competitors[key] = competitors
        await self._hub_check.refresh()
        return False

    def _with_conflicts(self, key: Key, raw: Mapping[str, Any], snapshot: Snapshot, now: float) -> Snapshot:
        """The snapshot with the other actors on the workload and the object, which are read less often."""
        return msgspec.structs.replace(
            snapshot,
            competitors=self._competitors.get(key, ()),
            hub_findings=self._hub_check.findings,
            blocked=snapshot.blocked or self._hub_check.other_controller(key, raw, now),
        )

    async def _decide_and_write(
        self, key: Key, memory: ObjectMemory, observed: Observation, known: Iterable[Key], now: float
    ) -> tuple[Decision, bool] | None:
        """Decide at `now` and write the scale. Returns the decision and True if a scale was written.

        None asks for a new decision: someone else's write came first, or the owner of the pods is unknown.
        """
        snapshot, rules = observed.snapshot, self._settings.decision
        memory.count_unreported_scale(snapshot, now)
        decision = decide(snapshot, memory.history, now, rules)
        written = decision.writes
        if written and self._has_unknown_neighbours(key, known):
            return None
        if written:
            error = await self._try_to_write(key, memory, observed, decision)
            if error is not None:
                after = self._after_failed_write(key, memory, snapshot, error, now)
                return None if after is None else (after, False)
        memory.note_decision(snapshot, decision)
        if written and observed.template is None:
            memory.note_write(decision.assignment)
        memory.history = decision.history
        return decision, written

    async def _try_to_write(
        self, key: Key, memory: ObjectMemory, observed: Observation, decision: Decision
    ) -> FedHPAError | None:
        """Write the decided replicas. Returns the error, which names the shares that were written.

        A write without an answer may have been made all the same. Then the memory stays that of before the
        write, so that the next reconcile counts what has changed since.
        """
        about = {"namespace": key[0], "name": key[1]}
        _expect(memory, observed.snapshot, decision.current_replicas)
        error: FedHPAError | None = None
        try:
            await self._write_scale(observed, decision)
        except FedHPAError as failure:
            error = failure
        except Exception as failure:
            error = FedHPAError(reason_of("write-scale", failure, **about))
        if error is None or not may_be_written(error):
            memory.reported_size = None
        if error is None or isinstance(error, Superseded):
            return error
        for cluster in error.clusters if isinstance(error, NotWritten) else ("",):
            self._metrics.count_scale_failure(cluster)
        written = dict(error.written) if isinstance(error, WriteFailed) else {}
        if written:
            log.warning("scale written in part", error=str(error), written=written, **about)
        return error

    def _after_failed_write(
        self, key: Key, memory: ObjectMemory, snapshot: Snapshot, error: FedHPAError, now: float
    ) -> Decision | None:
        """The decision after a failed write, which counts what was written; None if it is to be made anew."""
        shares = error.written if isinstance(error, WriteFailed) else {}
        change = _change(snapshot, shares)
        decision: Decision | None = None
        if isinstance(error, Superseded):
            log.info("decision superseded", namespace=key[0], name=key[1], detail=str(error))
            memory.history = history_after_scale(snapshot.hpa.spec, memory.history, change, now)
        else:
            rules = self._settings.decision
            decision = decide(
                snapshot, memory.history, now, rules, write_error=str(error), written_change=change
            )
            memory.note_decision(snapshot, decision)
            memory.history = decision.history
        if isinstance(error, NotWritten):
            memory.refused |= dict.fromkeys(error.clusters, now)
        memory.last_replicas |= shares
        return decision

    def _has_unknown_neighbours(self, key: Key, known: Iterable[Key]) -> bool:
        """True if an object of the same namespace was never reconciled."""
        return any(
            other[0] == key[0] and (other not in self._memories or not self._memories[other].reconciled)
            for other in known
        )

    async def failed(self, key: Key, raw: Mapping[str, Any], reason: str, message: str) -> None:
        """Show on the object that its reconcile raised or took too long. The hub may refuse that."""
        self._metrics.watch_success(*key)
        await self._failures.report(key, raw, reason, message)

    def unreadable(self, key: Key, uid: str, message: str) -> None:
        """Show that an object cannot even be decoded, and is therefore left out."""
        metadata = {"namespace": key[0], "name": key[1], "uid": uid}
        self._failures.record(key, {"metadata": metadata}, INVALID_OBJECT, message)

    def _memory(self, key: Key, raw: Mapping[str, Any]) -> ObjectMemory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != raw["metadata"].get("uid", ""):
            memory = self._memories[key] = self._restored(key, raw)
            self._unstored[key] = Unstored.of(memory.history)
            self._unwritten.pop(key, None)
            self._times.forget(key)
            self._metrics.watch_success(*key)
        return memory

    def _restored(self, key: Key, raw: Mapping[str, Any]) -> ObjectMemory:
        try:
            return ObjectMemory.restore(raw, self._wall())
        except Exception as error:
            # A status that cannot be read is a fresh start: the present size is the first recommendation.
            reason_of("restore-memory", error, namespace=key[0], name=key[1])
            return ObjectMemory(uid=str(raw["metadata"].get("uid", "")))

    async def _write_scale(self, observed: Observation, decision: Decision) -> None:
        template, replicas = observed.template, decision.desired_replicas
        if template is None:
            await write_assignment(observed.members, decision.assignment, self._settings.member_deadline)
        else:
            await write_scale(self._hub, observed.path, template, replicas, HUB_DEADLINE_SECONDS)

    async def _publish(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memory: ObjectMemory,
        decision: Decision,
        snapshot: Snapshot,
    ) -> bool:
        """Record the events, and write the status if it is due. Returns False if the hub did not store it."""
        record_events(self._events, FEDERATED_HPAS, raw, decision.events)
        unstored = self._unstored.setdefault(key, Unstored())
        unstored.note(decision.history)
        windows = Windows.of(snapshot.hpa.spec, self._settings.decision.downscale_stabilization)
        # The other controller also writes the status. At most one write a minute keeps the two from racing.
        blocked = snapshot.blocked
        contended = blocked is not None and blocked.reason == ANOTHER_CONTROLLER
        due = not contended or abs(decision.now - memory.status_written_at) >= QUIET_SECONDS
        if not due or not worth_writing(
            raw.get("status"),
            decision.status,
            memory.status_written_at,
            decision.now,
            would_be_forgotten=unstored.matters(decision.history, windows),
        ):
            if unstored.differs(decision.history) and not contended:
                self._unwritten[key] = (raw, decision.status)
            return True
        try:
            await self._records.write(key, raw, decision.status, HUB_DEADLINE_SECONDS)
        except FedHPAError as error:
            self._health.status_failed(key, error)
            self._unwritten[key] = (raw, decision.status)
            return False
        self._health.status_stored(key)
        self._unwritten.pop(key, None)
        self._unstored[key] = Unstored.of(decision.history)
        memory.status_written_at = decision.now
        log.debug("status written", namespace=key[0], name=key[1])
        return True

    async def flush(self) -> None:
        """Write the statuses with recommendations that no status has, so that the next leader knows them.

        Takes at most FLUSH_SECONDS. A status that another process wrote in the meantime stays.
        """
        left, self._unwritten = self._unwritten, {}
        if not left or self._settings.paused:
            return
        slots = asyncio.Semaphore(FLUSH_CONCURRENCY)

        async def write(key: Key, raw: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
            async with slots:
                await self._records.write(key, raw, status, FLUSH_SECONDS, unless_newer=True)
            return True

        tasks = [
            asyncio.create_task(
                contain(
                    "flush-status",
                    partial(write, (ns, name), raw, status),
                    lambda _: False,
                    namespace=ns,
                    name=name,
                )
            )
            for (ns, name), (raw, status) in left.items()
        ]
        try:
            await asyncio.wait(tasks, timeout=FLUSH_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
        written = sum(task.done() and not task.cancelled() and task.result() for task in tasks)
        log.info("last statuses written", written=written, of=len(tasks))

    def _show_success(self, key: Key, decision: Decision, snapshot: Snapshot, *, stored: bool) -> None:
        """Show for how long the object was not reconciled, unless it is not for this controller to scale."""
        if snapshot.blocked is not None and snapshot.blocked.reason in NOT_OURS:
            self._metrics.unwatch_success(*key)
        elif stored and decision.error is None:
            self._metrics.record_success(*key)
        else:
            self._metrics.watch_success(*key)

    async def remind(self) -> None:
        """Log reminders of objects that fail, until cancelled."""
        await self._health.remind()


def _log(key: Key, decision: Decision, written: bool) -> None:
    bound = log.bind(namespace=key[0], name=key[1])
    current, desired = decision.current_replicas, decision.desired_replicas
    if written:
        split = decision.split or f"template {current} -> {desired}"
        bound.info("scaled", before=current, after=desired, reason=decision.why, split=split)
    elif decision.error is not None:
        bound.debug("no decision", error=decision.error)
    else:
        bound.debug("decided", replicas=desired, missing=dict(decision.coverage.missing))


def _expect(memory: ObjectMemory, snapshot: Snapshot, current: int) -> None:
    """Note the sizes from before a write, with which `count_unreported_scale` compares what it finds."""
    target = snapshot.target
    memory.reported_size = target.replicas if isinstance(target, TemplateScale) else current
    for cluster in snapshot.clusters:
        if isinstance(cluster.scale, ClusterScale):
            memory.last_replicas[cluster.name] = cluster.scale.spec_replicas


def _change(snapshot: Snapshot, written: Mapping[str, int]) -> int:
    """By how many replicas the written shares change the size."""
    before = {
        cluster.name: cluster.scale.spec_replicas
        for cluster in snapshot.clusters
        if isinstance(cluster.scale, ClusterScale)
    }
    return sum(replicas - before.get(cluster, replicas) for cluster, replicas in written.items())
