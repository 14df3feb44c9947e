"""Aggregated APIs: the requests that the server gets, and the answers while it is unavailable."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from tests.conformance.plane.registry import check
from tests.conformance.plane.servers import LocalServer, Received, local_server
from tests.conformance.plane.talk import Answer, Object, Talk
from tests.conformance.plane.things import core

GROUP = "aggregated.conformance.test"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
HEADERS = (
    "Accept",
    "Content-Type",
    "Authorization",
    "X-Remote-User",
    "X-Remote-Uid",
    "X-Remote-Group",
    "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id",
    "X-Forwarded-For",
    "X-Forwarded-Uri",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Custom",
)


async def answer(received: Received) -> web.StreamResponse:
    """Answers discovery, and a fixed object for all other paths."""
    path = received.request.path
    if path == f"/apis/{GROUP}/v1":
        verbs = ["get", "list", "create"]
        resource = {
            "name": "things",
            "singularName": "thing",
            "namespaced": True,
            "kind": "Thing",
            "verbs": verbs,
        }
        listed = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/v1"}
        return web.json_response({**listed, "resources": [resource]})
    if path.endswith("/teapot"):
        return web.Response(
            status=418,
            body=b"short and stout",
            headers={"Warning": '299 - "hot"', "Content-Type": "text/tea"},
        )
    if path.endswith("/slowly"):
        return await _in_parts(received.request)
    return web.json_response({"kind": "Thing", "apiVersion": f"{GROUP}/v1", "metadata": {"name": "thing"}})


async def _in_parts(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"type":"ADDED","object":{"kind":"Thing","metadata":{"name":"first"}}}\n')
    await asyncio.Event().wait()  # the client disconnects after the first line
    return response


async def aggregated_server(talk: Talk, *, group: str = GROUP) -> LocalServer:
    """Returns a running server that requests the front proxy's certificate; creates its Service."""
    space = await talk.begin()
    trust = (await talk.quietly("GET", TRUST)).json["data"]["requestheader-client-ca-file"]
    server: LocalServer = await talk.entered(
        local_server(answer, dns=f"aggregated.{space}.svc", client_ca=trust.encode())
    )
    service = {
        "metadata": {"name": "aggregated"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": server.port}]},
    }
    await talk.make(core("services", space), service)
    talk.names.literal(str(server.port), "<port>")
    talk.later(f"{SERVICES}/v1.{group}")
    return server


def api_service(talk: Talk, server: LocalServer, *, group: str = GROUP, **changes: Any) -> Object:
    """Returns the APIService of the server."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": "aggregated", "namespace": talk.namespace, "port": server.port},
            "caBundle": server.ca_bundle,
            **changes,
        },
    }


async def available(talk: Talk, *, group: str = GROUP, status: str = "True", reason: str = "") -> Object:
    """Wait for the condition Available and return the APIService."""

    async def condition() -> Object | None:
        found = (await talk.quietly("GET", f"{SERVICES}/v1.{group}")).json
        for condition in (found.get("status") or {}).get("conditions") or ():
            if (
                condition["type"] == "Available"
                and condition["status"] == status
                and reason in condition["reason"]
            ):
                return dict(found)
        return None

    found: Object = await talk.eventually(condition)
    return found


async def registered(talk: Talk) -> LocalServer:
    """Returns a running and available aggregated server, without the requests so far."""
    server = await aggregated_server(talk)
    made = await talk.quietly("POST", SERVICES, api_service(talk, server))
    assert made.status == 201, made.json
    await available(talk)

    async def served() -> bool:
        return (await talk.quietly("GET", f"/apis/{GROUP}/v1")).status == 200

    await talk.eventually(served)
    server.received.clear()
    return server


async def unavailable(talk: Talk, path: str) -> Answer:
    """GET a path of an unavailable API; the proxy may learn of the condition later."""
    return await talk.at_last(lambda: talk.ask("GET", path), lambda answer: answer.status == 503)


def note_received(talk: Talk, server: LocalServer, part: str) -> list[Received]:
    """Record the requests whose path contains `part`; availability checks have other paths."""
    received = [one for one in server.received if part in one.request.path]
    for one in received:
        headers = {name: one.request.headers.getall(name) for name in HEADERS if name in one.request.headers}
        talk.note(
            {
                "server received": f"{one.request.method} {one.request.path}",
                "query": sorted(one.request.query.items()),
                "headers": headers,
                "body": one.body.decode(),
                "certificate": one.peer,
            }
        )
    server.received.clear()
    return received


@check()
async def discovered(talk: Talk) -> None:
    """Discovery lists the group, and the server answers with its resources."""
    await registered(talk)

    async def listed() -> Object | None:
        groups = (await talk.quietly("GET", "/apis")).json["groups"]
        return next((group for group in groups if group["name"] == GROUP), None)

    talk.note({"listed": await talk.eventually(listed)})
    resources = await talk.get(f"/apis/{GROUP}/v1")

    assert [resource["name"] for resource in resources.json["resources"]] == ["things"]


@check()
async def gone(talk: Talk) -> None:
    """While the server is unavailable, the answer is 503, and the condition becomes False."""
    server = await registered(talk)
    path = f"/apis/{GROUP}/v1/namespaces/{talk.namespace}/things"
    service = core("services", talk.namespace, "aggregated")
    # The deleted Service makes the APIService unavailable immediately.
    ports = [{"port": server.port, "targetPort": server.port}]
    await talk.quietly("DELETE", service)
    absent = await available(talk, status="False", reason="ServiceNotFound")
    talk.note(absent["status"])

    async def refused() -> bool:
        return (await talk.quietly("GET", path)).status == 503

    await talk.eventually(refused)
    answer = await talk.ask("GET", path)
    body = {
        "metadata": {"name": "aggregated"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": ports},
    }
    await talk.make(core("services", talk.namespace), body)
    await available(talk)

    assert answer.status == 503


@check()
async def what_servers_are_told_to_trust(talk: Talk) -> None:
    """The ConfigMap with the CAs of the front proxy and of clients."""
    answer = await talk.quietly("GET", TRUST)
    data = answer.json["data"]
    talk.note({key: value if value.startswith("[") else value.splitlines()[0] for key, value in data.items()})

    assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
