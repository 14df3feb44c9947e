"""The stages of the demo: the interface, and the stage on real planes."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import aiohttp

from demo.curve import Load
from fedhpa.api.errors import ApiError
from testbed.real.plane import Plane
from testbed.stage import CONTROLLER, PlaneApi, Processes, gather

MEMBERS = ("member1", "member2", "member3")
NAMESPACE, NAME = "shop", "web"
# The workload of the rules. It runs in the members that stay.
JOBS_NAMESPACE, JOB, JOB_MEMBERS = "jobs", "report", ("member1", "member2")
# A viewer should see changes sooner than after the default of 10 s.
ADAPTER_FLAGS = ("--metrics-max-age=1s",)
NO_ANSWER = (ApiError, aiohttp.ClientError, OSError)


class Reachable(Protocol):
    """A hub or a member."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""

    def api(self) -> PlaneApi:
        """Returns a client with administrator rights."""


class Stage(Protocol):
    """A hub and members that run the workload."""

    load: Load
    description: str

    @property
    def hub(self) -> Reachable:
        """The hub."""

    @property
    def members(self) -> Mapping[str, Reachable]:
        """The members by name."""

    @property
    def has_kubectl(self) -> bool:
        """True if kubectl is available after `path_lines`."""

    @property
    def path_lines(self) -> list[str]:
        """Shell lines that put kubectl on PATH."""

    async def start(self) -> None:
        """Starts hub and members."""

    async def start_processes(self) -> None:
        """Starts webhook, adapter and controller."""

    async def stop_controller(self) -> None:
        """Stops the controller, and returns once it has ended."""

    async def start_controller(self) -> None:
        """Starts the controller, and returns once it is ready."""

    async def stop_hub(self) -> None:
        """Stops the hub's API server."""

    async def start_hub(self) -> None:
        """Starts the hub's API server again."""

    async def demand(self, millis: int, pods: int) -> None:
        """Sets the CPU that the workload's `pods` pods use together, in milli-cores."""

    async def lose(self, name: str) -> None:
        """Stops a member's API server."""

    async def bring_back(self, name: str) -> None:
        """Starts a member's API server again."""

    async def end(self) -> None:
        """Ends every process and removes every file."""


class RealStage:
    """Real control planes, with kwok in place of kubelets."""

    description = "etcd, API servers, controllers, kwok, metrics-server"

    def __init__(self, assets: Path, *, members: Sequence[str] = MEMBERS, load: Load | None = None) -> None:
        # Each metrics-server scrapes every 10 s at its own time. The load rises at once and so high that the
        # first scrape of one member already justifies maxReplicas.
        self.load = load or Load(quiet=120, peak=4500, rise_seconds=1.0, fall_seconds=1.0)
        self._names = members
        self._plane = Plane(assets, members=members)
        self._processes = Processes(self._plane, adapter_flags=ADAPTER_FLAGS)
        self._usage: dict[str, int] = {}
        self._lost: set[str] = set()
        self._pods = len(members)
        self.hub = self._plane.hub
        self.members = self._plane.members
        self.has_kubectl = True
        self.path_lines = [f"export PATH={assets}:$PATH"]

    async def start(self) -> None:
        """Starts hub and members."""
        await self._plane.start()

    async def start_processes(self) -> None:
        """Starts webhook, adapter and controller."""
        await self._processes.start()

    async def stop_controller(self) -> None:
        """Stops the controller, and returns once it has ended."""
        await self._processes.stop(CONTROLLER)

    async def start_controller(self) -> None:
        """Starts the controller, and returns once it is ready."""
        await self._processes.start_one(CONTROLLER)

    async def stop_hub(self) -> None:
        """Kills the hub's API server."""
        await self._plane.hub.kill_component("kube-apiserver")

    async def start_hub(self) -> None:
        """Starts the hub's API server again."""
        await self._plane.hub.start_api_server()

    async def demand(self, millis: int, pods: int) -> None:
        """Sets the usage of each pod in kwok. A lost member keeps its last usage."""
        self._pods = max(1, pods)
        each = max(1, millis // self._pods)
        changed = [name for name in self._names if name not in self._lost and self._usage.get(name) != each]
        await gather(*(self._set_usage(name, each) for name in changed))

    async def lose(self, name: str) -> None:
        """Kills the member's API server."""
        # The load falls at the same time, and kwok cannot be told while its API server is gone.
        await self._set_usage(name, max(1, self.load.quiet // self._pods))
        self._lost.add(name)
        await self._plane.members[name].kill_component("kube-apiserver")

    async def bring_back(self, name: str) -> None:
        """Starts the member's API server again."""
        await self._plane.members[name].start_api_server()
        self._lost.discard(name)

    async def end(self) -> None:
        """Ends every process and removes every file."""
        self._plane.end()

    async def _set_usage(self, name: str, each: int) -> None:
        # A failed update is retried at the next reading.
        with contextlib.suppress(*NO_ANSWER):
            usage = {NAME: {"cpu": f"{each}m", "memory": "48Mi"}}
            await self._plane.members[name].set_usage(NAMESPACE, usage)
            self._usage[name] = each
