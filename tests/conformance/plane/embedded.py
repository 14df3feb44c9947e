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
    """A running embedded API server with nothing on it, in this event loop; with a member if asked for."""
    hub = ControlPlane(folder / "hub", "hub")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(hub.end)
        await hub.start()
        cluster = None
        if member:
            cluster = Member(folder / "member1", "member1", Load())
            stack.push_async_callback(cluster.end)
            await cluster.start()
        yield of_hub(hub, kubectl, cluster)


def of_hub(hub: ControlPlane, kubectl: Path | None, member: Member | None = None) -> PlaneUnderTest:
    """An embedded hub, started."""
    folder = hub.folder / "conformance"
    folder.mkdir(exist_ok=True)
    return PlaneUnderTest(
        server=hub.server,
        ca_pem=hub.pki.ca.bundle_pem,
        admin=hub.pki.client("system:admin", "system:masters"),
        limited=hub.pki.client(LIMITED),
        nobody=hub.pki.client(),
        kubeconfig=hub.kubeconfig,
        folder=folder,
        kubectl=kubectl,
        member_kubeconfig=member.kubeconfig if member is not None else None,
        forget_history=hub.store.compact,
    )
