"""core/v1 Events as client-go writes them: repeats are counted, similar ones combined, floods limited.

Recording never fails and never waits: events go into a bounded queue, and `run` writes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog

from fedhpa.api.errors import ApiError, Conflict, FedHPAError
from fedhpa.api.times import format_time
from fedhpa.cache import Recent
from fedhpa.kube.client import ApiClient
from fedhpa.kube.resources import resource_path
from fedhpa.kube.responses import NOT_FOUND
from fedhpa.kube.supervision import Backoff, RateLimit, report_failure

log = structlog.get_logger(__name__)

# The API server refuses messages above 1,024 bytes.
MAX_MESSAGE_BYTES = 1024
# client-go, tools/record: queue length, cache size, the bounds for similar events, and the flood limit.
QUEUE_SIZE = 1000
CACHE_SIZE = 4096
SIMILAR_EVENTS = 10
SIMILAR_SECONDS = 600.0
SPAM_BURST = 25
SPAM_REFILL_SECONDS = 300.0
COMBINED = "(combined from similar events): "
# client-go tries twelve times, ten seconds apart. Here an event is dropped sooner, because it grows stale.
TRIES = 5
FIRST_WAIT_SECONDS = 1.0
MAX_WAIT_SECONDS = 15.0


@dataclass(frozen=True)
class InvolvedObject:
    """The object of an event; unknown fields are "". Without a namespace the event goes to `default`."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


# apiVersion, kind, namespace, name, uid; then type, reason, message ("" when combined).
_Identity = tuple[str, str, str, str, str]
_EventKey = tuple[_Identity, str, str, str]


@dataclass(frozen=True)
class _Occurrence:
    about: InvolvedObject
    type: str
    reason: str
    message: str
    at: float


@dataclass
class _WrittenEvent:
    """An event object that was written to the server."""

    name: str
    count: int


@dataclass
class _SimilarEvents:
    """Events that differ only in their message."""

    last: float
    messages: set[str] = field(default_factory=set)


class EventRecorder:
    """Records the events of one component in one API server. `on_drop` is called for each dropped event."""

    def __init__(
        self,
        client: ApiClient,
        component: str,
        *,
        wall: Callable[[], float],
        backoff: Callable[[], Backoff] = lambda: Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS),
        on_drop: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._component = component
        self._wall = wall
        self._backoff = backoff
        self._on_drop = on_drop
        self._queue: asyncio.Queue[_Occurrence] = asyncio.Queue(QUEUE_SIZE)
        self._written: Recent[_EventKey, _WrittenEvent] = Recent(CACHE_SIZE)
        self._groups: Recent[tuple[_Identity, str, str], _SimilarEvents] = Recent(CACHE_SIZE)
        # By object and reason. client-go has one for each object. With that, a metric that fails at every
        # reconcile would suppress the event that the object was scaled.
        self._limits: Recent[tuple[_Identity, str], RateLimit] = Recent(CACHE_SIZE)
        self._stamp = 0
        # Events that were not written: floods, a full queue, refused or failed writes.
        self.dropped = 0

    def event(
        self, about: InvolvedObject, type_: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Queue one event; never waits for the server."""
        occurrence = _Occurrence(about, type_, reason, _bounded(message), self._wall())
        try:
            self._queue.put_nowait(occurrence)
        except asyncio.QueueFull:
            self._drop(occurrence, "queue full")

    async def run(self, turn: Callable[[], Awaitable[None]] | None = None) -> None:
        """Write the queued events until cancelled. `turn` is awaited before each write."""
        while True:
            occurrence = await self._queue.get()
            try:
                if turn is not None:
                    await turn()
                await self._record(occurrence)
            except Exception as error:  # the other events are written all the same
                about = occurrence.about
                report_failure("events", error, namespace=about.namespace, name=about.name)
                self._drop(occurrence, "internal error")
            finally:
                self._queue.task_done()

    async def flush(self, deadline: float) -> None:
        """Wait at most `deadline` seconds until the queue is written; `run` must be running."""
        try:
            async with asyncio.timeout(deadline):
                await self._queue.join()
        except TimeoutError:
            log.debug("events left unwritten", component=self._component, left=self._queue.qsize())

    async def _record(self, occurrence: _Occurrence) -> None:
        key, message = self._combine(occurrence)
        limited = (_identity(occurrence.about), occurrence.reason)
        limit = self._limits.get(limited) or RateLimit(1 / SPAM_REFILL_SECONDS, SPAM_BURST)
        self._limits[limited] = limit
        if not limit.allows(occurrence.at):
            self._drop(occurrence, "too many events about one object")
            return
        backoff = self._backoff()
        for attempt in range(1, TRIES + 1):
            try:
                await self._write(occurrence, key, message)
                return
            except ApiError as error:
                if error.status and error.status < 500:  # another try would be refused, too
                    self._drop(occurrence, str(error))
                    return
                problem = str(error)
            except FedHPAError as error:
                problem = str(error)
            if attempt < TRIES:
                await asyncio.sleep(backoff.next())
        self._drop(occurrence, problem)

    def _combine(self, occurrence: _Occurrence) -> tuple[_EventKey, str]:
        """Returns the key of the event object that counts this occurrence, and its message.

        From the tenth different message of a reason within ten minutes, one event stands for all of them.
        """
        similar = (_identity(occurrence.about), occurrence.type, occurrence.reason)
        group = self._groups[similar] = self._groups.get(similar) or _SimilarEvents(occurrence.at)
        if occurrence.at - group.last > SIMILAR_SECONDS:
            group.messages.clear()
        group.last = occurrence.at
        if len(group.messages) < SIMILAR_EVENTS:
            group.messages.add(occurrence.message)
        if len(group.messages) < SIMILAR_EVENTS:
            return (*similar, occurrence.message), occurrence.message
        return (*similar, ""), _bounded(COMBINED + occurrence.message)

    async def _write(self, occurrence: _Occurrence, key: _EventKey, message: str) -> None:
        known = self._written.get(key)
        if known is not None:
            try:
                await self._count(occurrence, known, message)
                self._written[key] = known
                return
            except ApiError as error:
                if error.status != NOT_FOUND:  # the server deletes events after an hour
                    raise
        # Two events at the same instant need different names.
        self._stamp = max(self._stamp + 1, int(occurrence.at * 1e9))
        name = f"{occurrence.about.name}.{self._stamp:x}"
        body = self._body(occurrence, name, message)
        try:
            await self._client.post(_events_path(occurrence.about), body)
        except Conflict:
            log.debug("event exists already", namespace=occurrence.about.namespace, name=name)
        self._written[key] = _WrittenEvent(name, 1)

    async def _count(self, occurrence: _Occurrence, known: _WrittenEvent, message: str) -> None:
        patch = {"count": known.count + 1, "lastTimestamp": _time(occurrence.at), "message": message}
        await self._client.patch(_events_path(occurrence.about, known.name), patch)
        known.count += 1

    def _body(self, occurrence: _Occurrence, name: str, message: str) -> dict[str, Any]:
        about, when = occurrence.about, _time(occurrence.at)
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": about.resource_version,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": about.namespace or "default"},
            "involvedObject": {field: value for field, value in involved.items() if value},
            "type": occurrence.type,
            "reason": occurrence.reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._component,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
        }

    def _drop(self, occurrence: _Occurrence, why: str) -> None:
        self.dropped += 1
        self._on_drop()
        about = occurrence.about
        log.debug(
            "event dropped",
            namespace=about.namespace,
            name=about.name,
            reason=occurrence.reason,
            why=why,
        )


def _identity(about: InvolvedObject) -> _Identity:
    return (about.api_version, about.kind, about.namespace, about.name, about.uid)


def _events_path(about: InvolvedObject, name: str = "") -> str:
    return resource_path("v1", "events", about.namespace or "default", name)


def _bounded(message: str) -> str:
    raw = message.encode()
    if len(raw) <= MAX_MESSAGE_BYTES:
        return message
    return raw[: MAX_MESSAGE_BYTES - 3].decode(errors="ignore") + "..."


def _time(seconds: float) -> str:
    """Returns POSIX seconds as a metav1.Time, in whole seconds."""
    return format_time(int(seconds))
