"""The metrics adapter over a federation in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp

from benchmarks.world.network import Cable
from fedhpa.api.wire import CLUSTER_ANNOTATION
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.credentials import StaticCredentials
from fedhpa.members.lists import SharedLists
from fedhpa.members.registry import MemberRegistry
from fedhpa.serving.authentication import Authenticator as Authentication
from fedhpa.serving.authentication import PeerAuthenticator, Trust
from fedhpa.serving.authorization import Authorizer, Guard
from fedhpa.serving.health import Health
from metrics_adapter.adapter_series import Telemetry
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.members.probes import MemberProbes
from metrics_adapter.members.source import MembersSource
from metrics_adapter.server.application import build_application
from tests.support.federation.planes import ADMIN, Object
from tests.support.federation.world import Federation
from tests.support.memory_network import MemoryListener
from tests.support.timing import background, until


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
        members = MemberRegistry(hub, clock=clock)
        lists = await stack.enter_async_context(SharedLists(clock=clock.monotonic))
        await stack.enter_async_context(background(members.run()))
        telemetry = Telemetry(lambda: members.members)
        probes = MemberProbes(lambda: members.members, telemetry.probed, clock=clock.monotonic)
        telemetry.suspect = probes.suspect
        await stack.enter_async_context(background(probes.run()))
        source = MembersSource(
            lambda: members.members, lists, max_age=max_age, observer=telemetry, clock=clock.monotonic
        )
        peers = PeerAuthenticator(Trust(), clock.wall)
        guard = Guard(
            Authentication(lambda: peers),
            Authorizer(hub, clock=clock.monotonic),
            ["/*"],
            clock=clock.monotonic,
        )
        catalogue = MetricDiscoveryCache(source, clock=clock.monotonic)
        application = build_application(source, guard, Health(), telemetry, discovery_cache=catalogue)
        listener = await stack.enter_async_context(MemoryListener(federation.network, application))
        connector = cable.connector(ApiConfig(server=listener.server))
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        await until(members.synced)
        yield Adapter(federation, session, listener.server)
