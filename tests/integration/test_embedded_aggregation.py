"""Aggregated APIs behind the embedded API server: our adapter, and a server that tells what it was sent."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from fedhpa.admission import crd
from fedhpa.serving.authentication import peer_certificate
from fedhpa.serving.flags.parsing import parse_flags
from fedhpa.serving.process import Signals
from metrics_adapter.process import Adapter, serve
from metrics_adapter.settings import FLAGS
from testbed.embedded.api.types import User
from testbed.embedded.controlplane import ControlPlane
from testbed.embedded.network.listener import Listener
from testbed.embedded.network.pki import Pki
from testbed.stage.api import PlaneApi
from testbed.stage.registrations import (
    ADAPTER,
    HUB_RIGHTS,
    NAMESPACE,
    Credentials,
    aggregated_api,
    cluster_objects,
    documents,
)
from tests.support.adapter_world import METRICS, PODS_PATH, pod_metrics, until
from tests.support.fakeapi import PATIENCE, FakeApi, eventually, fake_api
from tests.support.patient_plane import have_patience

API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/"
Object = dict[str, Any]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    have_patience(monkeypatch)


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    made = ControlPlane(tmp_path / "hub", "hub")
    await made.start()
    try:
        yield made
    finally:
        await made.end()


@pytest.fixture
async def hub(plane: ControlPlane) -> AsyncIterator[PlaneApi]:
    async with plane.api() as api:
        yield api


async def condition(hub: PlaneApi, name: str, reason: str, text: str = "") -> Object:
    """The Available condition once it has that reason and says this: how a server fails changes meanwhile."""
    found: Object = {}

    async def is_there() -> bool:
        service = await hub.get(API_SERVICE + name)
        conditions = service.get("status", {}).get("conditions") or [{}]
        found.update(conditions[0])
        return found.get("reason") == reason and text in found["message"]

    await until(is_there, PATIENCE)
    return found


# -- the product's adapter ------------------------------------------------------------------------------


@asynccontextmanager
async def adapter(plane: ControlPlane, folder: Path, member: FakeApi) -> AsyncIterator[Adapter]:
    """A running adapter whose hub is the plane."""
    async with plane.api() as api:
        await api.apply_all([crd.custom_resource_definition(crd.CLUSTER), *documents(HUB_RIGHTS)])
        credentials = Credentials("token", member.ca_pem.encode())
        await api.apply_all(cluster_objects("member1", member.url, credentials))
    plane.pki.ca.issue_server("adapter", dns=[f"{ADAPTER}.{NAMESPACE}.svc"]).save(folder)
    kubeconfig = plane.pki.kubeconfig(folder / "kubeconfig", plane.server, ADAPTER)
    flags = [
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        f"--cert-dir={folder}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--shutdown-grace-period=1s",
        "--member-deadline=60s",
    ]
    signals = Signals()
    started: asyncio.Queue[Adapter] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(parse_flags(FLAGS, flags, {}), signals, started.put_nowait))
        async with asyncio.timeout(PATIENCE):
            made = await started.get()
        try:
            await eventually(lambda: made.health.ready)
            yield made
        finally:
            signals.stop.set()


def registration(port: int, ca_pem: bytes) -> list[Object]:
    return aggregated_api(
        group="metrics.k8s.io",
        version="v1beta1",
        service=ADAPTER,
        namespace=NAMESPACE,
        port=port,
        ca_bundle=ca_pem,
    )


async def test_our_adapter_is_available_and_believes_the_front_proxy(
    plane: ControlPlane, hub: PlaneApi, tmp_path: Path
) -> None:
    """It follows the trust that the plane publishes, and has the user reviewed whom the plane names."""
    plane.authenticator.tokens["t0k3n"] = User("jane", ("dev",))
    reader = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "top"},
    }
    rule = {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["list"]}
    (tmp_path / "adapter").mkdir()
    async with fake_api() as member:
        member.put(METRICS, pod_metrics("web"))
        async with adapter(plane, tmp_path / "adapter", member) as running:
            await hub.apply_all(registration(running.server.port, plane.pki.ca.bundle_pem))
            passed = await condition(hub, "v1beta1.metrics.k8s.io", "Passed")
            async with plane.api(token="t0k3n") as jane:
                before = await jane.request("GET", PODS_PATH)
                binding = {
                    **reader,
                    "kind": "ClusterRoleBinding",
                    "roleRef": {"kind": "ClusterRole", "name": "top"},
                    "subjects": [{"kind": "Group", "name": "dev"}],
                }
                await hub.apply_all([{**reader, "rules": [rule]}, binding])
                after = await jane.get(PODS_PATH)
            discovered = await hub.get("/apis/metrics.k8s.io/v1beta1")
            groups = await hub.get("/apis")
            documents = (await hub.get("/openapi/v3"))["paths"]
            document = await hub.get(documents["apis/metrics.k8s.io/v1beta1"]["serverRelativeURL"])

    assert passed["status"] == "True"
    assert passed["message"] == "all checks passed"
    assert before[0] == 403
    assert [item["metadata"]["name"] for item in after["items"]] == ["web"]
    assert {resource["name"] for resource in discovered["resources"]} == {"nodes", "pods"}
    assert "metrics.k8s.io" in {group["name"] for group in groups["groups"]}
    assert any(name.endswith("PodMetrics") for name in document["components"]["schemas"])


# -- another server -------------------------------------------------------------------------------------


class Remote:
    """An aggregated server that answers with what it was sent."""

    def __init__(self, folder: Path) -> None:
        self.pki = Pki(folder, "remote")
        self.discovery = 200
        self.go_on = asyncio.Event()
        app = web.Application()
        app.router.add_get("/apis/demo.example.com/v1", self._discover)
        app.router.add_get("/apis/demo.example.com/v1/stream", self._stream)
        app.router.add_get("/apis/demo.example.com/v1/cut", self._cut)
        app.router.add_route("*", "/{path:.*}", self._echo)
        leaf = self.pki.ca.issue_server("remote", dns=["demo.default.svc"])
        leaf.save(folder / "named")
        context = self.pki.serving()
        context.load_cert_chain(folder / "named" / "tls.crt", folder / "named" / "tls.key")
        self.named = context
        self.listener = Listener(app, context)

    def trust(self, ca_pem: bytes) -> None:
        """Ask clients for certificates of that CA, too."""
        self.named.load_verify_locations(cadata=ca_pem.decode())

    async def _discover(self, request: web.Request) -> web.Response:
        resources = [{"name": "things", "namespaced": True, "kind": "Thing", "verbs": ["get"]}]
        body = {"kind": "APIResourceList", "groupVersion": "demo.example.com/v1", "resources": resources}
        return web.json_response(body, status=self.discovery)

    async def _echo(self, request: web.Request) -> web.Response:
        leaf = peer_certificate(request)
        headers: dict[str, list[str]] = {}
        for name, value in request.headers.items():
            headers.setdefault(name.lower(), []).append(value)
        seen = {
            "method": request.method,
            "path": request.raw_path,
            "body": (await request.read()).decode(),
            "headers": headers,
            "proxy": leaf is not None,
        }
        return web.json_response(seen, status=418, headers={"Warning": '299 - "x"', "X-Own": "y"})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await self.go_on.wait()
        await response.write(b"second\n")
        return response

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    def registration(self, ca_pem: bytes | None = None) -> list[Object]:
        return aggregated_api(
            group="demo.example.com",
            version="v1",
            service="demo",
            namespace="default",
            port=self.listener.port,
            ca_bundle=ca_pem or self.pki.ca.bundle_pem,
        )


@pytest.fixture
async def remote(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Remote]:
    made = Remote(tmp_path / "remote")
    made.trust(plane.pki.front_proxy_ca.bundle_pem)
    async with made.listener:
        yield made


@pytest.fixture
async def registered(hub: PlaneApi, remote: Remote) -> Remote:
    await hub.apply_all(remote.registration())
    await condition(hub, "v1.demo.example.com", "Passed")
    return remote


async def test_a_request_is_passed_on_in_its_users_name(plane: ControlPlane, registered: Remote) -> None:
    """As it was sent, but for who sent it; with the front proxy's certificate and never with a token."""
    extra = {"scopes/of": ("a", "b")}
    plane.authenticator.tokens["t0k3n"] = User("jane", ("dev", "system:masters"), "uid-1", extra)
    async with plane.api(token="t0k3n") as jane:
        status, headers, raw = await jane.request(
            "POST",
            "/apis/demo.example.com/v1/namespaces/a%2Fb/things",
            body={"a": 1},
            params={"x": "y z"},
        )
    seen = json.loads(raw)
    sent = seen["headers"]

    assert (status, headers["X-Own"], headers["Warning"]) == (418, "y", '299 - "x"')
    assert (seen["method"], seen["body"], seen["proxy"]) == ("POST", '{"a": 1}', True)
    assert seen["path"] == "/apis/demo.example.com/v1/namespaces/a%2Fb/things?x=y+z"
    assert sent["x-remote-user"] == ["jane"]
    assert sent["x-remote-uid"] == ["uid-1"]
    assert sent["x-remote-group"] == ["dev", "system:masters", "system:authenticated"]
    assert sent["x-remote-extra-scopes%2fof"] == ["a", "b"]
    assert sent["x-forwarded-for"] == ["127.0.0.1"]
    assert "authorization" not in sent


async def test_nobody_can_name_another_user(plane: ControlPlane, registered: Remote) -> None:
    """X-Remote-* of a client are dropped; whom it impersonates, if it may, is whom it is passed on as."""
    context = plane.pki.client("system:admin", "system:masters")
    impersonated = {"Impersonate-User": "jane", "Impersonate-Group": "system:masters"}
    forged = {"X-Remote-User": "root", "X-Remote-Group": "gods", "X-Remote-Extra-A": "b", "x-remote-uid": "0"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(
            f"{plane.server}/apis/demo.example.com/v1/things", headers={**forged, **impersonated}
        ) as answer,
    ):
        sent = (await answer.json())["headers"]

    assert sent["x-remote-user"] == ["jane"]
    assert sent["x-remote-group"] == ["system:masters", "system:authenticated"]
    assert "impersonate-user" not in sent
    assert "x-remote-extra-a" not in sent
    assert "x-remote-uid" not in sent


async def test_streams_arrive_as_they_are_sent(plane: ControlPlane, registered: Remote) -> None:
    """A watch is not held back until it ends; a broken one does not end as if it were whole."""
    connector = aiohttp.TCPConnector(ssl=plane.pki.client("system:admin", "system:masters"))
    async with aiohttp.ClientSession(plane.server, connector=connector) as session:
        async with session.get("/apis/demo.example.com/v1/stream") as answer:
            assert await answer.content.readline() == b"first\n"
            registered.go_on.set()
            assert await answer.content.readline() == b"second\n"
        with pytest.raises(aiohttp.ClientError):
            async with session.get("/apis/demo.example.com/v1/cut") as answer:
                await answer.read()


async def test_rights_are_the_planes_to_check(plane: ControlPlane, registered: Remote) -> None:
    """Who may not does not get as far as the aggregated server."""
    plane.authenticator.tokens["t0k3n"] = User("jane")
    async with plane.api(token="t0k3n") as jane:
        status, _, raw = await jane.request("GET", "/apis/demo.example.com/v1/things")

    assert status == 403
    assert json.loads(raw)["message"].startswith('things.demo.example.com is forbidden: User "jane"')


async def test_a_server_that_fails_becomes_unavailable_and_back(hub: PlaneApi, registered: Remote) -> None:
    """With Kubernetes' reasons and words, and 503 meanwhile."""
    name, url = (
        "v1.demo.example.com",
        f"https://localhost:{registered.listener.port}/apis/demo.example.com/v1",
    )
    registered.discovery = 500
    failed = await condition(hub, name, "FailedDiscoveryCheck", "bad status")
    status, headers, raw = await hub.request("GET", "/apis/demo.example.com/v1/things")
    documents = (await hub.get("/openapi/v3"))["paths"]
    registered.discovery = 200
    passed = await condition(hub, name, "Passed")
    await registered.listener.stop()
    gone = await hub.request("GET", "/apis/demo.example.com/v1/things")
    refused = await condition(hub, name, "FailedDiscoveryCheck", "connection refused")

    assert failed["status"] == "False"
    assert failed["message"] == f"failing or missing response from {url}: bad status from {url}: 500"
    assert (status, raw) == (503, b"service unavailable\n")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "apis/demo.example.com/v1" not in documents
    assert passed["lastTransitionTime"] >= failed["lastTransitionTime"]
    assert gone[0] == 503
    assert gone[2].startswith((b"error trying to reach service: dial tcp", b"service unavailable"))
    assert refused["message"].startswith(f'failing or missing response from {url}: Get "{url}": dial tcp ')
    assert refused["message"].endswith("connect: connection refused")


async def test_a_server_of_another_name_or_ca_is_not_available(
    plane: ControlPlane, hub: PlaneApi, remote: Remote
) -> None:
    """It must prove itself as SERVICE.NAMESPACE.svc against the caBundle."""
    await hub.apply_all(remote.registration(plane.pki.ca.bundle_pem))
    stranger = await condition(hub, "v1.demo.example.com", "FailedDiscoveryCheck", "x509")
    await hub.apply_all(remote.registration())
    await condition(hub, "v1.demo.example.com", "Passed")
    await remote.listener.start(remote.pki.serving())
    misnamed = await condition(hub, "v1.demo.example.com", "FailedDiscoveryCheck", "x509")

    assert "x509: certificate signed by unknown authority" in stranger["message"]
    assert "x509: certificate is " in misnamed["message"]


async def test_a_service_must_be_there_and_lead_out(hub: PlaneApi, remote: Remote) -> None:
    """An APIService that names none is the plane's own affair."""
    service, api_service = remote.registration()
    await hub.apply(api_service)
    missing = await condition(hub, "v1.demo.example.com", "ServiceNotFound")
    await hub.apply({**service, "spec": {"type": "ClusterIP", "ports": service["spec"]["ports"]}})
    inside = await condition(hub, "v1.demo.example.com", "FailedDiscoveryCheck", "ExternalName")
    await hub.apply(
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1.apps"},
            "spec": {"group": "apps", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
        }
    )
    local = await condition(hub, "v1.apps", "Local")

    assert missing["message"] == 'service/demo in "default" is not present'
    assert missing["status"] == "False"
    assert "ExternalName" in inside["message"]
    assert local["status"] == "True"
    assert (await hub.get("/apis/apps/v1"))["groupVersion"] == "apps/v1"
