"""A hub, members and the metrics adapter in this process, all over TLS, and clients of it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import aiohttp
import yaml
from aiohttp import web
from multidict import CIMultiDictProxy

from certs import CertificateAuthority
from fedhpa.kube import SYSTEM
from fedhpa.serving.authorization import PROBE_USER
from fedhpa.serving.flags.parsing import parse_flags
from fedhpa.serving.process import Signals
from metrics_adapter.process import Adapter, serve
from metrics_adapter.settings import FLAGS
from testbed.stage.kubeconfig import write_kubeconfig
from tests.support.fake_responses import ACCESS_REVIEW, TOKEN_REVIEW, review
from tests.support.fakeapi import PATIENCE, Collection, FakeApi, Object, eventually, fake_api, join

CONFIG_MAPS: Collection = ("v1", "configmaps")
METRICS: Collection = ("metrics.k8s.io/v1beta1", "pods")
NODE_METRICS: Collection = ("metrics.k8s.io/v1beta1", "nodes")
PODS_PATH = "/apis/metrics.k8s.io/v1beta1/pods"
SERVING_NAME = "fedhpa-metrics-adapter.fedhpa-system.svc"
JANE = {"X-Remote-User": "jane", "X-Remote-Group": "dev"}


# Deadlines of requests to the hub, raised for tests that are not about them on slow machines.
WAITS = (
    "fedhpa.serving.authentication.REVIEW_DEADLINE",
    "fedhpa.serving.authorization.REVIEW_DEADLINE",
    "metrics_adapter.process.HUB_PROBE_DEADLINE",
)
# Seconds between the checks of an adapter that is not ready. Each test would wait half a second.
POLL = "metrics_adapter.process.SYNC_POLL_SECONDS"
POLL_SECONDS = 0.01


async def until(holds: Callable[[], Awaitable[bool]], within: float = PATIENCE) -> None:
    """Waits until `holds` returns true. Fails after `within` seconds."""
    async with asyncio.timeout(within):
        while not await holds():  # noqa: ASYNC110 - asks a server
            await asyncio.sleep(0.02)


class Hub(FakeApi):
    """A hub that also reviews tokens and access, and publishes the trusted front proxies."""

    def __init__(self, proxies: CertificateAuthority, clients: CertificateAuthority) -> None:
        super().__init__()
        self.reviews: list[Object] = []
        self.users: dict[str, Object] = {}
        self.denied: set[str] = set()
        self.publish(proxies, clients)

    def publish(self, proxies: CertificateAuthority, clients: CertificateAuthority) -> None:
        """Writes the ConfigMap by which aggregated servers authenticate."""
        data = {
            "client-ca-file": clients.bundle_pem.decode(),
            "requestheader-client-ca-file": proxies.bundle_pem.decode(),
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        metadata = {"namespace": "kube-system", "name": "extension-apiserver-authentication"}
        self.put(CONFIG_MAPS, {"metadata": metadata, "data": data})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/tokenreviews"):
            spec = (await request.json())["spec"]
            user = self.users.get(spec["token"])
            status = {"authenticated": user is not None, "user": user or {}}
            return web.json_response(review(TOKEN_REVIEW, status))
        if request.path.endswith("/subjectaccessreviews"):
            spec = (await request.json())["spec"]
            if spec["user"] != PROBE_USER:  # The adapter's own readiness is in no caller's name.
                self.reviews.append(spec)
            return web.json_response(review(ACCESS_REVIEW, {"allowed": spec["user"] not in self.denied}))
        return await super()._serve(request)


class Caller:
    """A client of the adapter, with or without a client certificate."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.call("GET", path, {name.replace("_", "-"): text for name, text in headers.items()})

    async def call(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        async with self._session.request(method, self._base + path, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())


class Answer:
    """A response of the adapter."""

    def __init__(self, status: int, headers: CIMultiDictProxy[str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return yaml.safe_load(self.body)

    @property
    def warnings(self) -> list[str]:
        return self.headers.getall("Warning", [])

    @property
    def names(self) -> list[str]:
        """Returns CLUSTER/NAMESPACE/NAME of the items."""
        return [
            "/".join(
                (
                    item["metadata"]["annotations"]["resource.karmada.io/query-from-cluster"],
                    item["metadata"]["namespace"],
                    item["metadata"]["name"],
                )
            )
            for item in self.json["items"]
        ]


class AdapterWorld:
    """The CAs, the hub and the files that an adapter needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.serving = CertificateAuthority.create("serving-ca")
        self.proxies = CertificateAuthority.create("front-proxy-ca")
        self.clients = CertificateAuthority.create("client-ca")
        self.hub = Hub(self.proxies, self.clients)
        self.serving.issue_server("adapter", dns=[SERVING_NAME], ips=["127.0.0.1"]).save(folder)

    def flags(self, *more: str) -> list[str]:
        authority, user = self.hub.ca_pem.encode(), {"token": "hub-token"}
        kubeconfig = write_kubeconfig(self.folder / "kubeconfig", self.hub.url, authority, user)
        return [
            f"--kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            f"--cert-dir={self.folder}",
            "--metrics-bind-address=127.0.0.1:0",
            # Long limits, so that available members and reviewed users stay so on a machine that stalls.
            f"--member-deadline={PATIENCE:g}s",
            "--authorization-webhook-cache-authorized-ttl=1h",
            "--authorization-webhook-cache-unauthorized-ttl=1h",
            "--metrics-max-age=0s",
            "--shutdown-grace-period=1s",
            *more,
        ]

    @asynccontextmanager
    async def adapter(self, *more: str, ready: bool = True) -> AsyncIterator[Adapter]:
        """Starts an adapter, and with `ready` waits for its readiness."""
        values = parse_flags(FLAGS, self.flags(*more), {})
        signals = Signals()
        started: asyncio.Queue[Adapter] = asyncio.Queue()
        async with AsyncExitStack() as stack:
            for wait in WAITS:
                stack.enter_context(patch(wait, PATIENCE))
            stack.enter_context(patch(POLL, POLL_SECONDS))
            group = await stack.enter_async_context(asyncio.TaskGroup())
            group.create_task(serve(values, signals, started.put_nowait, clock=SYSTEM))
            async with asyncio.timeout(PATIENCE):
                adapter = await started.get()
            try:
                if ready:
                    await eventually(lambda: adapter.health.ready)
                yield adapter
            finally:
                signals.stop.set()

    @asynccontextmanager
    async def caller(
        self,
        adapter: Adapter,
        *,
        authority: CertificateAuthority | None = None,
        name: str = "front-proxy-client",
        organizations: tuple[str, ...] = (),
        certificate: bool = True,
    ) -> AsyncIterator[Caller]:
        """Returns a client, by default the hub's front proxy."""
        context = ssl.create_default_context(cadata=self.serving.bundle_pem.decode())
        if certificate:
            folder = self.folder / f"client-{name}"
            (authority or self.proxies).issue_client(name, organizations=organizations).save(folder)
            context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Caller(session, f"https://127.0.0.1:{adapter.server.port}")


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[AdapterWorld]:
    """Starts a hub without members."""
    made = AdapterWorld(folder)
    await made.hub.start()
    try:
        yield made
    finally:
        await made.hub.stop()


class Fleet:
    """A hub and its one member."""

    def __init__(self, world: AdapterWorld, member: FakeApi) -> None:
        self.world = world
        self.member = member


@asynccontextmanager
async def fleet_of_one(folder: Path, pod: Object, *, token: str | None = None) -> AsyncIterator[Fleet]:
    """Starts a hub with "member1", which has these PodMetrics and requires that token."""
    async with world(folder) as made, fake_api() as member:
        member.put(METRICS, pod)
        member.token = token
        join(made.hub, "member1", member)
        yield Fleet(made, member)


def pod_metrics(name: str, namespace: str = "shop", cpu: str = "100m", **labels: str) -> Object:
    """Returns PodMetrics of one container."""
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "timestamp": "2026-03-11T13:00:00Z",
        "window": "15s",
        "containers": [{"name": "app", "usage": {"cpu": cpu, "memory": "64Mi"}}],
    }
