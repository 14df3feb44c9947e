"""A hub and members in memory for the controller's benchmarks; they answer in bytes, as on the wire.

Only the network is left out: connections, TLS, HTTP. Everything behind it is the product's own code:
deadlines, circuit breakers, list and watch, shared lists, decoding, decisions, status.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy
from prometheus_client import CollectorRegistry

from benchmarks.controller.bodies import NO_HPAS, FleetSize, Key, MemberBodies
from controller.decision_series import ControllerMetrics
from controller.federatedhpa import FederatedHPAReconciler, MemberCaches, SnapshotBuilder
from controller.flags import DIRECT, Settings
from fedhpa.api.errors import ApiError
from fedhpa.decision import ControllerSettings
from fedhpa.kube import PAGE_SIZE, SYSTEM, ApiClient, ApiConfig, EventRecorder, Response
from fedhpa.kube.transport import Params
from fedhpa.members import Access, Cluster, ClusterMeta, Member, MemberClient, SharedLists

RECORDS: Final = "/apis/fedhpa.io/"
HPAS: Final = "/apis/autoscaling.karmada.io/v1alpha1/federatedhpas"
# The start of simulated time: 2027-01-15T08:00:00Z.
EPOCH: Final = 1_800_000_000.0
# Lists are cached for all members up to this many pods a workload. Those of larger fleets fill the memory.
MAX_CACHED_PODS: Final = 10
NO_HEADERS: Final = CIMultiDictProxy(CIMultiDict[str]())


class MemberApi(MemberClient):
    """A member's client that answers from `MemberBodies` after `seconds`, or never if `hangs` is set."""

    hangs = False
    seconds = 0.0

    def __init__(self, member: Member, bodies: MemberBodies) -> None:
        super().__init__(
            member.client.config,
            refusal=member._refusal,
            suspect=member._wake.set,
            deadline=3.0,
            clock=asyncio.get_running_loop().time,
        )
        self._bodies = bodies
        self._watches: dict[str, asyncio.Queue[bytes]] = {}

    def push(self, path: str, line: bytes) -> None:
        """Send an event to the watch of the collection, if there is one."""
        if path in self._watches:
            self._watches[path].put_nowait(line)

    @property
    def idle(self) -> bool:
        """True if all pushed events were received."""
        return all(queue.empty() for queue in self._watches.values())

    async def watch(self, path: str, **_: Any) -> AsyncGenerator[bytes, None]:
        """The pushed events."""
        async with self.guarded(path, self.deadline):
            lines = self._watches[path] = asyncio.Queue()
        yield b""
        while True:
            yield await lines.get()

    async def _attempts(self, method: str, path: str, params: Params, *_: Any) -> Response:
        if self.hangs:
            await asyncio.Event().wait()
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if method == "PUT":
            raise AssertionError(f"the benchmark must not scale: {path}")
        return Response(200, NO_HEADERS, self._answer(path, params or {}))

    def _answer(self, path: str, params: Any) -> bytes:
        parts = path.split("/")
        if path.startswith("/api/v1/namespaces/") and path.endswith("/pods"):
            begin, limit = int(params.get("continue") or 0), int(params.get("limit") or 10**9)
            return self._bodies.pods(parts[4], begin, limit)[0]
        if path.startswith("/apis/metrics.k8s.io/"):
            return self._bodies.usage(parts[5])
        if path.endswith("/scale"):
            return self._bodies.scale(parts[5], parts[7])
        if path.startswith("/apis/apps/v1/namespaces/"):
            return self._bodies.deployments(parts[5])
        return NO_HPAS if path.endswith("/horizontalpodautoscalers") else b"{}"


class Hub(ApiClient):
    """The hub. It stores statuses and records, and counts all writes in `writes`.

    A write takes `write_seconds`.
    """

    write_seconds = 0.0

    def __init__(self, keys: Iterable[Key], spec: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__(ApiConfig(server="http://memory"))
        self.objects = {self.path(key): hpa(key, spec) for key in keys}
        self.records: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self._watch: asyncio.Queue[bytes] = asyncio.Queue()

    @staticmethod
    def path(key: Key) -> str:
        """The URL path of an autoscaler."""
        return f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{key[0]}/federatedhpas/{key[1]}"

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: object) -> Response:
        """The answer to one request."""
        if method != "GET":
            self.writes += 1
            if self.write_seconds:
                await asyncio.sleep(self.write_seconds)
        if path == "/apis/apps/v1":
            deployments = {"name": "deployments", "kind": "Deployment", "namespaced": True}
            found = {"kind": "APIResourceList", "apiVersion": "v1", "resources": [deployments]}
            return Response(200, NO_HEADERS, msgspec.json.encode(found))
        if path == HPAS:
            head = {"kind": "FederatedHPAList", "apiVersion": "autoscaling.karmada.io/v1alpha1"}
            metadata = {"resourceVersion": "1"}
            listed = {**head, "metadata": metadata, "items": list(self.objects.values())}
            return Response(200, NO_HEADERS, msgspec.json.encode(listed))
        place = path.removesuffix("/status")
        if path.startswith(RECORDS):
            return self._record(method, place, body or b"{}")
        if method == "PATCH" and place in self.objects:
            self.objects[place]["metadata"] |= msgspec.json.decode(body or b"{}")["metadata"]
        if method == "PUT" and place in self.objects:
            self.objects[place] = msgspec.json.decode(body or b"{}")
            self._watch.put_nowait(b'{"type":"MODIFIED","object":%s}' % (body or b"{}"))
        if place not in self.objects:
            raise ApiError(f"{path} not found", status=404)
        return Response(200, NO_HEADERS, msgspec.json.encode(self.objects[place]))

    def _record(self, method: str, place: str, body: bytes) -> Response:
        if method == "GET" and place not in self.records:
            raise ApiError(f"{place} not found", status=404)
        if method != "GET":
            written = msgspec.json.decode(body)
            metadata = {**written["metadata"], "resourceVersion": str(self.writes)}
            place = f"{place}/{metadata['name']}" if method == "POST" else place
            self.records[place] = {**written, "metadata": metadata}
        return Response(
            201 if method == "POST" else 200, NO_HEADERS, msgspec.json.encode(self.records[place])
        )

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[bytes, None]:
        """An event for each status that is written."""
        yield b""
        while True:
            yield await self._watch.get()


def hpa(key: Key, spec: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """An autoscaler with a target of half of the requested CPU, and these fields of its spec."""
    target = {"type": "Utilization", "averageUtilization": 50}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {
            "namespace": key[0],
            "name": key[1],
            "uid": f"{key[0]}-{key[1]}",
            "resourceVersion": "1",
            "generation": 1,
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": key[1]},
            "minReplicas": 1,
            "maxReplicas": 100_000,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            **spec,
        },
    }


@dataclass
class MemoryFleet:
    """A running hub and members in memory, with the parts of a controller over them."""

    size: FleetSize
    hub: Hub
    members: dict[str, Member]
    caches: MemberCaches
    bodies: MemberBodies
    snapshots: SnapshotBuilder
    reconciler: FederatedHPAReconciler
    metrics: ControllerMetrics
    settings: Settings
    # Seconds added to every clock, so that periods pass without waiting.
    ahead: list[float] = field(default_factory=lambda: [0.0])
    _version: int = 1

    @property
    def keys(self) -> list[Key]:
        """The autoscalers on the hub."""
        return [key for key in self.size.keys if Hub.path(key) in self.hub.objects]

    def api(self, name: str) -> MemberApi:
        """The client of a member."""
        client = self.members[name].client
        assert isinstance(client, MemberApi)
        return client

    def pass_time(self, seconds: float) -> None:
        """Advance all clocks by `seconds`; lists are old then, and usage differs."""
        self.ahead[0] += seconds
        self.bodies.period += 1

    def changes(self, share: float, *, ready: bool = True) -> list[tuple[MemberApi, str, bytes]]:
        """Watch events for a share of all pods: even pods become ready, odd ones not ready, or vice versa."""
        self._version += 1
        each = max(int(1 / share), 1) if share else 0
        lines: list[tuple[MemberApi, str, bytes]] = []
        for name in self.members if share else ():
            api = self.api(name)
            for index, (namespace, workload) in enumerate(self.keys):
                for number in range(self.size.pods):
                    if (index * self.size.pods + number) % each:
                        continue
                    pod = self.bodies.pod(
                        namespace, workload, number, version=self._version, ready=(number % 2 == 0) == ready
                    )
                    path = f"/api/v1/namespaces/{namespace}/pods"
                    lines.append((api, path, b'{"type":"MODIFIED","object":%s}' % pod))
        return lines

    async def apply(self, changes: list[tuple[MemberApi, str, bytes]]) -> None:
        """Push events and wait until all were received."""
        for api, path, line in changes:
            api.push(path, line)
        while not all(self.api(name).idle for name in self.members):  # noqa: ASYNC110  # queues have no event for that
            await asyncio.sleep(0.001)

    def warm(self) -> None:
        """Build the members' bodies now, so that the benchmark does not measure that."""
        for number in range(self.size.namespaces):
            namespace, begin = f"team-{number}", 0
            for self.bodies.period in (0, 1):
                self.bodies.usage(namespace)
            while self.size.pods <= MAX_CACHED_PODS:
                begin = self.bodies.pods(namespace, begin, PAGE_SIZE)[1]
                if not begin:
                    break

    async def list_pods(self) -> None:
        """Fill the pod cache only."""
        for member in self.members.values():
            for number in range(self.size.namespaces):
                await self.caches.pods.reflector(member, f"team-{number}", wait=60.0)

    async def round(self) -> None:
        """Reconcile every object once, one after the other."""
        for key in self.size.keys:
            assert not await self.reconciler.reconcile(key, self.hub.objects[Hub.path(key)])
        await self.reconciler.settle()


@asynccontextmanager
async def memory_fleet(
    size: FleetSize,
    *,
    keep: Callable[[Key], bool] = lambda _: True,
    reconciler: type[FederatedHPAReconciler] = FederatedHPAReconciler,
    api: type[MemberApi] = MemberApi,
    spec: Mapping[str, Any] = MappingProxyType({}),
) -> AsyncIterator[MemoryFleet]:
    """A running fleet of that size; the hub has only the objects that `keep` selects.

    `api` is the client of each member. Each object has these fields in its `spec`.
    """
    ahead, loop_time = [0.0], asyncio.get_running_loop().time

    def clock() -> float:
        return loop_time() + ahead[0]

    def wall() -> float:
        return EPOCH + clock()

    bodies, hub = MemberBodies(size), Hub((key for key in size.keys if keep(key)), spec)
    # The hub in memory has no namespaces, which would identify it.
    settings = Settings(DIRECT, 5, 15.0, 3.0, False, ControllerSettings(), hub_id="bench")
    async with SharedLists(clock=clock) as lists, asyncio.TaskGroup() as group:
        members: dict[str, Member] = {}
        for number in range(size.clusters):
            member = await _member(f"member-{number}", bodies, api)
            members[member.name] = member
            group.create_task(member.run())
        caches = MemberCaches(lists, clock)
        group.create_task(caches.run())
        snapshots = SnapshotBuilder(hub, members, caches, settings, clock=clock)
        metrics = ControllerMetrics(CollectorRegistry(), clock=SYSTEM.monotonic)
        events = EventRecorder(hub, "benchmark", wall=wall)
        running = reconciler(hub, snapshots, events, metrics, settings, wall=wall, clock=clock)
        while not all(member.state.ready for member in members.values()):  # noqa: ASYNC110  # set by each member's probe
            await asyncio.sleep(0.01)
        yield MemoryFleet(size, hub, members, caches, bodies, snapshots, running, metrics, settings, ahead)
        for task in tuple(group._tasks):
            task.cancel()


async def _member(name: str, bodies: MemberBodies, api: type[MemberApi]) -> Member:
    async def reread() -> None:
        return

    cluster = Cluster(metadata=ClusterMeta(name=name))
    member = Member(cluster, reread=reread, clock=asyncio.get_running_loop().time, wall=SYSTEM.wall)
    member.client = api(member, bodies)
    member._identity = type(member._identity)(member.client, member._note_identity)
    await member.observe(cluster, Access("https://memory", "token", None, None, ()))
    return member


def resident_bytes() -> int:
    """The resident memory of this process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
