"""Starts and ends a fleet in a box: lean members, a real hub, and several processes of each kind."""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.controller.many_objects import hpa
from benchmarks.fleet.layout import FleetSize
from benchmarks.fleet.members import STATS
from benchmarks.fleet.series import Samples, read_samples
from benchmarks.process_stats import ProcessStats
from certs import CertificateAuthority
from fedhpa.api.rights import ADAPTER, WEBHOOK
from testbed.real.assets import find_assets
from testbed.real.plane import Plane
from testbed.stage import CONTROLLER, Credentials, Processes, cluster_objects, eventually, free_port, gather
from webhook.registration import Endpoint, configurations

CREATE_AT_ONCE: Final = 16
START_SECONDS: Final = 180.0
FHPAS: Final = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/{}/federatedhpas"
MEMBERS: Final = "members"


@dataclass(frozen=True)
class Options:
    """The number of processes of each kind, and the division of the objects among controllers."""

    controllers: int = 4
    adapters: int = 2
    webhooks: int = 2
    member_processes: int = 2
    shard_by: str = "target"


@dataclass
class Box:
    """A running fleet. `say` prints a line of progress."""

    size: FleetSize
    options: Options
    plane: Plane
    processes: Processes
    say: Callable[[str], None]
    controllers: dict[str, int] = field(default_factory=dict)
    adapters: dict[str, int] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    _number: int = 0

    # -- what runs ----------------------------------------------------------------------------------------
    def stats(self) -> dict[str, ProcessStats]:
        """The statistics of each process that runs, by its name."""
        found = {}
        for path in sorted((self.plane.run.folder / "pids").iterdir()):
            if self.plane.run.running(path.name):
                found[path.name] = ProcessStats(int(path.read_text(encoding="utf-8").split()[0]))
        return found

    async def controller_samples(self) -> dict[str, Samples]:
        """The series of each controller that answers."""
        return await self._samples(self.controllers)

    async def member_figures(self) -> dict[str, float]:
        """The sums of what the processes of the members count."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:

            async def ask(port: int) -> dict[str, float]:
                async with session.get(f"https://127.0.0.1:{port}{STATS}") as response:
                    found: dict[str, float] = await response.json()
                    return found

            every = await gather(*(ask(port) for port in self.members.values()))
        return {name: sum(each[name] for each in every) for name in every[0]}

    def adapter_context(self) -> ssl.SSLContext:
        """TLS for a client of the adapters that acts as the hub's front proxy."""
        context = ssl.create_default_context(cadata=self.processes.ca.bundle_pem.decode())
        pki = self.plane.hub.pki
        context.load_cert_chain(pki.file("front-proxy-client.crt"), pki.file("front-proxy-client.key"))
        return context

    # -- start --------------------------------------------------------------------------------------------
    async def start_members(self) -> None:
        """Start the members and register them."""
        folder = self.plane.run.folder / MEMBERS
        folder.mkdir()
        authority = CertificateAuthority.create("members-ca")
        authority.issue_server("members", ips=["127.0.0.1"]).save(folder)
        ports: dict[int, int] = {}
        shares = self.options.member_processes
        for number in range(shares):
            clusters = list(range(number, self.size.clusters, shares))
            ready, config = folder / f"ready-{number}.json", folder / f"config-{number}.json"
            made = {
                "size": {name: getattr(self.size, name) for name in FleetSize.__dataclass_fields__},
                "clusters": clusters,
                "cert": str(folder / "tls.crt"),
                "key": str(folder / "tls.key"),
                "ready": str(ready),
                "begun": str(folder / "begun"),
            }
            config.write_text(json.dumps(made))
            name = f"{MEMBERS}-{number}"
            command = [sys.executable, "-m", "benchmarks.fleet.members", str(config)]
            self.plane.run.spawn(name, command, folder / f"{name}.log")
            await eventually(
                functools.partial(self._started, name, folder / f"{name}.log", ready),
                what=f"{name} serves",
                seconds=START_SECONDS,
            )
            found = {int(cluster): port for cluster, port in json.loads(ready.read_text()).items()}
            ports |= found
            self.members[name] = next(iter(found.values()))
        credentials = Credentials("a-token", authority.bundle_pem)
        async with self.plane.hub.api() as api:
            for cluster, port in sorted(ports.items()):
                server = f"https://127.0.0.1:{port}"
                await api.apply_all(cluster_objects(self.size.cluster(cluster), server, credentials))

    def begin_faults(self) -> None:
        """From now on members are away or slow."""
        (self.plane.run.folder / MEMBERS / "begun").touch()

    async def start_processes(self) -> None:
        """Start webhooks and adapters. The first webhook sets defaults, the last one validates."""
        await self.processes.start()
        await self.processes.stop(CONTROLLER)
        self.adapters[ADAPTER] = self.processes.ports[ADAPTER]
        for number in range(2, self.options.adapters + 1):
            port = free_port()
            self.adapters[self.processes.spawn_another(ADAPTER, number, f"--secure-port={port}")] = port
        for number in range(2, self.options.webhooks + 1):
            port = free_port()
            name = self.processes.spawn_another(WEBHOOK, number, f"--secure-port={port}")
            await self._listens(name, port)
            # One configuration of each kind, because the controller counts others as foreign judges.
            validating = configurations(
                Endpoint(url=f"https://127.0.0.1:{port}"), self.processes.ca.bundle_pem
            )[-1]
            async with self.plane.hub.api() as api:
                await api.apply(validating)
        for name, port in self.adapters.items():
            await self._listens(name, port)

    async def start_controllers(self) -> None:
        """Start all controllers."""
        for _ in range(self.options.controllers):
            self.start_controller()
        for name, port in self.controllers.items():
            await self._listens(name, port)

    def start_controller(self) -> str:
        """Start one more controller, and return its name."""
        self._number += 1
        port = free_port()
        name = self.processes.spawn_another(
            CONTROLLER,
            self._number,
            f"--shards={self.options.controllers}",
            f"--shard-by={self.options.shard_by}",
            f"--metrics-bind-address=127.0.0.1:{port}",
            "--health-probe-bind-address=0",
        )
        self.controllers[name] = port
        return name

    def kill_controller(self) -> str:
        """Kill the first controller, and return its name."""
        name = next(iter(self.controllers))
        del self.controllers[name]
        self.plane.run.kill(name)
        return name

    async def create_objects(self) -> None:
        """Create namespaces and autoscalers. Each autoscaler names its clusters."""
        done, every = 0, self.size.objects
        async with self.plane.hub.api() as api:

            async def create(namespace: str, number: int, name: str) -> None:
                nonlocal done
                names = [self.size.cluster(each) for each in self.size.clusters_of(number)]
                spec = {"syncPeriodSeconds": self.size.period, "clusterAffinity": {"clusterNames": names}}
                body = hpa((namespace, name), spec)
                body["metadata"] = {"namespace": namespace, "name": name}
                await api.send("POST", FHPAS.format(namespace), body=body)
                done += 1
                if done % 1000 == 0:
                    self.say(f"{done} of {every} autoscalers created")

            calls = []
            for number, (namespace, names) in enumerate(self.size.workloads.items()):
                head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                await api.send("POST", "/api/v1/namespaces", body=head)
                calls += [functools.partial(create, namespace, number, name) for name in names]
            await _at_once(CREATE_AT_ONCE, calls)

    async def _samples(self, ports: dict[str, int]) -> dict[str, Samples]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
            found = {}
            for name, port in ports.items():
                try:
                    async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                        found[name] = read_samples(await response.text())
                except (aiohttp.ClientError, TimeoutError):
                    self.say(f"{name} did not show its series")
            return found

    async def _started(self, name: str, log: Path, ready: Path) -> bool:
        self.plane.run.check(name, log)
        return ready.exists()  # noqa: ASYNC240  # asked a few times

    async def _listens(self, name: str, port: int) -> None:
        async def poll() -> bool:
            self.plane.run.check(name, self.processes.log(name))
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return True

        await eventually(poll, what=f"{name} listens", seconds=START_SECONDS)


@asynccontextmanager
async def box(size: FleetSize, options: Options, say: Callable[[str], None]) -> AsyncIterator[Box]:
    """A fleet with all processes and objects. Everything ends with the block, also after a failure."""
    assets = find_assets()
    if assets is None:
        raise RuntimeError("the programs of the hub are missing: run `make real-plane`")
    plane = Plane(assets, members=())
    try:
        say("starting the hub")
        await plane.start()
        made = Box(size, options, plane, Processes(plane), say)
        say(f"starting {size.clusters} members in {options.member_processes} processes")
        await made.start_members()
        say(f"starting {options.webhooks} webhooks and {options.adapters} adapters")
        await made.start_processes()
        say(f"creating {size.objects} autoscalers in {size.namespaces} namespaces")
        await made.create_objects()
        say(f"starting {options.controllers} controllers, shards by {options.shard_by}")
        await made.start_controllers()
        yield made
    finally:
        plane.end()


async def _at_once(count: int, calls: Iterable[Callable[[], Awaitable[Any]]]) -> None:
    """Makes all calls, `count` at a time."""
    waiting = iter(list(calls))

    async def make() -> None:
        for call in waiting:
            await call()

    await gather(*(make() for _ in range(count)))
