"""A hub and members in memory for the controller's benchmarks: all they give are bytes, as on the wire.

What is left out is the network itself: connections, TLS, HTTP. Everything behind it is the product's own:
deadlines and breakers, list and watch, shared lists, decoding, decisions, status.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy
from prometheus_client import CollectorRegistry

from benchmarks.decision import pod_bytes
from controller.federatedhpa.member_caches import MemberCaches
from controller.federatedhpa.reconciler import FederatedHPAReconciler
from controller.federatedhpa.snapshot import SnapshotBuilder
from controller.flags import DIRECT, Settings
from controller.telemetry import ControllerMetrics
from fedhpa.api.errors import ApiError
from fedhpa.api.wire import ObjectMeta
from fedhpa.decision import ControllerSettings
from fedhpa.kube.client import PAGE_SIZE, ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.events import EventRecorder
from fedhpa.kube.responses import Response
from fedhpa.kube.transport import Params
from fedhpa.members.client import MemberClient
from fedhpa.members.cluster import Access, Cluster
from fedhpa.members.lists import SharedLists
from fedhpa.members.member import Member

HPAS: Final = "/apis/autoscaling.karmada.io/v1alpha1/federatedhpas"
STARTED: Final = b"2020-01-01T00:00:00Z"
# Half of the request, which is the target: nothing is scaled, and every metric is computed.
USAGE_MILLI: Final = 125
# 2027-01-15T08:00:00Z, when the worlds begin.
EPOCH: Final = 1_800_000_000.0
# The lists of a small fleet are made once for all members; those of a large one would fill the memory.
KEPT_PODS: Final = 10
_NO_HEADERS: Final = CIMultiDictProxy(CIMultiDict[str]())
_POD: Final[dict[str, Any]] = msgspec.json.decode(pod_bytes(1))["items"][0]
_TEMPLATE: Final = msgspec.json.encode(_POD)
# First lists are not what is measured here: they leave out what nobody reads.
_SLIM: Final = msgspec.json.encode(
    {
        "metadata": {key: value for key, value in _POD["metadata"].items() if key != "managedFields"},
        "spec": {
            "containers": [{k: v for k, v in c.items() if k != "env"} for c in _POD["spec"]["containers"]]
        },
        "status": _POD["status"],
    }
)

Key = tuple[str, str]


@dataclass(frozen=True)
class Fleet:
    """How much there is: `objects` autoscalers over `namespaces`, each of `pods` pods in each cluster."""

    objects: int = 1000
    namespaces: int = 20
    clusters: int = 10
    pods: int = 10

    @property
    def keys(self) -> list[Key]:
        """Namespace and name of every autoscaler, and of its Deployment."""
        return [(f"team-{number % self.namespaces}", f"web-{number}") for number in range(self.objects)]

    @property
    def all_pods(self) -> int:
        """How many pods there are, in all clusters."""
        return self.objects * self.clusters * self.pods

    def of(self, namespace: str) -> list[str]:
        """The names in a namespace."""
        return [key[1] for key in self.keys if key[0] == namespace]


class Content:
    """The bodies that a member answers with; those of all members are alike, so they share one."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._usage: dict[tuple[str, int], bytes] = {}
        self._pages: dict[tuple[str, int], tuple[bytes, int]] = {}
        self._names = {f"team-{number}": fleet.of(f"team-{number}") for number in range(fleet.namespaces)}
        # Usage moves a little from list to list, as it does.
        self.turn = 0

    def pod(
        self,
        namespace: str,
        name: str,
        number: int,
        *,
        version: int = 1,
        ready: bool = True,
        template: bytes = _TEMPLATE,
    ) -> bytes:
        """A pod, from its template."""
        return (
            template.replace(b"web-5d9c7b6f4-00000", f"{name}-5d9c7b6f4-{number:05}".encode())
            .replace(b'"app":"web"', f'"app":"{name}"'.encode())
            .replace(
                b'"namespace":"shop"', f'"namespace":"{namespace}","resourceVersion":"{version}"'.encode()
            )
            .replace(b"2026-03-11T10:00:00Z", STARTED)
            .replace(b"2026-03-11T10:00:05Z", STARTED)
            .replace(b'"Ready","status":"True"', b'"Ready","status":"%s"' % (b"True" if ready else b"False"))
        )

    def pods(self, namespace: str, begin: int, count: int) -> tuple[bytes, int]:
        """A page of a pod list, and where the next one begins (0: this was the last)."""
        if (namespace, begin) in self._pages:
            return self._pages[namespace, begin]
        names, each = self._names[namespace], self._fleet.pods
        end = min(begin + count, len(names) * each)
        items = b",".join(
            self.pod(namespace, names[i // each], i % each, template=_SLIM) for i in range(begin, end)
        )
        following = end if end < len(names) * each else 0
        token = str(following or "").encode()
        return b'{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[%s]}' % (
            token,
            items,
        ), following

    def usage(self, namespace: str) -> bytes:
        """A PodMetricsList of a namespace."""
        key = (namespace, self.turn % 2)
        if key not in self._usage:
            self._usage[key] = self._make_usage(namespace, USAGE_MILLI * 1_000_000 + self.turn % 2 * 1000)
        return self._usage[key]

    def _make_usage(self, namespace: str, nano: int) -> bytes:
        items = b",".join(
            b'{"metadata":{"name":"%s-5d9c7b6f4-%05d","namespace":"%s","creationTimestamp":"2026-03-11T13:23:00Z",'
            b'"labels":{"app":"%s","pod-template-hash":"5d9c7b6f4"}},"timestamp":"2026-03-11T13:23:00Z",'
            b'"window":"15.123s","containers":[{"name":"web","usage":{"cpu":"%dn","memory":"131072Ki"}}]}'
            % (name.encode(), number, namespace.encode(), name.encode(), nano)
            for name in self._names[namespace]
            for number in range(self._fleet.pods)
        )
        return b'{"kind":"PodMetricsList","metadata":{},"items":[%s]}' % items

    def deployment(self, namespace: str, name: str) -> dict[str, Any]:
        """A Deployment as a member stores it."""
        labels = {"app": name}
        container = msgspec.json.decode(_TEMPLATE)["spec"]["containers"][0]
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"namespace": namespace, "name": name, "uid": "u", "resourceVersion": "1"},
            "spec": {
                "replicas": self._fleet.pods,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
            "status": {"replicas": self._fleet.pods, "readyReplicas": self._fleet.pods},
        }

    def deployments(self, namespace: str) -> bytes:
        """A DeploymentList of a namespace."""
        items = [self.deployment(namespace, name) for name in self._names[namespace]]
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items})

    def scale(self, namespace: str, name: str) -> bytes:
        """The scale sub-resource of a Deployment."""
        return msgspec.json.encode(
            {
                "metadata": {"namespace": namespace, "name": name, "uid": "u", "resourceVersion": "1"},
                "spec": {"replicas": self._fleet.pods},
                "status": {"replicas": self._fleet.pods, "selector": f"app={name}"},
            }
        )


class MemberApi(MemberClient):
    """A member's client whose wire is a `Content`. `hangs`: it takes requests and answers none."""

    hangs = False

    def __init__(self, member: Member, content: Content) -> None:
        super().__init__(
            member.client.config,
            refusal=member._refusal,
            suspect=member._wake.set,
            deadline=3.0,
            clock=asyncio.get_running_loop().time,
        )
        self._content = content
        self._watches: dict[str, asyncio.Queue[bytes]] = {}

    def push(self, path: str, line: bytes) -> None:
        """Send an event to whoever watches the collection."""
        if path in self._watches:
            self._watches[path].put_nowait(line)

    @property
    def idle(self) -> bool:
        """Whether all events that were pushed have been taken."""
        return all(queue.empty() for queue in self._watches.values())

    async def watch(self, path: str, **_: Any) -> AsyncGenerator[bytes, None]:
        """The events that are pushed."""
        async with self.guarded(path, self.deadline):
            lines = self._watches[path] = asyncio.Queue()
        yield b""
        while True:
            yield await lines.get()

    async def _attempts(self, method: str, path: str, params: Params, *_: Any) -> Response:
        if self.hangs:
            await asyncio.Event().wait()
        if method == "PUT":
            raise AssertionError(f"nothing was to be scaled: {path}")
        return Response(200, _NO_HEADERS, self._answer(path, params or {}))

    def _answer(self, path: str, params: Any) -> bytes:
        parts = path.split("/")
        if path.startswith("/api/v1/namespaces/"):
            begin, limit = int(params.get("continue") or 0), int(params.get("limit") or 10**9)
            return self._content.pods(parts[4], begin, limit)[0]
        if path.startswith("/apis/metrics.k8s.io/"):
            return self._content.usage(parts[5])
        if path.endswith("/scale"):
            return self._content.scale(parts[5], parts[7])
        if path.startswith("/apis/apps/v1/namespaces/"):
            return self._content.deployments(parts[5])
        return b"{}"


class Hub(ApiClient):
    """The hub: it stores what is written, and counts that in `writes`."""

    def __init__(self, keys: Iterable[Key]) -> None:
        super().__init__(ApiConfig(server="http://memory"))
        self.objects = {self.path(key): hpa(key) for key in keys}
        self.writes = 0
        self._watch: asyncio.Queue[bytes] = asyncio.Queue()

    @staticmethod
    def path(key: Key) -> str:
        """Where an autoscaler is."""
        return f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{key[0]}/federatedhpas/{key[1]}"

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: object) -> Response:
        """One call."""
        if method != "GET":
            self.writes += 1
        if path == "/apis/apps/v1":
            deployments = {"name": "deployments", "kind": "Deployment", "namespaced": True}
            return Response(200, _NO_HEADERS, msgspec.json.encode({"resources": [deployments]}))
        if path == HPAS:
            listed = {"metadata": {"resourceVersion": "1"}, "items": list(self.objects.values())}
            return Response(200, _NO_HEADERS, msgspec.json.encode(listed))
        place = path.removesuffix("/status")
        if method == "PUT" and place in self.objects:
            self.objects[place] = msgspec.json.decode(body or b"{}")
            self._watch.put_nowait(b'{"type":"MODIFIED","object":%s}' % (body or b"{}"))
        if place not in self.objects:
            raise ApiError(f"{path} not found", status=404)
        return Response(200, _NO_HEADERS, msgspec.json.encode(self.objects[place]))

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[bytes, None]:
        """The autoscalers, as their status is written."""
        yield b""
        while True:
            yield await self._watch.get()


def hpa(key: Key) -> dict[str, Any]:
    """An autoscaler at half of the requested CPU."""
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
        },
    }


@dataclass
class World:
    """A running world: the parts of a controller over a hub and members in memory."""

    fleet: Fleet
    hub: Hub
    members: dict[str, Member]
    caches: MemberCaches
    content: Content
    snapshots: SnapshotBuilder
    reconciler: FederatedHPAReconciler
    metrics: ControllerMetrics
    settings: Settings
    # Added to every clock: periods pass without waiting for them.
    ahead: list[float] = field(default_factory=lambda: [0.0])
    _version: int = 1

    @property
    def keys(self) -> list[Key]:
        """The autoscalers that there are."""
        return [key for key in self.fleet.keys if Hub.path(key) in self.hub.objects]

    def api(self, name: str) -> MemberApi:
        """A member's wire."""
        client = self.members[name].client
        assert isinstance(client, MemberApi)
        return client

    def pass_time(self, seconds: float) -> None:
        """Let a period pass: lists are old then, and usage is another."""
        self.ahead[0] += seconds
        self.content.turn += 1

    def changes(self, share: float, *, ready: bool = True) -> list[tuple[MemberApi, str, bytes]]:
        """Events for so many of all pods: half of them are ready or not, the others the other way round."""
        self._version += 1
        each = max(int(1 / share), 1) if share else 0
        lines: list[tuple[MemberApi, str, bytes]] = []
        for name in self.members if share else ():
            api = self.api(name)
            for index, (namespace, workload) in enumerate(self.keys):
                for number in range(self.fleet.pods):
                    if (index * self.fleet.pods + number) % each:
                        continue
                    pod = self.content.pod(
                        namespace, workload, number, version=self._version, ready=(number % 2 == 0) == ready
                    )
                    path = f"/api/v1/namespaces/{namespace}/pods"
                    lines.append((api, path, b'{"type":"MODIFIED","object":%s}' % pod))
        return lines

    async def apply(self, changes: list[tuple[MemberApi, str, bytes]]) -> None:
        """Push events and wait until all were taken."""
        for api, path, line in changes:
            api.push(path, line)
        while not all(self.api(name).idle for name in self.members):  # noqa: ASYNC110  # its own queues
            await asyncio.sleep(0)

    def warm(self) -> None:
        """Make the bodies of the members, which a real one has, so that it is not measured."""
        for number in range(self.fleet.namespaces):
            namespace, begin = f"team-{number}", 0
            for self.content.turn in (0, 1):
                self.content.usage(namespace)
            while self.fleet.pods <= KEPT_PODS:
                begin = self.content.pods(namespace, begin, PAGE_SIZE)[1]
                if not begin:
                    break

    async def list_pods(self) -> None:
        """Fill the pod cache, and nothing else."""
        for member in self.members.values():
            for number in range(self.fleet.namespaces):
                await self.caches.pods.reflector(member, f"team-{number}", wait=60.0)

    async def round(self) -> None:
        """Look at every object once, one after the other."""
        for key in self.fleet.keys:
            assert not await self.reconciler.reconcile(key, self.hub.objects[Hub.path(key)])


@asynccontextmanager
async def world(
    fleet: Fleet,
    *,
    keep: Callable[[Key], bool] = lambda _: True,
    reconciler: type[FederatedHPAReconciler] = FederatedHPAReconciler,
) -> AsyncIterator[World]:
    """A world of a fleet, of which the controller has the objects that `keep` says."""
    ahead, loop_time = [0.0], asyncio.get_running_loop().time

    def clock() -> float:
        return loop_time() + ahead[0]

    def wall() -> float:
        return EPOCH + clock()

    content, hub = Content(fleet), Hub(key for key in fleet.keys if keep(key))
    settings = Settings(DIRECT, 5, 15.0, 3.0, False, ControllerSettings())
    async with SharedLists(clock=clock) as lists, asyncio.TaskGroup() as group:
        members = {}
        for number in range(fleet.clusters):
            member = await _member(f"member-{number}", content)
            members[member.name] = member
            group.create_task(member.run())
        caches = MemberCaches(lists, clock)
        group.create_task(caches.run())
        snapshots = SnapshotBuilder(hub, lambda: members, caches, settings, clock=clock)
        metrics = ControllerMetrics(CollectorRegistry())
        events = EventRecorder(hub, "benchmark", wall=wall)
        looks = reconciler(hub, snapshots, events, metrics, settings, wall=wall, clock=clock)
        while not all(member.state.ready for member in members.values()):  # noqa: ASYNC110  # a probe each
            await asyncio.sleep(0.01)
        yield World(fleet, hub, members, caches, content, snapshots, looks, metrics, settings, ahead)
        for task in tuple(group._tasks):
            task.cancel()


async def _member(name: str, content: Content) -> Member:
    async def reread() -> None:
        return

    cluster = Cluster(metadata=ObjectMeta(name=name))
    member = Member(cluster, reread=reread, clock=asyncio.get_running_loop().time)
    member.client = MemberApi(member, content)
    await member.observe(cluster, Access("http://memory", "token", None, None, ()))
    return member


def resident_bytes() -> int:
    """What this process has in memory now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
