"""The reconcile loop of a leader: reconciles every object when its spec changes, and once a period.

A failed reconcile is repeated after the period too. There is no longer back-off (Karmada's grows to 17
minutes): a broken cluster must not hide its recovery. The queue of keys by due time gives the guarantees of a
Kubernetes workqueue.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import heapq
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fedhpa.api.member_hpas import FINALIZER
from fedhpa.kube import (
    ApiClient,
    Change,
    Key,
    Reflector,
    contain,
    contain_unlogged,
    report_failure,
    supervise,
)

# The age that usage may have, as a share of the sync period: one list serves all objects of a namespace, and
# no object decides twice on the same list.
USAGE_AGE: Final = 0.5
# A long period must not lead to decisions on old usage. This is half of the default period.
MAX_USAGE_AGE_SECONDS: Final = 7.5
# A late reconcile may use the list from when it was due. Otherwise a slow controller would list more often.
MAX_LATENESS_SECONDS: Final = 15.0
# The slots of a namespace's objects lie within this share of the usage age, so that they use one list.
SLOT_SPREAD: Final = 0.9
# A slot that is nearer than this is the present one.
SAME_SLOT_SECONDS: Final = 0.001


def max_usage_age(period: float, lateness: float = 0.0) -> float:
    """The age in seconds that usage may have, for an object's sync period and how late its reconcile is."""
    return min(period * USAGE_AGE, MAX_USAGE_AGE_SECONDS) + min(lateness, MAX_LATENESS_SECONDS)


def until_slot(key: Key, period: float, now: float) -> float:
    """Seconds from `now` to the object's next slot: more than 0, at most its period.

    Namespaces are spread over the whole period; the objects of one namespace over the age of one list.
    """
    namespace, name = (zlib.crc32(part.encode()) / 2**32 for part in key)
    slot = namespace * period + name * max_usage_age(period) * SLOT_SPREAD
    delay = period - math.fmod(now - slot, period)
    if delay > period:  # fmod keeps the sign of its first argument
        delay -= period
    return period if delay < SAME_SLOT_SECONDS else delay


class WorkQueue:
    """Keys (namespace, name), each with the time on `clock` (seconds) at which it is due.

    At most one worker holds a key. A key has one pending time, and the earlier of two requested times wins.
    Each object has a fixed slot in its period for as long as the process lives, so that a thousand objects
    created together are not reconciled together.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._processing: dict[Key, float] = {}
        self._again: dict[Key, float] = {}
        self._changed = asyncio.Condition()

    async def add(self, key: Key, delay: float = 0.0) -> None:
        """Make `key` due in `delay` seconds unless it is due earlier; during processing, after `done`."""
        await self._add_at(key, self._clock() + delay)

    async def add_periodic(self, key: Key, period: float) -> None:
        """Make `key` due at its next slot, after at most `period` seconds."""
        now = self._clock()
        await self._add_at(key, now + until_slot(key, period, now))

    async def discard(self, key: Key) -> None:
        """Remove a pending key. A key that is being processed is not queued again by `done`."""
        async with self._changed:
            self._due.pop(key, None)
            self._again.pop(key, None)

    async def get(self) -> Key:
        """Wait for the earliest due key and start processing it."""
        async with self._changed:
            while True:
                key, wait = self._earliest()
                if key is not None:
                    self._processing[key] = max(self._clock() - self._due.pop(key), 0.0)
                    return key
                await self._wait_change(wait)

    def lateness(self, key: Key) -> float:
        """Seconds between a key's due time and its `get`; 0 for a key that is not being processed."""
        return self._processing.get(key, 0.0)

    async def done(self, key: Key) -> None:
        """End the processing of a key. A time requested in between becomes its pending time."""
        self._processing.pop(key, None)
        due = self._again.pop(key, None)
        if due is not None:
            await self._add_at(key, due)

    async def _add_at(self, key: Key, due: float) -> None:
        async with self._changed:
            times = self._again if key in self._processing else self._due
            if due >= times.get(key, float("inf")):
                return
            times[key] = due
            if times is self._due:
                heapq.heappush(self._heap, (due, key))
                self._changed.notify()

    def _earliest(self) -> tuple[Key | None, float | None]:
        """A due key, or the seconds until the earliest one; (None, None) for an empty queue."""
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) != due:  # replaced by an earlier time, taken, or discarded
                heapq.heappop(self._heap)
                continue
            wait = due - self._clock()
            if wait > 0:
                return None, wait
            heapq.heappop(self._heap)
            return key, None
        return None, None

    async def _wait_change(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return


# Delay before a superseded decision is made again; members may need a moment to serve the other write.
RETRY_SECONDS: Final = 0.1
# A reconcile that hangs beyond all deadlines inside it is cancelled, which frees its worker.
RECONCILE_SECONDS: Final = 60.0
# The report of a failure is one short write.
REPORT_SECONDS: Final = 10.0

# The reasons in conditions and events for a reconcile that raised, and for one that took too long.
RECONCILE_FAILED: Final = "ReconcileFailed"
RECONCILE_TIMED_OUT: Final = "ReconcileTimedOut"

Object = dict[str, Any]


@dataclass(frozen=True)
class _Failed:
    """The reason of a reconcile that failed, as conditions have it, and what happened."""

    reason: str
    message: str


class KindReconciler(Protocol):
    """Reconciles the objects of one kind; `reconcile` runs for different objects at once."""

    async def reconcile(
        self, key: Key, raw: Mapping[str, Any], known: Iterable[Key] = (), *, late: float = 0.0
    ) -> bool:
        """Reconcile the object read as `raw`, `late` seconds after it was due; True asks for a quick retry.

        `known` are the keys of all objects of the kind.
        """

    async def failed(self, key: Key, raw: Mapping[str, Any], reason: str, message: str) -> None:
        """Show on the object that its reconcile raised or took too long."""

    def unreadable(self, key: Key, uid: str, message: str) -> None:
        """Show that an object cannot be decoded, and is left out."""

    def period(self, raw: Mapping[str, Any]) -> float:
        """Seconds between two reconciles of an object."""

    async def flush(self) -> None:
        """Write what the next process would not know. Called when the objects leave this process."""

    def forget(self, key: Key) -> None:
        """Drop all state of an object that was deleted or belongs to another process now."""


class ReconcileLoop:
    """Runs a reconciler over the objects of a watched collection that `owns` selects.

    `on_count` receives the number of these objects after each change.
    """

    def __init__(
        self,
        hub: ApiClient,
        collection: str,
        reconciler: KindReconciler,
        *,
        workers: int,
        owns: Callable[[Key], bool] = lambda _: True,
        on_count: Callable[[int], None] = lambda _: None,
        clock: Callable[[], float],
    ) -> None:
        name = collection.rpartition("/")[2]
        self._owns = owns
        self.objects: Reflector[Object] = Reflector(
            hub,
            collection,
            dict[str, Any],
            functools.partial(_if_owned, owns),
            name=name,
            on_unreadable=self._note_unreadable,
            clock=clock,
        )
        self._on_count = on_count
        self._reconciler = reconciler
        self._workers = workers
        self._queue = WorkQueue(clock)
        self._changes: asyncio.Queue[Change[Object]] = asyncio.Queue()

    async def run(self) -> None:
        """Reconcile every object when due, until cancelled."""
        unsubscribe = self.objects.subscribe(self._changes.put_nowait)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise("objects-watch", self.objects.run))
                group.create_task(supervise("reconcile-queue", self._enqueue_changes))
                for _ in range(self._workers):
                    group.create_task(supervise("reconcile", self._work))
        finally:
            unsubscribe()
            # A failure here must not keep the Lease from being released.
            with contextlib.suppress(Exception):
                await self._reconciler.flush()
            # Another process reconciles these objects now, so the series here would show old values.
            for key in self.objects.store:
                self._reconciler.forget(key)
            self._on_count(0)

    async def _enqueue_changes(self) -> None:
        while True:
            change = await self._changes.get()
            try:
                await self._apply(change)
            except Exception as error:  # the changes of other objects are applied all the same
                report_failure("reconcile-queue", error, namespace=change.key[0], name=change.key[1])

    async def _apply(self, change: Change[Object]) -> None:
        if change.new is None:
            await self._queue.discard(change.key)
            self._reconciler.forget(change.key)
        elif change.old is None or _generation(change.old) != _generation(change.new):
            await self._queue.add(change.key)
        self._on_count(len(self.objects.store))

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._reconcile(key)
            finally:
                await self._queue.done(key)

    async def _reconcile(self, key: Key) -> None:
        raw = self.objects.store.get(key)
        if raw is None:
            self._reconciler.forget(key)
            return
        about = {"namespace": key[0], "name": key[1]}
        retry = await contain_unlogged(  # the reconciler logs it with the other failures of the object
            "reconcile",
            functools.partial(self._reconcile_in_time, key, raw),
            functools.partial(_Failed, RECONCILE_FAILED),
        )
        if isinstance(retry, _Failed):
            report = functools.partial(self._report, key, raw, retry)
            await contain("report-failure", report, lambda _: None, **about)
        if retry is True:
            await self._queue.add(key, RETRY_SECONDS)
        else:
            await self._queue.add_periodic(key, self._reconciler.period(raw))

    async def _reconcile_in_time(self, key: Key, raw: Object) -> bool | _Failed:
        """Reconcile an object. Returns True for a quick retry."""
        late = self._queue.lateness(key)
        try:
            async with asyncio.timeout(RECONCILE_SECONDS) as deadline:
                return await self._reconciler.reconcile(key, raw, self.objects.store, late=late)
        except TimeoutError:
            if not deadline.expired():
                raise
            return _Failed(RECONCILE_TIMED_OUT, f"the reconcile took more than {RECONCILE_SECONDS:g} s")

    async def _report(self, key: Key, raw: Object, failure: _Failed) -> None:
        async with asyncio.timeout(REPORT_SECONDS):
            await self._reconciler.failed(key, raw, failure.reason, failure.message)

    def _note_unreadable(self, key: Key, uid: str, message: str) -> None:
        if not message:
            self._reconciler.forget(key)
        elif self._owns(key):
            self._reconciler.unreadable(key, uid, message)


def _if_owned(owns: Callable[[Key], bool], raw: Object) -> Object | None:
    """The object, or None if it belongs to another shard, or is being deleted without a finalizer of ours."""
    metadata = raw.get("metadata") or {}
    if metadata.get("deletionTimestamp") and FINALIZER not in (metadata.get("finalizers") or ()):
        return None
    return raw if owns((metadata.get("namespace", ""), metadata.get("name", ""))) else None


def _generation(raw: Mapping[str, Any]) -> object:
    metadata = raw["metadata"]
    return metadata.get("generation"), metadata.get("uid"), metadata.get("deletionTimestamp")
