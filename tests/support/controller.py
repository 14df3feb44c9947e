"""A hub, members whose pods follow their Deployments, and the controller, in this process.

`world` is in memory, and its clock the event loop's: for tests in virtual time. `world_on_sockets` is the
same over TLS, for whole processes.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from benchmarks.world.network import MemoryNetwork
from controller.cluster_status import keep_clusters
from controller.decision_series import ControllerMetrics
from controller.flags import DIRECT, Settings
from controller.shard_work import COMPONENT, lead
from fedhpa.decision import ControllerSettings
from fedhpa.kube import SYSTEM, Clock
from fedhpa.kube.client import ApiClient
from fedhpa.kube.events import EventRecorder
from fedhpa.members.registry import MemberRegistry
from tests.support.fake_responses import failure, merge, parse, with_list_head
from tests.support.fakeapi import CLUSTERS, PODS, Collection, FakeApi, Object, eventually, join
from tests.support.federation import completed_reconciles
from tests.support.members import DEADLINE, REAL_DEADLINE, registry_of
from tests.support.timing import background, virtual_clock

DEPLOYMENTS: Collection = ("apps/v1", "deployments")
USAGE: Collection = ("metrics.k8s.io/v1beta1", "pods")
NAMESPACES: Collection = ("v1", "namespaces")
HPAS: Collection = ("autoscaling.karmada.io/v1alpha1", "federatedhpas")
RECORDS: Collection = ("fedhpa.io/v1alpha1", "scalingrecords")
EVENTS: Collection = ("v1", "events")
LEASES: Collection = ("coordination.k8s.io/v1", "leases")
BINDINGS: Collection = ("work.karmada.io/v1alpha2", "resourcebindings")

NAMESPACE = "shop"
SCALE_PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/web/scale"
METRICS_PATH = "/apis/metrics.k8s.io"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
# Each pod asks for this much, and a target of 50 % is met by half of it.
REQUEST_MILLI = 100
ON_TARGET_MILLI = 50
LONG_AGO = "2020-01-01T00:00:00Z"
PERIOD = 0.15

DISCOVERY = {
    "apps/v1": [
        ("Deployment", "deployments"),
        ("Scale", "deployments/scale"),
        ("StatefulSet", "statefulsets"),
        ("Scale", "statefulsets/scale"),
    ],
    "work.karmada.io/v1alpha2": [("ResourceBinding", "resourcebindings")],
    "argoproj.io/v1alpha1": [("Rollout", "rollouts")],
}


class Plane(FakeApi):
    """An API server with Deployments; with `pods_follow` their pods are created and removed.

    - `usage`: the usage of each pod, in milli-cores.
    - `refused`: the HTTP status to answer, by (method, end of path).
    - `held`: requests, by (method, end of path), that are never answered.
    - `before`: called with each request before it is served.
    - `resized`: called after each change of a Deployment.
    - `admission`: returns why a changed object is refused with 403; "" if it is admitted.
    - `answers`: functions that make the bodies of other paths.
    """

    def __init__(self, *, pods_follow: bool = True, network: MemoryNetwork | None = None) -> None:
        super().__init__(network=network)
        self.usage = ON_TARGET_MILLI
        self.pods_follow = pods_follow
        self.refused: dict[tuple[str, str], int] = {}
        self.held: set[tuple[str, str]] = set()
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.resized: Callable[[], None] = lambda: None
        self.admission: Callable[[Object], str] = lambda changed: ""
        self.served = {"apps/v1"}
        self.answers: dict[str, Callable[[], Object]] = {}

    @property
    def writes(self) -> list[str]:
        """Every request that could change something, in order."""
        return [f"{seen.method} {seen.path}" for seen in self.seen if seen.method != "GET"]

    def request_count(self, method: str, ending: str) -> int:
        """The number of requests with this method and end of path."""
        return sum(seen.method == method and seen.path.endswith(ending) for seen in self.seen)

    def replicas(self, name: str = "web") -> int:
        """The Deployment's spec.replicas."""
        found = self.find(DEPLOYMENTS, name, NAMESPACE)
        assert found is not None
        return int(found["spec"]["replicas"])

    def deploy(self, replicas: int, name: str = "web", app: str = "web", **labels: str) -> None:
        """Create a Deployment, or scale it as another client would; its pods follow."""
        metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": labels}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": app}}}
        self.put(DEPLOYMENTS, {"metadata": metadata, "spec": spec})

    def use(self, milli: int) -> None:
        """From now on every pod uses this much."""
        self.usage = milli
        for pod in self.all(PODS):
            self._measure(pod["metadata"])

    def put(self, collection: Collection, obj: Object) -> Object:
        if collection == DEPLOYMENTS and self.pods_follow:
            obj = {**obj, "status": {"replicas": obj["spec"]["replicas"]}}
        stored = super().put(collection, obj)
        if collection == DEPLOYMENTS:
            if self.pods_follow:
                self._follow(stored)
            self.resized()
        return stored

    def _follow(self, deployment: Object) -> None:
        name, labels = deployment["metadata"]["name"], deployment["spec"]["selector"]["matchLabels"]
        wanted = {f"{name}-{number}" for number in range(deployment["spec"]["replicas"])}
        have = {pod["metadata"]["name"] for pod in self.all(PODS) if pod["metadata"]["owner"] == name}
        for pod in sorted(have - wanted):
            self.remove(PODS, pod, NAMESPACE)
            self.remove(USAGE, pod, NAMESPACE)
        for pod in sorted(wanted - have):
            metadata = {"name": pod, "namespace": NAMESPACE, "labels": labels, "owner": name}
            self.put(PODS, running_pod(metadata))
            self._measure(metadata)

    def _measure(self, metadata: Object) -> None:
        usage = {"cpu": f"{self.usage}m", "memory": "64Mi"}
        container = {"name": "app", "usage": usage}
        times = {"timestamp": "2026-01-01T00:00:00Z", "window": "15s"}
        self.put(USAGE, {"metadata": dict(metadata), **times, "containers": [container]})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.before(request.method, request.path)
        if any(request.method == method and request.path.endswith(end) for method, end in self.held):
            await self._stopping.wait()
        for (method, ending), status in self.refused.items():
            if request.method == method and request.path.endswith(ending):
                body = {"kind": "Status", "code": status, "reason": "Forbidden", "message": "not for you"}
                return web.json_response(body, status=status)
        if request.method == "PATCH" and (refusal := await self._refusal(request)):
            return failure(403, "Forbidden", f"admission webhook denied the request: {refusal}")
        if request.path in self.answers:
            return web.json_response(with_list_head(request.path, self.answers[request.path]()))
        version = request.path.removeprefix("/apis/")
        if version.count("/") <= 1 and request.path.startswith("/apis/"):
            return self._discovery(version)
        return await super()._serve(request)

    async def _refusal(self, request: web.Request) -> str:
        collection, namespace, name, sub = parse(request.path)
        found = None if name is None or sub else self.find(collection, name, namespace)
        return "" if found is None else self.admission(merge(found, await request.json()))

    def _discovery(self, version: str) -> web.Response:
        if version not in self.served:
            return web.Response(status=404, text="404 page not found")
        resources = [
            {"name": plural, "kind": kind, "namespaced": True} for kind, plural in DISCOVERY[version]
        ]
        return web.json_response({"kind": "APIResourceList", "resources": resources})


def running_pod(metadata: Object) -> Object:
    """A pod that has been ready for a long time."""
    container = {"name": "app", "resources": {"requests": {"cpu": f"{REQUEST_MILLI}m"}}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}
    status = {"phase": "Running", "startTime": LONG_AGO, "conditions": [ready]}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": status}


def federated_hpa(name: str = "web", target: str = "web", **spec: Any) -> Object:
    """An autoscaler: 1 to 20 replicas at 50 % of the requested CPU, without a window for scale-down."""
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    defaults = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
        "minReplicas": 1,
        "maxReplicas": 20,
        "metrics": [{"type": "Resource", "resource": resource}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    }
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "generation": 1}
    return {
        "apiVersion": HPAS[0],
        "kind": "FederatedHPA",
        "metadata": metadata,
        "spec": {**defaults, **spec},
    }


def controller_settings(**changes: Any) -> Settings:
    """Settings with short times."""
    settings = Settings(
        propagation=DIRECT,
        concurrent_syncs=3,
        sync_period=PERIOD,
        member_deadline=DEADLINE,
        paused=False,
        decision=ControllerSettings(),
    )
    return dataclasses.replace(settings, **changes)


class Controller:
    """A running controller that leads."""

    def __init__(
        self, task: asyncio.Task[None], registry: CollectorRegistry, members: MemberRegistry
    ) -> None:
        self.task = task
        self.series = registry
        self.members = members

    def value(self, series: str, name: str = "web") -> float | None:
        """A gauge of an autoscaler."""
        return self.series.get_sample_value(series, {"namespace": NAMESPACE, "hpa_name": name})

    def total(self, series: str) -> float:
        """The sum of all samples of a series."""
        metrics = self.series.restricted_registry([series]).collect()
        return sum(sample.value for metric in metrics for sample in metric.samples if sample.name == series)


class ControllerWorld:
    """A hub and its members; autoscalers are put on the hub by the tests."""

    def __init__(
        self, hub: Plane, members: dict[str, Plane], clock: Clock, deadline: float = DEADLINE
    ) -> None:
        self.hub = hub
        self.members = members
        self.clock = clock
        self._deadline = deadline
        self._load = 0
        for member in members.values():
            member.resized = self._spread

    def load(self, milli: int) -> None:
        """From now on all pods of all members together use this much, in equal parts."""
        self._load = milli
        self._spread()

    def _spread(self) -> None:
        if self._load:
            count = sum(self.replicas.values())
            for member in self.members.values():
                member.use(self._load // max(count, 1))

    @property
    def replicas(self) -> dict[str, int]:
        """The workload's spec.replicas in each member."""
        return {name: member.replicas() for name, member in self.members.items()}

    def scale(self, name: str = "web", **spec: Any) -> None:
        """Put an autoscaler on the hub, or change it."""
        obj = federated_hpa(name, **spec)
        stored = self.hub.find(HPAS, name, NAMESPACE)
        if stored is not None:
            obj["metadata"]["generation"] = stored["metadata"]["generation"] + 1
            obj["status"] = stored.get("status")
        self.hub.put(HPAS, obj)

    def status(self, name: str = "web") -> Object:
        """The autoscaler's status; empty before the first one."""
        return (self.hub.find(HPAS, name, NAMESPACE) or {}).get("status") or {}

    def record(self, name: str = "federatedhpa.web") -> Object:
        """The content of a ScalingRecord; empty without one."""
        return (self.hub.find(RECORDS, name, NAMESPACE) or {}).get("status") or {}

    def put_record(self, content: Object, name: str = "federatedhpa.web", **metadata: Any) -> None:
        """Write the content of a ScalingRecord, as another process would."""
        found = self.hub.find(RECORDS, name, NAMESPACE)
        assert found is not None
        self.hub.put(RECORDS, {**found, "metadata": {**found["metadata"], **metadata}, "status": content})

    def condition(self, kind: str, name: str = "web") -> tuple[str, str, str]:
        """(status, reason, message) of a condition."""
        for condition in self.status(name).get("conditions") or ():
            if condition["type"] == kind:
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    def state(self, cluster: str, name: str = "web") -> str:
        """The state of a cluster in status.clusters."""
        clusters = self.status(name).get("clusters") or ()
        return next((entry.get("state", "Answered") for entry in clusters if entry["name"] == cluster), "")

    def events(self, reason: str = "", name: str = "web") -> list[str]:
        """Messages of the events of a reason; reasons of all events without one."""
        found = [event for event in self.hub.all(EVENTS) if event["involvedObject"]["name"] == name]
        if not reason:
            return [event["reason"] for event in found]
        return [event["message"] for event in found if event["reason"] == reason]

    @property
    def status_writes(self) -> int:
        """The number of writes of an autoscaler's status."""
        return self.hub.request_count("PUT", "/web/status")

    async def reconciles(self, controller: Controller, count: int = 3) -> None:
        """Wait until `count` more reconciles were completed."""
        await eventually_more(lambda: reconciliations(controller), count)

    @asynccontextmanager
    async def controller(self, **settings: Any) -> AsyncIterator[Controller]:
        """A running controller without any memory of earlier ones."""
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(ApiClient(self.hub.config()))
            made = controller_settings(**{"member_deadline": self._deadline, **settings})
            # Tests over hours reconcile rarely, and a probe costs as much as a reconcile.
            members = registry_of(client, self.clock, self._deadline, 2 * made.sync_period, made.sources)
            await stack.enter_async_context(background(members.run()))
            registry = CollectorRegistry()
            metrics = ControllerMetrics(registry, clock=self.clock.monotonic)
            metrics.members.watch(lambda: members.members)
            work = lead(made, client, members, metrics, clock=self.clock)
            if not made.paused:
                events = EventRecorder(client, COMPONENT, wall=self.clock.wall)
                keep = keep_clusters(client, members, events, metrics.tokens, self.clock, made.sources)
                await stack.enter_async_context(background(keep))
            task = await stack.enter_async_context(background(work))
            yield Controller(task, registry, members)


def reconciliations(controller: Controller) -> int:
    """The number of completed reconciles."""
    return completed_reconciles(controller.series)


async def eventually_more(count: Callable[[], float], more: int, within: float = 10.0) -> None:
    """Wait until `count` has grown by `more`."""
    begin = count()
    await eventually(lambda: count() >= begin + more, within)


def cluster_object(world: ControllerWorld, name: str) -> Object:
    """The Cluster of a member."""
    found = world.hub.find(CLUSTERS, name)
    assert found is not None
    return found


def world(**replicas: int) -> AbstractAsyncContextManager[ControllerWorld]:
    """A hub in memory, and one member for each keyword with this many replicas of the workload."""
    return _world(MemoryNetwork(), virtual_clock(), replicas)


def world_on_sockets(**replicas: int) -> AbstractAsyncContextManager[ControllerWorld]:
    """The same over TLS and in real time."""
    return _world(None, SYSTEM, replicas)


@asynccontextmanager
async def _world(
    network: MemoryNetwork | None, clock: Clock, replicas: dict[str, int]
) -> AsyncIterator[ControllerWorld]:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(Plane(pods_follow=False, network=network))
        hub.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": "hub"}})
        members: dict[str, Plane] = {}
        for name, count in replicas.items():
            member = members[name] = await stack.enter_async_context(Plane(network=network))
            member.token = f"{name}-token"
            member.deploy(count)
            join(hub, name, member)
        yield ControllerWorld(hub, members, clock, REAL_DEADLINE if network is None else DEADLINE)
