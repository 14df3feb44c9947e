"""An embedded hub and its members in this process, for tests and the demo."""

import asyncio
from collections.abc import Sequence

from fedhpa.admission import crd
from testbed.embedded.cluster.controllers import READY_AFTER
from testbed.embedded.cluster.load import Load
from testbed.embedded.cluster.member import Member
from testbed.embedded.controlplane import ControlPlane
from testbed.stage import Run, cluster_objects, gather

CRDS = (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA, crd.CLUSTER, *crd.RECORDS)


class Plane:
    """`start` opens the ports and registers the members; `end` removes ports, files and processes.

    All members share one load, and each may have an additional one. Members reconcile their HPAs every
    `hpa_sync_seconds`; None only stores them.
    """

    def __init__(
        self,
        members: Sequence[str] = ("member1", "member2"),
        *,
        ready_after: float = READY_AFTER,
        hpa_sync_seconds: float | None = None,
    ) -> None:
        self.run = Run.begin()
        self.load = Load()
        try:
            self.hub = ControlPlane(self.run.folder / "hub", "hub")
            self.members = {
                name: Member(
                    self.run.folder / name,
                    name,
                    self.load,
                    ready_after=ready_after,
                    hpa_sync_seconds=hpa_sync_seconds,
                )
                for name in members
            }
        except BaseException:
            self.run.end()
            raise

    async def start(self) -> None:
        """Serve, install the CRDs on the hub, register the members. Cleans up if anything fails."""
        try:
            for one in (self.hub, *self.members.values()):
                await one.start()
            async with self.hub.api() as api:
                await api.apply_all([crd.custom_resource_definition(each) for each in CRDS])
                for member in self.members.values():
                    await api.apply_all(cluster_objects(member.name, member.server, member.credentials()))
        except BaseException:
            await self.end()
            raise

    async def end(self) -> None:
        """End the processes of this run while the hub still answers, then close the planes."""
        await asyncio.to_thread(self.run.end)
        await gather(*(one.end() for one in (self.hub, *self.members.values())))

    async def lose(self, name: str) -> None:
        """Close the member's port; its pods keep running."""
        await self.members[name].listener.stop()

    async def bring_back(self, name: str) -> None:
        """Open the member's port again."""
        await self.members[name].listener.start()

    async def lose_hub(self) -> None:
        """Close the hub's port; its objects stay."""
        await self.hub.listener.stop()

    async def bring_back_hub(self) -> None:
        """Open the hub's port again."""
        await self.hub.listener.start()

    def set_demand(self, namespace: str, name: str, millis: int, cluster: str = "") -> None:
        """Set the CPU demand on a workload, in milli-units: on all members, or in addition on one."""
        (self.members[cluster].load if cluster else self.load).demand(namespace, name, millis)
