"""A hub, members, and a registry that follows them, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from fedhpa.kube.client import ApiClient
from fedhpa.kube.clock import SYSTEM, Clock
from fedhpa.members.member import Member
from fedhpa.members.registry import MemberRegistry
from tests.support.fakeapi import FakeApi, eventually, fake_api, join
from tests.support.memory_network import MemoryNetwork

DEADLINE = 0.4
# Of members on sockets: no machine is so slow that one which answers misses it.
REAL_DEADLINE = 60.0
PROBE_PERIOD = 0.3
# 2027-01-15T08:00:00Z, when virtual time begins.
EPOCH = 1_800_000_000.0


@dataclass
class World:
    """Everything is already joined and running."""

    hub: FakeApi
    members: dict[str, FakeApi]
    registry: MemberRegistry
    network: MemoryNetwork | None = None

    def __getitem__(self, name: str) -> Member:
        return self.registry.members[name]

    async def ready(self, *names: str) -> None:
        """Wait until these members are ready."""
        await eventually(
            lambda: all(
                name in self.registry.members and self.registry.members[name].state.ready for name in names
            )
        )

    async def away(self, name: str) -> str:
        """Wait until a member is not ready; why."""
        await eventually(lambda: not self[name].state.ready)
        return self[name].state.message


@asynccontextmanager
async def running(registry: MemberRegistry) -> AsyncIterator[None]:
    """Run the registry; it must not end by itself."""
    task = asyncio.create_task(registry.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


def loop_time() -> float:
    """The running loop's clock."""
    return asyncio.get_running_loop().time()


def federation(*names: str, deadline: float = DEADLINE) -> AbstractAsyncContextManager[World]:
    """A hub with these members, all ready; in memory, for tests in virtual time."""
    return _federation(MemoryNetwork(), Clock(loop_time, lambda: EPOCH + loop_time()), names, deadline)


def federation_on_sockets(*names: str, deadline: float = REAL_DEADLINE) -> AbstractAsyncContextManager[World]:
    """The same over TLS and in real time."""
    return _federation(None, SYSTEM, names, deadline)


@asynccontextmanager
async def _federation(
    network: MemoryNetwork | None, clock: Clock, names: tuple[str, ...], deadline: float
) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(fake_api(network=network))
        members = {name: await stack.enter_async_context(fake_api(network=network)) for name in names}
        for name, member in members.items():
            member.token = f"{name}-token"
            join(hub, name, member)
        client = await stack.enter_async_context(ApiClient(hub.config()))
        registry = MemberRegistry(
            client, deadline=deadline, probe_period=PROBE_PERIOD, clock=clock.monotonic, wall=clock.wall
        )
        await stack.enter_async_context(running(registry))
        world = World(hub, members, registry, network)
        await eventually(registry.synced)
        await world.ready(*names)
        yield world
