"""The processes whose walks are counted: the controller over hub and members in memory, and the adapter.

Each world is a context manager. While it is open, its processes work and `asyncio.sleep` lets time pass. The
controller's time is virtual, and its hub and members answer without HTTP: transport and credentials of the
API client are not in its walks. The adapter runs in real time over TLS.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import looptime
from prometheus_client import CollectorRegistry

from benchmarks.adapter.backends import FleetSize as AdapterSize
from benchmarks.adapter.process import surroundings
from benchmarks.controller.bodies import FleetSize
from benchmarks.controller.fleet import EPOCH, MemberApi, memory_fleet
from benchmarks.cron_rules import API_VERSION, CREATED, NAMESPACE, Hub
from benchmarks.walk.counter import function_at
from controller.cronfederatedhpa import CronMetrics
from controller.flags import DIRECT, Settings
from fedhpa.decision import ControllerSettings
from fedhpa.kube import Clock, EventRecorder
from fedhpa.members import Member, MemberRegistry
from fedhpa.serving import Signals
from fedhpa.serving.flags import parse_flags
from metrics_adapter.settings import FLAGS

T = TypeVar("T")

# The works of the processes. Nothing else starts them, so no package offers them for import.
RUN_AUTOSCALERS: Final = "controller.process:lead"
RUN_RULES: Final = "controller.process:lead_rules"
SERVE: Final = "metrics_adapter.process:serve"

QUIET: Final = FleetSize(objects=1, namespaces=1, clusters=2, pods=3)
PERIOD_SECONDS: Final = 15.0
# One pod of each member has its own request and usage of CPU in milli-units, so that its data is recognised.
# Their ratio is that of the other pods.
POD: Final = "web-0-5d9c7b6f4-00001"
REQUEST: Final = "80009"
USAGE: Final = "40009"
LISTED: Final = "/apis/metrics.k8s.io/v1beta1/namespaces/shop-1/pods"
HOUR_SECONDS: Final = 3600.0
# Its window opens every hour.
CRON: Final[Mapping[str, Any]] = {
    "apiVersion": API_VERSION,
    "kind": "CronFederatedHPA",
    "metadata": {"namespace": NAMESPACE, "name": "web"},
    "spec": {
        "scaleTargetRef": {"apiVersion": API_VERSION, "kind": "FederatedHPA", "name": "web"},
        "rules": [
            {"name": "sale", "schedule": "0 * * * *", "duration": "1m", "targetMinReplicas": 5},
        ],
    },
}


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on an event loop whose time passes at once, so that each run is the same."""
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=0)) as runner:
        return runner.run(main)


@asynccontextmanager
async def quiet_fleet() -> AsyncIterator[None]:
    """One FederatedHPA with one CPU metric, mode Centralized, over two members; nothing ever changes."""
    clock = _clock(EPOCH)
    async with memory_fleet(QUIET, api=_MarkedMember) as fleet:
        lead, members = function_at(RUN_AUTOSCALERS), _members(fleet.members)
        async with _running(lead(fleet.settings, fleet.hub, members, fleet.metrics, clock=clock)):
            yield


@asynccontextmanager
async def rule_with_duration() -> AsyncIterator[float]:
    """One CronFederatedHPA whose window opens every hour; yields the seconds until the first time."""
    hub, clock = Hub([dict(CRON)]), _clock(CREATED)
    settings = Settings(DIRECT, 5, 15.0, 3.0, False, ControllerSettings())
    events, metrics = EventRecorder(hub, "walk", wall=clock.wall), CronMetrics(CollectorRegistry())
    lead = function_at(RUN_RULES)
    async with _running(lead(settings, hub, _members({}), events, metrics, clock=clock)):
        yield HOUR_SECONDS - clock.wall() % HOUR_SECONDS


def _clock(began: float) -> Clock:
    now = asyncio.get_running_loop().time
    return Clock(now, lambda: began + now())


def _members(members: Mapping[str, Member]) -> MemberRegistry:
    """The members as the registry shows them, without the watch that finds them."""
    registry: Any = SimpleNamespace(members=members, synced=lambda: True)
    found: MemberRegistry = registry
    return found


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()


@asynccontextmanager
async def adapter() -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """An adapter in this process over two members; yields the LIST of a namespace's pod metrics."""
    with surroundings(AdapterSize(members=2, pods=20, namespaces=2)) as around:
        # Each LIST asks the members, because no list of theirs is young enough.
        flags = [*around.flags, "--metrics-max-age=0s", "--shutdown-grace-period=0s"]
        values, signals, started = parse_flags(FLAGS, flags, {}), Signals(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(function_at(SERVE)(values, signals, lambda _: started.set()))
            await started.wait()
            await around.ready()
            client = await around.connect()

            async def list_pods() -> None:
                status, _ = await client.get(LISTED)
                assert status == 200, f"the adapter answered {status}"

            yield list_pods
            client.close()
            signals.stop.set()


class _MarkedMember(MemberApi):
    """A member with the marked pod among the others."""

    def _answer(self, path: str, params: Any) -> bytes:
        before, name, after = super()._answer(path, params).partition(POD.encode())
        for usual, marked in ((b'"250m"', f'"{REQUEST}m"'), (b'"125000000n"', f'"{USAGE}000000n"')):
            after = after.replace(b'"cpu":' + usual, b'"cpu":' + marked.encode(), 1)
        return before + name + after
