"""The hub: an API server whose workloads are templates, with an audit log that proves who called whom."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.real.controlplane import DATA, ControlPlane
from testbed.real.member import Member
from testbed.stage.registrations import cluster_objects
from testbed.stage.runs import Run


class Hub(ControlPlane):
    """A plain hub: no Karmada, so its Cluster objects are of a CRD."""

    def __init__(self, run: Run, assets: Path, name: str = "hub") -> None:
        super().__init__(run, assets, name)
        self.audit_log = self.folder / "audit.log"

    async def start(self) -> None:
        """Start etcd, kube-apiserver and the controllers that leave templates alone."""
        await self.start_store_and_api(audit=(DATA / "audit-policy.yaml", self.audit_log))
        self.start_controllers(hub=True)
        await self.controllers_work()

    async def register(self, member: Member) -> None:
        """Make the member known: a Secret with token and caBundle, and a Cluster that names it."""
        async with self.api() as api:
            await api.apply_all(cluster_objects(member.name, member.server, await member.credentials()))

    def audit_events(self) -> Iterator[dict[str, Any]]:
        """What the API server wrote down so far; which requests those are: data/audit-policy.yaml."""
        with self.audit_log.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):  # the last one may be half written
                    yield json.loads(line)
