"""The port of one embedded plane: TLS on the loop-back, that can be lost and regained."""

import socket
import ssl
from types import TracebackType

from aiohttp import web

HOST = "127.0.0.1"


class Listener:
    """Serves an application on one port, in `async with`; the port is known and kept from the beginning."""

    def __init__(self, application: web.Application, context: ssl.SSLContext) -> None:
        # Bound and never listening: nobody else is given the port while we do not listen.
        self._holder = _bound(0)
        self.port: int = self._holder.getsockname()[1]
        self.server = f"https://{HOST}:{self.port}"
        self._context = context
        # A handler whose client is gone ends: watches, and requests that hang on purpose.
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=0.5
        )
        self._site: web.SockSite | None = None

    async def __aenter__(self) -> "Listener":
        await self._runner.setup()
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        await self._runner.cleanup()
        self._holder.close()

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        """Listen (again), with another certificate if one is given; who was connected no longer is."""
        await self.stop()
        self._site = web.SockSite(self._runner, _bound(self.port), ssl_context=context or self._context)
        await self._site.start()

    async def stop(self) -> None:
        """Refuse connections from now on and cut those that are open."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        server = self._runner.server
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()


def _bound(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind((HOST, port))
    return found
