"""A hub and its members as real control planes."""

import asyncio
import functools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from testbed.real.controlplane import HPA_SYNC
from testbed.real.load import Load
from testbed.real.member import Member
from testbed.real.real_hub import Hub
from testbed.stage import Run, StartFailed, gather, has_condition


class Plane:
    """A hub and its members in one run. `start` starts them; `end` ends everything and removes the folder."""

    def __init__(
        self,
        assets: Path,
        *,
        members: Sequence[str] = ("member1", "member2"),
        nodes: int = 1,
        hpa_sync: str = HPA_SYNC,
    ) -> None:
        self.assets = assets
        self.run = Run.begin()
        try:
            self.hub = Hub(self.run, assets)
            self.members = {
                name: Member(self.run, assets, name, nodes=nodes, hpa_sync=hpa_sync) for name in members
            }
            self.load = Load(self.members)
        except BaseException:
            self.run.end()
            raise

    async def start(self) -> None:
        """Starts all control planes concurrently and registers the members. Ends all of them if one fails."""
        try:
            await gather(self.hub.start(), *(member.start() for member in self.members.values()))
            await self.install_crds()
            await gather(*(self.hub.register(member) for member in self.members.values()))
        except BaseException:
            self.end()
            raise

    async def metrics_work(self) -> None:
        """Waits until each member's metrics.k8s.io answers."""
        await gather(*(member.metrics_work() for member in self.members.values()))

    async def install_crds(self) -> None:
        """Applies the output of `fedhpa crds --with-clusters` and waits until the hub serves the kinds."""
        manifests = await self._printed_crds()
        async with self.hub.api() as api:
            await api.apply_all(manifests)
            for manifest in manifests:
                await api.wait(
                    f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{manifest['metadata']['name']}",
                    functools.partial(has_condition, kind="Established"),
                    what=f"CRD {manifest['metadata']['name']} is served",
                    seconds=120,
                )

    async def _printed_crds(self) -> list[dict[str, Any]]:
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("fedhpa")), "crds", "--with-clusters", stdout=subprocess.PIPE
        )
        async with asyncio.timeout(60):
            out, _ = await process.communicate()
        if process.returncode != 0:
            raise StartFailed(f"fedhpa crds --with-clusters ended with {process.returncode}")
        return [document for document in yaml.safe_load_all(out) if document]

    def set_demand(self, namespace: str, name: str, millis: int, cluster: str = "") -> None:
        """Sets the CPU demand on a workload, in milli-units: on all members, or in addition on one.

        It takes effect while `load.follow` runs.
        """
        self.load.demand(namespace, name, millis, cluster)

    async def lose(self, name: str) -> None:
        """Kills the member's API server; its pods keep running."""
        await self.members[name].kill_component("kube-apiserver")

    async def bring_back(self, name: str) -> None:
        """Starts the member's API server again."""
        await self.members[name].start_api_server()

    def end(self) -> None:
        """Ends every program of this run."""
        self.run.end()
