"""Runs the rules of the CronFederatedHPAs of one shard, by the targets that they scale.

An object whose target was edited may have windows open on the former target; the shard of that target closes
them.

A rule that sets the replicas of a workload and the FederatedHPA of that workload overwrite one another. Both
objects say so in condition SoleOwner; nothing is stopped, because nobody can know which of the two is wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

import structlog

from controller.cronfederatedhpa.objects import (
    CRON_FEDERATED_HPAS,
    CronObject,
    NotLeading,
    TargetKey,
)
from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.loop import Foreign, Loop, Objects, Slot, Worker
from controller.shards import ALL, Shard, place_of
from fedhpa.api.autoscalers import Autoscaler, AutoscalerIndex, StoredAutoscaler, from_stored
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.kube import ApiClient, Key, Reflector, resource_path

# Targets that are worked on at once. The hub's fairness decides about more.
CONCURRENT_TARGETS: Final = 64
# Results wait this long at most for the effects of the same minute, and events for the results.
LONGEST_WAIT_SECONDS: Final = 20.0
# The wall clock is read again after this time, so that steps and a suspended machine are noticed.
LONGEST_SLEEP_SECONDS: Final = 5.0
# The delay after a pass that failed unexpectedly.
RETRY_SECONDS: Final = 5.0

FEDERATED_HPAS: Final = resource_path(API_VERSION, "federatedhpas")

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


class WorkloadOwners:
    """The FederatedHPAs in these namespaces, while the `reflector` runs; none mean all."""

    def __init__(
        self, hub: ApiClient, *, namespaces: Collection[str] = (), clock: Callable[[], float]
    ) -> None:
        self._namespaces = namespaces
        self._index = AutoscalerIndex()
        self.reflector: Reflector[Autoscaler] = Reflector(
            hub, FEDERATED_HPAS, StoredAutoscaler, self._read, name="federatedhpas", clock=clock
        )
        self.reflector.subscribe(lambda _, old, new: self._index.replace(old, new))

    def of(self, target: TargetKey) -> tuple[str, ...] | None:
        """Returns the active FederatedHPAs that scale a workload; None before the first whole list."""
        if (target.group, target.kind) == (GROUP, KIND):
            return ()
        if not self.reflector.synced.is_set():
            return None
        found = self._index.of(target)
        return tuple(f"{KIND} {each.namespace}/{each.name}" for each in found)

    def _read(self, stored: StoredAutoscaler) -> Autoscaler | None:
        if self._namespaces and stored.metadata.namespace not in self._namespaces:
            return None
        return from_stored(KIND, stored)


class CronWorker(Worker[TargetKey]):
    """Runs the rules of each target of a shard when it is due. Several objects may have one.

    `loop` calls it. Targets are due on the wall clock, which is read every few seconds.
    """

    def __init__(
        self,
        hub: ApiClient,
        reconciler: CronReconciler,
        owners: WorkloadOwners,
        *,
        shard: Shard = ALL,
        namespaces: Collection[str] = (),
        on_count: Callable[[int], None] = lambda _: None,
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.objects = reconciler.objects
        self._reconciler = reconciler
        self._owners = owners
        self._shard = shard
        self._wall = wall
        self._effects = Barrier()
        # Events wait until the results of a busy minute are stored.
        self.results = Barrier()
        self.loop: Loop[TargetKey] = Loop(
            hub,
            CRON_FEDERATED_HPAS.path(),
            self,
            slots=CONCURRENT_TARGETS,
            owns=lambda raw: shard.owns(place_of(raw)),
            namespaces=namespaces,
            on_count=on_count,
            clock=clock,
            due_clock=wall,
            longest_wait=LONGEST_SLEEP_SECONDS,
            on_step=self._stepped,
        )
        owners.reflector.subscribe(self._owner_changed)
        reconciler.units.shared = shard.division.splits_namespaces

    def _owns(self, target: TargetKey) -> bool:
        return self._shard.owns((target.namespace, target.kind, target.name))

    def _owner_changed(self, key: Key, old: Autoscaler | None, new: Autoscaler | None) -> None:
        """Wakes the workloads of a FederatedHPA, and itself as a target if it came or went."""
        for each in (old, new):
            if each is not None and self.objects.of(target := TargetKey(*each.target)):
                self.loop.wake(target)
        itself = TargetKey(key[0], GROUP, KIND, key[1])
        if self._reconciler.units.looks_again(itself, present=new is not None):
            self.loop.wake(itself)

    async def forget_former_owners(self) -> None:
        """Reconciles the objects whose SoleOwner is False, because the owner may be gone since."""
        await self._owners.reflector.synced.wait()
        await self.loop.listed()
        for target in {each.target for each in self.objects if each.contested}:
            self.loop.wake(target)

    def foreign_changed(self, key: Key, known: Foreign | None) -> None:
        """Objects of other shards do not matter."""

    async def begin(self) -> list[TargetKey]:
        """Read the records of open windows. Returns their targets, also those whose objects are gone."""
        return await self._reconciler.units.load(self._owns)

    def changed(self, key: Key, old: Object | None, new: Object | None) -> set[TargetKey]:  # noqa: ARG002
        """Note an object. Returns the targets that it had and has, and those with windows of it."""
        windows = self._reconciler.units.targets_of(key)
        if new is None:
            return self.objects.remove(key) | windows
        try:
            touched = self.objects.put(CronObject.of(new))
        except InvalidObject as error:
            self.unreadable(key, str(new["metadata"].get("uid", "")), str(error))
            return self.objects.remove(key)
        return touched | windows if touched else touched

    def unreadable(self, key: Key, uid: str, message: str) -> None:
        """Report that an object cannot be decoded, and is left out."""
        if message:
            self._reconciler.report(key, "InvalidObject", message, uid)

    def _stepped(self, seconds: float) -> None:
        """Reports that the wall clock was stepped, so that all targets are planned anew."""
        log.warning("wall clock stepped; all rules are planned anew", seconds=round(seconds, 1))
        text = f"the controller's clock was stepped by {seconds:+.0f} s, so the rules are planned anew"
        for one in self.objects:
            self._reconciler.report(one.key, "ClockStepped", text)

    def taken(self, key: TargetKey) -> None:  # noqa: ARG002  # all targets count
        """Let the results of others wait for the effect of this target, and events for its result."""
        self._effects.begin()
        self.results.begin()

    async def work(
        self,
        key: TargetKey,
        objects: Objects,  # noqa: ARG002  # they are known by target
        *,
        late: float,  # noqa: ARG002  # lateness counts from the schedule
        slot: Slot,
    ) -> float | None:
        """Do what is due for a target. Other targets get the slot while this one waits for their effects."""
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
            self.results.end()
        self._reconciler.failures.well(key)
        return None if wake is None else wake - self._wall()

    async def failed(self, key: TargetKey, objects: Objects, reason: str, message: str) -> float:  # noqa: ARG002
        """Log the failure. What is due stays due."""
        self._reconciler.failures.failing(key, reason, message)
        return RETRY_SECONDS

    def retry(self, key: TargetKey) -> float:  # noqa: ARG002
        """Seconds until a target is tried again."""
        return RETRY_SECONDS

    async def end(self, objects: Objects) -> None:  # noqa: ARG002
        """Withdraw what the series say. All memory is in the records."""
        self._reconciler.end()
