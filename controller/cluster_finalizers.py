"""Holds a deleted Cluster until its replicas run in other clusters (--propagation=direct).

The leader of each shard keeps a finalizer of its own in each Cluster that runs replicas of the shard's
objects. A deletion thus waits for all shards, and no process needs to know what another
one reconciles. It waits for an hour at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import structlog

from controller.federatedhpa.memory import ObjectMemory, shown_shares
from controller.loop import Objects
from controller.publish import FIELD_MANAGER
from controller.shards import Shard
from fedhpa.api.cluster_finalizers import MAX_WAIT_SECONDS, own_finalizers, replicas_finalizer
from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.known_cluster import API_VERSION, KIND
from fedhpa.api.texts import listed, one_line
from fedhpa.api.times import known_time
from fedhpa.kube import FORBIDDEN, ApiClient, Clock, EventRecorder, InvolvedObject, Key, contain
from fedhpa.members import ForeignCluster, Member, MemberRegistry, change_finalizers

PERIOD_SECONDS: Final = 5.0
# A cluster whose replicas come and go costs no more than one write a minute. After a change of --shards, the
# leaders of all shards have set their own finalizers by then.
SETTLED_SECONDS: Final = 60.0
# Objects between two chances for other tasks.
SLICE: Final = 200
HUB_SECONDS: Final = 10.0
# After a refusal; the right may be missing.
RETRY_SECONDS: Final = 60.0
_MAX_NAMED: Final = 8

log = structlog.get_logger(__name__)

Running = Mapping[str, Mapping[Key, int]]


async def running_replicas(objects: Objects, memories: Mapping[Key, ObjectMemory]) -> Running:
    """Returns the replicas by cluster and object, as last decided or seen.

    Before its first reconcile, what the status shows counts. An object with dryRun moves nothing, so a
    Cluster does not wait for it.
    """
    found: dict[str, dict[Key, int]] = {}
    for number, (key, raw) in enumerate(tuple(objects.items())):
        if number % SLICE == 0:
            await asyncio.sleep(0)
        spec = raw.get("spec") or {}
        if spec.get("dryRun") is True:
            continue
        memory = memories.get(key)
        shares = shown_shares(raw.get("status"))[0] if memory is None else memory.last_replicas
        for cluster, replicas in shares.items():
            if replicas:
                found.setdefault(cluster, {})[key] = replicas
    return found


class ClusterFinalizers:
    """Keeps one shard's finalizer in the Clusters. `running` returns the replicas of the shard's objects."""

    def __init__(
        self,
        hub: ApiClient,
        registry: MemberRegistry,
        shard: Shard,
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._registry = registry
        self._shard = shard
        self._own = replicas_finalizer(shard.index, shard.count)
        self._events = events
        self._clock = clock
        # When each Cluster stopped needing its finalizers, by our clock.
        self._idle_since: dict[str, float] = {}
        self._again: dict[str, float] = {}
        self._forbidden = False
        self._reported: set[tuple[str, bool]] = set()

    async def run(self, objects: Objects, memories: Mapping[Key, ObjectMemory]) -> None:
        """Keeps the finalizers until cancelled. All objects of the shard must be known."""
        while True:
            running = await running_replicas(objects, memories)
            for name, member in sorted(self._registry.registered.items()):
                keep = partial(self._keep, member, running.get(name, {}))
                await contain("cluster-finalizers", keep, lambda _: None, cluster=name)
            await asyncio.sleep(PERIOD_SECONDS)

    async def _keep(self, member: Member, running: Mapping[Key, int]) -> None:
        if isinstance(member.cluster, ForeignCluster):
            return  # its object is another project's
        metadata = member.cluster.metadata
        if metadata.deletionTimestamp is None:
            add, remove = self._of_registered(member, bool(running))
        else:
            add, remove = False, self._of_deleted(member, running)
        now = self._clock.monotonic()
        if not (add or remove) or now < self._again.get(member.name, now):
            return
        change = partial(_changed, add=[self._own] if add else [], remove=remove)
        try:
            read = msgspec.to_builtins(metadata)
            await change_finalizers(self._hub, read, change, manager=FIELD_MANAGER, deadline=HUB_SECONDS)
        except FedHPAError as error:
            self._again[member.name] = now + RETRY_SECONDS
            forbidden = isinstance(error, ApiError) and error.status == FORBIDDEN
            # A missing right is told once for all Clusters. Others report a hub that does not answer.
            write = log.warning if forbidden and not self._forbidden else log.debug
            write("finalizer not written", cluster=member.name, error=str(error))
            self._forbidden |= forbidden

    def _of_registered(self, member: Member, needed: bool) -> tuple[bool, list[str]]:
        """Returns whether our finalizer is missing, and those that no shard needs any more."""
        present = member.cluster.metadata.finalizers or []
        idle = [] if needed else [each for each in present if each == self._own]
        if self._shard.index == 0:
            idle += own_finalizers(present, other_than=self._shard.count)
        if not idle:
            self._idle_since.pop(member.name, None)
            return needed and self._own not in present, []
        now = self._clock.monotonic()
        if now - self._idle_since.setdefault(member.name, now) < SETTLED_SECONDS:
            idle = []
        return needed and self._own not in present, idle

    def _of_deleted(self, member: Member, running: Mapping[Key, int]) -> list[str]:
        """Returns the finalizers that do not hold a deleted Cluster any more, and records events."""
        metadata = member.cluster.metadata
        present = metadata.finalizers or []
        overdue = self._clock.wall() - (known_time(metadata.deletionTimestamp) or 0.0) >= MAX_WAIT_SECONDS
        remove = [each for each in present if each == self._own and (overdue or not running)]
        if overdue and self._shard.index == 0:
            # Nobody knows for which objects a former number of shards set them.
            remove += own_finalizers(present, other_than=self._shard.count)
        if self._own in present and running:
            self._report(member, running, overdue=overdue)
        return remove

    def _report(self, member: Member, running: Mapping[Key, int], *, overdue: bool) -> None:
        """Records an event once."""
        uid, still = member.cluster.metadata.uid, _named(running)
        if (uid, overdue) in self._reported:
            return
        self._reported.add((uid, overdue))
        about = InvolvedObject(API_VERSION, KIND, member.name, uid=uid)
        if overdue:
            text = f"it is removed an hour after its deletion, although replicas still run there: {still}"
            self._events.event(about, "Warning", "ReplicasLeftBehind", text)
        else:
            text = f"it is removed once its replicas run in other clusters, after an hour at most: {still}"
            self._events.event(about, "Normal", "ReplicasLeave", text)


def _changed(present: Sequence[str], *, add: Sequence[str], remove: Sequence[str]) -> list[str]:
    kept = [each for each in present if each not in remove]
    return [*kept, *(each for each in add if each not in kept)]


def _named(running: Mapping[Key, int]) -> str:
    names = [f"{namespace}/{name} {count}" for (namespace, name), count in sorted(running.items())]
    return one_line(listed(names, _MAX_NAMED), 700)
