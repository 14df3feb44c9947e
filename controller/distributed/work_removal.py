"""Removes the Works of a FederatedHPA, and gives its workload back to Karmada's scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from controller.apply.template import Bound, release
from controller.apply.works import WorkWriter
from controller.distributed.removal import HpaRemoval
from fedhpa.api.errors import FedHPAError
from fedhpa.decision import MemoryState
from fedhpa.kube import ApiClient, Key, contain, get_scale
from fedhpa.members import Member

TASK: Final = "read-scale-for-release"
# The place of an error of the hub, among those of clusters.
HUB: Final = "hub"
# Returns template and ResourceBinding of an object's workload; None if one of them is gone.
BoundReader: TypeAlias = Callable[[Key, Mapping[str, Any]], Awaitable[Bound | None]]


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
