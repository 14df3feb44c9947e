"""One control plane: etcd, kube-apiserver and what else it runs, in a folder and on ports of its own."""

import asyncio
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.real import commands
from testbed.real.commands import Ports
from testbed.real.pki import PlanePki
from testbed.stage.api import PlaneApi
from testbed.stage.ports import free_port
from testbed.stage.runs import Run
from testbed.stage.waiting import eventually, gather

DATA = Path(__file__).with_name("data")

START_SECONDS = 120.0  # for one component on a busy machine with two cores; usually 5


@dataclass(frozen=True)
class Answer:
    """What a finished command printed."""

    code: int
    out: str
    err: str


class ControlPlane:
    """A hub or a member. `start` returns when its API answers and its controllers have done something.

    Components can be stopped, killed and started again one by one; ports, data and certificates stay.
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
        self._context = self.pki.client_context("admin")
        self._commands: dict[str, list[str]] = {}

    def api(self, *, token: str | None = None) -> PlaneApi:
        """A client: the plane's administrator, or the bearer of `token`."""
        if token is None:
            return PlaneApi(self.server, self._context)
        return PlaneApi(self.server, self.pki.client_context(None), token=token)

    async def kubectl(self, *arguments: str, stdin: str | None = None, seconds: float = 60) -> Answer:
        """Run kubectl against this plane, as its administrator."""
        command = [str(self.assets / "kubectl"), f"--kubeconfig={self.kubeconfig}"]
        # kubectl caches discovery by host and port, and ports come back in later runs with other planes
        # behind them.
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
        """A kubeconfig for somebody with a certificate of that name."""
        self.pki.client(user, user)
        return self._kubeconfig(user)

    def as_user(self, user: str) -> str:
        """A kubectl flag that makes it somebody with a certificate of that name, instead of the
        administrator.
        """
        return f"--kubeconfig={self.user_kubeconfig(user)}"

    def log(self, component: str) -> Path:
        """The log file of a component."""
        return self.folder / f"{component}.log"

    # ---- components, one by one

    def spawn(self, component: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a component with the command it was given, without waiting for what it does."""
        program, *arguments = self._commands[component]
        self.run.spawn(
            f"{self.name}.{component}",
            [str(self.assets / program), *arguments],
            self.log(component),
            environment=environment,
        )

    async def stop_component(self, component: str, *, grace: float = 5.0) -> None:
        """End a component in order; it stays startable."""
        await asyncio.to_thread(self.run.stop, [f"{self.name}.{component}"], grace=grace)

    async def kill_component(self, component: str) -> None:
        """End a component as a crash would; it stays startable."""
        await asyncio.to_thread(self.run.kill, f"{self.name}.{component}")

    async def start_api_server(self) -> None:
        """Start kube-apiserver (again) and wait until it serves."""
        self.spawn("kube-apiserver")
        await self._until_serving("kube-apiserver", "/readyz")

    def check(self, component: str) -> None:
        """Raise StartFailed if the component has ended."""
        self.run.check(f"{self.name}.{component}", self.log(component))

    # ---- what hubs and members have in common

    async def start_store_and_api(self, *, audit: tuple[Path, Path] | None = None) -> None:
        """Start etcd and kube-apiserver, and wait until objects can be written."""
        self._commands["etcd"] = commands.etcd(self.name, self.folder, self.pki, self.ports)
        self._commands["kube-apiserver"] = commands.kube_apiserver(self.pki, self.ports, audit=audit)
        self.spawn("etcd")
        await self._until_listening("etcd", self.ports.etcd)
        await self.start_api_server()

    def start_controllers(self, *, hub: bool) -> None:
        """Start kube-controller-manager, without waiting."""
        self._commands["kube-controller-manager"] = commands.kube_controller_manager(
            self.name, self.pki, self.ports, self._kubeconfig("kube-controller-manager"), hub=hub
        )
        self.spawn("kube-controller-manager")

    async def controllers_work(self) -> None:
        """Wait until namespaces have their ServiceAccount: /healthz is true seconds before the first
        effect.
        """
        async with self.api() as api:

            async def look() -> Any | None:
                self.check("kube-controller-manager")
                names = await gather(
                    api.find("/api/v1/namespaces/default/serviceaccounts/default"),
                    api.find("/api/v1/namespaces/kube-system/serviceaccounts/default"),
                )
                return None if None in names else names

            await eventually(look, what=f"controllers of {self.name} work", seconds=START_SECONDS)

    async def _until_serving(self, component: str, path: str) -> None:
        async with self.api() as api:

            async def look() -> bool:
                self.check(component)
                status, _, _ = await api.request("GET", path)
                return status == 200

            await eventually(
                look, what=f"{component} of {self.name} serves {path}", seconds=START_SECONDS, every=0.3
            )

    async def _until_listening(self, component: str, port: int) -> None:
        async def look() -> bool:
            self.check(component)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
            return True

        await eventually(look, what=f"{component} of {self.name} listens", seconds=START_SECONDS, every=0.1)

    def _kubeconfig(self, user: str) -> Path:
        return self.pki.kubeconfig(user, self.name, self.server, self.folder / f"{user}.kubeconfig")
