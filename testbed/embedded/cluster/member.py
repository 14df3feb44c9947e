"""An embedded member cluster: a control plane with nodes, controllers, load and metrics APIs."""

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed.embedded.api.types import Handler
from testbed.embedded.clock import utc_now
from testbed.embedded.cluster.autoscalers import Autoscalers
from testbed.embedded.cluster.controllers import NODES, READY_AFTER, Controllers
from testbed.embedded.cluster.load import Load
from testbed.embedded.cluster.metrics import VERSIONS, MetricsApis
from testbed.embedded.cluster.pods import timestamp
from testbed.embedded.controlplane import ControlPlane
from testbed.embedded.objects.kinds import API_SERVICES
from testbed.stage import MEMBER_USER, NAMESPACE, Credentials, member_rights

NODE_ALLOCATABLE: Mapping[str, str] = {"cpu": "32", "memory": "64Gi", "pods": "110"}
TOKEN_SECONDS = 24 * 3600


class Member(ControlPlane):
    """A member cluster. Several members may share one `load`; `self.load` is this member's alone.

    HPAs are reconciled every `hpa_sync_seconds`; None only stores them.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        load: Load,
        *,
        now: Callable[[], dt.datetime] = utc_now,
        ready_after: float = READY_AFTER,
        hpa_sync_seconds: float | None = None,
    ) -> None:
        self.load = Load(shared=load)
        super().__init__(folder, name, now=now)
        load.join(self.store)
        self.load.join(self.store)
        self.metrics = MetricsApis(self.store, self.load, self.now)
        self.controllers = Controllers(self.store, now, ready_after=ready_after)
        self._hpa_sync_seconds = hpa_sync_seconds
        self._running: list[asyncio.Task[None]] = []
        self.store.create(NODES, self._node(f"{name}-node1"))
        for group, version in VERSIONS.items():
            spec = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100}
            head = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
            self.store.create(
                API_SERVICES, {**head, "metadata": {"name": f"{version}.{group}"}, "spec": spec}
            )

    async def start(self) -> None:
        """Serve, and run the controllers."""
        await super().start()
        self._running = [asyncio.create_task(self.controllers.run())]
        if self._hpa_sync_seconds is not None:
            autoscalers = Autoscalers(self.store, self.metrics, self.now)
            self._running.append(asyncio.create_task(autoscalers.run(self._hpa_sync_seconds)))
        async with self.api() as api:
            await api.apply_all(member_rights())

    async def end(self) -> None:
        """Close everything. Raises the error of the controllers, if they failed."""
        await super().end()
        for running in self._running:
            running.cancel()
        if self._running:
            await asyncio.wait(self._running)
        for running in self._running:
            if not running.cancelled():
                running.result()

    def credentials(self) -> Credentials:
        """Returns a token of the ServiceAccount with the rights that a hub needs."""
        token, _ = self.authenticator.issue(NAMESPACE, MEMBER_USER, TOKEN_SECONDS)
        return Credentials(token, self.pki.ca.bundle_pem)

    def route(self, path: str) -> Handler | None:
        """The member's metrics APIs take precedence over registered APIServices."""
        return self.metrics.handler(path) or super().route(path)

    def _node(self, name: str) -> dict[str, object]:
        now, allocatable = timestamp(self.now()), dict(NODE_ALLOCATABLE)
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {"capacity": allocatable, "allocatable": allocatable, "conditions": [ready]},
        }
