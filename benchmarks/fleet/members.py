"""`python -m benchmarks.fleet.members CONFIG`: serves some members of a fleet in a box until it is ended.

A member answers what controller and adapter ask, over TLS: pods and Deployments with watches, scales, usage,
its identity, its health. It checks no token and stores nothing. Some members are away or slow for a minute.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import ssl
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec

from benchmarks.adapter.backends import http
from benchmarks.controller.bodies import NO_HPAS
from benchmarks.fleet.layout import FleetSize
from benchmarks.fleet.state import DEPLOYMENTS, PODS, MemberState, Place
from fedhpa.serving import quick_loop

# The path of a process' own figures.
STATS: Final = "/fleet/stats"
# The share of all members that are away or slow at a time, and for how long.
FAULTY: Final = 0.02
FAULT_SECONDS: Final = 60.0
SLOW_SECONDS: Final = 1.5
# The share of the pods that are replaced in a minute.
CHURN: Final = 0.01
BOOKMARK_SECONDS: Final = 60.0
OK, AWAY, SLOW = "ok", "away", "slow"
_WATCH_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_EXPIRED: Final = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
_METRICS: Final = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "metrics.k8s.io/v1beta1",
    "resources": [{"name": "pods", "kind": "PodMetrics", "namespaced": True, "verbs": ["get", "list"]}],
}


class Member:
    """One member: its state, its watches, and how it answers now."""

    def __init__(self, size: FleetSize, cluster: int) -> None:
        self.state = MemberState(size, cluster, self._send)
        self.mode = OK
        self.requests = 0
        self._watches: dict[Place, set[asyncio.Transport]] = {}
        self.connections: set[asyncio.Transport] = set()

    def turn(self, mode: str) -> None:
        """Begin to answer in a mode. After an absence all connections end, and no watch can go on."""
        if self.mode == AWAY and mode != AWAY:
            self.state.expire()
            for each in tuple(self.connections):
                each.abort()
        self.mode = mode

    def bookmark(self) -> None:
        """Send the present version to all watches."""
        for (collection, _), transports in self._watches.items():
            kind, version = ("Pod", "v1") if collection == PODS else ("Deployment", "apps/v1")
            head = {
                "kind": kind,
                "apiVersion": version,
                "metadata": {"resourceVersion": str(self.state.version)},
            }
            line = _chunk(msgspec.json.encode({"type": "BOOKMARK", "object": head}) + b"\n")
            for each in transports:
                each.write(line)

    def watch(self, place: Place, version: int, transport: asyncio.Transport) -> None:
        """Answer a watch."""
        transport.write(_WATCH_HEAD)
        missed = self.state.events_since(version, place)
        if missed is None:
            transport.write(_chunk(_EXPIRED) + b"0\r\n\r\n")
            return
        for line in missed:
            transport.write(_chunk(line))
        self._watches.setdefault(place, set()).add(transport)

    def gone(self, transport: asyncio.Transport) -> None:
        """Forget a connection."""
        self.connections.discard(transport)
        for transports in self._watches.values():
            transports.discard(transport)

    def answer(self, method: str, target: str, body: bytes, transport: asyncio.Transport, gzip: bool) -> None:
        """Answer a request; in mode AWAY nothing is answered."""
        self.requests += 1
        if self.mode == AWAY:
            return
        path, _, query = target.partition("?")
        if "watch=" in query:
            given = parse_qs(query)
            self.watch(_place(path), int(given.get("resourceVersion", ["0"])[0] or 0), transport)
            return
        found = self._found(method, unquote(path), query, body)
        if found is None:
            status = (
                b'{"kind":"Status","apiVersion":"v1","code":404,"reason":"NotFound","message":"not found"}'
            )
            head = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            transport.write(head % len(status) + status)
            return
        transport.write(http(found, gzip=gzip))

    def _found(self, method: str, path: str, query: str, body: bytes) -> object | None:
        parts = path.strip("/").split("/")
        place, state = _place(path), self.state
        if path == "/readyz":
            return b"ok"
        if path == "/version":
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
        if path == "/api/v1/namespaces/kube-system":
            uid = hashlib.sha256(state.name.encode()).hexdigest()
            metadata = {
                "name": "kube-system",
                "uid": f"{uid[:8]}-{uid[8:12]}-4{uid[13:16]}-8{uid[17:20]}-{uid[20:32]}",
            }
            return {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}
        if path.startswith("/apis/metrics.k8s.io/v1beta1"):
            if len(parts) == 3:
                return _METRICS
            label = parse_qs(query).get("labelSelector", [""])[0]
            return state.usage(place[1], time.time(), label.partition("=")[2]) if parts[-1] == PODS else None
        if path.endswith("/scale") and len(parts) == 8:
            if method in ("PUT", "PATCH"):
                return state.scale(parts[4], parts[6], int(msgspec.json.decode(body)["spec"]["replicas"]))
            return state.scale_of(parts[4], parts[6])
        if parts[-1] == PODS and parts[0] == "api":
            return state.listed_pods(place[1])
        if parts[-1] == DEPLOYMENTS:
            return state.listed_deployments(place[1])
        if parts[-1] == "horizontalpodautoscalers":
            return NO_HPAS
        return None

    def _send(self, place: Place, line: bytes) -> None:
        if self.mode != AWAY:
            for each in self._watches.get(place, ()):
                each.write(_chunk(line))


def _place(path: str) -> Place:
    """The collection and the namespace of a path; "" without one."""
    _, found, rest = path.partition("/namespaces/")
    return (path.rpartition("/")[2], rest.partition("/")[0] if found else "")


def _chunk(line: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(line), line)


class _Connection(asyncio.Protocol):
    """Answers one request after another. Clients do not pipeline."""

    def __init__(self, member: Member, stats: Callable[[], dict[str, float]]) -> None:
        self._member = member
        self._stats = stats
        self._received = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._member.connections.add(self._transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._member.gone(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, ended, rest = self._received.partition(b"\r\n\r\n")
        if not ended:
            return
        length = _length(head)
        if len(rest) < length:
            return
        self._received = rest[length:]
        method, target = head.split(b" ", 2)[:2]
        if target == STATS.encode():
            self._transport.write(http(self._stats()))
            return
        answer = partial(
            self._member.answer,
            method.decode(),
            target.decode(),
            rest[:length],
            self._transport,
            b"gzip" in head,
        )
        if self._member.mode == SLOW:
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._later, answer)
        else:
            answer()

    def _later(self, answer: Callable[[], None]) -> None:
        if not self._transport.is_closing():
            answer()


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


def faults(size: FleetSize, minute: int) -> dict[int, str]:
    """The members that are away or slow in a minute. All processes know the same ones."""
    rng = random.Random(f"faults-{minute}")
    return {cluster: rng.choice((AWAY, SLOW)) for cluster in range(size.clusters) if rng.random() < FAULTY}


async def _live(size: FleetSize, members: dict[int, Member], begun: Path) -> None:
    """Replace pods. Once the file `begun` exists, let members be away or slow."""
    rng, debt, sent = random.Random(), 0.0, time.monotonic()
    pods = sum(member.state.pods for member in members.values())
    minute = -1
    while True:
        await asyncio.sleep(0.2)
        now = time.monotonic()
        passed, sent = now - sent, now
        debt += pods * CHURN / 60 * passed
        while debt >= 1:
            debt -= 1
            rng.choice(list(members.values())).state.churn()
        if (turn := int(time.time() / FAULT_SECONDS)) != minute and begun.exists():  # noqa: ASYNC240  # once a minute
            minute, faulty = turn, faults(size, turn)
            for cluster, member in members.items():
                member.turn(faulty.get(cluster, OK))


async def _bookmarks(members: dict[int, Member]) -> None:
    while True:
        await asyncio.sleep(BOOKMARK_SECONDS)
        for member in members.values():
            member.bookmark()
            await asyncio.sleep(0)


async def _serve(config: dict[str, Any]) -> None:
    size = FleetSize(**config["size"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config["cert"], config["key"])
    members = {cluster: Member(size, cluster) for cluster in config["clusters"]}

    def stats() -> dict[str, float]:
        every = members.values()
        return {
            "requests": sum(member.requests for member in every),
            "churned": sum(member.state.churned for member in every),
            "scaled": sum(member.state.scaled for member in every),
            "connections": sum(len(member.connections) for member in every),
            "pods": sum(member.state.pods for member in every),
            "faulty": sum(member.mode != OK for member in every),
        }

    ports = {}
    for cluster, member in members.items():
        server = await asyncio.get_running_loop().create_server(
            partial(_Connection, member, stats), "127.0.0.1", 0, ssl=context, backlog=4096
        )
        ports[cluster] = server.sockets[0].getsockname()[1]
    ready = Path(config["ready"])
    ready.with_suffix(".new").write_text(json.dumps(ports))
    ready.with_suffix(".new").rename(ready)
    async with asyncio.TaskGroup() as group:
        group.create_task(_live(size, members, Path(config["begun"])))
        group.create_task(_bookmarks(members))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        runner.run(_serve(json.loads(Path(sys.argv[1]).read_text())))
