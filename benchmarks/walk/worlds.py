"""The processes whose walks are counted: the controller in an emulated fleet, and the adapter.

Each world is a context manager. While it is open, its processes work and `asyncio.sleep` lets time pass. The
controller runs as in the closed loop: from its entry point, in virtual time, over a network in memory. The
adapter runs in real time over TLS.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.adapter.backends import FleetSize as AdapterSize
from benchmarks.adapter.process import surroundings
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.ways import CENTRALIZED, started
from benchmarks.closed_loop.worlds import World, several
from benchmarks.walk.counter import function_at
from benchmarks.world.cluster import NAME, NAMESPACE
from benchmarks.world.hub import FEDERATED
from benchmarks.world.loop import VirtualLoop
from fedhpa.kube import SYSTEM
from fedhpa.serving import Signals
from fedhpa.serving.flags import parse_flags
from metrics_adapter.settings import FLAGS

T = TypeVar("T")

# Nothing else starts the adapter's work, so no package offers it for import.
SERVE: Final = "metrics_adapter.process:serve"

PERIOD_SECONDS: Final = 15.0
# The pods request and use unusual CPU, in milli-units, so that a pod's data is recognised.
POD: Final = "web-0-1"
REQUEST: Final = 80_009
USAGE: Final = 40_009
PODS: Final = 6
LISTED: Final = "/apis/metrics.k8s.io/v1beta1/namespaces/shop-1/pods"
HOUR_SECONDS: Final = 3600.0
QUIET: Final = World(
    "quiet",
    "two clusters in which nothing ever changes",
    several(2, PODS, request=REQUEST),
    lambda _: PODS * USAGE / REQUEST,
    minimum=1,
    maximum=20,
)
RULES: Final = World(
    "rules",
    "the target of a rule, in one cluster",
    several(1, 2),
    lambda _: 0.0,
    1,
    1,
    flags=("--controllers=cronfederatedhpa",),
)
# Its window opens every hour.
CRON: Final[Mapping[str, Any]] = {
    "metadata": {"namespace": NAMESPACE, "name": NAME},
    "spec": {
        "scaleTargetRef": {"apiVersion": FEDERATED, "kind": "FederatedHPA", "name": NAME},
        "rules": [
            {"name": "sale", "schedule": "0 * * * *", "duration": "1m", "targetMinReplicas": 5},
        ],
    },
}


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on an event loop whose time passes at once, so that each run is the same."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


@asynccontextmanager
async def quiet_fleet() -> AsyncIterator[None]:
    """One FederatedHPA with one CPU metric, mode Centralized, over two members; nothing ever changes."""
    async with _running(QUIET):
        yield


@asynccontextmanager
async def rule_with_duration() -> AsyncIterator[float]:
    """One CronFederatedHPA whose window opens every hour; yields the seconds until the first time."""
    async with _running(RULES) as running:
        assert running.hub is not None
        running.hub.store.create(FEDERATED, "cronfederatedhpas", dict(CRON))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        yield HOUR_SECONDS - loop.wall() % HOUR_SECONDS


@asynccontextmanager
async def _running(world: World) -> AsyncIterator[Running]:
    with tempfile.TemporaryDirectory() as folder:
        async with started(world, CENTRALIZED, Path(folder)) as running, asyncio.TaskGroup() as group:
            task = group.create_task(running.run(100 * HOUR_SECONDS, ()))
            yield running
            task.cancel()


@asynccontextmanager
async def adapter() -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """An adapter in this process over two members; yields the LIST of a namespace's pod metrics."""
    with surroundings(AdapterSize(members=2, pods=20, namespaces=2)) as around:
        # Each LIST asks the members, because no list of theirs is young enough.
        flags = [*around.flags, "--metrics-max-age=0s", "--shutdown-grace-period=0s"]
        values, signals, started = parse_flags(FLAGS, flags, {}), Signals(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(function_at(SERVE)(values, signals, lambda _: started.set(), clock=SYSTEM))
            await started.wait()
            await around.ready()
            client = await around.connect()

            async def list_pods() -> None:
                status, _ = await client.get(LISTED)
                assert status == 200, f"the adapter answered {status}"

            yield list_pods
            client.close()
            signals.stop.set()
