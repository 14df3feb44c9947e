"""An API server small enough to be told how to fail, on a real socket with real TLS or in memory.

It keeps objects with resource versions, serves lists in pages, watches with bookmarks, status and scale,
and can hang, refuse, answer 500, cut its answers off, forget its history, or change its certificate.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trustme
from aiohttp import web
from looptime import LoopTimeEventLoop

from fedhpa.kube.config import ApiConfig, tls_context
from fedhpa.kube.credentials import Credentials, NoCredentials
from testbed.stage.ports import held
from tests.support.memory_network import MemoryListener, MemoryNetwork

Object = dict[str, Any]
# (apiVersion, plural)
Collection = tuple[str, str]

PODS: Collection = ("v1", "pods")
SECRETS: Collection = ("v1", "secrets")
CLUSTERS: Collection = ("cluster.karmada.io/v1alpha1", "clusters")


# What polls in real time waits at least so long: a machine that stands still for seconds proves nothing.
PATIENCE = 60.0


def patient(within: float) -> float:
    """`within` where time is virtual; on a real clock a bound that no slow machine meets by itself."""
    loop = asyncio.get_running_loop()
    virtual = isinstance(loop, LoopTimeEventLoop) and loop.looptime_on
    return within if virtual else max(within, PATIENCE)


async def eventually(holds: Callable[[], object], within: float = 5.0) -> None:
    """Wait until `holds` is true, looking less often the longer it takes; fail after `within` seconds, which
    in real time are PATIENCE at least.
    """
    pause = 0.005
    async with asyncio.timeout(patient(within)):
        while not holds():  # other people's state has no event
            await asyncio.sleep(pause)
            pause = min(pause * 1.05, 0.1)


@dataclass
class Faults:
    """What goes wrong, by path prefix: hang, a status to answer with, or a spoiled body, or both."""

    hang: set[str] = field(default_factory=set)
    status: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    truncate: set[str] = field(default_factory=set)
    body: dict[str, bytes] = field(default_factory=dict)
    # How many of the next list pages with a continue token are answered 410.
    expired_continues: int = 0

    def clear(self) -> None:
        """Be well again."""
        self.__dict__.update(Faults().__dict__)


@dataclass(eq=False)
class _Watch:
    collection: Collection
    namespace: str
    name: str | None
    queue: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    authorization: str | None
    peer: object


class FakeApi:
    """One API server. Everything about it may be changed while it runs. In a network it speaks plain HTTP."""

    def __init__(self, *, tls: bool = True, network: MemoryNetwork | None = None) -> None:
        self.faults = Faults()
        self.token: str | None = None
        self.ca = trustme.CA() if tls and network is None else None
        self.seen: list[Seen] = []
        self.oldest = 0
        self.port = 0
        self._version = 100
        self._objects: dict[Collection, dict[tuple[str, str], Object]] = {}
        self._history: list[tuple[int, str, Collection, Object]] = []
        self._watches: set[_Watch] = set()
        self._stopping = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._leave: Callable[[], object] = lambda: None
        self._network = network
        self._listener: MemoryListener | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.ca else 'http'}://127.0.0.1:{self.port}"

    @property
    def ca_pem(self) -> str:
        """Of whom to trust; "" for plain HTTP."""
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
        """The queries of the requests whose path ends so, in order."""
        return [seen.query for seen in self.seen if seen.path.endswith(part)]

    # -- life ---------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        if self._network is not None:
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
        if not self.port:
            self._take_a_port()
        site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=context, reuse_address=True)
        await site.start()

    async def stop(self) -> None:
        """Stop listening and drop every connection: from now on connections are refused."""
        self._stopping.set()
        self.end_watches()
        if self._listener is not None:
            await self._listener.__aexit__()
            self._listener = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _take_a_port(self) -> None:
        """Have a port as long as this object lives: stopped, no other test's server must get it."""
        self._leave()
        place = held()
        self.port = place.getsockname()[1]
        self._leave = weakref.finalize(self, place.close)

    # -- objects ------------------------------------------------------------------------------------
    def put(self, collection: Collection, obj: Object) -> Object:
        """Create or replace an object, as somebody else would."""
        metadata = obj.setdefault("metadata", {})
        key = (metadata.get("namespace", ""), metadata["name"])
        objects = self._objects.setdefault(collection, {})
        self._version += 1
        stored: Object = {**obj, "metadata": {**metadata, "resourceVersion": str(self._version)}}
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
        """Remove an object without telling any watch, as if it happened while the watch was broken."""
        del self._objects[collection][(namespace, name)]
        self._version += 1

    # -- watches ------------------------------------------------------------------------------------
    def expire(self) -> None:
        """Compact: watches from versions up to now are answered 410."""
        self._version += 1
        self.oldest = self._version
        self._history.clear()

    def end_watches(self) -> None:
        for watch in self._watches:
            watch.queue.put_nowait(None)

    def send(self, line: bytes) -> None:
        """Put a line into every watch."""
        for watch in self._watches:
            watch.queue.put_nowait(line)

    def bookmark(self) -> str:
        self._version += 1
        event = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._version)}}}
        self.send(json.dumps(event).encode())
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
            return _status(401, "Unauthorized", "Unauthorized")
        if request.path in ("/readyz", "/healthz"):
            return web.Response(text="ok")
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.36.3"})
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
        await response.write(b'{"kind":"List","items":[')
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
            return _status(404, "NotFound", f'{collection[1]} "{name}" not found')
        if request.method == "GET":
            return web.json_response(_scale(obj) if sub == "scale" else obj)
        if request.method == "DELETE":
            self.remove(collection, name, namespace)
            return web.json_response({"kind": "Status", "status": "Success"})
        return self._change(collection, obj, await request.json(), request.method, sub)

    def _create(self, collection: Collection, namespace: str, obj: Object) -> web.Response:
        metadata = obj.setdefault("metadata", {})
        if namespace:
            metadata["namespace"] = namespace
        if self.find(collection, metadata["name"], namespace) is not None:
            return _status(409, "AlreadyExists", f'{collection[1]} "{metadata["name"]}" already exists')
        return web.json_response(self.put(collection, obj), status=201)

    def _change(
        self, collection: Collection, old: Object, body: Object, method: str, sub: str
    ) -> web.Response:
        asked = body.get("metadata", {}).get("resourceVersion")
        if asked is not None and asked != old["metadata"]["resourceVersion"]:
            name = old["metadata"]["name"]
            message = (
                f'Operation cannot be fulfilled on {collection[1]} "{name}": the object has been modified'
            )
            return _status(409, "Conflict", message)
        new = _merge(old, body) if method == "PATCH" else body
        if sub == "scale":
            new = {**old, "spec": {**old["spec"], "replicas": body["spec"]["replicas"]}}
        elif sub == "status":
            new = {**old, "status": new.get("status")}
        stored = self.put(collection, {**new, "metadata": {**old["metadata"], **new["metadata"]}})
        return web.json_response(_scale(stored) if sub == "scale" else stored)

    def _list(self, request: web.Request, collection: Collection, namespace: str) -> web.Response:
        name = _selected_name(request)
        items = [
            obj
            for (space, own), obj in sorted(self._objects.get(collection, {}).items())
            if namespace in ("", space) and name in (None, own) and _selected(request, obj)
        ]
        limit = int(request.query.get("limit") or 0)
        start = int(request.query.get("continue") or 0)
        if start and self.faults.expired_continues:
            self.faults.expired_continues -= 1
            return _status(410, "Expired", "The provided continue parameter is too old")
        page = items[start : start + limit] if limit else items[start:]
        metadata = {"resourceVersion": str(self._version)}
        if limit and start + limit < len(items):
            metadata["continue"] = str(start + limit)
        return web.json_response({"kind": "List", "metadata": metadata, "items": page})

    async def _watch(
        self, request: web.Request, collection: Collection, namespace: str
    ) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return _status(410, "Expired", "too old resource version")
        watch = _Watch(collection, namespace, _selected_name(request))
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


def parse(path: str) -> tuple[Collection, str, str | None, str]:
    """(collection, namespace, name, subresource) of a URL path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        version, rest = parts[1], parts[2:]
    else:
        version, rest = f"{parts[1]}/{parts[2]}", parts[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return (
        (version, rest[0]),
        namespace,
        rest[1] if len(rest) > 1 else None,
        rest[2] if len(rest) > 2 else "",
    )


def _selected_name(request: web.Request) -> str | None:
    selector = request.query.get("fieldSelector", "")
    return selector.removeprefix("metadata.name=") if selector else None


def _selected(request: web.Request, obj: Object) -> bool:
    """Whether an object has the labels of the request's selector, of which only NAME=VALUE is known."""
    label, _, value = request.query.get("labelSelector", "").partition("=")
    return not label or obj["metadata"].get("labels", {}).get(label) == value


def _merge(old: Object, patch: Object) -> Object:
    merged = dict(old)
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge(merged[key], value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _scale(obj: Object) -> Object:
    labels = obj["spec"].get("selector", {}).get("matchLabels", {"app": "web"})
    selector = ",".join(f"{label}={value}" for label, value in labels.items())
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": obj["metadata"],
        "spec": {"replicas": obj["spec"]["replicas"]},
        "status": {"replicas": obj["spec"]["replicas"], "selector": selector},
    }


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return web.json_response({**body, "reason": reason, "message": message}, status=code)


@asynccontextmanager
async def fake_api(*, tls: bool = True, network: MemoryNetwork | None = None) -> AsyncIterator[FakeApi]:
    """A running API server."""
    api = FakeApi(tls=tls, network=network)
    await api.start()
    try:
        yield api
    finally:
        await api.stop()


def pod(name: str, namespace: str = "default", **labels: str) -> Object:
    """A pod with labels."""
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "status": {"phase": "Running"},
    }


def secret(name: str, *, token: str | None, ca: str | None = None) -> Object:
    """A credentials Secret in the namespace `creds`."""
    data = {"token": token, "caBundle": ca}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items() if value}
    return {"metadata": {"name": name, "namespace": "creds"}, "data": encoded}


def cluster(name: str, endpoint: str, **spec: Any) -> Object:
    """A Cluster whose Secret is creds/NAME."""
    reference = {"namespace": "creds", "name": name}
    return {"metadata": {"name": name}, "spec": {"apiEndpoint": endpoint, "secretRef": reference, **spec}}


def join(hub: FakeApi, name: str, member: FakeApi, **spec: Any) -> None:
    """Register `member` on `hub` with its current token and CA."""
    hub.put(SECRETS, secret(name, token=member.token or "token", ca=member.ca_pem))
    hub.put(CLUSTERS, cluster(name, member.url, **spec))
