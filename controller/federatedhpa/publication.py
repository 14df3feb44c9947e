"""Shows an object to people: events, the status, failures in log and series, and its stored record.

Events are recorded at once, the memory is stored before the status, and each is written when it is due. A
failure ends at the object that caused it. It is counted, logged, and reported once: by an event and, if the
hub stores it, by the conditions AbleToScale and Ready. The next decision sets them anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import structlog

from controller.failure_log import SETTLED_SECONDS, FailureLog, Lines, concerns_hub
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.recording import QUIET_SECONDS, Recording, Windows, worth_writing
from controller.federatedhpa.snapshot import HUB_DEADLINE_SECONDS
from controller.flags import Settings
from controller.hub_check import ANOTHER_CONTROLLER
from controller.publish import FEDERATED_HPAS, record_events, write_status
from controller.telemetry import ControllerMetrics
from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.api.texts import one_line
from fedhpa.api.times import format_time
from fedhpa.decision import Decision, Event, Snapshot, StatusCondition
from fedhpa.kube import ApiClient, EventRecorder, Key, contain, patch_status

FAILED_UPDATE_STATUS: Final = "FailedUpdateStatus"
FAILED_GET_SCALE: Final = "FailedGetScale"
FAILED_GET_METRIC: Final = "FailedGetMetric"
SCALING_DISABLED: Final = "ScalingDisabled"
UNAVAILABLE: Final = "HubUnavailable"
# The conditions that say whether an object is scaled, in the order in which they are decided.
CONDITIONS: Final = ("AbleToScale", "ScalingActive", "MetricsComplete")

OBJECTS: Final = Lines("autoscaler fails", "autoscaler still fails", "autoscaler is well again")
READS: Final = Lines("the hub does not answer", "the hub still does not answer", "the hub answers again")
WRITES: Final = Lines(
    "the hub stores no status", "the hub still stores no status", "the hub stores statuses again"
)


class HealthLog:
    """Follows all objects of this process. A failure of the hub is reported once, and not for each object."""

    def __init__(self, metrics: ControllerMetrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._objects: FailureLog[Key] = FailureLog(OBJECTS, clock, _names)
        self._reads: FailureLog[str] = FailureLog(READS, clock, _nothing)
        self._writes: FailureLog[str] = FailureLog(WRITES, clock, _nothing)
        # The last error of the hub about the status of an object, until a status is stored.
        self._refused: dict[Key, str] = {}
        # Since when the hub has not served what an object needs.
        self._unserved: dict[Key, float] = {}
        self._served_at = float("-inf")

    def failing(self, key: Key, reason: str, error: str) -> None:
        """Note that no decision was made, for a reason as conditions have it."""
        self._objects.failing(key, reason, error)

    def decided(self, key: Key, decision: Decision, hub_problem: str) -> None:
        """Note a decision, after its status was written. `hub_problem` says why the hub did not answer."""
        if hub_problem:
            self._not_served(key, hub_problem)
            return
        self._unserved.pop(key, None)
        self._served_at = self._clock()
        self._reads.well(UNAVAILABLE)
        failure = failure_of(decision)
        if failure is None and key in self._refused:
            failure = FAILED_UPDATE_STATUS, self._refused[key]
        if failure is None:
            self._objects.well(key)
        else:
            # New pods, for example, have no metrics for a moment.
            self._objects.failing(key, *failure, severe=False)

    def _not_served(self, key: Key, problem: str) -> None:
        """Report the hub if it serves no object, and the object if only others are served."""
        now = self._clock()
        since = self._unserved.setdefault(key, now)
        if now - self._served_at >= SETTLED_SECONDS:
            self._reads.failing(UNAVAILABLE, UNAVAILABLE, problem)
        elif now - since >= SETTLED_SECONDS:
            self._objects.failing(key, FAILED_GET_SCALE, problem)

    def status_failed(self, key: Key, error: FedHPAError) -> None:
        """Count a status that the hub did not store."""
        self._metrics.count_status_failure()
        if concerns_hub(error):
            self._writes.failing(UNAVAILABLE, UNAVAILABLE, str(error))
        else:
            self._refused[key] = str(error)

    def status_stored(self, key: Key) -> None:
        """Note a status that the hub stored."""
        self._refused.pop(key, None)
        self._writes.well(UNAVAILABLE)

    def forget(self, key: Key) -> None:
        """Drop what is known of a deleted object."""
        self._objects.forget(key)
        self._refused.pop(key, None)
        self._unserved.pop(key, None)

    async def remind(self) -> None:
        """Log reminders of failures that go on, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for followed in (self._objects, self._reads, self._writes):
                group.create_task(followed.remind())


def failure_of(decision: Decision) -> tuple[str, str] | None:
    """Returns the reason and the message of what keeps an object from being scaled rightly; None if nothing.

    A condition that the decision did not set is an old one: the one with the decision's error comes first.
    """
    failed = [condition for condition in decision.conditions if _fails(condition)]
    failed.sort(key=lambda condition: CONDITIONS.index(condition.type))
    if decision.error is not None:
        blamed = [condition for condition in failed if decision.error in condition.message] or failed
        return (blamed[0].reason if blamed else "", decision.error)
    if failed:
        return failed[0].reason, failed[0].message
    for metric in decision.metrics:
        if metric.error is not None:
            return FAILED_GET_METRIC, f"metric {metric.name}: {metric.error}"
    return None


def _fails(condition: StatusCondition) -> bool:
    # A workload that somebody scaled to zero is switched off, and its autoscaler does not fail.
    return (
        condition.type in CONDITIONS and condition.status == "False" and condition.reason != SCALING_DISABLED
    )


def _names(key: Key) -> Mapping[str, str]:
    return {"namespace": key[0], "name": key[1]}


def _nothing(_: str) -> Mapping[str, str]:
    return {}


log = structlog.get_logger(__name__)

# The conditions that are False while an object is not reconciled.
ABLE_TO_SCALE: Final = "AbleToScale"
READY: Final = "Ready"

MAX_MESSAGE: Final = 512
PATCH_SECONDS: Final = 5.0


class FailureReports:
    """Reports failures, each once until the object is reconciled again."""

    def __init__(
        self,
        hub: ApiClient,
        events: EventRecorder,
        metrics: ControllerMetrics,
        health: HealthLog,
        wall: Callable[[], float],
        *,
        writes: bool,
    ) -> None:
        self._hub = hub
        self._events = events
        self._metrics = metrics
        self._health = health
        self._wall = wall
        self._writes = writes
        self._known: dict[Key, str] = {}

    def clear(self, key: Key) -> None:
        """The object was reconciled, or is gone."""
        self._known.pop(key, None)

    def record(self, key: Key, raw: Mapping[str, Any], reason: str, message: str) -> bool:
        """Count and log a failure; record it as an event if it is a new one. Returns True if it is."""
        self._metrics.count_failure(*key, reason)
        text = one_line(message, MAX_MESSAGE)
        self._health.failing(key, reason, text)
        if self._known.get(key) == text:
            return False
        self._known[key] = text
        if self._writes:
            record_events(self._events, FEDERATED_HPAS, raw, [Event("Warning", reason, text)])
        return True

    async def report(self, key: Key, raw: Mapping[str, Any], reason: str, message: str) -> None:
        """Do what `record` does, and set the conditions for a new failure. The hub may refuse that."""
        if not self.record(key, raw, reason, message) or not self._writes:
            return
        text = one_line(message, MAX_MESSAGE)
        path = FEDERATED_HPAS.path(*key)
        status = {"conditions": self._conditions(raw, reason, text)}
        try:
            await patch_status(self._hub, path, status, deadline=PATCH_SECONDS)
        except FedHPAError as error:
            self._metrics.count_status_failure()
            log.debug("condition not written", namespace=key[0], name=key[1], error=str(error))

    def _conditions(self, raw: Mapping[str, Any], reason: str, message: str) -> list[Mapping[str, Any]]:
        """The stored conditions, with AbleToScale and Ready False: a patch replaces the whole list."""
        status = raw.get("status")
        stored = status.get("conditions") if isinstance(status, Mapping) else None
        others: list[Mapping[str, Any]] = []
        now = format_time(int(self._wall()))
        since = {ABLE_TO_SCALE: now, READY: now}
        for condition in stored if isinstance(stored, list) else ():
            if not isinstance(condition, Mapping):
                continue
            kind = condition.get("type")
            if kind not in since:
                others.append(condition)
            elif condition.get("status") == "False":
                since[kind] = str(condition.get("lastTransitionTime") or now)
        able, ready = (
            {"type": kind, "status": "False", "lastTransitionTime": at, "reason": reason, "message": message}
            for kind, at in since.items()
        )
        generation = (raw.get("metadata") or {}).get("generation")
        return [able, *others, {**ready, **({"observedGeneration": generation} if generation else {})}]


# After the loss of a Lease, five seconds remain before another process leads; releasing it takes two.
FLUSH_SECONDS: Final = 2.0
FLUSH_CONCURRENCY: Final = 16


class Publisher:
    """Writes ScalingRecords, statuses and events."""

    def __init__(self, hub: ApiClient, events: EventRecorder, health: HealthLog, settings: Settings) -> None:
        self._hub = hub
        self._events = events
        self._health = health
        self._settings = settings

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

    async def publish(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memory: ObjectMemory,
        decision: Decision,
        snapshot: Snapshot,
    ) -> bool:
        """Record the events, and write the status if it is due. Returns False if the hub did not store it."""
        if decision.events:
            record_events(self._events, FEDERATED_HPAS, raw, decision.events)
        # The other controller also writes the status. At most one write a minute keeps the two from racing.
        waited = abs(decision.now - memory.status_written_at) >= QUIET_SECONDS
        stored = _whole(raw.get("status"), memory)
        failure = memory.recording.failure
        if failure is not None:
            self._health.status_failed(key, failure)
        if (_is_contended(snapshot) and not waited) or not worth_writing(
            stored, decision.status, memory.status_written_at, decision.now
        ):
            return failure is None
        try:
            written = await write_status(
                self._hub, FEDERATED_HPAS, raw, decision.status, HUB_DEADLINE_SECONDS
            )
        except FedHPAError as error:
            self._health.status_failed(key, error)
            return False
        if written is not None:
            memory.published = decision.status, written.get("status") or {}
        if failure is None:
            self._health.status_stored(key)
        memory.status_written_at = decision.now
        log.debug("status written", namespace=key[0], name=key[1])
        return failure is None

    async def flush(self, recordings: Iterable[tuple[Key, Recording]]) -> None:
        """Store what the next leader would want to know, within FLUSH_SECONDS.

        A record that another process wrote in the meantime stays.
        """
        left = [(key, recording) for key, recording in recordings if recording.is_behind()]
        if not left or self._settings.paused:
            return
        slots = asyncio.Semaphore(FLUSH_CONCURRENCY)

        async def write(recording: Recording) -> bool:
            async with slots:
                await recording.flush()
            return True

        tasks = [
            asyncio.create_task(
                contain(
                    "flush-record",
                    partial(write, recording),
                    lambda _: False,
                    namespace=namespace,
                    name=name,
                )
            )
            for (namespace, name), recording in left
        ]
        try:
            await asyncio.wait(tasks, timeout=FLUSH_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
        written = sum(task.done() and not task.cancelled() and task.result() for task in tasks)
        log.info("last records written", written=written, of=len(tasks))


def _is_contended(snapshot: Snapshot) -> bool:
    return snapshot.blocked is not None and snapshot.blocked.reason == ANOTHER_CONTROLLER


def _whole(stored: Any, memory: ObjectMemory) -> Any:
    """Returns the stored status with the fields that the hub dropped of our last write."""
    if memory.published is None:
        return stored
    wanted, kept = memory.published
    return wanted if stored == kept else stored


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
