"""The demo's stage on embedded planes, which needs only Python."""

import shutil
from collections.abc import Sequence

from demo.curve import Load
from demo.stages import ADAPTER_FLAGS, MEMBERS, NAME, NAMESPACE
from testbed.embedded.plane import Plane
from testbed.stage import CONTROLLER, Processes

# The real plane has the same period (testbed/real/commands.py).
HPA_SYNC_SECONDS = 1.0


class EmbeddedStage:
    """Runs hub and members in this process, and the three product processes as separate processes."""

    description = "embedded, on ports of their own"

    def __init__(self, *, members: Sequence[str] = MEMBERS, load: Load | None = None) -> None:
        self.load = load or Load(quiet=120, peak=1950, rise_seconds=12.0, fall_seconds=5.0)
        self._plane = Plane(members=members, hpa_sync_seconds=HPA_SYNC_SECONDS)
        self._processes = Processes(self._plane, adapter_flags=ADAPTER_FLAGS)
        self.hub = self._plane.hub
        self.members = self._plane.members
        self.has_kubectl = shutil.which("kubectl") is not None
        self.path_lines: list[str] = []

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
        """Closes the hub's port."""
        await self._plane.lose_hub()

    async def start_hub(self) -> None:
        """Opens the hub's port again."""
        await self._plane.bring_back_hub()

    async def demand(self, millis: int, pods: int) -> None:  # noqa: ARG002 - the load model counts the pods
        """Sets the demand in the load model."""
        self._plane.set_demand(NAMESPACE, NAME, millis)

    async def lose(self, name: str) -> None:
        """Closes the member's port."""
        await self._plane.lose(name)

    async def bring_back(self, name: str) -> None:
        """Opens the member's port again."""
        await self._plane.bring_back(name)

    async def end(self) -> None:
        """Ends every process, closes every port and removes every file."""
        await self._plane.end()
