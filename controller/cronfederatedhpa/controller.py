"""Runs the rules of the CronFederatedHPAs of one shard, by the targets that they scale."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import structlog

from controller.cronfederatedhpa.objects import (
    CRON_FEDERATED_HPAS,
    CronObject,
    NotLeading,
    ObjectsByTarget,
    TargetKey,
    target_in,
)
from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.cronfederatedhpa.reporter import CronMetrics
from controller.loop import Foreign, Loop, Objects, Packed, Slot, packed
from fedhpa.api.errors import InvalidObject
from fedhpa.kube import ApiClient, Change, EventRecorder, InvolvedObject, Key

# Targets that are worked on at once. The hub's fairness decides about more.
CONCURRENT_TARGETS: Final = 64
# Results wait this long at most for the effects of the same minute, and events for the results.
LONGEST_WAIT_SECONDS: Final = 20.0
# The wall clock is read again after this time, so that steps and a suspended machine are noticed.
LONGEST_SLEEP_SECONDS: Final = 5.0
# The delay after a pass that failed unexpectedly.
RETRY_SECONDS: Final = 5.0

Object = dict[str, Any]
log = structlog.get_logger(__name__)


class Barrier:
    """Lets the next step of a busy minute wait until all targets have finished the step before it."""

    def __init__(self) -> None:
        self._count = 0
        self._began = 0.0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """Notes a target whose step is outstanding."""
        if self._count == 0:
            self._began = asyncio.get_running_loop().time()
        self._count += 1
        self._idle.clear()

    def end(self) -> None:
        """Notes that a target has finished its step, or skips it."""
        self._count -= 1
        if self._count == 0:
            self._idle.set()

    async def wait(self) -> None:
        """Waits until no step is outstanding. The first of them bounds the wait for all."""
        try:
            async with asyncio.timeout_at(self._began + LONGEST_WAIT_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            return


class ForeignCron(Packed, frozen=True):
    """An object of another shard, and its target."""

    target: TargetKey | None = None

    @classmethod
    def of(cls, raw: Object) -> ForeignCron:
        """Returns an object packed."""
        return cls(packed(raw), target_in(raw))


class ForeignTargets:
    """The objects of other shards by their target."""

    def __init__(self) -> None:
        self._targets: dict[Key, TargetKey] = {}
        self._keys: dict[TargetKey, set[Key]] = {}

    def of(self, target: TargetKey) -> frozenset[Key]:
        """Returns the objects of a target."""
        return frozenset(self._keys.get(target, ()))

    def put(self, key: Key, target: TargetKey | None) -> None:
        """Stores the target of an object; None removes it."""
        old = self._targets.pop(key, None)
        if old is not None:
            self._keys[old].discard(key)
            if not self._keys[old]:
                del self._keys[old]
        if target is not None:
            self._targets[key] = target
            self._keys.setdefault(target, set()).add(key)


class CronWorker:
    """Runs the rules of each target that `owns` selects when it is due. Several objects may have one.

    `moves` is True if a target may come from or go to another process.
    """

    def __init__(
        self,
        make_reconciler: Callable[[ObjectsByTarget], CronReconciler],
        events: EventRecorder,
        metrics: CronMetrics,
        *,
        owns: Callable[[TargetKey], bool] = lambda _: True,
        moves: bool = False,
        wall: Callable[[], float],
    ) -> None:
        self.objects = ObjectsByTarget()
        self._owns = owns
        # The objects whose rules run in this process. Others have only windows open on targets of it.
        self._home: set[Key] = set()
        self._foreign = ForeignTargets()
        self._moves = moves
        self._left: Callable[[Iterable[Key]], None] = lambda _: None
        self._events = events
        self._metrics = metrics
        self._wall = wall
        self._reconciler = make_reconciler(self.objects)
        self._units = self._reconciler.units
        self._effects = Barrier()
        self._results = Barrier()

    def keeps(self, raw: Object) -> bool:  # noqa: ARG002  # also one that is being deleted
        """All objects matter: the windows of a deleted one are closed first."""
        return True

    def foreign(self, raw: Object) -> ForeignCron | None:
        """Keep an object of another shard: its target may move to this one, or windows of it be open here."""
        return ForeignCron.of(raw) if self._moves else None

    def foreign_changed(self, key: Key, known: Foreign | None) -> None:
        """Note the target of an object of another shard."""
        self._foreign.put(key, known.target if isinstance(known, ForeignCron) else None)

    def has_windows(self, key: Key) -> bool:
        """True while an object has windows open on a target of this process."""
        return bool(self._units.targets_of(key))

    def on_leave(self, call: Callable[[Iterable[Key]], None]) -> None:
        """Call a function with the objects that had windows on a target that left this process."""
        self._left = call

    def moved(self, target: TargetKey) -> set[Key]:
        """Note that a target may have changed its process. Returns all objects that have it."""
        self._units.expect(target)
        return {owner.key for owner in self.objects.of(target)} | self._foreign.of(target)

    async def begin(self) -> list[TargetKey]:
        """Read the records of open windows. Returns their targets, also those whose objects are gone."""
        return await self._units.load(self._owns)

    def changed(self, change: Change[Object]) -> set[TargetKey]:
        """Note an object. Returns the targets that it had and has, and those with windows of it."""
        key = change.key
        if change.new is None:
            touched = self.objects.remove(key) | self._units.targets_of(key)
            self._home.discard(key)
            self._reconciler.forget_object(key)
            return touched
        try:
            found = CronObject.of(key, change.new)
            touched = self.objects.put(found)
        except InvalidObject as error:
            self.unreadable(key, str(change.new["metadata"].get("uid", "")), str(error))
            return self.objects.remove(key)
        if self._owns(found.target) != (key in self._home):
            # It came, and what is known of it is from before; or it left.
            self._reconciler.forget_object(key)
            touched = touched | {found.target}
            if key in self._home:
                self._home.discard(key)
            else:
                self._home.add(key)
        return touched | self._units.targets_of(key) if touched else touched

    def looks_again(self, target: TargetKey, *, present: bool) -> bool:
        """Returns True if a pass has to look at a target that came or went."""
        return self._reconciler.units.looks_again(target, present=present)

    def unreadable(self, key: Key, uid: str, message: str) -> None:
        """Record that an object cannot be decoded, and is left out."""
        if message:
            about = InvolvedObject(
                CRON_FEDERATED_HPAS.api_version, CRON_FEDERATED_HPAS.kind, key[1], key[0], uid
            )
            self._events.event(about, "Warning", "InvalidObject", message)

    def stepped(self, seconds: float) -> None:
        """Report that the wall clock was stepped, so that all targets are planned anew."""
        log.warning("wall clock stepped; all rules are planned anew", seconds=round(seconds, 1))
        text = f"the controller's clock was stepped by {seconds:+.0f} s, so the rules are planned anew"
        for owner in self.objects:
            self._reconciler.report(owner, "ClockStepped", text)

    def taken(self, key: TargetKey) -> None:  # noqa: ARG002  # all targets count
        """Let the results of others wait for the effect of this target, and events for its result."""
        self._effects.begin()
        self._results.begin()

    async def work(
        self,
        key: TargetKey,
        objects: Objects,  # noqa: ARG002  # they are known by target
        *,
        late: float,  # noqa: ARG002  # lateness counts from the schedule
        slot: Slot,
    ) -> float | None:
        """Do what is due for a target. Other targets get the slot while this one waits for their effects."""
        if not self._owns(key):
            self._effects.end()
            self._results.end()
            holders = self._units.leave(key)
            self._left([(key.namespace, name) for name in sorted(holders)])
            return None
        effect_done = False

        async def results() -> None:
            nonlocal effect_done
            effect_done = True
            self._effects.end()
            slot.release()
            try:
                await self._effects.wait()
            finally:
                await slot.acquire()

        try:
            wake = await self._reconciler.reconcile(key, results)
        except NotLeading:
            return RETRY_SECONDS
        finally:
            if not effect_done:
                self._effects.end()
            self._results.end()
        self._reconciler.succeeded(key)
        return None if wake is None else wake - self._wall()

    async def failed(self, key: TargetKey, objects: Objects, reason: str, message: str) -> float:  # noqa: ARG002
        """Log the failure. What is due stays due."""
        self._reconciler.failed(key, reason, message)
        return RETRY_SECONDS

    def retry(self, key: TargetKey) -> float:  # noqa: ARG002
        """Seconds until a target is tried again."""
        return RETRY_SECONDS

    async def results_stored(self) -> None:
        """Waits until the results of a busy minute are stored, for a bounded time. Events come after them."""
        await self._results.wait()

    async def remind(self) -> None:
        """Logs again, until cancelled, what has failed for long."""
        await self._reconciler.remind()

    async def end(self, objects: Objects) -> None:  # noqa: ARG002
        """Withdraw what the series say. All memory is in the records."""
        self._reconciler.end()


def rules_loop(
    hub: ApiClient,
    worker: CronWorker,
    *,
    owns: Callable[[Object], bool] = lambda _: True,
    namespaces: Collection[str] = (),
    on_count: Callable[[int], None] = lambda _: None,
    wall: Callable[[], float],
    clock: Callable[[], float],
) -> Loop[TargetKey]:
    """Returns the loop of the rules. Targets are due on the wall clock, which is read every few seconds."""
    return Loop(
        hub,
        CRON_FEDERATED_HPAS.path(),
        worker,
        slots=CONCURRENT_TARGETS,
        owns=owns,
        namespaces=namespaces,
        on_count=on_count,
        clock=clock,
        due_clock=wall,
        longest_wait=LONGEST_SLEEP_SECONDS,
        on_step=worker.stepped,
    )
