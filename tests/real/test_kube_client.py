"""The product's API client against a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from fedhpa.api.errors import Conflict
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import load_config
from fedhpa.members.registry import MemberRegistry
from testbed.real.plane import Plane
from tests.real.settling import settled
from tests.real.workloads import namespace
from tests.support.client_checks import CHECKS
from tests.support.timing import PATIENCE, background, eventually

Check = Callable[[ApiClient, str], Awaitable[None]]


@asynccontextmanager
async def hub_client(plane: Plane, space: str) -> AsyncIterator[ApiClient]:
    """Yields a client of the hub, and creates its namespace there."""
    async with ApiClient(await load_config(str(plane.hub.kubeconfig), clock=SYSTEM)) as client:
        try:
            await client.post("/api/v1/namespaces", namespace(space))
        except Conflict:
            pass
        yield client


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_client_works_with_a_real_server(plane: Plane, check: Check) -> None:
    """The same checks run against the embedded server."""
    space = check.__name__.replace("_", "-")
    async with hub_client(plane, space) as client:
        await check(client, space)


async def test_registered_members_are_ready(plane: Plane) -> None:
    """The registry reaches both members with the credentials of their registration."""
    names = ("member1", "member2")
    async with hub_client(plane, "client-members") as client:
        registry = MemberRegistry(client, clock=SYSTEM)
        async with background(registry.run()):
            await eventually(
                lambda: registry.synced() and all(registry.members[name].state.ready for name in names),
                2 * PATIENCE,
            )

            async def reported_versions() -> list[str]:
                return [
                    (await member.client.get_json("/version"))["gitVersion"]
                    for member in registry.members.values()
                    if member.name in names
                ]

            # On a busy machine a call may miss the member's deadline.
            versions = await settled(reported_versions, lambda found: len(found) == 2)

    assert all(version.startswith("v1.") for version in versions)
    assert len(versions) == 2
