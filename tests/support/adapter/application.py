"""Members that serve custom and external metrics from a dictionary, and the adapter over them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.transport import tcp_connector
from fedhpa.members.cluster import Access, Cluster, ClusterMeta
from fedhpa.members.lists import SharedLists
from fedhpa.members.member import Member
from fedhpa.serving.authentication import Authenticator, PeerAuthenticator, Trust
from fedhpa.serving.authorization import Authorizer, Guard
from fedhpa.serving.health import Health
from metrics_adapter.adapter_series import Telemetry
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.members.source import MembersSource
from metrics_adapter.server.application import build_application
from tests.support.fake_responses import with_list_head
from tests.support.fakeapi import FakeApi, Object

CUSTOM = "/apis/custom.metrics.k8s.io"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
NOON = "2026-03-11T12:00:00Z"
# A deadline that no slow machine misses.
DEADLINE = 60.0

Client = TestClient[web.Request, web.Application]


class StubMember(FakeApi):
    """Answers a path with a JSON body, a text or a status, and 404 for unknown paths."""

    def __init__(self, responses: Mapping[str, Any], *, tls: bool = False) -> None:
        super().__init__(tls=tls)
        self.responses = dict(responses)
        self.no_api = False

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self.no_api:
            return web.Response(status=404, text="404 page not found")
        answer = self.responses.get(request.path, self.responses.get("*", 404))
        if isinstance(answer, int):
            body = {"kind": "Status", "status": "Failure", "reason": "NotFound" if answer == 404 else ""}
            return web.json_response({**body, "code": answer, "message": "no"}, status=answer)
        return web.Response(
            text=answer if isinstance(answer, str) else json.dumps(with_list_head(request.path, answer)),
            content_type="application/json",
        )


def serving(*versions: str, **values: Any) -> dict[str, Any]:
    """Returns the responses of a member with custom metrics. `values` maps paths below the best version."""
    served = [{"groupVersion": f"custom.metrics.k8s.io/{v}", "version": v} for v in versions]
    group = {"kind": "APIGroup", "apiVersion": "v1", "name": "custom.metrics.k8s.io", "versions": served}
    best = f"{CUSTOM}/{max(versions)}"
    return {CUSTOM: group} | {f"{best}/{path}": answer for path, answer in values.items()}


def value(name: str, amount: Any, *, kind: str = "Pod", **fields: Any) -> Object:
    """Returns an item of a v1beta2 MetricValueList."""
    labels = fields.pop("labels", None)
    return {
        "describedObject": {"kind": kind, "namespace": "shop", "name": name, "apiVersion": "v1"},
        "metric": {"name": "hits", "selector": labels and {"matchLabels": labels}},
        "timestamp": NOON,
        "value": amount,
        **fields,
    }


def items(*found: Object) -> Object:
    return {"kind": "MetricValueList", "metadata": {}, "items": list(found)}


@asynccontextmanager
async def members_source(
    responses: Mapping[str, Mapping[str, Any] | None], *, max_age: float = 0.0
) -> AsyncIterator[tuple[MembersSource, dict[str, StubMember]]]:
    """Returns a source over stub members by name. None is a member whose credentials are unknown."""

    async def nothing() -> None:
        """There is no Secret to read again."""

    async with AsyncExitStack() as stack:
        stubs, members = {}, {}
        for name, answers in responses.items():
            stub = stubs[name] = StubMember(answers or {})
            await stub.start()
            stack.push_async_callback(stub.stop)
            cluster = Cluster(metadata=ClusterMeta(name=name))
            # Without a connector an http address is refused, because it would show the token.
            member = members[name] = Member(
                cluster,
                deadline=DEADLINE,
                reread=nothing,
                connector=tcp_connector,
                clock=SYSTEM.monotonic,
                wall=SYSTEM.wall,
            )
            known = answers is not None
            way = Access(stub.url, "token", None, None, ()) if known else "its credentials are not known"
            await member.observe(member.cluster, way)
            stack.push_async_callback(member.client.close)
        lists = await stack.enter_async_context(SharedLists(clock=SYSTEM.monotonic))
        yield MembersSource(lambda: members, lists, max_age=max_age, clock=SYSTEM.monotonic), stubs


@asynccontextmanager
async def client_of(
    source: MembersSource, catalogue: MetricDiscoveryCache | None = None
) -> AsyncIterator[Client]:
    """Returns a client of the adapter's application, without authentication."""
    peers = PeerAuthenticator(Trust(), SYSTEM.wall)
    hub = ApiClient(ApiConfig(server="http://hub.invalid"))
    guard = Guard(
        Authenticator(lambda: peers), Authorizer(hub, clock=SYSTEM.monotonic), ["*"], clock=SYSTEM.monotonic
    )
    source.observer = telemetry = Telemetry(lambda: source.members())
    catalogue = catalogue or MetricDiscoveryCache(source, clock=SYSTEM.monotonic)
    application = build_application(source, guard, Health(), telemetry, discovery_cache=catalogue)
    async with TestClient(TestServer(application)) as client:
        yield client


@asynccontextmanager
async def adapter(
    responses: Mapping[str, Mapping[str, Any] | None], *, max_age: float = 0.0
) -> AsyncIterator[tuple[Client, dict[str, StubMember]]]:
    """Starts the adapter over stub members."""
    async with members_source(responses, max_age=max_age) as (source, stubs), client_of(source) as client:
        yield client, stubs


async def get(client: Client, path: str, **headers: str) -> tuple[int, Any, list[str]]:
    """Returns status, body and the clusters that the warnings name."""
    response = await client.get(path, headers=headers)
    named = [text.split('"')[1].split(" ")[0] for text in response.headers.getall("Warning", [])]
    return response.status, await response.json(), named


def shown(body: Any) -> list[str]:
    """Returns NAME VALUE of the items, in order."""
    return [f"{item['describedObject']['name']} {item['value']}" for item in body["items"]]
