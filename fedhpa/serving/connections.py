"""The connections of a listener: their number is bounded, and so is the time each waits for its client.

aiohttp has one timeout, for idle connections. Without the limits here, a client that sends half a header or
half a body, or does not read its response, could hold its connection forever. Input that is not HTTP is
answered with a Status. It is never logged, because it may contain a token.
"""

from __future__ import annotations

import asyncio
import ssl
from enum import Enum
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from fedhpa.api.errors import FedHPAError
from fedhpa.serving.status import from_http_exception, status_response

logger = structlog.get_logger(__name__)

# The hub opens a connection for each concurrent request, and there may be a thousand of them.
MAX_CONNECTIONS = 2048
# Kubernetes' servers accept a megabyte of headers. The front proxy sends one header for each group of a user.
MAX_HEAD_BYTES = 1024 * 1024
MAX_HEADERS = 2048
MAX_HEADER_LINE = 64 * 1024
# Longer than the 90 s for which the API server's client pool keeps idle connections: the client closes first.
KEEPALIVE_SECONDS = 120.0
HANDSHAKE_SECONDS = 10.0
SWEEP_SECONDS = 1.0
# Connections that wait for `accept`. A thousand may arrive at the same moment.
BACKLOG = 1024


class Waiting(Enum):
    """The action of the client that a connection waits for."""

    IDLE = "the next request"
    HEADER = "the rest of a header"
    BODY = "the rest of a body"
    READ = "the client to read the response"


# Seconds. An admission request may take 30 s in total. Kubernetes' servers end a response after 60 s.
WAIT_LIMITS = {Waiting.HEADER: 15.0, Waiting.BODY: 30.0, Waiting.READ: 60.0}


class Connection(web.RequestHandler):
    """One HTTP connection that knows which action of its client it waits for."""

    __slots__ = ("_connections", "_header_bytes", "_seen", "waiting_since")

    def __init__(self, connections: Connections, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._connections = connections
        # Bytes received of an incomplete header.
        self._header_bytes = 0
        self._seen: tuple[Waiting | None, int] = (None, 0)
        self.waiting_since = self._loop.time()

    def waiting(self) -> Waiting | None:
        """Returns the awaited action of the client; None while the server is at work."""
        if self.writing_paused:
            return Waiting.READ
        if self._waiter is not None:
            return Waiting.HEADER if self._header_bytes or not self._request_count else Waiting.IDLE
        request = self._current_request
        return Waiting.BODY if request is not None and not request.content.is_eof() else None

    def check_timeout(self, now: float) -> None:
        """Aborts the connection if it has waited too long for the same action."""
        seen = (self.waiting(), self._request_count)
        if seen != self._seen:
            # A new connection has been waiting since it was made.
            if seen != (Waiting.HEADER, 0):
                self.waiting_since = now
            self._seen = seen
            return
        waiting = seen[0]
        if waiting is not None and now - self.waiting_since > WAIT_LIMITS.get(waiting, float("inf")):
            logger.debug("connection aborted", waited_for=waiting.value)
            self.abort()

    def abort(self) -> None:
        """Closes the connection at once, also within a request."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements asyncio.Protocol."""
        super().connection_made(transport)
        self._connections.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Implements asyncio.Protocol."""
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Implements asyncio.Protocol."""
        parsed, expected = self._request_count, self._waiter is not None
        super().data_received(data)
        if self._request_count != parsed:
            self._header_bytes = 0
        elif expected:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEAD_BYTES:
                logger.debug("connection aborted", reason="the header is too large")
                self.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes the input
    ) -> web.StreamResponse:
        """Returns the response to an unexpected error or to input that is not HTTP; closes the connection."""
        # aiohttp fails with this error on an Expect header that is not text.
        if status == 400 or (isinstance(exc, UnicodeEncodeError) and "Expect" in request.headers):
            status = 400
            too_large = isinstance(exc, LineTooLong)
            logger.debug("request is not HTTP", problem=type(exc).__name__)
            text = "the request's header is too large" if too_large else "the request is not HTTP"
            response = status_response(431 if too_large else status, text)
        else:
            if isinstance(exc, ConnectionError):
                logger.debug("client disconnected", problem=type(exc).__name__)
            else:
                logger.error("request failed unexpectedly", exc_info=exc)
            response = status_response(status, "Internal error occurred")
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the response was already sent")
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Sends a response; a refusal by aiohttp itself gets a Status body as well."""
        if isinstance(resp, web.HTTPException):
            resp = from_http_exception(resp)
        return await super().finish_response(request, resp, start_time)


class Connections:
    """The connections of one server: aborts those that wait too long and those above the limit."""

    def __init__(self, server: web.Server, limit: int = MAX_CONNECTIONS) -> None:
        self._server = server
        self._limit = limit
        self._open: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._open)

    def __call__(self) -> Connection:
        """Returns the protocol of a new connection."""
        return Connection(
            self,
            self._server,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
            max_line_size=MAX_HEADER_LINE,
            max_field_size=MAX_HEADER_LINE,
            max_headers=MAX_HEADERS,
        )

    def add(self, connection: Connection) -> None:
        """Adds a connection; above the limit, aborts the one that has waited longest for its client."""
        self._open.add(connection)
        if len(self._open) > self._limit:
            idle = [known for known in self._open if known.waiting() in (Waiting.IDLE, Waiting.HEADER)]
            victim = min(idle, key=lambda known: known.waiting_since, default=connection)
            logger.debug("connection aborted", reason="there are too many connections")
            # Some transports report their end later. The next connection must not find this one counted.
            self._open.discard(victim)
            victim.abort()

    def remove(self, connection: Connection) -> None:
        """Removes a closed connection."""
        self._open.discard(connection)

    async def sweep(self) -> None:
        """Checks the timeouts of all connections each second, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for connection in tuple(self._open):
                connection.check_timeout(loop.time())


class Site(web.BaseSite):
    """Serves a runner's application on one address, with bounded connections."""

    __slots__ = ("_address", "_tls", "connections")

    def __init__(self, runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(runner)
        assert runner.server is not None, "the runner is set up"
        self._address = host, port
        self._tls = tls
        self.connections = Connections(runner.server)

    @property
    def name(self) -> str:
        """The URL of the site, for aiohttp's messages."""
        return f"{'https' if self._tls else 'http'}://{self._address[0] or '*'}:{self._address[1]}"

    async def start(self) -> None:
        """Starts to listen. Raises FedHPAError if the address cannot be used."""
        await super().start()
        host, port = self._address
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self.connections,
                host or None,
                port,
                ssl=self._tls,
                backlog=BACKLOG,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
            )
        except OSError as error:
            raise FedHPAError(f"cannot listen on {host or '*'}:{port}: {error.strerror}") from error
