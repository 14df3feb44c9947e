"""The loop of a leader, for all kinds: watches objects, and works on each key when it is due.

A key is what a kind works on: an object, or a target that several objects share. The queue gives the
guarantees of a Kubernetes workqueue. The key that is due for longest comes first: a process that falls behind
is late with every key, but works on all of them in turn. A failure is repeated as soon as the kind says;
there is no longer back-off (Karmada's grows to 17 minutes), because a broken cluster must not hide its
recovery.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from controller.shards import place_of
from fedhpa.kube import (
    ApiClient,
    Key,
    Reflector,
    contain,
    contain_unlogged,
    report_failure,
    supervise,
)

K = TypeVar("K", bound=Hashable)

# Delay before a superseded decision is made again; members may need a moment to serve the other write.
RETRY_SECONDS: Final = 0.1
# Work that hangs beyond all deadlines inside it is cancelled, which frees its slot.
WORK_SECONDS: Final = 60.0
# The report of a failure is one short write.
REPORT_SECONDS: Final = 10.0
# Changes that are noted one after another hold the event loop for no longer.
TURN_SECONDS: Final = 0.02

# The reasons in conditions and events for a reconcile that raised, and for one that took too long.
RECONCILE_FAILED: Final = "ReconcileFailed"
RECONCILE_TIMED_OUT: Final = "ReconcileTimedOut"

Object = dict[str, Any]
Objects = Mapping[Key, Object]


class _Failed(NamedTuple):
    """The reason of work that failed, as conditions have it, and what happened."""

    reason: str
    message: str


class _Noted(NamedTuple):
    """An object for the worker, before and after a change, and what is known of it in another shard."""

    key: Key
    old: Object | None
    new: Object | None
    foreign: Foreign | None


class Slot:
    """One of a bounded number of `slots`, which its holder may give to others while it waits."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._is_held = False

    async def acquire(self) -> None:
        """Wait for a free slot, and hold it."""
        await self._slots.acquire()
        self._is_held = True

    def release(self) -> None:
        """Give the slot to others, unless they have it already."""
        if self._is_held:
            self._is_held = False
            self._slots.release()


class Foreign(msgspec.Struct, frozen=True):
    """A record of an object of another shard."""


class Worker(Protocol[K]):
    """Works for one kind. `work` runs for different keys at once."""

    def keeps(self, raw: Object) -> bool:  # noqa: ARG002
        """True while there is something to do for an object."""
        return True

    def foreign(self, raw: Object) -> Foreign | None:  # noqa: ARG002
        """Return what to know of an object of another shard."""
        return None

    def foreign_changed(self, key: Key, known: Foreign | None) -> None:
        """Note an object of another shard; None if it is gone, or of this shard now."""

    async def begin(self) -> Iterable[K]:
        """Read what no object tells, once all objects are known. Returns the keys that are due."""

    def changed(self, key: Key, old: Object | None, new: Object | None) -> Iterable[K]:
        """Note a change of an object. Returns the keys that are due because of it."""

    def taken(self, key: K) -> None:
        """Note that a key is due, and waits for a slot."""

    async def work(self, key: K, objects: Objects, *, late: float, slot: Slot) -> float | None:
        """Do what is due, `late` seconds ago. Returns the seconds until the key is due again; None for never.

        The caller holds the `slot`, which the work may give to others.
        """

    async def failed(self, key: K, objects: Objects, reason: str, message: str) -> float:
        """Show that the work raised or took too long. Returns the seconds until it is tried again."""

    def retry(self, key: K) -> float:
        """Seconds until work is tried again whose failure could not even be shown."""

    def unreadable(self, key: Key, uid: str, message: str) -> None:
        """Show that an object cannot be decoded, and is left out; with "" it is gone."""

    async def end(self, objects: Objects) -> None:
        """Write what the next process would not know, and drop all state. The objects leave this process."""


# A wall clock that differs by more from a monotonic one since the last look was stepped.
STEP_SECONDS: Final = 60.0


class WorkQueue(Generic[K]):
    """Keys, each with the time on `clock` (seconds) at which it is due.

    A key is taken once at a time. It has one pending time, and the earlier of two requested times wins.
    The clock is read again after `longest_wait` seconds, because a wall clock may be stepped. Where `steady`,
    a monotonic clock, shows that it was, all keys are due at once, and `on_step` receives the seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        longest_wait: float | None = None,
        *,
        steady: Callable[[], float] | None = None,
        on_step: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._steady = steady or clock
        self._offset = clock() - self._steady()
        self._longest_wait = longest_wait
        self._on_step = on_step
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._taken: dict[K, float] = {}
        self._again: dict[K, float] = {}
        self._changed = asyncio.Event()

    def add(self, key: K, delay: float = 0.0) -> None:
        """Make `key` due in `delay` seconds unless it is due earlier; while it is taken, after `done`."""
        self._add_at(key, self._clock() + delay)

    async def get(self) -> K:
        """Wait for the earliest due key, and take it. One task at a time may wait."""
        while True:
            self._changed.clear()
            self._notice_step()
            key, wait = self._earliest()
            if key is not None:
                self._taken[key] = self._due.pop(key)
                return key
            await self._wait_change(wait)

    def lateness(self, key: K) -> float:
        """Seconds since a taken key was due; 0 for one that is not taken."""
        now = self._clock()
        return max(now - self._taken.get(key, now), 0.0)

    def done(self, key: K) -> None:
        """Give back a taken key. A time requested in between becomes its pending time."""
        self._taken.pop(key, None)
        due = self._again.pop(key, None)
        if due is not None:
            self._add_at(key, due)

    def _add_at(self, key: K, due: float) -> None:
        times = self._again if key in self._taken else self._due
        if due >= times.get(key, float("inf")):
            return
        times[key] = due
        if times is self._due:
            self._count += 1
            heapq.heappush(self._heap, (due, self._count, key))
            self._changed.set()

    def _notice_step(self) -> None:
        offset = self._clock() - self._steady()
        step, self._offset = offset - self._offset, offset
        if abs(step) <= STEP_SECONDS:
            return
        for key in (*self._due, *self._taken):
            # Times of the clock before the step mean nothing now.
            (self._again if key in self._taken else self._due).pop(key, None)
            self.add(key)
        self._on_step(step)

    def _earliest(self) -> tuple[K | None, float | None]:
        """A due key, or the seconds until the earliest one; (None, None) for an empty queue."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) != due:  # replaced by an earlier time, or taken
                heapq.heappop(self._heap)
                continue
            wait = due - self._clock()
            if wait > 0:
                return None, wait
            heapq.heappop(self._heap)
            return key, None
        return None, None

    async def _wait_change(self, seconds: float | None) -> None:
        if self._longest_wait is not None:
            seconds = self._longest_wait if seconds is None else min(seconds, self._longest_wait)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


class Loop(Generic[K]):
    """Runs a worker over the objects of a watched collection that `owns` selects.

    `objects` are these. Of the others in the `namespaces`, the worker hears what it asks for; none mean all.

    At most `slots` keys are worked on at once. `on_count` receives the number of objects after each change.
    With a wall clock as `due_clock`, keys are due on it, and `on_step` hears of its steps (see `WorkQueue`).
    """

    def __init__(
        self,
        hub: ApiClient,
        collection: str,
        worker: Worker[K],
        *,
        slots: int,
        owns: Callable[[Object], bool] = lambda _: True,
        namespaces: Collection[str] = (),
        on_count: Callable[[int], None] = lambda _: None,
        clock: Callable[[], float],
        due_clock: Callable[[], float] | None = None,
        longest_wait: float | None = None,
        on_step: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._owns = owns
        self._namespaces = namespaces
        self.objects: dict[Key, Object] = {}
        self._reflector: Reflector[Object | Foreign] = Reflector(
            hub,
            collection,
            dict[str, Any],
            self._read,
            name=collection.rpartition("/")[2],
            on_unreadable=self._note_unreadable,
            clock=clock,
        )
        self._on_count = on_count
        self._worker = worker
        self._slots = asyncio.Semaphore(slots)
        self._queue: WorkQueue[K] = WorkQueue(due_clock or clock, longest_wait, steady=clock, on_step=on_step)
        self._clock = clock
        self._changes: asyncio.Queue[_Noted] = asyncio.Queue()
        self._listed = asyncio.Event()

    def wake(self, key: K) -> None:
        """Make a key due now."""
        self._queue.add(key)

    async def listed(self) -> None:
        """Wait until the worker knows all objects of the first list."""
        await self._listed.wait()

    async def run(self) -> None:
        """Work on every key when it is due, until cancelled."""
        unsubscribe = self._reflector.subscribe(lambda key, _, new: self._note(key, new))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise("objects-watch", self._reflector.run))
                group.create_task(supervise("objects-changes", self._follow_changes))
                group.create_task(supervise("reconcile-queue", lambda: self._dispatch(group)))
        finally:
            unsubscribe()
            # A failure here must not keep the Lease from being released.
            with contextlib.suppress(Exception):
                await self._worker.end(self.objects)
            self._on_count(0)

    async def _follow_changes(self) -> None:
        await self._reflector.synced.wait()
        began = self._clock()
        while True:
            if self._changes.empty():
                self._listed.set()
            noted = await self._changes.get()
            if self._clock() - began > TURN_SECONDS:
                # A thousand objects take longer to decode than the event loop may be held.
                await asyncio.sleep(0)
                began = self._clock()
            named, old, new, foreign = noted
            try:
                self._worker.foreign_changed(named, foreign)
                for key in () if old is new is None else self._worker.changed(named, old, new):
                    self._queue.add(key)
            except Exception as error:  # the changes of other objects are noted all the same
                report_failure("objects-changes", error, namespace=named[0], name=named[1])
            self._on_count(len(self.objects))

    async def _dispatch(self, group: asyncio.TaskGroup) -> None:
        # Before the whole list is read, a key would be worked on without all of its objects.
        await self._listed.wait()
        for key in await self._worker.begin():
            self._queue.add(key)
        while True:
            key = await self._queue.get()
            self._worker.taken(key)
            group.create_task(self._work(key))

    async def _work(self, key: K) -> None:
        try:
            slot = Slot(self._slots)
            await slot.acquire()
            try:
                again = await self._work_in_slot(key, slot)
            finally:
                slot.release()
            if again is not None:
                self._queue.add(key, again)
        finally:
            self._queue.done(key)

    async def _work_in_slot(self, key: K, slot: Slot) -> float | None:
        found = await contain_unlogged(  # the worker logs it with the other failures of the object
            "reconcile",
            functools.partial(self._work_in_time, key, slot),
            functools.partial(_Failed, RECONCILE_FAILED),
        )
        if not isinstance(found, _Failed):
            return found
        report = functools.partial(self._report, key, found)
        return await contain("report-failure", report, lambda _: self._worker.retry(key), key=str(key))

    async def _work_in_time(self, key: K, slot: Slot) -> float | _Failed | None:
        try:
            async with asyncio.timeout(WORK_SECONDS) as deadline:
                late = self._queue.lateness(key)
                return await self._worker.work(key, self.objects, late=late, slot=slot)
        except TimeoutError:
            if not deadline.expired():
                raise
            return _Failed(RECONCILE_TIMED_OUT, f"the reconcile took more than {WORK_SECONDS:g} s")

    async def _report(self, key: K, failure: _Failed) -> float:
        async with asyncio.timeout(REPORT_SECONDS):
            return await self._worker.failed(key, self.objects, failure.reason, failure.message)

    def belongs_to_others(self, key: Key) -> bool:
        """True for an object of another shard, or of a namespace that is not watched."""
        watched = not self._namespaces or key[0] in self._namespaces
        return key not in self.objects and (not watched or key in self._reflector.store)

    def _read(self, raw: Object) -> Object | Foreign | None:
        if self._namespaces and place_of(raw)[0] not in self._namespaces:
            return None
        if not self._owns(raw):
            return self._worker.foreign(raw)
        return raw if self._worker.keeps(raw) else None

    def _note(self, key: Key, new: Object | Foreign | None) -> None:
        """Tell the worker of an object, of which it has another form than before, or none."""
        foreign, owned = (new, None) if isinstance(new, Foreign) else (None, new)
        old = self.objects.get(key)
        if owned is not None:
            self.objects[key] = owned
        elif old is not None:
            del self.objects[key]
        self._changes.put_nowait(_Noted(key, old, owned, foreign))

    def _note_unreadable(self, key: Key, uid: str, message: str) -> None:
        # Nobody knows its target, so the shard of its namespace's objects without target reports it.
        if self._owns({"metadata": {"namespace": key[0], "name": key[1]}}):
            self._worker.unreadable(key, uid, message)
