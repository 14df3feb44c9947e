"""Removes our HPAs from the members, when a FederatedHPA is deleted or leaves mode Distributed.

The workloads keep their replicas. With --propagation=karmada the Works go, too, and Karmada's scheduler gets
the workload back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import structlog

from controller.apply.member_hpas import NOT_REGISTERED, NotOwned
from controller.apply.plan import HpaWriter, carry_out, failures, to_hpas
from controller.apply.template import Bound, release
from controller.apply.works import WorkWriter
from controller.distributed.hpa_reader import is_ours, read_hpas
from controller.distributed.mode_changes import has_finalizer
from controller.failure_log import names
from controller.publish import FEDERATED_HPAS, record_events
from fedhpa.api.errors import FedHPAError
from fedhpa.assignment import RemoveHpa, Write
from fedhpa.decision import LOST, Event, Failure, MemoryState
from fedhpa.kube import ApiClient, EventRecorder, Key, contain, get_scale
from fedhpa.members import HpaCache, Member

log = structlog.get_logger(__name__)

HUB_UNKNOWN: Final = "the identity of the hub is unknown, so the HPA may be another hub's"
LEFT: Final = "MemberHPALeft"
TASK: Final = "read-scale-for-release"
# The place of an error of the hub, among those of clusters.
HUB: Final = "hub"
# Returns template and ResourceBinding of an object's workload; None if one of them is gone.
BoundReader: TypeAlias = Callable[[Key, Mapping[str, Any]], Awaitable[Bound | None]]


class HpaRemoval:
    """Removes the HPAs of one FederatedHPA at a time. `deadline` are the seconds of one request.

    `duplicates` are other names of the members. Their HPAs are those of the members.
    """

    def __init__(
        self,
        members: Mapping[str, Member],
        duplicates: Mapping[str, Member],
        hpas: HpaCache,
        writer: HpaWriter,
        events: EventRecorder,
        deadline: float,
    ) -> None:
        self._members = members
        self._duplicates = duplicates
        self._hpas = hpas
        self._writer = writer
        self._events = events
        self._deadline = deadline

    async def remove(
        self, key: Key, raw: Mapping[str, Any], state: MemoryState, *, overdue: bool
    ) -> dict[str, str]:
        """Remove our HPAs of this name from all members. Returns the reason by cluster where one may remain.

        A cluster that is Lost is no longer waited for, and if `overdue` none is: an event names it.
        """
        assigned = clusters_with_hpas(state) - self._duplicates.keys()
        if not state.clusters and has_finalizer(raw):
            assigned = set(self._members)  # the record was lost, so each may have one
        readings = await read_hpas(self._hpas, self._members, self._members, key)
        left = dict.fromkeys(assigned - readings.keys(), NOT_REGISTERED)
        left |= {
            name: reading.hpa.error
            for name, reading in readings.items()
            # A member that never had our HPA need not answer.
            if isinstance(reading.hpa, Failure) and name in assigned
        }
        ours = [name for name, reading in readings.items() if is_ours(reading)]
        left |= await self._deleted(key, ours) if self._hpas.hub else dict.fromkeys(ours, HUB_UNKNOWN)
        # An unregistered cluster can never answer, so its HPA is not waited for.
        given_up = left.keys() if overdue else (left.keys() - readings.keys()) | (left.keys() & _lost(state))
        for name in sorted(given_up):
            self._report(key, raw, name, left[name])
        return {name: reason for name, reason in left.items() if name not in given_up}

    def report_unregistered(
        self, key: Key, raw: Mapping[str, Any], before: MemoryState, after: MemoryState
    ) -> None:
        """Report clusters whose Cluster was deleted, so that nobody can remove our HPA there.

        `before` may have our HPA in them, and they are not in `after` any more.
        """
        known = {*self._members, *self._duplicates, *after.clusters}
        for name in sorted(clusters_with_hpas(before) - known):
            self._report(key, raw, name, NOT_REGISTERED)

    async def _deleted(self, key: Key, clusters: Iterable[str]) -> dict[str, str]:
        """Delete the HPAs of these clusters at once. Returns the reason by cluster where that failed."""
        delete = to_hpas(self._writer, key, self._deadline)

        async def send(write: Write) -> None:
            with contextlib.suppress(NotOwned):  # it stays as it is
                await delete(write)
                log.info("member HPA removed", cluster=write.cluster, **names(key))

        removal = [RemoveHpa(cluster) for cluster in clusters]
        outcomes = await carry_out(lambda done: () if done else removal, send, **names(key))
        return {one.write.cluster: one.reason for one in failures(outcomes)}

    def _report(self, key: Key, raw: Mapping[str, Any], cluster: str, reason: str) -> None:
        namespace, name = key
        message = (
            f"the HorizontalPodAutoscaler {namespace}/{name} stays in cluster {cluster!r} ({reason}): delete "
            f"it there with `kubectl -n {namespace} delete horizontalpodautoscaler {name}`"
        )
        log.warning("member HPA left", cluster=cluster, namespace=namespace, name=name, reason=reason)
        record_events(self._events, FEDERATED_HPAS, raw, [Event("Warning", LEFT, message)])


class WorkRemoval:
    """Removes the Works of one FederatedHPA at a time. The deadlines are the seconds of one request."""

    def __init__(
        self,
        hub: ApiClient,
        members: Mapping[str, Member],
        removal: HpaRemoval,
        works: WorkWriter,
        bound: BoundReader,
        *,
        member_deadline: float,
        hub_deadline: float,
    ) -> None:
        self._hub = hub
        self._members = members
        self._removal = removal
        self._works = works
        self._bound = bound
        self._member_deadline = member_deadline
        self._hub_deadline = hub_deadline

    async def remove(
        self, key: Key, raw: Mapping[str, Any], state: MemoryState, *, overdue: bool
    ) -> dict[str, str]:
        """Remove Works and HPAs, then the hold of the workload, as `Removal.remove`.

        The HPAs go first, so that nothing changes the replicas that the template gets.
        """
        left = await self._removal.remove(key, raw, state, overdue=overdue)
        try:
            await self._works.discard(key)
            if left:
                return left
            bound = await self._bound(key, raw)
            if bound is not None:
                running = await self._running(bound.shares, bound.template_path)
                await release(self._hub, bound, running, self._hub_deadline)
        except FedHPAError as error:
            return {**left, HUB: str(error)}
        return left

    def report_unregistered(
        self, key: Key, raw: Mapping[str, Any], before: MemoryState, after: MemoryState
    ) -> None:
        """Report clusters that were unregistered, as `Removal.report_unregistered`."""
        self._removal.report_unregistered(key, raw, before, after)

    async def _running(self, clusters: Iterable[str], path: str) -> dict[str, int]:
        """The replicas of the workload in the clusters that answer."""
        members = self._members
        asked = [members[name] for name in clusters if name in members and members[name].state.ready]
        async with asyncio.TaskGroup() as group:  # the tasks never raise
            tasks = {
                member.name: group.create_task(
                    contain(TASK, partial(self._replicas, member, path), lambda _: None, cluster=member.name)
                )
                for member in asked
            }
        found = {name: task.result() for name, task in tasks.items()}
        return {name: replicas for name, replicas in found.items() if replicas is not None}

    async def _replicas(self, member: Member, path: str) -> int | None:
        try:
            return (await get_scale(member.client, path, deadline=self._member_deadline)).spec.replicas
        except FedHPAError:
            return None


def clusters_with_hpas(state: MemoryState) -> set[str]:
    """Returns the clusters that may have an HPA of ours."""
    return {name for name, one in state.clusters.items() if one.may_have_hpa}


def _lost(state: MemoryState) -> set[str]:
    return {name for name, one in state.clusters.items() if one.state == LOST}
