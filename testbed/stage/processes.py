"""The product's three processes on a plane: certificates, permissions on the hub, and registrations."""

import asyncio
import os
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from certs import CertificateAuthority
from fedhpa.api import rights
from fedhpa.api.errors import ApiError
from metrics_adapter.registration import Registration, api_services, service
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.ports import free_port
from testbed.stage.registrations import (
    ADAPTER,
    ADAPTER_SERVICE,
    NAMESPACE,
    cron_that_never_fires,
    hub_rights,
)
from testbed.stage.runs import Run
from testbed.stage.waiting import eventually, gather
from webhook.registration import Endpoint, configurations

WEBHOOK, CONTROLLER = rights.WEBHOOK, rights.CONTROLLER

# Three interpreters start at once, and the hub rechecks an unavailable API only every 30 s.
READY_SECONDS = 150.0
# A process that is killed while it drains does not release its Lease.
STOP_SECONDS = 60.0


class Hub(Protocol):
    """A hub, as the processes need it."""

    def api(self) -> PlaneApi:
        """Returns a client with administrator rights."""

    def user_kubeconfig(self, user: str) -> Path:
        """Returns a kubeconfig for a user of that name."""


class Plane(Protocol):
    """A plane, as the processes need it."""

    @property
    def run(self) -> Run:
        """The run that starts the processes."""

    @property
    def hub(self) -> Hub:
        """The hub that the processes serve."""


class Processes:
    """Starts, stops, kills and restarts webhook, adapter and controller against one plane's hub.

    Each process is started by its installed command, with files and flags. All end with the plane's run. With
    `webhook_reads_the_hub` the webhook also warns about other objects.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        adapter_flags: Sequence[str] = (),
        controller_flags: Sequence[str] = (),
        webhook_reads_the_hub: bool = False,
    ) -> None:
        self._run = plane.run
        self._hub = plane.hub
        self.folder = plane.run.folder / "fedhpa"
        self.folder.mkdir()
        self.ca = CertificateAuthority.create("fedhpa-ca")
        self.ca.save(self.folder)
        self.ports = {name: free_port() for name in (WEBHOOK, ADAPTER, CONTROLLER)}
        self._reader_rights: list[dict[str, Any]] = []
        self.issue(WEBHOOK, dns=["localhost"])
        self.issue(ADAPTER, dns=["localhost", f"{ADAPTER_SERVICE}.{NAMESPACE}.svc"])
        self._commands = {
            WEBHOOK: [*self._webhook(), *(self._reader() if webhook_reads_the_hub else ())],
            ADAPTER: [*self._adapter(), *adapter_flags],
            CONTROLLER: [*self._controller(), *controller_flags],
        }

    def issue(self, name: str, *, dns: Sequence[str]) -> None:
        """Writes a serving certificate into the process's certificate folder. A second call rotates it."""
        self.ca.issue_server(name, dns=dns, ips=["127.0.0.1"]).save(self.folder / name)

    async def start(self) -> None:
        """Starts and registers all three; returns once the hub calls webhook and adapter."""
        async with self._hub.api() as api:
            await api.apply_all([*hub_rights(), *self._reader_rights])
            await gather(*(self.start_one(name) for name in (WEBHOOK, ADAPTER, CONTROLLER)))
            await api.apply_all(
                [
                    *configurations(
                        Endpoint(url=f"https://127.0.0.1:{self.ports[WEBHOOK]}"), self.ca.bundle_pem
                    ),
                    *self.adapter_registrations(),
                ]
            )
        await gather(self.webhook_is_called(), self.metrics_are_available())

    async def start_one(self, name: str, *flags: str) -> None:
        """Starts or restarts one process, with extra flags if given, and waits until it is ready."""
        # The shell's settings for other instances must not apply here.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FEDHPA_")}
        self._run.spawn(name, [*self._commands[name], *flags], self.log(name), environment=environment)
        await self.ready(name)

    def spawn_another(self, name: str, number: int, *flags: str) -> str:
        """Starts a further process of a kind, whose `flags` replace the first one's. Returns its name."""
        another = f"{name}-{number}"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FEDHPA_")}
        self._run.spawn(another, [*self._commands[name], *flags], self.log(another), environment=environment)
        return another

    async def ready(self, name: str) -> None:
        """Waits until /readyz of the process answers 200."""
        scheme = "http" if name == CONTROLLER else "https"
        url = f"{scheme}://127.0.0.1:{self.ports[name]}/readyz"
        context = ssl.create_default_context(cadata=self.ca.bundle_pem.decode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:

            async def poll() -> bool:
                self._run.check(name, self.log(name))
                async with session.get(url, timeout=aiohttp.ClientTimeout(total=5)) as response:
                    return response.status == 200

            await eventually(poll, what=f"{name} is ready", seconds=READY_SECONDS)

    async def stop(self, name: str, *, grace: float = STOP_SECONDS) -> int:
        """Sends SIGTERM and waits for the end; returns the exit code, or minus the signal that ended it."""
        codes = await asyncio.to_thread(self._run.stop, [name], grace=grace)
        return codes[name]

    async def kill(self, name: str) -> None:
        """Sends SIGKILL and waits for the end."""
        await asyncio.to_thread(self._run.kill, name)

    def log(self, name: str) -> Path:
        """Returns the process's log file."""
        return self.folder / f"{name}.log"

    async def webhook_is_called(self) -> None:
        """Waits until the hub, in a dry run, denies an object that only the webhook can deny."""
        async with self._hub.api() as api:

            async def poll() -> bool:
                try:
                    await api.apply(cron_that_never_fires("readiness-probe"), dry_run=True)
                except ApiError as error:
                    return "denied the request" in str(error)
                return False

            await eventually(poll, what="the hub calls the webhook", seconds=READY_SECONDS)

    def adapter_registrations(self) -> list[dict[str, Any]]:
        """Returns the adapter's Service and APIServices, as `fedhpa apiservice` prints them."""
        placement = Registration(
            namespace=NAMESPACE,
            service=ADAPTER_SERVICE,
            port=self.ports[ADAPTER],
            external_name="localhost",
        )
        return [service(placement), *api_services(placement, self.ca.bundle_pem)]

    async def metrics_are_available(self) -> None:
        """Waits until each of the adapter's APIs is Available and answers. It is Available a little before it
        answers.
        """
        registered = [each for each in self.adapter_registrations() if each["kind"] == "APIService"]
        async with self._hub.api() as api:
            await gather(*(self._is_available(api, each) for each in registered))

    async def _is_available(self, api: PlaneApi, registration: dict[str, Any]) -> None:
        name, spec = registration["metadata"]["name"], registration["spec"]

        async def poll() -> bool:
            stored = await api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}")
            served = await api.get(f"/apis/{spec['group']}/{spec['version']}")
            return has_condition(stored, kind="Available") and served["kind"] == "APIResourceList"

        await eventually(poll, what=f"the hub's {name} is Available", seconds=READY_SECONDS)

    def _webhook(self) -> list[str]:
        return [
            *_script(WEBHOOK),
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports[WEBHOOK]}",
            f"--cert-dir={self.folder / WEBHOOK}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        ]

    def _reader(self) -> list[str]:
        self._reader_rights = rights.rights_of("webhook", rights.user(WEBHOOK))
        return [f"--kubeconfig={self._hub.user_kubeconfig(WEBHOOK)}", "--propagation=direct"]

    def _adapter(self) -> list[str]:
        kubeconfig = self._hub.user_kubeconfig(ADAPTER)
        return [
            *_script(ADAPTER),
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports[ADAPTER]}",
            f"--cert-dir={self.folder / ADAPTER}",
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        ]

    def _controller(self) -> list[str]:
        return [
            *_script(CONTROLLER),
            f"--kubeconfig={self._hub.user_kubeconfig(CONTROLLER)}",
            "--propagation=direct",
            "--metrics-via=members",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{self.ports[CONTROLLER]}",
        ]


def _script(name: str) -> list[str]:
    return [str(Path(sys.executable).with_name(name))]
