"""A small HTTP/1.1 server for the emulated API servers.

It reads the requests of one kind of client (aiohttp's) over the network in memory, and costs a tenth of a
full server: an hour of a simulated fleet has tens of thousands of requests.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote

from benchmarks.world.network import HOST, MemoryNetwork, MemoryTransport

_PORTS: Final = itertools.count(1)
PLAIN_HTTP_PORT: Final = 80


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `path` and `query` are decoded, `client` is the bearer token."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    client: str


@dataclass(slots=True)
class Answer:
    """One answer. With `follow` it is a stream, and `follow(send)` returns the function that ends it."""

    status: int
    body: bytes = b""
    follow: Callable[[Callable[[bytes], None]], Callable[[], None]] | None = None
    # The stream ends after so many seconds.
    lasts: float = 0.0


@dataclass
class Faults:
    """The faults of a server. Paths are prefixes."""

    # Requests below these paths are never answered.
    hangs: tuple[str, ...] = ()
    # Requests below these paths are answered with HTTP 500.
    fails: tuple[str, ...] = ()
    # Writes below these paths are answered with HTTP 500.
    refuses: tuple[str, ...] = ()
    # Seconds before an answer.
    delay: float = 0.0


@dataclass
class Server:
    """Serves `handle` at http://HOST:PORT while it is started. `observe` gets each request and its status."""

    name: str
    network: MemoryNetwork
    handle: Callable[[Request], Answer]
    observe: Callable[[Request, int], None] = lambda *_: None
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.port = PLAIN_HTTP_PORT + next(_PORTS)
        self.server = f"http://{HOST}:{self.port}"
        self._connections: set[_Connection] = set()

    @property
    def listens(self) -> bool:
        """True while it accepts connections."""
        return (HOST, self.port) in self.network.listeners

    def start(self) -> None:
        """Accepts connections."""
        self.network.listeners[HOST, self.port] = self

    def stop(self) -> None:
        """Refuses new connections and resets open ones."""
        self.network.listeners.pop((HOST, self.port), None)
        for connection in tuple(self._connections):
            connection.transport.abort()

    def accept(self, transport: MemoryTransport) -> None:
        """Serves a client's connection."""
        connection = _Connection(self, transport)
        self._connections.add(connection)
        transport.set_protocol(connection)

    def forget(self, connection: _Connection) -> None:
        """Drops a connection that was lost."""
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    def __init__(self, server: Server, transport: MemoryTransport) -> None:
        self.transport = transport
        self._server = server
        self._buffer = bytearray()
        self._end: Callable[[], None] | None = None

    def data_received(self, data: bytes) -> None:
        """Serves each request that is whole."""
        self._buffer += data
        while (request := self._next()) is not None:
            self._serve(request)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """Ends a stream whose client is gone."""
        self._server.forget(self)
        self._stop_following()

    def pause_writing(self) -> None:
        """A reader that is slow costs only memory here."""

    def resume_writing(self) -> None:
        """See pause_writing."""

    def _next(self) -> Request | None:
        """Takes the next whole request from the buffer."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        size = int(headers.get("content-length", "0"))
        begin = end + 4
        if len(self._buffer) < begin + size:
            return None
        body = bytes(self._buffer[begin : begin + size])
        del self._buffer[: begin + size]
        method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        token = headers.get("authorization", "").removeprefix("Bearer ")
        return Request(method, unquote(path), dict(parse_qsl(query)), body, token)

    def _serve(self, request: Request) -> None:
        faults = self._server.faults
        if request.path.startswith(faults.hangs):
            return
        if faults.delay:
            asyncio.get_running_loop().call_later(faults.delay, self._answer, request)
        else:
            self._answer(request)

    def _answer(self, request: Request) -> None:
        if self.transport.is_closing():
            return
        faults = self._server.faults
        failing = request.path.startswith(faults.fails) or (
            request.method != "GET" and request.path.startswith(faults.refuses)
        )
        answer = failure() if failing else self._server.handle(request)
        self._server.observe(request, answer.status)
        phrase = HTTPStatus(answer.status).phrase
        head = f"HTTP/1.1 {answer.status} {phrase}\r\nContent-Type: application/json\r\n"
        if answer.follow is None:
            self.transport.write(
                b"%sContent-Length: %d\r\n\r\n%s" % (head.encode(), len(answer.body), answer.body)
            )
            return
        self.transport.write(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        self._end = answer.follow(self._send)
        if answer.lasts:
            asyncio.get_running_loop().call_later(answer.lasts, self._finish, self._end)

    def _send(self, line: bytes) -> None:
        if not self._server.faults.hangs and not self.transport.is_closing():
            self.transport.write(b"%x\r\n%s\n\r\n" % (len(line) + 1, line))

    def _finish(self, stream: Callable[[], None]) -> None:
        if self._end is stream and not self.transport.is_closing():
            self._stop_following()
            self.transport.write(b"0\r\n\r\n")

    def _stop_following(self) -> None:
        if self._end is not None:
            self._end()
            self._end = None


def failure() -> Answer:
    """Returns the answer of a server that is broken."""
    return Answer(
        500, b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"it is broken","code":500}'
    )
