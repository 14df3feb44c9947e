"""The reconcile loop of a leader: reconciles every object when its spec changes, and once a period.

A failed reconcile is repeated after the period too. There is no longer back-off (Karmada's grows to 17
minutes): a broken cluster must not hide its recovery.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from controller.workqueue import WorkQueue
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
