"""An embedded control plane as the plane under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from testbed.embedded.cluster.load import Load
from testbed.embedded.cluster.member import Member
from testbed.embedded.controlplane import ControlPlane
from tests.conformance.plane.under_test import LIMITED, PlaneUnderTest


@asynccontextmanager
async def embedded_plane(
    folder: Path, kubectl: Path | None, *, member: bool = False
) -> AsyncIterator[PlaneUnderTest]:
    """A new embedded API server in this event loop, with a member if `member` is true."""
    hub = ControlPlane(folder / "hub", "hub")
    (folder / "conformance").mkdir()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(hub.end)
        await hub.start()
        cluster = None
        if member:
            cluster = Member(folder / "member1", "member1", Load())
            stack.push_async_callback(cluster.end)
            await cluster.start()
        yield PlaneUnderTest(
            server=hub.server,
            admin=hub.pki.client("system:admin", "system:masters"),
            limited=hub.pki.client(LIMITED),
            nobody=hub.pki.client(),
            kubeconfig=hub.kubeconfig,
            folder=folder / "conformance",
            kubectl=kubectl,
            member_kubeconfig=cluster.kubeconfig if cluster is not None else None,
            forget_history=hub.store.compact,
        )
