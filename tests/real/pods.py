"""A hub whose pods run. kwok starts no containers, so each pod of a release is a process of this machine."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from testbed.real.member import Member
from testbed.stage import Run, free_port, gather
from tests.real.helm import COMPONENTS, RenderedProcess, account_kubeconfig
from tests.real.service_network import ServiceNetwork, service_network
from tests.support.chart import NAMESPACE


class HubWithPods:
    """The hub, and what kwok does not do: it runs the processes of the pods, and leads Services to them."""

    def __init__(self, cluster: Member, network: ServiceNetwork) -> None:
        self.cluster = cluster
        self._network = network
        self._processes: list[RenderedProcess] = []

    async def run_pods(self, prepare: Callable[[RenderedProcess, Path], None] = lambda *_: None) -> None:
        """Starts the processes, and waits until they are ready.

        `prepare` does first what else a pod needs, with the process and the kubeconfig of its account.
        """
        pods = []
        async with self.cluster.api() as api:
            for component in COMPONENTS:
                path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/fedhpa-{component}"
                deployment = await api.get(path)
                (container,) = deployment["spec"]["template"]["spec"]["containers"]
                ports = {port["containerPort"]: free_port() for port in container["ports"]}
                folder = self.cluster.folder / "pods"
                process = RenderedProcess(self.cluster.run, folder, component, deployment, ports)
                pods.append((process, deployment["spec"]["template"]["spec"]))
                service = await api.get(f"/api/v1/namespaces/{NAMESPACE}/services/fedhpa-{component}")
                for port in service["spec"]["ports"]:
                    address = f"{service['spec']['clusterIP']}:{port['port']}"
                    self._network.backends[address] = process.ports[port["targetPort"]]
        await gather(*(self._run(process, pod, prepare) for process, pod in pods))

    async def _run(
        self,
        process: RenderedProcess,
        pod: dict[str, object],
        prepare: Callable[[RenderedProcess, Path], None],
    ) -> None:
        account = await account_kubeconfig(
            self.cluster, str(pod["serviceAccountName"]), process.folder / "account"
        )
        self._processes.append(process)
        prepare(process, account)
        await process.start(self.cluster, f"--kubeconfig={account}")

    async def certificate(self, component: str, bundle: bytes) -> str:
        """Returns the certificate that a process serves, as PEM. The caBundle must verify it."""
        port = next(each.ports["https"] for each in self._processes if each.name == component)
        context = ssl.create_default_context(cadata=bundle.decode())
        host = f"fedhpa-{component}.{NAMESPACE}.svc"

        def ask() -> bytes:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=10) as raw,
                context.wrap_socket(raw, server_hostname=host) as connection,
            ):
                return connection.getpeercert(binary_form=True) or b""

        return ssl.DER_cert_to_PEM_cert(await asyncio.to_thread(ask))

    def log(self, component: str) -> str:
        """Returns the log of a process so far, "" before it started."""
        found = [each.log for each in self._processes if each.name == component and each.log.exists()]
        return "".join(log.read_text(encoding="utf-8") for log in found)

    async def mount_secrets(self) -> None:
        """Writes changed Secrets into the folders of the processes, as a kubelet does after a while."""
        await gather(*(process.mount(self.cluster) for process in self._processes))

    async def end_pods(self) -> None:
        """Stops the processes."""
        self._network.backends.clear()
        names = [f"rendered-{process.name}" for process in self._processes]
        await asyncio.to_thread(self.cluster.run.stop, names)


@asynccontextmanager
async def empty_clusters(assets: Path, *members: str) -> AsyncIterator[tuple[HubWithPods, dict[str, Member]]]:
    """A hub and members of these names that know nothing of fedhpa, with metrics."""
    async with service_network() as network:
        run = Run.begin()
        try:
            hub, *others = (Member(run, assets, name) for name in ("hub", *members))
            hub.egress = network.configuration
            await gather(*(cluster.start() for cluster in (hub, *others)))
            await gather(*(cluster.metrics_work() for cluster in (hub, *others)))
            yield HubWithPods(hub, network), {member.name: member for member in others}
        finally:
            run.end()
