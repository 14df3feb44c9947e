"""Where the demo plays: what a world needs of planes, and the real ones."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import aiohttp

from demo.curve import Load
from fedhpa.api.errors import ApiError
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import Processes
from testbed.stage.waiting import gather

MEMBERS = ("member1", "member2", "member3")
NAMESPACE, NAME = "shop", "web"
# Somebody watches: an answer may not be as old as production allows (10 s).
ADAPTER_FLAGS = ("--metrics-max-age=1s",)
NO_ANSWER = (ApiError, aiohttp.ClientError, OSError)


class Reachable(Protocol):
    """A hub or a member."""

    @property
    def kubeconfig(self) -> Path:
        """Its administrator's kubeconfig."""

    def api(self) -> PlaneApi:
        """A client for its administrator."""


class Stage(Protocol):
    """A hub and members on which a workload is played."""

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
        """Whether a person has kubectl here, after `path_lines`."""

    @property
    def path_lines(self) -> list[str]:
        """Shell lines that bring kubectl."""

    async def start(self) -> None:
        """Start hub and members."""

    async def start_processes(self) -> None:
        """Start webhook, adapter and controller."""

    async def demand(self, millis: int, pods: int) -> None:
        """Let the workload, of so many pods, use so much CPU together."""

    async def lose(self, name: str) -> None:
        """Take a member's API server away."""

    async def bring_back(self, name: str) -> None:
        """Bring it back."""

    async def end(self) -> None:
        """Leave nothing."""


class RealStage:
    """Real control planes, with kwok in the place of kubelets."""

    description = "etcd, API servers, controllers, kwok, metrics-server"
    # metrics-server looks every 10 s, each at its own time. So the load rises at once, and so high that what
    # the first of them sees is reason enough to have all pods; else the new pods wait for a second look.
    load = Load(quiet=120, peak=4500, rise_seconds=1.0, fall_seconds=1.0)

    def __init__(self, assets: Path) -> None:
        self._plane = Plane(assets, members=MEMBERS)
        self._processes = Processes(self._plane, adapter_flags=ADAPTER_FLAGS)
        self._usage: dict[str, int] = {}
        self._lost: set[str] = set()
        self._pods = len(MEMBERS)
        self.hub = self._plane.hub
        self.members = self._plane.members
        self.has_kubectl = True
        self.path_lines = [f"export PATH={assets}:$PATH"]

    async def start(self) -> None:
        """Start hub and members."""
        await self._plane.start()

    async def start_processes(self) -> None:
        """Start webhook, adapter and controller."""
        await self._processes.start()

    async def demand(self, millis: int, pods: int) -> None:
        """Tell kwok what each pod uses; a member that is away keeps what it was told last."""
        self._pods = max(1, pods)
        each = max(1, millis // self._pods)
        changed = [name for name in MEMBERS if name not in self._lost and self._usage.get(name) != each]
        await gather(*(self._set_usage(name, each) for name in changed))

    async def lose(self, name: str) -> None:
        """Kill the member's API server."""
        # The load falls now, and nobody can tell kwok there while it is away.
        await self._set_usage(name, max(1, self.load.quiet // self._pods))
        self._lost.add(name)
        await self._plane.members[name].kill_component("kube-apiserver")

    async def bring_back(self, name: str) -> None:
        """Start the member's API server again."""
        await self._plane.members[name].start_api_server()
        self._lost.discard(name)

    async def end(self) -> None:
        """End every process, remove every file."""
        self._plane.end()

    async def _set_usage(self, name: str, each: int) -> None:
        # What a busy member does not take is tried again at the next look.
        with contextlib.suppress(*NO_ANSWER):
            usage = {NAME: {"cpu": f"{each}m", "memory": "48Mi"}}
            await self._plane.members[name].set_usage(NAMESPACE, usage)
            self._usage[name] = each
