"""Shows an object to people: events, the status, failures in log and series, and its stored record.

Events are recorded at once, the memory is stored before the status, and each is written when it is due. A
failure ends at the object that caused it. It is counted, logged, and reported once: by an event and, if the
hub stores it, by the conditions AbleToScale and Ready. The next decision sets them anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from controller.background import Background
from controller.decision_series import ControllerMetrics
from controller.failure_log import HealthLog, ObjectHealth, WriteFailure, names
from controller.federatedhpa.clusters import HUB_DEADLINE_SECONDS
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.recording import QUIET_SECONDS, Windows, worth_writing
from controller.flags import Settings
from controller.hub_check import ANOTHER_CONTROLLER
from controller.loop import RECONCILE_FAILED
from controller.publish import FEDERATED_HPAS, record_events, write_status
from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.api.free_json import entries
from fedhpa.api.texts import one_line
from fedhpa.api.times import format_time
from fedhpa.decision import ABLE_TO_SCALE, READY, Decision, Event, Snapshot
from fedhpa.kube import ApiClient, EventRecorder, Key, patch_status

log = structlog.get_logger(__name__)

MAX_MESSAGE: Final = 512
PATCH_SECONDS: Final = 5.0


# After the loss of a Lease, five seconds remain before another process leads; releasing it takes two.
FLUSH_SECONDS: Final = 2.0
FLUSH_CONCURRENCY: Final = 16


@dataclass(eq=False)
class Publisher:
    """Writes ScalingRecords, statuses and events, and reports failures. `memories` are those of all objects.

    A failure is reported once, until the object is reconciled again.
    """

    _hub: ApiClient
    _events: EventRecorder
    _metrics: ControllerMetrics
    _health: HealthLog
    _background: Background[Key]
    _memories: Mapping[Key, ObjectMemory]
    _settings: Settings
    _wall: Callable[[], float]

    def note_failure(self, health: ObjectHealth, raw: Mapping[str, Any], reason: str, message: str) -> bool:
        """Count and log a failure; record it as an event if it is a new one. Returns True if it is."""
        self._metrics.count_failure(*health.key, reason)
        text = one_line(message, MAX_MESSAGE)
        self._health.failing(health, reason, text)
        if health.reported == text:
            return False
        health.reported = text
        if not self._settings.paused:
            record_events(self._events, FEDERATED_HPAS, raw, [Event("Warning", reason, text)])
        return True

    def report_failure(self, health: ObjectHealth, raw: Mapping[str, Any], reason: str, message: str) -> None:
        """As `note_failure`, and soon set the conditions for a new failure. The hub may refuse that."""
        if self.note_failure(health, raw, reason, message) and not self._settings.paused:
            text = one_line(message, MAX_MESSAGE)
            status = {"conditions": self._conditions(raw, reason, text)}
            self._background.put(health.key, partial(self._write_conditions, health, text, status))

    async def _write_conditions(self, health: ObjectHealth, text: str, status: dict[str, Any]) -> None:
        if health.reported != text:
            return  # reconciled or gone meanwhile
        try:
            await patch_status(self._hub, FEDERATED_HPAS.path(*health.key), status, deadline=PATCH_SECONDS)
        except FedHPAError as error:
            self._metrics.status_failures.inc()
            log.debug("condition not written", error=str(error), **names(health.key))

    def _conditions(self, raw: Mapping[str, Any], reason: str, message: str) -> list[Mapping[str, Any]]:
        """The stored conditions, with AbleToScale and Ready False: a patch replaces the whole list."""
        others: list[Mapping[str, Any]] = []
        now = format_time(int(self._wall()))
        since = {ABLE_TO_SCALE: now, READY: now}
        for condition in entries(raw, "status", "conditions"):
            kind = condition.get("type")
            if kind not in since:
                others.append(condition)
            elif condition.get("status") == "False":
                since[str(kind)] = str(condition.get("lastTransitionTime") or now)
        able, ready = (
            {"type": kind, "status": "False", "lastTransitionTime": at, "reason": reason, "message": message}
            for kind, at in since.items()
        )
        generation = (raw.get("metadata") or {}).get("generation")
        return [able, *others, {**ready, **({"observedGeneration": generation} if generation else {})}]

    async def record(self, memory: ObjectMemory, decision: Decision, snapshot: Snapshot) -> None:
        """Store what a restart must know, if it is due. Raises Conflict; the recording keeps other refusals.

        Nothing is remembered of a decision that another controller acts on.
        """
        windows = Windows.of(snapshot.hpa.spec, self._settings.decision.downscale_stabilization)
        due = memory.recording.is_due(decision, windows)
        if not due or self._settings.paused or _is_contended(snapshot):
            return
        try:
            await memory.recording.write(decision.memory, decision)
        except Conflict:
            raise
        except FedHPAError as error:
            log.debug("record not written", record=str(memory.recording.file), error=str(error))

    def publish(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memory: ObjectMemory,
        decision: Decision,
        snapshot: Snapshot,
        hub_problem: str,
        finish: Callable[[], Awaitable[None]] | None,
        done: Callable[[bool], None],
    ) -> None:
        """Record the events, and write the status soon if it is due. Writes of one object keep their order.

        `done` is called with True once status and record are stored as far as they were due, otherwise with
        False. `finish` is awaited before, if they are. Nothing is called for an object that is gone.
        `hub_problem` says why the hub did not answer.
        """

        def settle(stored: bool) -> None:
            if self._memories.get(key) is memory:
                self._health.decided(memory.health, decision, hub_problem)
                done(stored)

        if self._settings.paused:
            settle(True)
            return
        if decision.events:
            record_events(self._events, FEDERATED_HPAS, raw, decision.events)
        failure = memory.recording.failure
        if failure is not None:
            self._health.status_failed(memory.health, failure)

        async def write() -> None:
            if self._memories.get(key) is not memory:
                return
            try:
                stored = await self._write(key, raw, memory, decision, snapshot)
            finally:
                if memory.unpublished is decision.status:
                    memory.unpublished = None
            if finish is not None and stored:
                await finish()
            settle(stored)

        due = self._is_due(raw, memory, decision, snapshot)
        if due or finish is not None or memory.unpublished is not None:
            memory.unpublished = decision.status
            self._background.put(key, write, partial(self._report, memory, raw))
        else:
            settle(failure is None)

    def _report(self, memory: ObjectMemory, raw: Mapping[str, Any], reason: str) -> None:
        """Report a write that raised, unless the object is gone."""
        if self._memories.get(memory.health.key) is memory:
            self.report_failure(memory.health, raw, RECONCILE_FAILED, reason)

    async def _write(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memory: ObjectMemory,
        decision: Decision,
        snapshot: Snapshot,
    ) -> bool:
        """Write the status if it is still due. Returns False if the hub did not store record or status."""
        failure = memory.recording.failure
        # The write before may have stored what this one was to store.
        if not self._is_due(raw, memory, decision, snapshot):
            return failure is None
        try:
            written = await write_status(
                self._hub, FEDERATED_HPAS, raw, decision.status, HUB_DEADLINE_SECONDS
            )
        except FedHPAError as error:
            self._health.status_failed(memory.health, WriteFailure.of(error))
            return False
        if written is not None:
            memory.published = decision.status, written.get("status") or {}
            memory.published_over = _version(raw)
        if failure is None:
            self._health.status_stored(memory.health)
        memory.status_written_at = decision.now
        log.debug("status written", namespace=key[0], name=key[1])
        return failure is None

    def _is_due(
        self, raw: Mapping[str, Any], memory: ObjectMemory, decision: Decision, snapshot: Snapshot
    ) -> bool:
        # The other controller also writes the status. At most one write a minute keeps the two from racing.
        waited = abs(decision.now - memory.status_written_at) >= QUIET_SECONDS
        return (waited or not _is_contended(snapshot)) and worth_writing(
            _whole(raw, memory), decision.status, memory.status_written_at, decision.now
        )

    async def end(self) -> None:
        """Write what waits: records that are behind, and statuses; within FLUSH_SECONDS.

        A record that another process wrote in the meantime stays.
        """
        recordings = {key: memory.recording for key, memory in self._memories.items()}
        behind = {
            key: one for key, one in recordings.items() if one.is_behind() and not self._settings.paused
        }
        flushes: Background[Key] = Background("flush-record", FLUSH_CONCURRENCY, names)
        for key, recording in behind.items():
            flushes.put(key, recording.flush)
        await asyncio.gather(flushes.end(FLUSH_SECONDS), self._background.end(FLUSH_SECONDS))
        if behind:
            written = sum(not recording.is_behind() for recording in behind.values())
            log.info("last records written", written=written, of=len(behind))


def _is_contended(snapshot: Snapshot) -> bool:
    return snapshot.blocked is not None and snapshot.blocked.reason == ANOTHER_CONTROLLER


def latest(raw: Mapping[str, Any], memory: ObjectMemory) -> Mapping[str, Any]:
    """Returns the object with the newest status of this process, which `raw` may not show yet."""
    status = memory.status or memory.unpublished
    if status is None and memory.published is not None and memory.published_over == _version(raw):
        status = memory.published[0]
    return raw if status is None else {**raw, "status": status}


def _whole(raw: Mapping[str, Any], memory: ObjectMemory) -> Any:
    """Returns the stored status with the fields that the hub dropped of our last write.

    An object that was read before that write shows the status before it.
    """
    stored = raw.get("status")
    if memory.published is None:
        return stored
    wanted, kept = memory.published
    return wanted if stored == kept or memory.published_over == _version(raw) else stored


def _version(raw: Mapping[str, Any]) -> object:
    return raw["metadata"].get("resourceVersion")


def log_decision(key: Key, decision: Decision, written: bool) -> None:
    """Log what was written, or at debug level what was decided."""
    bound = log.bind(namespace=key[0], name=key[1])
    current, desired = decision.current_replicas, decision.desired_replicas
    if written and decision.distributed:
        writes = {one.cluster: str(one.after) for one in decision.hpa_writes}
        bound.info("bounds written", writes=writes, reason=decision.reason, error=decision.error)
    elif written:
        split = decision.split or f"template {current} -> {desired}"
        bound.info("scaled", before=current, after=desired, reason=decision.why, split=split)
    elif decision.error is not None:
        bound.debug("no decision", error=decision.error)
    else:
        bound.debug("decided", replicas=desired, missing=dict(decision.coverage.missing))
