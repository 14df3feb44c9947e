"""One running fleet: what the events of a world act on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import structlog

from benchmarks.world.cluster import Cluster
from benchmarks.world.fleet import Fleet
from benchmarks.world.hub import Hub
from benchmarks.world.loop import VirtualLoop
from benchmarks.world.network import Cable, HasContext, MemoryNetwork
from controller.flags import SECTIONS
from controller.process import run
from fedhpa.kube import Clock
from fedhpa.serving import Signals
from fedhpa.serving.flags import parse_flags

# A Lease is renewed and a Cluster's status is written rarely, because neither is what is measured.
CALM_LEASES: Final = (
    "--leader-elect-lease-duration=900s",
    "--leader-elect-renew-deadline=600s",
    "--leader-elect-retry-period=120s",
)
FLAGS: Final = (
    "--propagation=direct",
    "--controllers=federatedhpa",
    "--metrics-bind-address=0",
    "--health-probe-bind-address=0",
    *CALM_LEASES,
)
KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
current-context: hub
contexts: [{{name: hub, context: {{cluster: hub, user: fedhpa}}}}]
clusters: [{{name: hub, cluster: {{server: {server}}}}}]
users: [{{name: fedhpa, user: {{token: fedhpa}}}}]
"""


class Controller:
    """The process `fedhpa-controller` over the network in memory, with virtual time."""

    def __init__(self, hub: Hub, network: MemoryNetwork, folder: Path, flags: Sequence[str]) -> None:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(server=hub.server.server))
        self._values = parse_flags(SECTIONS, [*FLAGS, *flags, f"--kubeconfig={kubeconfig}"], {})
        self._network = network
        self._cable = Cable(network)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the process."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "the controller's hours pass in virtual time"
        clock = Clock(loop.time, loop.wall, boot=loop.time, virtual=True)
        cable = self._cable = Cable(self._network)

        def connect(config: HasContext) -> aiohttp.BaseConnector:
            return cable.connector(config)

        self._task = loop.create_task(run(self._values, Signals(), clock=clock, connect=connect))

    async def kill(self) -> None:
        """Ends the process at once: nothing that it sends from now on arrives."""
        self._cable.cut()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def check(self) -> None:
        """Raises what ended the process, if it has ended."""
        if self._task is not None and self._task.done():
            self._task.result()
            raise RuntimeError("the controller has ended by itself")


class Running:
    """A fleet in its run, with the hub and the controller if the way has them."""

    def __init__(self, fleet: Fleet, hub: Hub | None = None, controller: Controller | None = None) -> None:
        self.fleet = fleet
        self.hub = hub
        self._controller = controller
        self._restarts: set[asyncio.Task[None]] = set()
        # The number of times that the controller was killed.
        self.restarts = 0

    def on(self, name: str, act: Callable[[Cluster], None]) -> None:
        """Calls `act` with a cluster, or with all for the name "".

        In a fleet of one cluster only what happens to all happens.
        """
        if not name:
            for cluster in self.fleet.clusters.values():
                act(cluster)
        elif len(self.fleet.clusters) > 1:
            act(self.fleet.clusters[name])

    def hub_away(self, away: bool) -> None:
        """Stops or starts the hub's API server."""
        if self.hub is not None:
            (self.hub.server.stop if away else self.hub.server.start)()

    def change(self, spec: Mapping[str, Any]) -> None:
        """Changes fields of the FederatedHPA."""
        if self.hub is not None and self.hub.object is not None:
            self.hub.apply({**self.hub.object["spec"], **spec})

    def restart_controller(self) -> None:
        """Kills the controller and starts another one."""
        if self._controller is not None:
            self.restarts += 1
            task = asyncio.get_running_loop().create_task(self._restart(self._controller))
            self._restarts.add(task)
            task.add_done_callback(self._restarts.discard)

    async def _restart(self, controller: Controller) -> None:
        await controller.kill()
        controller.start()

    async def run(self, seconds: float, events: Sequence[tuple[float, Callable[[Running], None]]]) -> None:
        """Lets the time pass, second by second."""
        due = sorted(events, key=lambda event: event[0])
        began = asyncio.get_running_loop().time()
        for second in range(1, int(seconds) + 1):
            await asyncio.sleep(began + second - asyncio.get_running_loop().time())
            while due and due[0][0] < second:
                due.pop(0)[1](self)
            self.fleet.step(float(second))
            if self._controller is not None and not self._restarts:
                self._controller.check()


@contextlib.contextmanager
def quiet() -> Any:
    """Drops the logs of the controller: printing an hour of them takes longer than simulating it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.reset_defaults()


def divided(total: int, number: int) -> list[int]:
    """Returns `total` in `number` parts that differ by at most one."""
    each, rest = divmod(total, number)
    return [each + (index < rest) for index in range(number)]
