"""The embedded hub and members, and the product's controller and adapter, in memory and virtual time.

Every process runs the product's code from its HTTP client up; the servers are the testbed's. Only sockets,
files and the clock are replaced, for tests marked `looptime`, in which hours pass in seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry

from controller.flags import DIRECT, Settings
from controller.process import lead
from controller.shards import Shard, ShardElection, lease_name
from controller.telemetry import ControllerMetrics
from fedhpa.admission.crd import CLUSTER, CRON_FEDERATED_HPA, FEDERATED_HPA, custom_resource_definition
from fedhpa.api.wire import CLUSTER_ANNOTATION
from fedhpa.decision import ControllerSettings
from fedhpa.kube.client import ApiClient
from fedhpa.kube.clock import Clock
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.credentials import Credentials, StaticCredentials
from fedhpa.kube.leases import LeaseTiming
from fedhpa.members.lists import SharedLists
from fedhpa.members.member import PROBE_SECONDS
from fedhpa.members.registry import MemberRegistry
from fedhpa.serving.authentication import Authenticator as Authentication
from fedhpa.serving.authentication import PeerAuthenticator, Trust
from fedhpa.serving.authorization import Authorizer, Guard
from fedhpa.serving.health import Health
from metrics_adapter.members.source import MembersSource
from metrics_adapter.server.application import build_application
from metrics_adapter.telemetry import Telemetry
from testbed.embedded.api.server import ApiServer, new_namespace
from testbed.embedded.api.types import User
from testbed.embedded.auth.authentication import Authenticator
from testbed.embedded.cluster.controllers import NODES, Controllers
from testbed.embedded.cluster.load import Load
from testbed.embedded.cluster.metrics import MetricsApis
from testbed.embedded.cluster.pods import PODS, is_ready
from testbed.embedded.network.faults import Faults
from testbed.embedded.network.pki import Pki
from testbed.embedded.objects.kinds import CRDS, NAMESPACES
from testbed.embedded.storage.store import Change, Collection
from tests.support.memory_network import Cable, MemoryListener, MemoryNetwork

Object = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

NAMESPACE, NAME = "shop", "web"
DEPLOYMENTS: Collection = ("apps", "deployments")
HPAS: Collection = ("autoscaling.karmada.io", "federatedhpas")
CLUSTERS: Collection = ("cluster.karmada.io", "clusters")
SECRETS: Collection = ("", "secrets")
EVENTS: Collection = ("", "events")
LEASES: Collection = ("coordination.k8s.io", "leases")
LEASE = lease_name(0, 1)
# 2027-01-15T08:00:00Z, when virtual time begins.
EPOCH = 1_800_000_000.0
# Kubelets beat every 10 s; this is often enough for bookmarks, which come every minute.
BEAT_SECONDS = 45.0
REQUEST_MILLIS = 100
TARGET_PERCENT = 50
ADMIN = User("admin", ("system:masters",))

# Time passes only when nothing is left to do: what is sent in memory needs no extra rounds of the loop.
VIRTUAL = {"noop_cycles": 0}


def clock_of_loop() -> Clock:
    """The running loop's clock, starting at EPOCH."""
    monotonic = asyncio.get_running_loop().time
    return Clock(monotonic, lambda: EPOCH + monotonic())


async def until(holds: Callable[[], object], within: float = 120.0) -> None:
    """Let time pass until `holds` is true, looking every tenth of a second; fail after `within` seconds."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110  # other people's state has no event
            await asyncio.sleep(0.1)


@dataclass(frozen=True)
class Seen:
    """A request that a server answered, and when, in seconds of the loop's clock."""

    at: float
    user: str
    method: str
    path: str
    query: dict[str, str]

    @property
    def writes(self) -> bool:
        return self.method != "GET"


Hook = Callable[[Seen], Awaitable[None]]


async def nothing(_: Seen) -> None:
    """The hook that does nothing."""


@dataclass
class Plane:
    """One API server in the network; `seen` are the requests it was sent.

    `before` is awaited before each of them is served, `after` before its answer goes out.
    """

    name: str
    server: ApiServer
    listener: MemoryListener
    faults: Faults
    pki: Pki
    authenticator: Authenticator
    seen: list[Seen] = field(default_factory=list)
    before: Hook = field(default=nothing)
    after: Hook = field(default=nothing)

    def writes(self, part: str = "") -> list[Seen]:
        """The requests that could change something, with a part of their path."""
        return [seen for seen in self.seen if seen.writes and part in seen.path]

    def config(self, credentials: Credentials, cable: Cable) -> ApiConfig:
        """For a client of it."""
        return ApiConfig(
            server=self.listener.server,
            ssl=self.pki.client(),
            credentials=credentials,
            name=self.name,
            connector=cable.connector,
        )

    def all(self, collection: Collection) -> list[Object]:
        return self.server.store.list(collection)


class Member(Plane):
    """A cluster with one node and a workload."""

    controllers: Controllers
    metrics: MetricsApis

    @property
    def replicas(self) -> int:
        """The workload's spec.replicas."""
        return int(self.server.store.get(DEPLOYMENTS, NAMESPACE, NAME)["spec"]["replicas"])

    def resize(self, replicas: int) -> None:
        """Scale it as another client would."""
        found = self.server.store.get(DEPLOYMENTS, NAMESPACE, NAME)
        found["spec"]["replicas"] = replicas
        self.server.store.update(DEPLOYMENTS, found)


@dataclass(frozen=True)
class Rescale:
    """A change of a member's replicas, in seconds of the loop's clock."""

    at: float
    member: str
    replicas: int


class Federation:
    """A running hub and its members. `rescales` are all changes of replicas by any client.

    With `tls` every connection uses TLS. Faults of certificates need that; it costs half as much again.
    """

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        self.clock = clock_of_loop()
        self.network = MemoryNetwork()
        self.load = Load()
        self.members: dict[str, Member] = {}
        self.rescales: list[Rescale] = []
        self._folder = folder
        self._tls = tls
        self._runs = itertools.count()
        self.hub = self._plane("hub", Plane)

    def now(self) -> float:
        """Seconds since virtual time began."""
        return self.clock.monotonic()

    def date(self) -> datetime:
        """The time of day, for the servers."""
        return datetime.fromtimestamp(self.clock.wall(), UTC)

    # -- what there is --------------------------------------------------------------------------------
    @property
    def replicas(self) -> dict[str, int]:
        """The workload's spec.replicas, by member."""
        return {name: member.replicas for name, member in self.members.items()}

    @property
    def ready_pods(self) -> int:
        """The number of ready pods of all members."""
        return sum(is_ready(pod) for member in self.members.values() for pod in member.all(PODS))

    @property
    def total(self) -> int:
        return sum(self.replicas.values())

    def demand(self, millis: int) -> None:
        """From now on the workload's load is this much CPU, in milli-cores."""
        self.load.demand(NAMESPACE, NAME, millis)

    def scale(self, name: str = NAME, **spec: Any) -> None:
        """Put an autoscaler of the workload on the hub: 1 to 20 replicas at 50 % of the requested CPU."""
        resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": TARGET_PERCENT}}
        defaults = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": 1,
            "maxReplicas": 20,
            "metrics": [{"type": "Resource", "resource": resource}],
        }
        metadata = {"namespace": NAMESPACE, "name": name}
        head = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "metadata": metadata}
        self.hub.server.store.create(HPAS, {**head, "spec": {**defaults, **spec}})

    def status(self, name: str = NAME) -> Object:
        """The autoscaler's status; empty before the first one."""
        return self.hub.server.store.get(HPAS, NAMESPACE, name).get("status") or {}

    def condition(self, kind: str) -> tuple[str, str, str]:
        """(status, reason, message) of a condition."""
        for condition in self.status().get("conditions") or ():
            if condition["type"] == kind:
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    def state(self, cluster: str) -> str:
        """The state of a cluster in status.clusters."""
        clusters = self.status().get("clusters") or ()
        return next((entry["state"] for entry in clusters if entry["name"] == cluster), "")

    def events(self, reason: str = "") -> list[Object]:
        """The events about autoscalers, of one reason or all."""
        about = [e for e in self.hub.all(EVENTS) if e["involvedObject"]["kind"] == "FederatedHPA"]
        return [event for event in about if reason in ("", event["reason"])]

    @property
    def holder(self) -> str:
        """The holder of the Lease; "" without one."""
        lease = self.hub.server.store.find(LEASES, "kube-system", LEASE)
        return str(lease["spec"].get("holderIdentity") or "") if lease else ""

    # -- life -----------------------------------------------------------------------------------------
    def _plane(self, name: str, kind: type[Plane]) -> Any:
        pki = Pki(self._folder / name, name)
        server = ApiServer(name, now=self.date)
        server.store.create(NAMESPACES, new_namespace(NAMESPACE))
        authenticator = Authenticator(server.store, pki.ca.bundle_pem, self.date)
        authenticator.tokens["admin"] = ADMIN
        server.authenticate = authenticator.authenticate
        listener = MemoryListener(self.network, server.app, pki.serving() if self._tls else None)
        plane = kind(name, server, listener, Faults(server.app, listener, pki), pki, authenticator)
        server.app.middlewares.insert(0, self._recorder(plane))
        return plane

    def _recorder(self, plane: Plane) -> Any:
        @web.middleware
        async def record(request: web.Request, handler: Handler) -> web.StreamResponse:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            query = dict(request.query)
            seen = Seen(self.now(), token, request.method, request.path, query)
            plane.seen.append(seen)
            await plane.before(seen)
            answer = await handler(request)
            await plane.after(seen)
            return answer

        return record

    def add(self, name: str, replicas: int, *, cpu: str = "64") -> Member:
        """Create a member with one node and the workload, and join it. Call this before `running`."""
        member: Member = self._plane(name, Member)
        self.members[name] = member
        store = member.server.store
        member.authenticator.tokens[f"{name}-token"] = User("fedhpa-hub", ("system:masters",))
        member.controllers = Controllers(store, self.date)
        self.load.join(store)
        member.metrics = MetricsApis(
            store, self.load, self.date, invalid_values=lambda: member.faults.metric_values
        )
        member.server.route = member.metrics.handler
        allocatable = {"cpu": cpu, "memory": "256Gi", "pods": "500"}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        store.create(NODES, {"metadata": {"name": "node"}, "status": {"allocatable": allocatable, **ready}})
        store.create(DEPLOYMENTS, deployment(replicas))
        store.subscribe(lambda change: self._note(name, change))
        self.join(name)
        return member

    def _note(self, member: str, change: Change) -> None:
        if change.collection == DEPLOYMENTS and change.old is not None:
            before, after = (obj["spec"]["replicas"] for obj in (change.old, change.object))
            if before != after:
                self.rescales.append(Rescale(self.now(), member, after))

    def join(self, name: str, token: str = "") -> None:
        """Register the member on the hub, or change its token there."""
        member, store = self.members[name], self.hub.server.store
        data = {
            "token": b64encode((token or f"{name}-token").encode()).decode(),
            "caBundle": b64encode(member.pki.ca.bundle_pem).decode(),
        }
        metadata = {"namespace": "kube-system", "name": name}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        if store.find(SECRETS, "kube-system", name) is None:
            store.create(SECRETS, secret)
        else:
            store.update(SECRETS, secret)
        if store.find(CLUSTERS, "", name) is None:
            head = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
            spec = {"syncMode": "Push", "apiEndpoint": member.listener.server, "secretRef": metadata}
            store.create(CLUSTERS, {**head, "metadata": {"name": name}, "spec": spec})

    def part(self, name: str) -> None:
        """Remove the member's Cluster from the hub."""
        self.hub.server.store.delete(CLUSTERS, "", name)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all servers, and the controllers of the members' pods."""
        async with AsyncExitStack() as stack:
            for plane in (self.hub, *self.members.values()):
                await stack.enter_async_context(plane.listener)
                await stack.enter_async_context(background(self._beat(plane)))
            for member in self.members.values():
                await stack.enter_async_context(background(member.controllers.run()))
            yield

    async def _beat(self, plane: Plane) -> None:
        """Write a Lease regularly, as kubelets do, so that resourceVersions change and bookmarks are sent."""
        metadata = {"namespace": "kube-node-lease", "name": "node"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        plane.server.store.create(LEASES, {**lease, "spec": {}})
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            plane.server.store.update(LEASES, {**lease, "spec": {"renewTime": self.date().isoformat()}})

    @asynccontextmanager
    async def controller(
        self,
        *,
        credentials: Credentials | None = None,
        calm: bool = False,
        shards: int = 1,
        **changes: Any,
    ) -> AsyncIterator[Controller]:
        """A controller with its own identity that takes part in leader election; killed at the end.

        `changes` replace settings. With `calm` it renews its Lease and probes its members only every few
        minutes, for tests over days that are about neither.
        """
        identity = f"controller-{next(self._runs)}"
        self.hub.authenticator.tokens[identity] = User(identity, ("system:masters",))
        cable = Cable(self.network)
        config = self.hub.config(credentials or StaticCredentials(f"Bearer {identity}"), cable)
        controller = Controller(
            identity, config, self.clock, cable, settings_of(changes), shards=shards, calm=calm
        )
        try:
            yield controller
        finally:
            await controller.kill()


class Controller:
    """The work of one process: `controller.process` without flags, files, signals and HTTP listeners.

    All its connections use `cable`.
    """

    def __init__(
        self,
        identity: str,
        config: ApiConfig,
        clock: Clock,
        cable: Cable,
        settings: Settings,
        *,
        shards: int = 1,
        calm: bool = False,
    ) -> None:
        self.identity = identity
        self.cable = cable
        self.series = CollectorRegistry()
        self._ended = False
        self._hub = ApiClient(config)
        self.members = MemberRegistry(
            self._hub,
            deadline=settings.member_deadline,
            probe_period=300.0 if calm else PROBE_SECONDS,
            clock=clock.monotonic,
            wall=clock.wall,
        )
        self._counted = metrics = CountedMetrics(self.series)
        counts = dict[Shard, int]()
        self.working: set[Shard] = set()

        async def work(shard: Shard) -> None:
            self.working.add(shard)
            try:
                await lead(
                    settings, self._hub, self.members, metrics, shard=shard, counts=counts, clock=clock
                )
            finally:
                self.working.discard(shard)

        self.election = ShardElection(
            self._hub,
            "kube-system",
            identity,
            shards,
            timing=LeaseTiming(900.0, 600.0, 120.0) if calm else LeaseTiming(),
            clock=clock,
            rng=random.Random(identity),
        )
        self.elector = self.election.electors[0]
        self._tasks = [
            asyncio.create_task(self.members.run(), name=f"{identity} members"),
            asyncio.create_task(self.election.run(work), name=f"{identity} election"),
        ]

    @property
    def leads(self) -> bool:
        return self.elector.is_leader

    @property
    def held(self) -> list[int]:
        """The shards that it holds."""
        return self.election.held

    @property
    def reconciles(self) -> int:
        """The number of completed reconciles."""
        return self._counted.reconciles

    async def more_reconciles(self, count: int, within: float = 600.0) -> None:
        """Let time pass until `count` more reconciles were completed."""
        begin = self.reconciles
        await until(lambda: self.reconciles >= begin + count, within)

    async def stop(self) -> None:
        """End as SIGTERM ends it: the Lease is given back."""
        if self._ended:
            return
        self._ended = True
        for task in reversed(self._tasks):
            assert not task.done(), task
            task.cancel()
            await asyncio.wait([task])
        await self._hub.close()

    async def kill(self) -> None:
        """End as SIGKILL ends it: its connections are gone, and nothing is given back."""
        self.cable.cut()
        await self.stop()


class CountedMetrics(ControllerMetrics):
    """The metrics, and the number of reconciles as an integer that is cheap to poll."""

    reconciles = 0

    def record_decision(self, *args: Any, **kwargs: Any) -> None:
        super().record_decision(*args, **kwargs)
        self.reconciles += 1

    def record_failure(self, seconds: float) -> None:
        super().record_failure(seconds)
        self.reconciles += 1


def completed_reconciles(series: CollectorRegistry) -> int:
    """The number of reconciles in a controller's series, without computing its other series."""
    name = "horizontal_pod_autoscaler_controller_reconciliations_total"
    metrics = series.restricted_registry([name]).collect()
    return int(sum(sample.value for metric in metrics for sample in metric.samples if sample.name == name))


def settings_of(changes: dict[str, Any]) -> Settings:
    """The defaults of the flags with `changes`; durations in seconds."""
    values: dict[str, Any] = {
        "propagation": DIRECT,
        "concurrent_syncs": 5,
        "sync_period": 15.0,
        "member_deadline": 3.0,
        "paused": False,
        "decision": ControllerSettings(),
    }
    return Settings(**{**values, **changes})


def deployment(replicas: int) -> Object:
    """The workload."""
    container = {
        "name": "web",
        "image": "web",
        "resources": {"requests": {"cpu": f"{REQUEST_MILLIS}m", "memory": "64Mi"}},
    }
    template = {"metadata": {"labels": {"app": NAME}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": NAMESPACE, "name": NAME},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": NAME}}, "template": template},
    }


@asynccontextmanager
async def background(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run work that must not end by itself."""
    task: asyncio.Task[None] = asyncio.create_task(work)
    try:
        yield task
        assert not task.done(), task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def federation(folder: Path, *, tls: bool = False, **replicas: int) -> AsyncIterator[Federation]:
    """A hub, and one member for each keyword with this many replicas of the workload."""
    made = Federation(folder, tls=tls)
    for definition in (FEDERATED_HPA, CRON_FEDERATED_HPA, CLUSTER):
        made.hub.server.store.create(CRDS, custom_resource_definition(definition))
    for name, count in replicas.items():
        made.add(name, count)
    async with made.running():
        yield made


@dataclass(frozen=True)
class Answer:
    """An answer of the adapter, and the seconds that it took."""

    status: int
    body: Object
    warnings: list[str]
    seconds: float

    @property
    def clusters(self) -> dict[str, int]:
        """The number of items of each cluster."""
        clusters = [item["metadata"]["annotations"][CLUSTER_ANNOTATION] for item in self.body["items"]]
        return {name: clusters.count(name) for name in sorted(set(clusters))}


class Adapter:
    """The adapter's application without access control, which other tests cover."""

    def __init__(self, federation: Federation, session: aiohttp.ClientSession, server: str) -> None:
        self._federation = federation
        self._session = session
        self._server = server

    async def get(self, path: str = "/apis/metrics.k8s.io/v1beta1/pods") -> Answer:
        began = self._federation.now()
        async with self._session.get(self._server + path) as response:
            body = await response.json()
            seconds = self._federation.now() - began
            return Answer(response.status, body, response.headers.getall("Warning", []), seconds)

    async def metrics(self) -> str:
        async with self._session.get(self._server + "/metrics") as response:
            return await response.text()


@asynccontextmanager
async def adapter(federation: Federation, *, max_age: float = 0.0) -> AsyncIterator[Adapter]:
    """A client of the adapter over a federation, once each member answered or its deadline passed."""
    clock, cable = federation.clock, Cable(federation.network)
    federation.hub.authenticator.tokens["adapter"] = ADMIN
    config = federation.hub.config(StaticCredentials("Bearer adapter"), cable)
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(ApiClient(config))
        members = MemberRegistry(hub, clock=clock.monotonic, wall=clock.wall)
        lists = await stack.enter_async_context(SharedLists(clock=clock.monotonic))
        await stack.enter_async_context(background(members.run()))
        telemetry = Telemetry(lambda: members.members)
        source = MembersSource(lambda: members.members, lists, max_age=max_age, observer=telemetry)
        peers = PeerAuthenticator(Trust())
        guard = Guard(Authentication(lambda: peers), Authorizer(hub), ["/*"])
        application = build_application(source, guard, Health(), telemetry)
        listener = await stack.enter_async_context(MemoryListener(federation.network, application))
        connector = cable.connector(ApiConfig(server=listener.server))
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        await until(members.synced)
        yield Adapter(federation, session, listener.server)
