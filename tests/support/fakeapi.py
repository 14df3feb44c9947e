"""A small fake of the Kubernetes API that fails on demand, on a socket with TLS or in memory.

It keeps objects with resource versions, and serves paged lists, watches with bookmarks, status and scale. It
can hang, refuse, answer 500, truncate responses, compact its history, and change its certificate.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from types import TracebackType
from typing import Any, Self

import trustme
from aiohttp import web

from benchmarks.world.network import MemoryNetwork
from fedhpa.kube.config import ApiConfig, tls_context
from fedhpa.kube.credentials import Credentials, NoCredentials
from testbed.stage.ports import held
from tests.support.fake_responses import Collection as Collection
from tests.support.fake_responses import Object as Object
from tests.support.fake_responses import (
    failure,
    is_selected,
    list_kind,
    merge,
    parse,
    scale_of,
    selected_name,
)
from tests.support.memory_network import MemoryListener
from tests.support.timing import PATIENCE as PATIENCE
from tests.support.timing import eventually as eventually
from tests.support.timing import virtual_clock

PODS: Collection = ("v1", "pods")
SECRETS: Collection = ("v1", "secrets")
CLUSTERS: Collection = ("cluster.karmada.io/v1alpha1", "clusters")


@dataclass
class Faults:
    """The faults by path prefix: requests that hang, error statuses, broken bodies, or both of the latter."""

    hang: set[str] = field(default_factory=set)
    status: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    truncate: set[str] = field(default_factory=set)
    body: dict[str, bytes] = field(default_factory=dict)
    # The number of list pages with a continue token that are still answered 410.
    expired_continues: int = 0

    def clear(self) -> None:
        """Ends all faults."""
        self.__dict__.update(Faults().__dict__)


@dataclass(eq=False)
class _Watch:
    collection: Collection
    namespace: str
    name: str | None
    queue: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)


@dataclass(frozen=True)
class Seen:
    """A request that arrived."""

    method: str
    path: str
    query: dict[str, str]
    authorization: str | None
    peer: object


class FakeApi:
    """One API server, whose settings may change while it runs. In a memory network it serves plain HTTP."""

    def __init__(self, *, tls: bool = True, network: MemoryNetwork | None = None) -> None:
        self.faults = Faults()
        self.token: str | None = None
        self.ca = trustme.CA() if tls and network is None else None
        # The CA of the client certificates, without which no connection is accepted; None to ask for none.
        self.clients: trustme.CA | None = None
        self.seen: list[Seen] = []
        self.oldest = 0
        self.port = 0
        self._version = 100
        self._objects: dict[Collection, dict[tuple[str, str], Object]] = {}
        self._history: list[tuple[int, str, Collection, Object]] = []
        self._watches: set[_Watch] = set()
        self._stopping = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._release: Callable[[], object] = lambda: None
        self._network = network
        self._listener: MemoryListener | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.ca else 'http'}://127.0.0.1:{self.port}"

    @property
    def ca_pem(self) -> str:
        """The CA of the server, or "" for plain HTTP."""
        return self.ca.cert_pem.bytes().decode() if self.ca is not None else ""

    @property
    def watching(self) -> int:
        return len(self._watches)

    def config(self, credentials: Credentials | None = None, name: str = "hub") -> ApiConfig:
        context = tls_context(ca_data=self.ca_pem) if self.ca else None
        return ApiConfig(
            server=self.url,
            ssl=context,
            credentials=credentials or NoCredentials(),
            name=name,
            connector=self._network.connector if self._network is not None else None,
        )

    def queries(self, part: str) -> list[dict[str, str]]:
        """Returns the queries of the requests whose path ends with `part`, in order."""
        return [seen.query for seen in self.seen if seen.path.endswith(part)]

    # -- start and stop -----------------------------------------------------------------------------
    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens, on the previous port if there was one."""
        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        if self._network is not None:
            wall = virtual_clock().wall

            async def date(_: web.Request, response: web.StreamResponse) -> None:
                response.headers["Date"] = formatdate(wall(), usegmt=True)

            app.on_response_prepare.append(date)
            listener = MemoryListener(self._network, app, port=self.port or None)
            self._listener = await listener.__aenter__()
            self.port = listener.port
            return
        runner = web.AppRunner(app, shutdown_timeout=0.5, handler_cancellation=True, access_log=None)
        await runner.setup()
        self._runner = runner
        context: ssl.SSLContext | None = None
        if self.ca is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.ca.issue_cert("127.0.0.1", "localhost").configure_cert(context)
            if self.clients is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                self.clients.configure_trust(context)
        if not self.port:
            self._reserve_port()
        site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=context, reuse_address=True)
        await site.start()

    async def stop(self) -> None:
        """Stops listening and drops every connection."""
        self._stopping.set()
        self.end_watches()
        if self._listener is not None:
            await self._listener.__aexit__()
            self._listener = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _reserve_port(self) -> None:
        """Reserves a port for the life of this object, so that no other server gets it after `stop`."""
        self._release()
        reserved = held()
        self.port = reserved.getsockname()[1]
        self._release = weakref.finalize(self, reserved.close)

    # -- objects ------------------------------------------------------------------------------------
    def put(self, collection: Collection, obj: Object) -> Object:
        """Creates or replaces an object, as another client would."""
        metadata = obj.setdefault("metadata", {})
        key = (metadata.get("namespace", ""), metadata["name"])
        objects = self._objects.setdefault(collection, {})
        self._version += 1
        stored: Object = {
            **_named(collection),
            **obj,
            "metadata": {**metadata, "resourceVersion": str(self._version)},
        }
        kind = "MODIFIED" if key in objects else "ADDED"
        objects[key] = stored
        self._publish(kind, collection, stored)
        return stored

    def remove(self, collection: Collection, name: str, namespace: str = "") -> None:
        obj = self._objects[collection].pop((namespace, name))
        self._version += 1
        gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        self._publish("DELETED", collection, gone)

    def find(self, collection: Collection, name: str, namespace: str = "") -> Object | None:
        return self._objects.get(collection, {}).get((namespace, name))

    def all(self, collection: Collection) -> list[Object]:
        return list(self._objects.get(collection, {}).values())

    def forget(self, collection: Collection, name: str, namespace: str = "") -> None:
        """Removes an object without an event, as if all watches were interrupted."""
        del self._objects[collection][(namespace, name)]
        self._version += 1

    # -- watches ------------------------------------------------------------------------------------
    def expire(self) -> None:
        """Compacts the history: watches from versions up to now are answered 410."""
        self._version += 1
        self.oldest = self._version
        self._history.clear()

    def end_watches(self) -> None:
        for watch in self._watches:
            watch.queue.put_nowait(None)

    def send(self, line: bytes) -> None:
        """Sends a line to every watch."""
        for watch in self._watches:
            watch.queue.put_nowait(line)

    def bookmark(self) -> str:
        self._version += 1
        for watch in self._watches:
            named = _named(watch.collection)
            event = {
                "type": "BOOKMARK",
                "object": {**named, "metadata": {"resourceVersion": str(self._version)}},
            }
            watch.queue.put_nowait(json.dumps(event).encode())
        return str(self._version)

    def _publish(self, kind: str, collection: Collection, obj: Object) -> None:
        self._history.append((self._version, kind, collection, obj))
        for watch in self._watches:
            self._offer(watch, kind, collection, obj)

    def _offer(self, watch: _Watch, kind: str, collection: Collection, obj: Object) -> None:
        metadata = obj["metadata"]
        if (
            collection == watch.collection
            and watch.namespace in ("", metadata.get("namespace", ""))
            and watch.name in (None, metadata["name"])
        ):
            watch.queue.put_nowait(json.dumps({"type": kind, "object": obj}).encode())

    # -- requests -----------------------------------------------------------------------------------
    async def _handle(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                request.headers.get("Authorization"),
                transport.get_extra_info("peername") if transport else None,
            )
        )
        faulty = await self._fail(request)
        if faulty is not None:
            return faulty
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return failure(401, "Unauthorized", "Unauthorized")
        if request.path in ("/readyz", "/healthz"):
            return web.Response(text="ok")
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.36.3"})
        if request.path == "/apis/metrics.k8s.io/v1beta1":
            return web.json_response({"kind": "APIResourceList", "apiVersion": "v1", "resources": []})
        return await self._serve(request)

    async def _fail(self, request: web.Request) -> web.StreamResponse | None:
        path, faults = request.path, self.faults
        if any(path.startswith(prefix) for prefix in faults.hang):
            await self._stopping.wait()
            return web.Response(status=503)
        for prefix, status in faults.status.items():
            if path.startswith(prefix):
                spoiled = next((faults.body[part] for part in faults.body if path.startswith(part)), None)
                return web.Response(status=status, body=spoiled or b"out of order", headers=faults.headers)
        for prefix, body in faults.body.items():
            if path.startswith(prefix):
                return web.Response(body=body, content_type="application/json")
        if any(path.startswith(prefix) for prefix in faults.truncate):
            return await self._cut_off(request)
        return None

    async def _cut_off(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"kind":"PodList","apiVersion":"v1","items":[')
        assert request.transport is not None
        request.transport.close()
        return response

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        collection, namespace, name, sub = parse(request.path)
        if name is None:
            if request.method == "POST":
                return self._create(collection, namespace, await request.json())
            if request.query.get("watch") == "true":
                return await self._watch(request, collection, namespace)
            return self._list(request, collection, namespace)
        obj = self.find(collection, name, namespace)
        if obj is None:
            return failure(404, "NotFound", f'{collection[1]} "{name}" not found')
        if request.method == "GET":
            return web.json_response(scale_of(obj) if sub == "scale" else obj)
        if request.method == "DELETE":
            self.remove(collection, name, namespace)
            return web.json_response({"kind": "Status", "status": "Success"})
        return self._change(collection, obj, await request.json(), request.method, sub)

    def _create(self, collection: Collection, namespace: str, obj: Object) -> web.Response:
        metadata = obj.setdefault("metadata", {})
        if namespace:
            metadata["namespace"] = namespace
        if self.find(collection, metadata["name"], namespace) is not None:
            return failure(409, "AlreadyExists", f'{collection[1]} "{metadata["name"]}" already exists')
        return web.json_response(self.put(collection, obj), status=201)

    def _change(
        self, collection: Collection, old: Object, body: Object, method: str, sub: str
    ) -> web.Response:
        version = body.get("metadata", {}).get("resourceVersion")
        if version is not None and version != old["metadata"]["resourceVersion"]:
            name = old["metadata"]["name"]
            message = (
                f'Operation cannot be fulfilled on {collection[1]} "{name}": the object has been modified'
            )
            return failure(409, "Conflict", message)
        new = merge(old, body) if method == "PATCH" else body
        if sub == "scale":
            new = {**old, "spec": {**old["spec"], "replicas": body["spec"]["replicas"]}}
        elif sub == "status":
            new = {**old, "status": new.get("status")}
        stored = self.put(collection, {**new, "metadata": {**old["metadata"], **new["metadata"]}})
        return web.json_response(scale_of(stored) if sub == "scale" else stored)

    def _list(self, request: web.Request, collection: Collection, namespace: str) -> web.Response:
        name = selected_name(request)
        items = [
            obj
            for (space, own), obj in sorted(self._objects.get(collection, {}).items())
            if namespace in ("", space) and name in (None, own) and is_selected(request, obj)
        ]
        limit = int(request.query.get("limit") or 0)
        start = int(request.query.get("continue") or 0)
        if start and self.faults.expired_continues:
            self.faults.expired_continues -= 1
            return failure(410, "Expired", "The provided continue parameter is too old")
        page = items[start : start + limit] if limit else items[start:]
        metadata = {"resourceVersion": str(self._version)}
        if limit and start + limit < len(items):
            metadata["continue"] = str(start + limit)
        head = {"kind": list_kind(collection), "apiVersion": collection[0]}
        return web.json_response({**head, "metadata": metadata, "items": page})

    async def _watch(
        self, request: web.Request, collection: Collection, namespace: str
    ) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return failure(410, "Expired", "too old resource version")
        watch = _Watch(collection, namespace, selected_name(request))
        for version, kind, where, obj in self._history:
            if version > since:
                self._offer(watch, kind, where, obj)
        self._watches.add(watch)
        try:
            response = web.StreamResponse()
            await response.prepare(request)
            while (line := await watch.queue.get()) is not None:
                await response.write(line + b"\n")
            return response
        finally:
            self._watches.discard(watch)


def fake_api(*, tls: bool = True, network: MemoryNetwork | None = None) -> FakeApi:
    """Returns an API server that runs in `async with`."""
    return FakeApi(tls=tls, network=network)


def pod(name: str, namespace: str = "default", **labels: str) -> Object:
    """Returns a pod with labels."""
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "status": {"phase": "Running"},
    }


def secret(name: str, *, token: str | None, ca: str | None = None) -> Object:
    """Returns a credentials Secret in the namespace `creds`."""
    data = {"token": token, "caBundle": ca}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items() if value}
    return {"metadata": {"name": name, "namespace": "creds"}, "data": encoded}


def cluster(name: str, endpoint: str, **spec: Any) -> Object:
    """Returns a Cluster whose Secret is creds/NAME."""
    reference = {"namespace": "creds", "name": name}
    return {"metadata": {"name": name}, "spec": {"apiEndpoint": endpoint, "secretRef": reference, **spec}}


def join(hub: FakeApi, name: str, member: FakeApi, **spec: Any) -> None:
    """Registers `member` on `hub` with its current token and CA."""
    hub.put(SECRETS, secret(name, token=member.token or "token", ca=member.ca_pem))
    hub.put(CLUSTERS, cluster(name, member.url, **spec))


def _named(collection: Collection) -> Object:
    """Returns the kind and apiVersion of the objects of a collection."""
    return {"kind": list_kind(collection).removesuffix("List"), "apiVersion": collection[0]}
