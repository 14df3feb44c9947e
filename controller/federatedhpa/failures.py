"""Shows on an object that its reconcile failed, and in the log whether the hub stores statuses.

A failure ends at the object that caused it. It is counted, and reported once: by a log line, an event and, if
the hub stores it, by the conditions AbleToScale and Ready. The next decision sets them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from controller.publish import FEDERATED_HPAS, record_events
from controller.telemetry import ControllerMetrics
from fedhpa.api.errors import ApiError, FedHPAError
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
TOO_MANY_REQUESTS: Final = 429


class FailureReports:
    """Reports failures, each once until the object is reconciled again."""

    def __init__(
        self,
        hub: ApiClient,
        events: EventRecorder,
        metrics: ControllerMetrics,
        wall: Callable[[], float],
        *,
        writes: bool,
    ) -> None:
        self._hub = hub
        self._events = events
        self._metrics = metrics
        self._wall = wall
        self._writes = writes
        self._known: dict[Key, str] = {}

    def clear(self, key: Key) -> None:
        """The object was reconciled, or is gone."""
        self._known.pop(key, None)

    def record(self, key: Key, raw: Mapping[str, Any], reason: str, message: str) -> bool:
        """Count a failure; log and record it as an event if it is a new one. Returns True if it is."""
        self._metrics.count_failure(reason)
        text = one_line(message, MAX_MESSAGE)
        if self._known.get(key) == text:
            return False
        self._known[key] = text
        log.warning("object not reconciled", namespace=key[0], name=key[1], reason=reason, error=text)
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


class StatusLog:
    """Logs failed writes of statuses: one line when the hub goes and one when it returns.

    A refusal that concerns one object is logged once for each new error.
    """

    def __init__(self, metrics: ControllerMetrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._gone_at: float | None = None
        self._failed = 0
        self._refused: dict[Key, str] = {}

    def failed(self, key: Key, error: FedHPAError) -> None:
        """Count and log a failed write."""
        self._metrics.count_status_failure()
        text = one_line(str(error), MAX_MESSAGE)
        if concerns_hub(error):
            self._failed += 1
            first = self._gone_at is None
            if first:
                self._gone_at = self._clock()
            (log.warning if first else log.debug)("the hub stores no status", error=text, first=key[1])
            return
        again = self._refused.get(key) == text
        self._refused[key] = text
        write = log.debug if again else log.warning
        write("status not written", namespace=key[0], name=key[1], error=text)

    def succeeded(self, key: Key) -> None:
        """Note a write that the hub stored."""
        self._refused.pop(key, None)
        if self._gone_at is not None:
            gone = round(self._clock() - self._gone_at, 1)
            log.info("the hub stores statuses again", seconds=gone, failed_writes=self._failed)
            self._gone_at, self._failed = None, 0

    def forget(self, key: Key) -> None:
        """Drop what is known of a deleted object."""
        self._refused.pop(key, None)


def concerns_hub(error: FedHPAError) -> bool:
    """True if the hub could not serve a request, whatever object it was about."""
    if not isinstance(error, ApiError):
        return False
    return error.status == 0 or error.status >= 500 or error.status == TOO_MANY_REQUESTS
