"""A member cluster: all controllers, the scheduler, kwok in place of kubelets, and metrics-server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.real import commands
from testbed.real.controlplane import DATA, HPA_SYNC, START_SECONDS, ControlPlane
from testbed.stage import (
    MEMBER_USER,
    NAMESPACE,
    Credentials,
    PlaneApi,
    Run,
    aggregated_api,
    documents,
    eventually,
    gather,
    has_condition,
    member_rights,
)

NODE_ALLOCATABLE = {"cpu": "32", "memory": "64Gi", "pods": "110"}
# A run never lasts so long. The doctor warns a day before a token expires that nobody renews.
TOKEN_SECONDS = 7 * 24 * 3600
USAGE_PATH = "/apis/kwok.x-k8s.io/v1alpha1/clusterresourceusages"


class Member(ControlPlane):
    """A member cluster with `nodes` nodes. Its HPAs decide every `hpa_sync`, e.g. "15s"."""

    def __init__(
        self, run: Run, assets: Path, name: str, *, nodes: int = 1, hpa_sync: str = HPA_SYNC
    ) -> None:
        super().__init__(run, assets, name)
        self.nodes = nodes
        self._hpa_sync = hpa_sync
        self.pki.server("kwok", dns=["localhost"])
        self.pki.server("metrics-server", dns=["localhost", "metrics-server.kube-system.svc"])

    async def start(self) -> None:
        """Starts all components; returns once pods can run. `metrics_work` waits for metrics-server."""
        await self.start_store_and_api()
        self.start_controllers(hub=False, hpa_sync=self._hpa_sync)
        self._commands["kube-scheduler"] = commands.kube_scheduler(
            self.pki, self.ports, self._kubeconfig("kube-scheduler")
        )
        self.spawn("kube-scheduler")
        self._commands["kwok"] = commands.kwok(DATA / "kwok.yaml", self.pki, self.ports, self.kubeconfig)
        self._commands["metrics-server"] = commands.metrics_server(self.pki, self.ports, self.kubeconfig)
        async with self.api() as api:
            await api.apply_all(documents(DATA / "member.yaml"))
            await api.apply_all([self._node(number) for number in range(1, self.nodes + 1)])
            self.spawn("kwok")
            await self._node_ready(api)
            await self.controllers_work()
            await api.apply_all(self._agents())
            await self.set_usage("kube-system", {"node-agent": {"cpu": "5m", "memory": "20Mi"}})
            # It starts last so that its first scrape finds pods. The second scrape, one resolution later,
            # gives the first rates.
            self.spawn("metrics-server")
            await api.apply_all(self._metrics_registration())

    async def metrics_work(self) -> None:
        """Waits until the member's metrics.k8s.io lists its nodes."""
        async with self.api() as api:

            async def poll() -> bool:
                self.check("metrics-server")
                self.check("kwok")
                found = await api.get("/apis/metrics.k8s.io/v1beta1/nodes")
                return len(found["items"]) == self.nodes

            await eventually(poll, what=f"metrics of {self.name}", seconds=START_SECONDS, every=0.5)

    async def credentials(self) -> Credentials:
        """Makes a ServiceAccount with the rights that a hub needs (fedhpa.api.rights); returns its token."""
        async with self.api() as api:
            await api.apply_all(member_rights())
            token = await api.token(NAMESPACE, MEMBER_USER, expirationSeconds=TOKEN_SECONDS)
        return Credentials(token, self.pki.ca.bundle_pem)

    async def set_usage(self, namespace: str, usage: Mapping[str, Mapping[str, str]]) -> None:
        """Sets the usage of the containers in a namespace by name, e.g. {"web": {"cpu": "400m"}}.

        kwok reports it at the next scrape. metrics-server shows it after one or two resolutions of 10 s.
        """
        usages = [
            {
                "containers": [container],
                "usage": {resource: {"value": value} for resource, value in amounts.items()},
            }
            for container, amounts in sorted(usage.items())
        ]
        manifest = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterResourceUsage",
            "metadata": {"name": namespace},
            "spec": {"selector": {"matchNamespaces": [namespace]}, "usages": usages},
        }
        async with self.api() as api:
            await api.apply(manifest)

    def _node(self, number: int) -> dict[str, Any]:
        name = f"{self.name}-node{number}"
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
                "annotations": {
                    "metrics.k8s.io/resource-metrics-path": f"/metrics/nodes/{name}/metrics/resource"
                },
            },
            "status": {"allocatable": NODE_ALLOCATABLE, "capacity": NODE_ALLOCATABLE},
        }

    def _agents(self) -> list[dict[str, Any]]:
        """Returns one pod for each node, because metrics-server omits nodes without usage."""
        return [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"node-agent-{number}",
                    "namespace": "kube-system",
                    "labels": {"app": "node-agent"},
                },
                "spec": {
                    "nodeName": f"{self.name}-node{number}",
                    "containers": [{"name": "node-agent", "image": "node-agent"}],
                },
            }
            for number in range(1, self.nodes + 1)
        ]

    async def _node_ready(self, api: PlaneApi) -> None:
        async def ready(name: str) -> Any:
            def is_ready(node: Any) -> bool:
                self.check("kwok")
                return has_condition(node, kind="Ready")

            return await api.wait(
                f"/api/v1/nodes/{name}", is_ready, what=f"node {name} Ready", seconds=START_SECONDS
            )

        await gather(*(ready(f"{self.name}-node{number}") for number in range(1, self.nodes + 1)))

    def _metrics_registration(self) -> list[dict[str, Any]]:
        return aggregated_api(
            group="metrics.k8s.io",
            version="v1beta1",
            service="metrics-server",
            namespace="kube-system",
            port=self.ports.metrics,
            ca_bundle=self.pki.ca.bundle_pem,
        )
