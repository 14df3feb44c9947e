"""Publishes decisions on their objects: events at once, the status when it is due."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import structlog

from controller.federatedhpa.health import HealthLog
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.records import StatusRecords
from controller.federatedhpa.snapshot import HUB_DEADLINE_SECONDS
from controller.federatedhpa.status import QUIET_SECONDS, Unstored, Windows, worth_writing
from controller.flags import Settings
from controller.hub_check import ANOTHER_CONTROLLER
from controller.publish import FEDERATED_HPAS, record_events
from fedhpa.api.errors import FedHPAError
from fedhpa.decision import Decision, History, Snapshot
from fedhpa.kube import ApiClient, EventRecorder, Key, contain

log = structlog.get_logger(__name__)

# After the loss of a Lease, five seconds remain before another process leads; releasing it takes two.
FLUSH_SECONDS: Final = 2.0
FLUSH_CONCURRENCY: Final = 16


class StatusPublisher:
    """Writes statuses and events, and completes objects by what the hub dropped of their statuses."""

    def __init__(self, hub: ApiClient, events: EventRecorder, health: HealthLog, settings: Settings) -> None:
        self._events = events
        self._health = health
        self._settings = settings
        self._records = StatusRecords(hub)
        self._unstored: dict[Key, Unstored] = {}
        # The objects and statuses that a former leader's successor would want to know.
        self._unwritten: dict[Key, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}

    def forget(self, key: Key) -> None:
        """Drop what is known of a deleted object."""
        self._unstored.pop(key, None)
        self._unwritten.pop(key, None)
        self._records.forget(key)

    def begin(self, key: Key, history: History) -> None:
        """Begin with an object whose status has this history."""
        self._unstored[key] = Unstored.of(history)
        self._unwritten.pop(key, None)

    def complete(self, key: Key, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object with its whole status, also where the hub drops fields."""
        return self._records.complete(key, raw)

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
            # The state of mode Distributed is part of the status.
            if (decision.distributed or unstored.differs(decision.history)) and not contended:
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
