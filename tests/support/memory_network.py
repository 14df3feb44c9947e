"""aiohttp applications in the network in memory, over plain HTTP or TLS."""

from __future__ import annotations

import asyncio
import ssl
from typing import Self

from aiohttp import web

from benchmarks.world.network import HOST, MemoryNetwork, MemoryTransport


class MemoryListener:
    """Serves an application at one address of the network, as the embedded plane's `Listener` does on a port.

    `server` is its URL: https with a context, otherwise http. Handlers whose client is gone are cancelled.
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
        """Listen (again), with another certificate if given; open connections are reset."""
        await self.stop()
        self._context = context or self._own_context
        self._network.listeners[self._address] = self

    async def stop(self) -> None:
        """Refuse new connections and reset open ones."""
        self._network.listeners.pop(self._address, None)
        for task in tuple(self._handshakes):
            task.cancel()
        server = self._runner.server
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    def accept(self, transport: MemoryTransport) -> None:
        """Serve a client's connection."""
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
    except OSError:  # a failed handshake drops the connection, as with a socket
        return
    if secured is not None:
        protocol.connection_made(secured)
