"""The TLS port of one plane on the loopback interface, which can be closed and opened again."""

import ssl
from types import TracebackType

from aiohttp import web

from testbed.stage import held

HOST = "127.0.0.1"


class Listener:
    """Serves an application in `async with`. The port is reserved from the start."""

    def __init__(self, application: web.Application, context: ssl.SSLContext) -> None:
        # This socket never listens. It keeps the port from other programs while the listener is stopped.
        self._reservation = held()
        self.port: int = self._reservation.getsockname()[1]
        self.server = f"https://{HOST}:{self.port}"
        self._context = context
        # Cancellation ends watches and hanging requests whose client disconnected.
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=0.5
        )
        self._site: web.TCPSite | None = None

    async def __aenter__(self) -> "Listener":
        await self._runner.setup()
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        await self._runner.cleanup()
        self._reservation.close()

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        """Listen again, with another certificate if one is given; cuts open connections."""
        await self.stop()
        self._site = web.TCPSite(
            self._runner, HOST, self.port, ssl_context=context or self._context, reuse_address=True
        )
        await self._site.start()

    async def stop(self) -> None:
        """Refuse new connections and cut open ones."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        server = self._runner.server
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()
