"""The loop of a leader, for all kinds: watches objects, and works on each key when it is due.

A key is what a kind works on: an object, or a target that several objects share. The queue gives the
guarantees of a Kubernetes workqueue. A failure is repeated as soon as the kind says; there is no longer
back-off (Karmada's grows to 17 minutes), because a broken cluster must not hide its recovery.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import zlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec

from controller.shards import place_of
from controller.work_queue import WorkQueue
from fedhpa.api.json import decode_json
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

K = TypeVar("K", bound=Hashable)

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


@dataclass(frozen=True)
class _Failed:
    """The reason of work that failed, as conditions have it, and what happened."""

    reason: str
    message: str


@dataclass(frozen=True)
class _Noted:
    """A change of an object for the worker, and what is known of the object in another shard."""

    key: Key
    change: Change[Object] | None
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


class Packed(Foreign, frozen=True):
    """An object of another shard as JSON, for a worker that may come to own it without a change of it."""

    text: bytes

    def unpacked(self) -> Object:
        """Returns the object."""
        return decode_json(self.text, dict[str, Any])


def packed(raw: Object) -> bytes:
    """Returns the text of an object for `Packed`."""
    return msgspec.json.encode(raw)


class Worker(Protocol[K]):
    """Works for one kind. `work` runs for different keys at once."""

    def keeps(self, raw: Object) -> bool:
        """True while there is something to do for an object."""

    def foreign(self, raw: Object) -> Foreign | None:
        """Return what to know of an object of another shard."""

    def foreign_changed(self, key: Key, known: Foreign | None) -> None:
        """Note an object of another shard; None if it is gone, or of this shard now."""

    async def begin(self) -> Iterable[K]:
        """Read what no object tells, once all objects are known. Returns the keys that are due."""

    def changed(self, change: Change[Object]) -> Iterable[K]:
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
        self._changes: asyncio.Queue[_Noted | K] = asyncio.Queue()
        self._listed = asyncio.Event()

    def wake(self, key: K) -> None:
        """Make a key due now."""
        self._queue.add(key)

    async def listed(self) -> None:
        """Wait until the worker knows all objects of the first list."""
        await self._listed.wait()

    async def run(self) -> None:
        """Work on every key when it is due, until cancelled."""
        unsubscribe = self._reflector.subscribe(lambda change: self._note(change.key, change.new))
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
            if not isinstance(noted, _Noted):
                self._queue.add(noted)
                continue
            named = noted.key
            try:
                self._worker.foreign_changed(named, noted.foreign)
                for key in () if noted.change is None else self._worker.changed(noted.change):
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

    def known(self, key: Key) -> Object | None:
        """Returns an object of any shard that the worker keeps packed, or one of this shard."""
        found = self._reflector.store.get(key)
        if isinstance(found, Packed):
            return self.objects.get(key) or found.unpacked()
        return None if isinstance(found, Foreign) else found

    def reconsider(self, keys: Iterable[Key], due: K | None = None) -> None:
        """Ask again who owns objects, after that changed without a change of them. Then `due` is due."""
        for key in keys:
            if (raw := self.known(key)) is not None:
                self._note(key, self._read(raw))
        if due is not None:
            self._changes.put_nowait(due)

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
        change: Change[Object] | None = None
        if old is not None or owned is not None:
            kind: Literal["ADDED", "MODIFIED", "DELETED"] = "MODIFIED" if old is not None else "ADDED"
            change = Change(kind if owned is not None else "DELETED", key, old, owned)
        self._changes.put_nowait(_Noted(key, change, foreign))

    def _note_unreadable(self, key: Key, uid: str, message: str) -> None:
        # Nobody knows its target, so the shard of its namespace's objects without target reports it.
        if self._owns({"metadata": {"namespace": key[0], "name": key[1]}}):
            self._worker.unreadable(key, uid, message)
