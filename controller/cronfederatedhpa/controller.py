"""Runs the rules of all CronFederatedHPAs of one shard until cancelled."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any, Final

from controller.cronfederatedhpa.object_writes import CRON_FEDERATED_HPAS, NotLeading
from controller.cronfederatedhpa.objects import CronObject, ObjectsByTarget, TargetKey
from controller.cronfederatedhpa.owners import WorkloadOwners
from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.cronfederatedhpa.telemetry import CronMetrics
from controller.cronfederatedhpa.wakeups import Wakeups
from fedhpa.api.errors import InvalidObject
from fedhpa.kube import (
    ApiClient,
    Change,
    EventRecorder,
    InvolvedObject,
    Key,
    Reflector,
    contain,
    report_failure,
    supervise,
)

# Targets that are worked on at once. The hub's fairness decides about more.
CONCURRENT_TARGETS: Final = 64
# A pass that hangs beyond all deadlines inside it is cancelled.
PASS_SECONDS: Final = 60.0
# Results wait this long at most for the effects of the same minute, and events for the results.
LONGEST_WAIT_SECONDS: Final = 20.0
# Decoded objects hold the event loop for no longer.
TURN_SECONDS: Final = 0.02
# The delay after a pass that failed unexpectedly.
RETRY_SECONDS: Final = 5.0

Object = dict[str, Any]


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


class CronController:
    """Watches the objects that `owns` selects, and reconciles each target when it is due.

    `on_count` receives the number of these objects after each change.
    """

    def __init__(
        self,
        hub: ApiClient,
        make_reconciler: Callable[[ObjectsByTarget], CronReconciler],
        events: EventRecorder,
        metrics: CronMetrics,
        *,
        owns: Callable[[Key], bool] = lambda _: True,
        on_count: Callable[[int], None] = lambda _: None,
        owners: WorkloadOwners | None = None,
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.objects = ObjectsByTarget()
        self._owns = owns
        self._events = events
        self._metrics = metrics
        self._on_count = on_count
        self._owners = owners
        self._wall = wall
        self._reconciler = make_reconciler(self.objects)
        self._wakeups: Wakeups[TargetKey] = Wakeups(wall)
        self._changes: asyncio.Queue[Change[Object]] = asyncio.Queue()
        self._running: set[TargetKey] = set()
        self._again: set[TargetKey] = set()
        self._slots = asyncio.Semaphore(CONCURRENT_TARGETS)
        self._effects = Barrier()
        self._results = Barrier()
        self._listed = asyncio.Event()
        self._clock = clock
        self._reflector: Reflector[Object] = Reflector(
            hub,
            CRON_FEDERATED_HPAS.path(),
            dict[str, Any],
            self._if_owned,
            name="cronfederatedhpas",
            on_unreadable=self._note_unreadable,
            clock=clock,
        )

    async def run(self) -> None:
        """Run the rules until cancelled."""
        unsubscribe = self._reflector.subscribe(self._changes.put_nowait)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise("cron-watch", self._reflector.run))
                group.create_task(supervise("cron-changes", self._follow_changes))
                if self._owners is not None:
                    self._owners.on_change(self._wake)
                    group.create_task(supervise("cron-owners", self._owners.run))
                    group.create_task(self._forget_former_owners(self._owners))
                group.create_task(supervise("cron-reminders", self._reconciler.remind))
                group.create_task(supervise("cron-wakeups", lambda: self._dispatch(group)))
        finally:
            unsubscribe()
            for key in self._reflector.store:
                self._metrics.forget(key)
            self._on_count(0)
            self._reconciler.end()

    async def results_stored(self) -> None:
        """Waits until the results of a busy minute are stored, for a bounded time. Events come after them."""
        await self._results.wait()

    async def _follow_changes(self) -> None:
        await self._reflector.synced.wait()
        began = self._clock()
        while True:
            if self._changes.empty():
                self._listed.set()
            change = await self._changes.get()
            if self._clock() - began > TURN_SECONDS:
                # A thousand objects take longer to decode than the event loop may be held.
                await asyncio.sleep(0)
                began = self._clock()
            try:
                self._apply(change)
            except Exception as error:  # the changes of other objects are applied all the same
                report_failure("cron-changes", error, namespace=change.key[0], name=change.key[1])

    def _apply(self, change: Change[Object]) -> None:
        key = change.key
        if change.new is None:
            touched = self.objects.remove(key) | self._reconciler.targets_of(key)
            self._metrics.forget(key)
            self._reconciler.forget_object(key)
        else:
            try:
                touched = self.objects.put(CronObject.of(key, change.new))
                touched |= self._reconciler.targets_of(key) if touched else set()
            except InvalidObject as error:
                touched = self.objects.remove(key)
                self._note_unreadable(key, str(change.new["metadata"].get("uid", "")), str(error))
        self._on_count(len(self.objects))
        for target in touched:
            self._wakeups.set(target, self._wall())

    def _wake(self, target: TargetKey) -> None:
        """Makes a target due now, if it has objects."""
        if self.objects.of(target):
            self._wakeups.set(target, self._wall())

    async def _forget_former_owners(self, owners: WorkloadOwners) -> None:
        """Reconciles the objects whose SoleOwner is False, because the owner may be gone since."""
        await owners.synced()
        await self._listed.wait()
        for target in self.objects.contested():
            self._wake(target)

    async def _dispatch(self, group: asyncio.TaskGroup) -> None:
        # Before the whole list is read, a target would be planned without all of its objects.
        await self._listed.wait()
        for target in await self._reconciler.load(self._owns):
            self._wakeups.set(target, self._wall())
        while True:
            for target in await self._wakeups.wait():
                if target in self._running:
                    self._again.add(target)
                    continue
                self._running.add(target)
                self._effects.begin()
                self._results.begin()
                group.create_task(self._work(target))

    async def _work(self, target: TargetKey) -> None:
        """Reconciles one target, and notes when it is due next."""
        about = {"namespace": target.namespace, "target": f"{target.kind}/{target.name}"}
        wake = await contain(
            "cron-reconcile",
            functools.partial(self._pass, target),
            lambda _: self._wall() + RETRY_SECONDS,
            **about,
        )
        self._results.end()
        self._running.discard(target)
        if target in self._again:
            self._again.discard(target)
            wake = self._wall()
        if wake is not None:
            self._wakeups.set(target, wake)

    async def _pass(self, target: TargetKey) -> float | None:
        effect_done = False

        async def results() -> None:
            nonlocal effect_done
            effect_done = True
            self._effects.end()
            # Another target may write its effect meanwhile.
            self._slots.release()
            try:
                await self._effects.wait()
            finally:
                await self._slots.acquire()

        try:
            async with asyncio.timeout(PASS_SECONDS), self._slots:
                return await self._reconciler.reconcile(target, results)
        except NotLeading:
            return self._wall() + RETRY_SECONDS
        finally:
            if not effect_done:
                self._effects.end()

    def _if_owned(self, raw: Object) -> Object | None:
        metadata = raw.get("metadata") or {}
        key = (metadata.get("namespace", ""), metadata.get("name", ""))
        return raw if self._owns(key) else None

    def _note_unreadable(self, key: Key, uid: str, message: str) -> None:
        if self._owns(key):
            resource = CRON_FEDERATED_HPAS
            about = InvolvedObject(resource.api_version, resource.kind, key[1], key[0], uid)
            self._events.event(about, "Warning", "InvalidObject", message)
