"""A network in memory, which connects aiohttp clients with servers in one event loop.

All waits use the loop, so under a virtual clock hours pass in seconds, on any machine. HTTP, streams and TLS
are real; only the kernel's part between two sockets is simulated. Data arrives with a small latency, because
otherwise a client that retries at once would stop the clock for ever.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import ssl
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.tracing import Trace

HOST: Final = "127.0.0.1"
LATENCY_SECONDS: Final = 0.001
# Longer than the periods of all requests, so that connections are reused.
KEEPALIVE_SECONDS: Final = 75.0
# The unread bytes at which the writer must pause, and at which it may resume (asyncio's own bounds).
HIGH_WATER: Final = 64 * 1024
LOW_WATER: Final = HIGH_WATER // 4


class Listener(Protocol):
    """Accepts connections at one address."""

    @property
    def server(self) -> str:
        """The base URL."""

    def accept(self, transport: MemoryTransport) -> None:
        """Serve a client's connection."""


class HasContext(Protocol):
    """The part of a client's configuration that connections depend on."""

    @property
    def ssl(self) -> ssl.SSLContext | None:
        """The context that verifies servers of https URLs."""


class MemoryTransport(asyncio.Transport):
    """One end of a connection; written data arrives at the other end."""

    # asyncio's mark of transports that `loop.start_tls` may wrap.
    _start_tls_compatible = True

    def __init__(self, loop: asyncio.AbstractEventLoop, peername: str, latency: float) -> None:
        super().__init__({"peername": (peername, 0)})
        self._loop = loop
        self._latency = latency
        self._peer = self
        self._protocol: asyncio.BaseProtocol = asyncio.Protocol()
        # Data that was not read yet; None is the end of the stream.
        self._inbox: deque[bytes | None] = deque()
        self._unread = 0
        self._reading = True
        self._frozen = False
        self._held_back = False
        self._delivery: asyncio.Handle | None = None
        self._closing = False

    def connect(self, peer: MemoryTransport) -> None:
        """Make two ends one connection."""
        self._peer, peer._peer = peer, self

    # -- asyncio.Transport -----------------------------------------------------------------------------
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol that receives the data."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that was set."""
        return self._protocol

    def is_closing(self) -> bool:
        """True if either end closed the connection."""
        return self._closing

    def is_reading(self) -> bool:
        """True if the protocol receives data."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Keep arriving data in the inbox."""
        self._reading = False

    def resume_reading(self) -> None:
        """Deliver the inbox, and arriving data again."""
        self._reading = True
        self._schedule(0.0)

    def freeze(self, frozen: bool) -> None:
        """Stop all data in both directions, or deliver it again."""
        for end in (self, self._peer):
            end._frozen = frozen
            end._schedule(self._latency)

    def get_write_buffer_size(self) -> int:
        """The number of bytes that the peer has not read."""
        return self._peer._unread

    def can_write_eof(self) -> bool:
        """Always False: half-closed connections are not supported."""
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data; above HIGH_WATER the protocol must pause."""
        if self._closing or not data:
            return
        self._peer._arrive(bytes(data))
        if self._peer._unread > HIGH_WATER and not self._held_back:
            self._held_back = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Close the connection after the peer has read all data."""
        if not self._closing:
            self._peer._arrive(None)
            self._finish(None)

    def abort(self) -> None:
        """Reset the connection; the peer loses unread data."""
        self._force_close(None)

    # -- between the two ends --------------------------------------------------------------------------
    def _force_close(self, error: Exception | None) -> None:
        """Reset both ends. asyncio's TLS calls this method by name."""
        if not self._closing:
            self._peer._finish(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._inbox.clear()
            self._loop.call_soon(self._protocol.connection_lost, error)

    def _arrive(self, data: bytes | None) -> None:
        if self._closing:
            return
        self._inbox.append(data)
        self._unread += len(data or b"")
        self._schedule(self._latency)

    def _schedule(self, delay: float) -> None:
        if self._delivery is None and self._inbox and self._reading and not self._frozen:
            self._delivery = self._loop.call_later(delay, self._deliver)

    def _deliver(self) -> None:
        self._delivery = None
        while self._inbox and self._reading and not (self._frozen or self._closing):
            data = self._inbox.popleft()
            if data is None:
                self._end()
            else:
                self._unread -= len(data)
                _feed(self._protocol, data)
        self._peer._relieve()

    def _end(self) -> None:
        assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        self._protocol.eof_received()
        # Nobody here half-closes: the peer that ended its side reads no more.
        self._finish(None)

    def _relieve(self) -> None:
        if self._held_back and not self._closing and self._peer._unread <= LOW_WATER:
            self._held_back = False
            self._protocol.resume_writing()


def _feed(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    if isinstance(protocol, asyncio.Protocol):
        protocol.data_received(data)
        return
    assert isinstance(protocol, asyncio.BufferedProtocol)  # asyncio's TLS is one
    rest = memoryview(data)
    while rest:
        buffer = memoryview(protocol.get_buffer(len(rest)))
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]


class MemoryConnector(aiohttp.BaseConnector):
    """aiohttp's connector into a network; `context` verifies servers of https URLs."""

    def __init__(self, cable: Cable, context: ssl.SSLContext | None) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEPALIVE_SECONDS)
        self._cable = cable
        self._context = context

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        """A new connection to the request's host, for aiohttp. Tracing is not supported."""
        del traces
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout.sock_connect):
                ours = await self._cable.connect(req.url.host or "", req.url.port or 0)
        except ConnectionRefusedError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        protocol = ResponseHandler(loop)
        if not req.is_ssl():
            ours.set_protocol(protocol)
            protocol.connection_made(ours)
            return protocol
        context = self._context or ssl.create_default_context()
        try:
            async with asyncio.timeout(timeout.sock_connect):
                secured = await loop.start_tls(
                    ours, protocol, context, server_hostname=req.server_hostname or req.url.host
                )
        except ssl.SSLCertVerificationError as error:
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
        except ssl.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from error
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        if secured is None:
            gone = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            raise aiohttp.ClientConnectorError(req.connection_key, gone)
        protocol.connection_made(secured)
        return protocol


class Cable:
    """All connections of one client, which can be frozen or cut together."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._ends: WeakSet[MemoryTransport] = WeakSet()
        self._cut = False
        self._thawed = asyncio.Event()
        self._thawed.set()

    def connector(self, config: HasContext) -> aiohttp.BaseConnector:
        """A connector for the client of this configuration."""
        return MemoryConnector(self, config.ssl)

    async def connect(self, host: str, port: int) -> MemoryTransport:
        """The client's end of a new connection. Waits while frozen; may raise ConnectionRefusedError."""
        await self._thawed.wait()
        listener = self._network.listeners.get((host, port))
        if listener is None or self._cut:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        loop = asyncio.get_running_loop()
        ours = MemoryTransport(loop, listener.server, self._network.latency)
        theirs = MemoryTransport(loop, "client", self._network.latency)
        ours.connect(theirs)
        listener.accept(theirs)
        self._ends.add(ours)
        return ours

    def freeze(self) -> None:
        """Stop all data without an error."""
        self._thawed.clear()
        for end in self._ends:
            end.freeze(True)

    def thaw(self) -> None:
        """Deliver data again, first the data sent in between."""
        self._thawed.set()
        for end in self._ends:
            end.freeze(False)

    def cut(self) -> None:
        """Reset every connection and allow no new one, as after the kill of a process."""
        self._cut = True
        for end in tuple(self._ends):
            end.abort()


class MemoryNetwork:
    """The listeners by (host, port). Cables reach only these."""

    def __init__(self, latency: float = LATENCY_SECONDS) -> None:
        self.latency = latency
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.ports = itertools.count(1)

    def connector(self, config: HasContext) -> aiohttp.BaseConnector:
        """A connector for the client of this configuration, over a cable of its own."""
        return Cable(self).connector(config)
