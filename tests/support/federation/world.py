"""The hub, its members, and everything a test does with them."""

from __future__ import annotations

import asyncio
import copy
import itertools
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiohttp import web

from benchmarks.world.network import Cable, MemoryNetwork
from controller.shards import BY_TARGET, Division
from fedhpa.admission.crd import (
    CLUSTER,
    CRON_FEDERATED_HPA,
    FEDERATED_HPA,
    RECORDS,
    custom_resource_definition,
)
from fedhpa.kube import Clock
from fedhpa.kube.credentials import Credentials, StaticCredentials
from testbed.embedded.api.server import ApiServer, new_namespace
from testbed.embedded.api.types import User
from testbed.embedded.auth.authentication import Authenticator
from testbed.embedded.cluster.controllers import NODES, Controllers
from testbed.embedded.cluster.load import Load
from testbed.embedded.cluster.pods import PODS, is_ready
from testbed.embedded.network.pki import Pki
from testbed.embedded.objects.kinds import CRDS, NAMESPACES
from testbed.embedded.storage.store import Change
from tests.support.federation.controller import Controller, settings_of
from tests.support.federation.planes import (
    ADMIN,
    CLUSTERS,
    DEPLOYMENTS,
    EVENTS,
    HPAS,
    LEASE,
    LEASES,
    NAME,
    NAMESPACE,
    SECRETS,
    TARGET_PERCENT,
    Handler,
    Member,
    Object,
    Plane,
    Rescale,
    Seen,
    deployment,
)
from tests.support.memory_network import MemoryListener
from tests.support.plane_faults import Faults, MetricsThatLie
from tests.support.timing import background, virtual_clock

# Kubelets beat every 10 s; this is often enough for bookmarks, which come every minute.
BEAT_SECONDS = 45.0


class Federation:
    """A running hub and its members. `rescales` are all changes of replicas by any client.

    With `tls` every connection uses TLS. Faults of certificates need that; it costs half as much again.
    """

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        self.clock = virtual_clock()
        self.network = MemoryNetwork()
        self.load = Load()
        self.members: dict[str, Member] = {}
        self.rescales: list[Rescale] = []
        self.ahead: dict[str, float] = {}
        self._folder = folder
        self._tls = tls
        self._runs = itertools.count()
        self.hub = self._plane("hub", Plane)

    def now(self) -> float:
        """Seconds since virtual time began."""
        return self.clock.monotonic()

    def date(self, plane: str = "") -> datetime:
        """The time of day, for the servers; that of a plane may be `ahead`."""
        return datetime.fromtimestamp(self.clock.wall() + self.ahead.get(plane, 0.0), UTC)

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
        return next((entry.get("state", "Answered") for entry in clusters if entry["name"] == cluster), "")

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
        server = ApiServer(name, now=partial(self.date, name))
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
        member.controllers = Controllers(store, partial(self.date, name))
        self.load.join(store)
        member.metrics = MetricsThatLie(
            store, self.load, partial(self.date, name), lambda: member.faults.metric_values
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
        by: str = BY_TARGET,
        kind: str = "",
        ahead: float = 0.0,
        **changes: Any,
    ) -> AsyncIterator[Controller]:
        """A controller with its own identity that takes part in leader election; killed at the end.

        Its clock is `ahead` by so many seconds. `kind` is CRON for a controller of rules. `changes` replace
        settings. With `calm` it renews its Lease and probes its members only every few minutes, for tests
        over days that are about neither.
        """
        identity = f"controller-{next(self._runs)}"
        self.hub.authenticator.tokens[identity] = User(identity, ("system:masters",))
        cable = Cable(self.network)
        config = self.hub.config(credentials or StaticCredentials(f"Bearer {identity}"), cable)
        known = self.clock
        clock = Clock(known.monotonic, lambda: known.wall() + ahead, boot=known.boot, virtual=True)
        division = Division(shards, by)
        controller = Controller(
            identity, config, clock, cable, settings_of(changes), division=division, calm=calm, kind=kind
        )
        try:
            yield controller
        finally:
            await controller.kill()


@asynccontextmanager
async def another_hub(first: Federation) -> AsyncIterator[Federation]:
    """A second hub, in which the same members are registered. The hubs know nothing of each other."""
    second = copy.copy(first)
    second.hub = second._plane("another-hub", Plane)
    _install(second)
    for name in second.members:
        second.join(name)
    async with second.hub.listener:
        yield second


def _install(made: Federation) -> None:
    for definition in (FEDERATED_HPA, CRON_FEDERATED_HPA, CLUSTER, *RECORDS):
        made.hub.server.store.create(CRDS, custom_resource_definition(definition))


@asynccontextmanager
async def federation(
    folder: Path,
    *,
    tls: bool = False,
    ahead: Mapping[str, float] = MappingProxyType({}),
    cpu: Mapping[str, str] = MappingProxyType({}),
    **replicas: int,
) -> AsyncIterator[Federation]:
    """A hub, and one member for each keyword with this many replicas of the workload.

    The clocks of some are `ahead` by so many seconds, and the nodes of some have less `cpu`.
    """
    made = Federation(folder, tls=tls)
    made.ahead.update(ahead)
    _install(made)
    for name, count in replicas.items():
        made.add(name, count, cpu=cpu.get(name, "64"))
    async with made.running():
        yield made
