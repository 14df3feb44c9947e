"""The API servers of a federation in memory: the hub, and members with one node and a workload."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from benchmarks.world.network import Cable
from controller.shards import Shard
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.credentials import Credentials
from testbed.embedded.api.server import ApiServer
from testbed.embedded.api.types import User
from testbed.embedded.auth.authentication import Authenticator
from testbed.embedded.cluster.controllers import Controllers
from testbed.embedded.cluster.metrics import MetricsApis
from testbed.embedded.network.pki import Pki
from testbed.embedded.storage.store import Collection
from tests.support.memory_network import MemoryListener
from tests.support.plane_faults import Faults

Object = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

NAMESPACE, NAME = "shop", "web"
DEPLOYMENTS: Collection = ("apps", "deployments")
HPAS: Collection = ("autoscaling.karmada.io", "federatedhpas")
CLUSTERS: Collection = ("cluster.karmada.io", "clusters")
SECRETS: Collection = ("", "secrets")
EVENTS: Collection = ("", "events")
LEASES: Collection = ("coordination.k8s.io", "leases")
LEASE = Shard().lease
REQUEST_MILLIS = 100
TARGET_PERCENT = 50
ADMIN = User("admin", ("system:masters",))


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
    """One API server in the network. `seen` are its requests.

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
        """Returns the requests other than GET whose path has `part`."""
        return [seen for seen in self.seen if seen.writes and part in seen.path]

    def config(self, credentials: Credentials, cable: Cable) -> ApiConfig:
        """Returns the configuration of a client."""
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
