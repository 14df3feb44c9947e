"""The work of one shard: the loops that reconcile its objects, over the members and caches of the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from controller.cluster_finalizers import ClusterFinalizers
from controller.cronfederatedhpa import (
    CronMetrics,
    CronReconciler,
    CronTargets,
    MemberScales,
    WorkloadOwners,
)
from controller.decision_series import ControllerMetrics
from controller.federatedhpa.cluster_reader import MemberCaches
from controller.federatedhpa.reconciler import FederatedHPAReconciler
from controller.federatedhpa.snapshot import SnapshotBuilder
from controller.flags import DIRECT, Settings
from controller.holds import NamespaceHolds
from controller.loop import Loop
from controller.publish import FEDERATED_HPAS
from controller.shards import ALL, Shard, place_of
from fedhpa.kube import ApiClient, Clock, EventRecorder, Key, supervise
from fedhpa.members import MemberRegistry, SharedLists

# Karmada's name of this controller, so that filters of events by source still match.
COMPONENT: Final = "federatedHPA-controller"
CRON_COMPONENT: Final = "cronFederatedHPA-controller"


async def lead_rules(
    settings: Settings,
    hub: ApiClient,
    members: MemberRegistry,
    events: EventRecorder,
    metrics: CronMetrics,
    *,
    shard: Shard = ALL,
    leads: Callable[[], bool] = lambda: True,
    on_count: Callable[[int], None] = lambda _: None,
    on_finding: Callable[[str, bool], None] = lambda *_: None,
    clock: Clock,
    holds: NamespaceHolds | None = None,
) -> None:
    """Run the rules of a shard's CronFederatedHPAs until cancelled."""
    scales = None
    if settings.propagation == DIRECT:
        scales = MemberScales(
            lambda: members.staying,
            member_deadline=settings.member_deadline,
            lost_after=settings.decision.cluster_lost_timeout,
            wall=clock.wall,
        )
    owners = WorkloadOwners(hub, namespaces=settings.watch_namespaces, clock=clock.monotonic)
    reconciler = CronReconciler(
        hub,
        CronTargets(hub, scales, clock=clock),
        owners,
        events,
        metrics,
        paused=settings.paused,
        shard=shard,
        namespaces=settings.watch_namespaces,
        leads=leads,
        holds=(lambda _: ()) if holds is None else holds.of,
        on_finding=on_finding,
        on_count=on_count,
        wall=clock.wall,
        clock=clock.monotonic,
    )

    async with asyncio.TaskGroup() as group:
        group.create_task(supervise("cron-events", lambda: events.run(reconciler.results.wait)))
        if scales is not None:
            await _until_synced(members)
        if holds is not None:
            await holds.tried()
        group.create_task(supervise("cron-owners", owners.reflector.run))
        group.create_task(reconciler.forget_former_owners())
        group.create_task(supervise("cron-reminders", reconciler.remind))
        group.create_task(reconciler.loop.run())


@asynccontextmanager
async def member_caches(clock: Clock) -> AsyncIterator[MemberCaches]:
    """Lists and watches of the members, kept up to date while the block runs."""
    async with SharedLists(clock=clock.monotonic) as lists, asyncio.TaskGroup() as group:
        caches = MemberCaches(lists, clock.monotonic)
        task = group.create_task(caches.run())
        try:
            yield caches
        finally:
            task.cancel()


class SharedCaches:
    """The caches of the members for all shards of a process, while it leads one. They run in `group`."""

    def __init__(self, group: asyncio.TaskGroup, clock: Clock) -> None:
        self._group = group
        self._clock = clock
        self._users = 0
        self._end = asyncio.Event()
        self._caches: asyncio.Future[MemberCaches] | None = None

    @asynccontextmanager
    async def used(self) -> AsyncIterator[MemberCaches]:
        """The caches, for a shard that uses them while the block runs."""
        if self._caches is None:
            self._caches, self._end = asyncio.get_running_loop().create_future(), asyncio.Event()
            self._group.create_task(self._keep(self._caches, self._end))
        self._users += 1
        try:
            yield await asyncio.shield(self._caches)
        finally:
            self._users -= 1
            if not self._users:
                self._end.set()
                self._caches = None

    async def _keep(self, caches: asyncio.Future[MemberCaches], end: asyncio.Event) -> None:
        async with member_caches(self._clock) as made:
            caches.set_result(made)
            await end.wait()


async def lead(
    settings: Settings,
    hub: ApiClient,
    members: MemberRegistry,
    metrics: ControllerMetrics,
    *,
    shard: Shard = ALL,
    counts: dict[Shard, int] | None = None,
    clock: Clock,
    holds: NamespaceHolds | None = None,
    caches: MemberCaches | None = None,
) -> None:
    """Reconcile a shard's objects until cancelled. State of former leaders is in the ScalingRecords.

    `counts` receives the number of objects by shard, for all shards that this process leads. `caches` are
    those that the shards share; None means own ones.
    """
    by_shard = {} if counts is None else counts

    def count(objects: int) -> None:
        by_shard[shard] = objects
        metrics.objects.set(sum(by_shard.values()))

    events = EventRecorder(hub, COMPONENT, wall=clock.wall, on_drop=metrics.events_dropped.inc)
    # The stack ends after the tasks.
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        if caches is None:
            caches = await stack.enter_async_context(member_caches(clock))
        snapshots = SnapshotBuilder(
            hub,
            members.members,
            caches,
            settings,
            clock=clock.monotonic,
            duplicates=members.duplicates,
            holds=holds,
            gone=members.gone,
        )
        reconciler = FederatedHPAReconciler(
            hub, snapshots, events, metrics, settings, wall=clock.wall, clock=clock.monotonic
        )
        loop = Loop(
            hub,
            FEDERATED_HPAS.path(),
            reconciler,
            slots=settings.concurrent_syncs,
            owns=lambda raw: shard.owns(place_of(raw)),
            namespaces=settings.watch_namespaces,
            on_count=count,
            clock=clock.monotonic,
        )
        group.create_task(snapshots.placements.run())
        group.create_task(supervise("events", events.run))
        group.create_task(supervise("failure-reminders", reconciler.remind))
        await _until_synced(members)
        if holds is not None:
            await holds.tried()
            stack.callback(holds.follow(partial(_wake, loop)))
        group.create_task(loop.run())
        if settings.propagation == DIRECT and not settings.paused:
            await loop.listed()
            collect = partial(snapshots.placements.collect, loop.objects, loop.belongs_to_others)
            group.create_task(supervise("placements-collect", collect))
            finalizers = ClusterFinalizers(hub, members, shard, events, clock)
            keep = partial(finalizers.run, loop.objects, reconciler.memories)
            group.create_task(supervise("cluster-finalizers", keep))


def _wake(loop: Loop[Key], namespace: str) -> None:
    """Make the objects of a namespace due whose hold changed; "" stands for all namespaces."""
    for key in loop.objects:
        if namespace in ("", key[0]):
            loop.wake(key)


async def _until_synced(members: MemberRegistry) -> None:
    # Until each member answered or its deadline passed, every decision would lack data.
    while not members.synced():  # noqa: ASYNC110  # depends on deadlines, for which there is no event
        await asyncio.sleep(0.05)
