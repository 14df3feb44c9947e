"""An embedded member: nodes, workloads that get pods, usage that follows a load, metrics of it."""

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fedhpa.serving.authentication import utc_now
from testbed.embedded.api.types import Router
from testbed.embedded.cluster.controllers import NODES, READY_AFTER, Workloads
from testbed.embedded.cluster.load import Load
from testbed.embedded.cluster.metrics import VERSIONS, MetricsApis
from testbed.embedded.cluster.pods import stamp
from testbed.embedded.controlplane import ControlPlane
from testbed.embedded.objects.kinds import API_SERVICES
from testbed.stage.registrations import CLUSTER_NAMESPACE, MEMBER_RIGHTS, MEMBER_USER, Credentials, documents

NODE_ALLOCATABLE: Mapping[str, str] = {"cpu": "32", "memory": "64Gi", "pods": "110"}
TOKEN_SECONDS = 24 * 3600


class Member(ControlPlane):
    """A member whose pods take their share of `load`, which it may have in common with others."""

    def __init__(
        self,
        folder: Path,
        name: str,
        load: Load,
        *,
        now: Callable[[], dt.datetime] = utc_now,
        nodes: int = 1,
        allocatable: Mapping[str, str] = NODE_ALLOCATABLE,
        ready_after: float = READY_AFTER,
    ) -> None:
        self.load = load
        super().__init__(folder, name, now=now)
        load.join(self.store)
        self._working: asyncio.Task[None] | None = None
        self.workloads = Workloads(self.store, now, ready_after=ready_after)
        for number in range(1, nodes + 1):
            self._add_node(f"{name}-node{number}", allocatable)
        for group, version in VERSIONS.items():
            spec = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100}
            name_ = {"name": f"{version}.{group}"}
            api_service = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
            self.store.create(API_SERVICES, {**api_service, "metadata": name_, "spec": spec})

    async def start(self) -> None:
        """Serve, and let the workloads have their pods."""
        await super().start()
        self._working = asyncio.create_task(self.workloads.run())
        async with self.api() as api:
            await api.apply_all(documents(MEMBER_RIGHTS))

    async def end(self) -> None:
        """Close everything; raises what the controllers failed with, if they did."""
        await super().end()
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])
            if not self._working.cancelled():
                self._working.result()

    def credentials(self) -> Credentials:
        """A token of the ServiceAccount whose rights are those that a hub needs, and no more."""
        token, _ = self.authenticator.issue(CLUSTER_NAMESPACE, MEMBER_USER, TOKEN_SECONDS)
        return Credentials(token, self.pki.ca.bundle_pem)

    def routers(self) -> Sequence[Router]:
        """The member's own metrics come before what may be registered."""
        self.metrics = MetricsApis(self.store, self.load, self.now, rubbish=lambda: self.faults.metric_values)
        return [self.metrics, *super().routers()]

    def set_capacity(self, allocatable: Mapping[str, str]) -> None:
        """From now on each node offers so much, e.g. {"cpu": "4"}; pods that run stay."""
        for node in self.store.list(NODES):
            node["status"]["allocatable"] = {**node["status"]["allocatable"], **allocatable}
            self.store.update(NODES, node)

    def _add_node(self, name: str, allocatable: Mapping[str, str]) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        times = {"lastHeartbeatTime": stamp(self.now()), "lastTransitionTime": stamp(self.now())}
        self.store.create(
            NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
                },
                "spec": {},
                "status": {
                    "capacity": dict(allocatable),
                    "allocatable": dict(allocatable),
                    "conditions": [ready | times],
                },
            },
        )
