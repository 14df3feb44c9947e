"""Shows on an object that its reconcile failed.

A failure ends at the object that caused it. It is counted, logged (see `health`), and reported once: by an
event and, if the hub stores it, by the conditions AbleToScale and Ready. The next decision sets them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from controller.federatedhpa.health import HealthLog
from controller.publish import FEDERATED_HPAS, record_events
from controller.telemetry import ControllerMetrics
from fedhpa.api.errors import FedHPAError
from fedhpa.api.texts import one_line
from fedhpa.api.times import format_time
from fedhpa.decision import Event
from fedhpa.kube import ApiClient, EventRecorder, Key, patch_status

log = structlog.get_logger(__name__)

# The conditions that are False while an object is not reconciled.
ABLE_TO_SCALE: Final = "AbleToScale"
READY: Final = "Ready"
INVALID_OBJECT: Final = "InvalidObject"

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
        self._metrics.count_failure(reason)
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
