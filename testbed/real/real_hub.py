"""The hub: its workloads are templates, and its audit log records every call."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.real.controlplane import DATA, ControlPlane
from testbed.real.member import Member
from testbed.stage import Run, cluster_objects


class Hub(ControlPlane):
    """A hub without Karmada. A CRD defines its Cluster objects."""

    def __init__(self, run: Run, assets: Path, name: str = "hub") -> None:
        super().__init__(run, assets, name)
        self.audit_log = self.folder / "audit.log"

    async def start(self) -> None:
        """Starts etcd, kube-apiserver and HUB_CONTROLLERS."""
        await self.start_store_and_api(audit=(DATA / "audit-policy.yaml", self.audit_log))
        self.start_controllers(hub=True)
        await self.controllers_work()

    async def register(self, member: Member) -> None:
        """Registers the member: a Secret with token and caBundle, and a Cluster that refers to it."""
        async with self.api() as api:
            await api.apply_all(cluster_objects(member.name, member.server, await member.credentials()))

    def audit_events(self) -> Iterator[dict[str, Any]]:
        """Returns the audit log so far. data/audit-policy.yaml selects the requests."""
        with self.audit_log.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):  # the last line may be incomplete
                    yield json.loads(line)
