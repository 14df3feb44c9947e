"""A network without sockets: an aiohttp application and an aiohttp client of it in one event loop.

Everything waits on the loop alone, so under a virtual clock (looptime) hours pass in seconds and nothing
depends on how fast a machine is. Bytes, HTTP, streams and, with a context, TLS are the real ones: only what
a kernel does between two sockets is done here. Nothing arrives in the instant it was sent, or a client that
tries again at once would stop the clock for ever.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import ssl
from collections import deque
from typing import TYPE_CHECKING, Final, Self
from weakref import WeakSet

import aiohttp
from aiohttp import web
from aiohttp.client_proto import ResponseHandler

from fedhpa.kube.config import ApiConfig
from fedhpa.kube.transport import KEEPALIVE_SECONDS

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.tracing import Trace

HOST: Final = "127.0.0.1"
LATENCY_SECONDS: Final = 0.001
# What is on its way at most before the writer is told to wait, and when it may go on (asyncio's own bounds).
HIGH_WATER: Final = 64 * 1024
LOW_WATER: Final = HIGH_WATER // 4


class MemoryTransport(asyncio.Transport):
    """One end of a connection; what is written comes out at the other end (`connected`)."""

    # asyncio's mark of transports that `loop.start_tls` may wrap.
    _start_tls_compatible = True

    def __init__(self, loop: asyncio.AbstractEventLoop, peername: str, latency: float) -> None:
        super().__init__({"peername": (peername, 0)})
        self._loop = loop
        self._latency = latency
        self._peer = self
        self._protocol: asyncio.BaseProtocol = asyncio.Protocol()
        # What arrived and was not read yet; None is the end.
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

    # -- as asyncio.Transport says ---------------------------------------------------------------------
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Who is told of what arrives."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """As set."""
        return self._protocol

    def is_closing(self) -> bool:
        """Whether it was closed, by whichever end."""
        return self._closing

    def is_reading(self) -> bool:
        """Whether what arrives is passed on."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Keep what arrives."""
        self._reading = False

    def resume_reading(self) -> None:
        """Pass on what was kept."""
        self._reading = True
        self._schedule(0.0)

    def freeze(self, frozen: bool) -> None:
        """Let nothing through in either direction, or let through what was held."""
        for end in (self, self._peer):
            end._frozen = frozen
            end._schedule(self._latency)

    def get_write_buffer_size(self) -> int:
        """Bytes that the peer has not read."""
        return self._peer._unread

    def can_write_eof(self) -> bool:
        """Never: nobody here closes one half."""
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send; the protocol is told when it should wait."""
        if self._closing or not data:
            return
        self._peer._arrive(bytes(data))
        if self._peer._unread > HIGH_WATER and not self._held_back:
            self._held_back = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """End the connection once the peer has read what was written."""
        if not self._closing:
            self._peer._arrive(None)
            self._finish(None)

    def abort(self) -> None:
        """End the connection now; the peer loses what it has not read."""
        self._force_close(None)

    # -- what happens between the ends -----------------------------------------------------------------
    def _force_close(self, error: Exception | None) -> None:
        """End both sides; called by this name by asyncio's TLS, too."""
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


class MemoryListener:
    """Serves an application at one address of a network, as `Listener` of the embedded plane on a port.

    `server` is its URL: https with a context, else http; handlers whose client is gone are cancelled.
    """

    def __init__(
        self,
        network: MemoryNetwork,
        application: web.Application,
        context: ssl.SSLContext | None = None,
        *,
        host: str = HOST,
        port: int | None = None,
    ) -> None:
        self.port = next(network.ports) if port is None else port
        self.server = f"{'http' if context is None else 'https'}://{host}:{self.port}"
        self._network = network
        self._address = (host, self.port)
        self._own_context = self._context = context
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=0.5
        )
        self._handshakes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self._runner.cleanup()

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        """Listen (again), with another certificate if one is given; who was connected no longer is."""
        await self.stop()
        self._context = context or self._own_context
        self._network.listeners[self._address] = self

    async def stop(self) -> None:
        """Refuse connections from now on and reset those that are open."""
        self._network.listeners.pop(self._address, None)
        for task in tuple(self._handshakes):
            task.cancel()
        server = self._runner.server
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    def accept(self, transport: MemoryTransport) -> None:
        """Serve the other end of a client's connection."""
        server = self._runner.server
        assert server is not None, "it listens after it was entered"
        protocol = server()
        if self._context is None:
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            return
        task = asyncio.ensure_future(_shake_hands(transport, protocol, self._context))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)


async def _shake_hands(
    transport: MemoryTransport, protocol: asyncio.Protocol, context: ssl.SSLContext
) -> None:
    loop = asyncio.get_running_loop()
    try:
        secured = await loop.start_tls(transport, protocol, context, server_side=True)
    except OSError:  # who cannot shake hands is dropped, as by a listening socket
        return
    if secured is not None:
        protocol.connection_made(secured)


class MemoryConnector(aiohttp.BaseConnector):
    """aiohttp's way into a network; `context` verifies servers of https URLs."""

    def __init__(self, cable: Cable, context: ssl.SSLContext | None) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEPALIVE_SECONDS)
        self._cable = cable
        self._context = context

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        """What aiohttp asks for: a new connection to the request's host; nothing here is traced."""
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
    """One client's way into a network: all its connections can be frozen, or cut, as one."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._ends: WeakSet[MemoryTransport] = WeakSet()
        self._cut = False
        self._thawed = asyncio.Event()
        self._thawed.set()

    def connector(self, config: ApiConfig) -> aiohttp.BaseConnector:
        """What `ApiConfig.connector` asks for."""
        return MemoryConnector(self, config.ssl)

    async def connect(self, host: str, port: int) -> MemoryTransport:
        """The client's end of a new connection. ConnectionRefusedError; waits while frozen."""
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
        """From now on nothing comes through, and nobody is told."""
        self._thawed.clear()
        for end in self._ends:
            end.freeze(True)

    def thaw(self) -> None:
        """Let everything through, first what was sent meanwhile."""
        self._thawed.set()
        for end in self._ends:
            end.freeze(False)

    def cut(self) -> None:
        """Reset every connection and allow no other, for good: what happens to a killed process."""
        self._cut = True
        for end in tuple(self._ends):
            end.abort()


class MemoryNetwork:
    """Listeners by (host, port), and cables that reach them and nothing else."""

    def __init__(self, latency: float = LATENCY_SECONDS) -> None:
        self.latency = latency
        self.listeners: dict[tuple[str, int], MemoryListener] = {}
        self.ports = itertools.count(1)

    def connector(self, config: ApiConfig) -> aiohttp.BaseConnector:
        """What `ApiConfig.connector` asks for, where no cable needs a name."""
        return Cable(self).connector(config)
