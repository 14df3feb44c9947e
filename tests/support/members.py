"""A hub with members and a registry that follows them, over the fake API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from benchmarks.world.network import MemoryNetwork
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.kube import SYSTEM, Clock
from fedhpa.kube.client import ApiClient
from fedhpa.members.member import Member
from fedhpa.members.registry import MemberRegistry
from tests.support.fakeapi import FakeApi, eventually, join
from tests.support.timing import background, virtual_clock

DEADLINE = 0.4
# The deadline of members on sockets, which no slow machine misses.
REAL_DEADLINE = 60.0
PROBE_PERIOD = 0.3
# Of tests over hours: a probe costs as much as a reconcile.
RARE_PROBE_PERIOD = 60.0


@dataclass
class FollowedMembers:
    """A hub, members by name, and the running registry."""

    hub: FakeApi
    members: dict[str, FakeApi]
    registry: MemberRegistry
    network: MemoryNetwork | None = None

    def __getitem__(self, name: str) -> Member:
        return self.registry.members[name]

    async def ready(self, *names: str) -> None:
        """Waits until these members are ready."""
        await eventually(
            lambda: all(
                name in self.registry.members and self.registry.members[name].state.ready for name in names
            )
        )

    async def away(self, name: str) -> str:
        """Waits until a member is not ready; returns the reason."""
        await eventually(lambda: not self[name].state.ready)
        return self[name].state.message


def registry_of(
    client: ApiClient,
    clock: Clock,
    deadline: float,
    probe_period: float = PROBE_PERIOD,
    sources: MemberSources = ONLY_CLUSTERS,
) -> MemberRegistry:
    """Returns a registry with short periods."""
    return MemberRegistry(client, deadline=deadline, probe_period=probe_period, sources=sources, clock=clock)


def federation(*names: str, deadline: float = DEADLINE) -> AbstractAsyncContextManager[FollowedMembers]:
    """Starts a hub and these members in memory and virtual time, and waits until all are ready."""
    return _federation(MemoryNetwork(), virtual_clock(), names, deadline)


def federation_on_sockets(
    *names: str, deadline: float = REAL_DEADLINE
) -> AbstractAsyncContextManager[FollowedMembers]:
    """Does the same over TLS and in real time."""
    return _federation(None, SYSTEM, names, deadline)


@asynccontextmanager
async def _federation(
    network: MemoryNetwork | None, clock: Clock, names: tuple[str, ...], deadline: float
) -> AsyncIterator[FollowedMembers]:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(FakeApi(network=network))
        members = {name: await stack.enter_async_context(FakeApi(network=network)) for name in names}
        for name, member in members.items():
            member.token = f"{name}-token"
            join(hub, name, member)
        client = await stack.enter_async_context(ApiClient(hub.config()))
        registry = registry_of(client, clock, deadline)
        await stack.enter_async_context(background(registry.run()))
        made = FollowedMembers(hub, members, registry, network)
        await eventually(registry.synced)
        await made.ready(*names)
        yield made
