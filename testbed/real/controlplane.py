"""One control plane: etcd, kube-apiserver and other components, with their own folder and ports."""

import asyncio
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.real import commands
from testbed.real.commands import Ports
from testbed.real.pki import PlanePki
from testbed.stage import PlaneApi, Run, eventually, free_port, gather

DATA = Path(__file__).with_name("data")

# The default of kube-controller-manager is 15 s. Tests wait for its HPAs.
HPA_SYNC = "1s"
START_SECONDS = 120.0  # for one component on a busy machine with two cores; usually 5


@dataclass(frozen=True)
class Answer:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


class ControlPlane:
    """A hub or a member. `start` returns once the API answers and the controllers work.

    Each component can be stopped, killed and restarted; ports, data and certificates persist.
    """

    def __init__(self, run: Run, assets: Path, name: str) -> None:
        self.name = name
        self.run = run
        self.assets = assets
        self.folder = run.folder / name
        self.folder.mkdir()
        self.ports = Ports(*(free_port() for _ in Ports.__dataclass_fields__))
        self.server = f"https://127.0.0.1:{self.ports.api}"
        self.pki = PlanePki(self.folder / "pki", name)
        self.kubeconfig = self._kubeconfig("admin")
        self.egress: Path | None = None  # an EgressSelectorConfiguration for the API server
        self._context = self.pki.client_context("admin")
        self._commands: dict[str, list[str]] = {}

    def api(self, *, token: str | None = None) -> PlaneApi:
        """Returns a client with administrator rights, or one that sends `token`."""
        if token is None:
            return PlaneApi(self.server, self._context)
        return PlaneApi(self.server, self.pki.client_context(None), token=token)

    async def kubectl(self, *arguments: str, stdin: str | None = None, seconds: float = 60) -> Answer:
        """Runs kubectl against this plane as its administrator."""
        command = [str(self.assets / "kubectl"), f"--kubeconfig={self.kubeconfig}"]
        # kubectl caches discovery by host and port, and later runs reuse ports for other planes.
        command += [f"--cache-dir={self.folder / 'kubectl-cache'}", *arguments]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            async with asyncio.timeout(seconds):
                out, err = await process.communicate(None if stdin is None else stdin.encode())
        except BaseException:
            process.kill()
            await process.wait()
            raise
        return Answer(process.returncode or 0, out.decode(), err.decode())

    def user_kubeconfig(self, user: str) -> Path:
        """Returns a kubeconfig with a client certificate for a user."""
        self.pki.client(user, user)
        return self._kubeconfig(user)

    def as_user(self, user: str) -> str:
        """Returns the kubectl flag for a user with a client certificate."""
        return f"--kubeconfig={self.user_kubeconfig(user)}"

    def log(self, component: str) -> Path:
        """Returns the log file of a component."""
        return self.folder / f"{component}.log"

    # ---- components, one by one

    def spawn(self, component: str, environment: Mapping[str, str] | None = None) -> None:
        """Starts a component and does not wait until it works."""
        program, *arguments = self._commands[component]
        self.run.spawn(
            f"{self.name}.{component}",
            [str(self.assets / program), *arguments],
            self.log(component),
            environment=environment,
        )

    async def kill_component(self, component: str) -> None:
        """Kills a component, which can be started again."""
        await asyncio.to_thread(self.run.kill, f"{self.name}.{component}")

    async def end(self) -> None:
        """Ends all components; those of a whole run end with the run."""
        names = [f"{self.name}.{component}" for component in reversed(self._commands)]
        await asyncio.to_thread(self.run.stop, names, grace=1.0)

    async def start_api_server(self) -> None:
        """Starts or restarts kube-apiserver and waits until it serves."""
        self.spawn("kube-apiserver")
        await self._until_serving("kube-apiserver", "/readyz")

    def check(self, component: str) -> None:
        """Raises StartFailed if the component has ended."""
        self.run.check(f"{self.name}.{component}", self.log(component))

    # ---- what hubs and members have in common

    async def start_store_and_api(self, *, audit: tuple[Path, Path] | None = None) -> None:
        """Starts etcd and kube-apiserver and waits until objects can be written."""
        self._commands["etcd"] = commands.etcd(self.name, self.folder, self.pki, self.ports)
        self._commands["kube-apiserver"] = commands.kube_apiserver(
            self.pki, self.ports, audit=audit, egress=self.egress
        )
        self.spawn("etcd")
        await self._until_listening("etcd", self.ports.etcd)
        await self.start_api_server()

    def start_controllers(self, *, hub: bool, hpa_sync: str = HPA_SYNC) -> None:
        """Starts kube-controller-manager and does not wait."""
        kubeconfig = self._kubeconfig("kube-controller-manager")
        self._commands["kube-controller-manager"] = commands.kube_controller_manager(
            self.name, self.pki, self.ports, kubeconfig, hub=hub, hpa_sync=hpa_sync
        )
        self.spawn("kube-controller-manager")

    async def controllers_work(self) -> None:
        """Waits until namespaces have their ServiceAccount, which takes seconds longer than /healthz."""
        async with self.api() as api:

            async def poll() -> Any | None:
                self.check("kube-controller-manager")
                names = await gather(
                    api.find("/api/v1/namespaces/default/serviceaccounts/default"),
                    api.find("/api/v1/namespaces/kube-system/serviceaccounts/default"),
                )
                return None if None in names else names

            await eventually(poll, what=f"controllers of {self.name} work", seconds=START_SECONDS)

    async def _until_serving(self, component: str, path: str) -> None:
        async with self.api() as api:

            async def poll() -> bool:
                self.check(component)
                status, _, _ = await api.request("GET", path)
                return status == 200

            await eventually(
                poll, what=f"{component} of {self.name} serves {path}", seconds=START_SECONDS, every=0.3
            )

    async def _until_listening(self, component: str, port: int) -> None:
        async def poll() -> bool:
            self.check(component)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
            return True

        await eventually(poll, what=f"{component} of {self.name} listens", seconds=START_SECONDS, every=0.1)

    def _kubeconfig(self, user: str) -> Path:
        return self.pki.kubeconfig(user, self.name, self.server, self.folder / f"{user}.kubeconfig")
