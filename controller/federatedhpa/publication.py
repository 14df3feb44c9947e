"""Publishes decisions on their objects: events at once, the memory before the status, each when it is due."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import structlog

from controller.federatedhpa.health import HealthLog
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.recording import QUIET_SECONDS, Recording, Windows, worth_writing
from controller.federatedhpa.snapshot import HUB_DEADLINE_SECONDS
from controller.flags import Settings
from controller.hub_check import ANOTHER_CONTROLLER
from controller.publish import FEDERATED_HPAS, record_events, write_status
from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.decision import Decision, Snapshot
from fedhpa.kube import ApiClient, EventRecorder, Key, contain

log = structlog.get_logger(__name__)

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
