"""A hub and members with prepared answers, in one process, at the lowest possible cost.

Members answer as API servers that proxy metrics-server: in chunks of 32 KiB, and large bodies compressed with
gzip level 1 if the client accepts it.
"""

from __future__ import annotations

import asyncio
import base64
import multiprocessing
import ssl
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import msgspec

from certs import CertificateAuthority
from fedhpa.serving import quick_loop

METRICS: Final = "/apis/metrics.k8s.io/v1beta1"
CUSTOM: Final = "/apis/custom.metrics.k8s.io"
EXTERNAL: Final = "/apis/external.metrics.k8s.io/v1beta1"
FRONT_PROXY: Final = "front-proxy-client"
START_SECONDS: Final = 60.0
# The chunk size in which an aggregating API server forwards a body.
CHUNK: Final = 32 * 1024
# API servers compress longer bodies, at this level.
GZIP_FROM, GZIP_LEVEL, GZIP_FORMAT = 128 * 1024, 1, 31
# A GET of this path makes the server on that port hang from then on.
HANG: Final = "/hang"
# The answer to a watch: accepted, without any event.
NO_EVENTS: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

# (method, path with query, whether the client accepts gzip) -> the whole answer; None for no answer.
Answerer = Callable[[str, str, bool], bytes | None]


@dataclass(frozen=True)
class FleetSize:
    """The number of members, and of pods in each, spread evenly over namespaces and `apps` workloads.

    Lists differ each time that all members were asked, unless `changes` is False.
    """

    members: int
    pods: int
    namespaces: int = 50
    apps: int = 20
    gzip: bool = True
    changes: bool = True

    @property
    def total(self) -> int:
        """The pods of all members."""
        return self.members * self.pods


@contextmanager
def backends(size: FleetSize, folder: Path, proxies: CertificateAuthority) -> Iterator[Backends]:
    """The running hub and members; `folder` holds their serving certificate."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    arguments = (size, folder, proxies.bundle_pem.decode(), theirs)
    process = spawn.Process(target=_serve, args=arguments, daemon=True)
    process.start()
    try:
        if not ours.poll(START_SECONDS):
            raise RuntimeError("hub and members did not start")
        hub, *members = ours.recv()
        yield Backends(hub, members)
    finally:
        process.terminate()
        process.join()


@dataclass(frozen=True)
class Backends:
    """The ports of the hub and the members."""

    hub: int
    members: list[int]


def _serve(size: FleetSize, folder: Path, proxies: str, ports: Connection) -> None:
    async def serve() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        answers = MemberAnswers(size)
        members = [await _listen(answers, context) for _ in range(size.members)]
        authority = (folder / "ca.crt").read_text()
        ports.send([await _listen(HubAnswers(authority, members, proxies), context), *members])
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=quick_loop) as runner:
        runner.run(serve())


async def _listen(answer: Answerer, context: ssl.SSLContext) -> int:
    hanging = asyncio.Event()
    server = await asyncio.get_running_loop().create_server(
        partial(_Connection, answer, hanging), "127.0.0.1", 0, ssl=context, backlog=4096
    )
    port: int = server.sockets[0].getsockname()[1]
    return port


class _Connection(asyncio.Protocol):
    """Answers one request after another by its first line and its Accept-Encoding alone."""

    def __init__(self, answer: Answerer, hanging: asyncio.Event) -> None:
        self._answer = answer
        self._hanging = hanging
        self._received = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, rest = self._received.partition(b"\r\n\r\n")
            length = _length(head)
            if len(rest) < length:
                return
            self._received = rest[length:]
            method, path = head.split(b" ", 2)[:2]
            if path == HANG.encode():
                self._hanging.set()
            elif not self._hanging.is_set():
                whole = self._answer(method.decode(), path.decode(), b"gzip" in head)
                if whole is not None:
                    self._transport.write(whole)


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


def http(content: object, *, gzip: bool = False) -> bytes:
    """A 200 response with JSON; long bodies in chunks, and compressed if `gzip`."""
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    if len(body) <= CHUNK:
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if gzip and len(body) > GZIP_FROM:
        head += b"Content-Encoding: gzip\r\n"
        packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_FORMAT)
        body = packer.compress(body) + packer.flush()
    pieces = (body[at : at + CHUNK] for at in range(0, len(body), CHUNK))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


class HubAnswers:
    """The hub's answers: Clusters, Secrets, the front proxy's CA, and allowed access reviews."""

    def __init__(self, authority: str, members: list[int], proxies: str) -> None:
        secret = {
            "metadata": {"name": "member", "namespace": "fleet", "resourceVersion": "1"},
            "data": {key: _base64(text) for key, text in (("token", "t"), ("caBundle", authority))},
        }
        trust = {
            "requestheader-client-ca-file": proxies,
            "requestheader-allowed-names": f'["{FRONT_PROXY}"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        config_map = {
            "metadata": {"name": "extension-apiserver-authentication", "resourceVersion": "1"},
            "data": trust,
        }
        self._lists: Mapping[str, list[object]] = {
            "clusters": [_cluster(index, port) for index, port in enumerate(members)],
            "secrets": [secret],
            "configmaps": [config_map],
        }

    def __call__(self, method: str, path: str, _: bool) -> bytes | None:
        """The answer to a list, a watch or an access review."""
        path, query = path.partition("?")[::2]
        if "watch=" in query:
            return NO_EVENTS
        if method == "POST":
            is_access = path.endswith("/subjectaccessreviews")
            kind, group = (
                ("SubjectAccessReview", "authorization") if is_access else ("TokenReview", "authentication")
            )
            return http({"kind": kind, "apiVersion": f"{group}.k8s.io/v1", "status": {"allowed": is_access}})
        parts = path.strip("/").split("/")
        version, plural = parts[1] if parts[0] == "api" else "/".join(parts[1:3]), parts[-1]
        head = {"kind": f"{plural.removesuffix('s').capitalize()}List", "apiVersion": version}
        items = self._lists.get(plural, [])
        return http({**head, "metadata": {"resourceVersion": "1"}, "items": items})


def _cluster(index: int, port: int) -> dict[str, object]:
    return {
        "metadata": {"name": f"member{index:03}", "resourceVersion": "1"},
        "spec": {
            "apiEndpoint": f"https://127.0.0.1:{port}",
            "secretRef": {"namespace": "fleet", "name": "member"},
        },
    }


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class MemberAnswers:
    """The members' answers. All members answer alike, because a pod's identity includes its cluster."""

    def __init__(self, size: FleetSize) -> None:
        self._size = size
        self._ready: dict[tuple[str, bool, int], bytes] = {}
        self._asked: Counter[str] = Counter()

    def __call__(self, method: str, path: str, gzip: bool) -> bytes | None:
        """The answer, built twice for each path: with two versions that take turns."""
        del method
        path, gzip = path.partition("?")[0], gzip and self._size.gzip
        version = self._asked[path] // self._size.members % 2 if self._size.changes else 0
        self._asked[path] += 1
        ready = self._ready.get((path, gzip, version))
        if ready is None:
            ready = self._ready[path, gzip, version] = http(self._content(path, version), gzip=gzip)
        return ready

    def _content(self, path: str, version: int) -> object:
        parts = path.split("/")
        namespace = parts[5] if len(parts) > 5 and parts[4] == "namespaces" else ""
        if path.startswith(METRICS):
            wanted = int(namespace.rpartition("-")[2] or -1)
            numbers = range(self._size.pods)
            spaces = self._size.namespaces
            items = [self._pod(number) for number in numbers if wanted in (-1, number % spaces)]
            items.sort(key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))
            return {
                "kind": "PodMetricsList",
                "apiVersion": "metrics.k8s.io/v1beta1",
                "metadata": {"resourceVersion": str(version)},
                "items": items,
            }
        if namespace and path.startswith(CUSTOM):
            head = {"kind": "MetricValueList", "apiVersion": f"{CUSTOM[6:]}/v1beta2"}
            return {**head, "items": [_custom(namespace, number) for number in range(2)]}
        if namespace and path.startswith(EXTERNAL):
            head = {"kind": "ExternalMetricValueList", "apiVersion": EXTERNAL[6:]}
            return {**head, "items": [_external(namespace, number) for number in range(2)]}
        if path == CUSTOM:
            served = [{"groupVersion": f"{CUSTOM[6:]}/v1beta2", "version": "v1beta2"}]
            return {"kind": "APIGroup", "apiVersion": "v1", "versions": served}
        return {"kind": "APIResourceList", "apiVersion": "v1", "resources": []}

    def _pod(self, number: int) -> dict[str, Any]:
        """PodMetrics as metrics-server writes it, with the pod's labels; 450 bytes with its cluster."""
        app = f"web-{number // self._size.namespaces % self._size.apps}"
        # Usage is noise, so that gzip does not shrink it.
        noise = number * 2654435761 % 2**32
        return {
            "metadata": {
                "name": f"{app}-5d9c7b6f4-{noise % 36**4:05x}",
                "namespace": f"shop-{number % self._size.namespaces}",
                "creationTimestamp": "2026-03-11T13:23:17Z",
                "labels": {
                    "app": app,
                    "app.kubernetes.io/instance": "shop-frontend",
                    "app.kubernetes.io/version": "1.31.4",
                    "pod-template-hash": "5d9c7b6f4",
                },
            },
            "timestamp": f"2026-03-11T13:23:{noise % 60:02}Z",
            "window": f"15.{noise % 1000:03}s",
            "containers": [{"name": "web", "usage": {"cpu": f"{noise}n", "memory": f"{noise >> 12}Ki"}}],
        }


def _custom(namespace: str, number: int) -> dict[str, object]:
    return {
        "describedObject": {
            "kind": "Pod",
            "namespace": namespace,
            "name": f"web-{number}",
            "apiVersion": "/v1",
        },
        "metric": {"name": "requests", "selector": None},
        "timestamp": "2026-03-11T13:23:00Z",
        "value": f"{100 + number}",
    }


def _external(namespace: str, number: int) -> dict[str, object]:
    return {
        "metricName": "depth",
        "metricLabels": {"queue": f"{namespace}-{number}"},
        "timestamp": "2026-03-11T13:23:00Z",
        "value": f"{100 + number}",
    }
