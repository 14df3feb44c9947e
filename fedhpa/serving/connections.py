"""The connections of a listener: how many there are, and how long each may wait for its client.

aiohttp has one time-out, for connections that are idle. A client that sends half a header, or half a body, or
does not read its answer, would hold its connection for as long as it likes; a sweep looks at all of them each
second. What is not HTTP is answered with a Status as well, and never quoted in the log: it may hold a token.
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
from fedhpa.serving.status import status_of, status_response

logger = structlog.get_logger(__name__)

# The hub opens a connection for each request that it has under way, and may have a thousand.
MAX_CONNECTIONS = 2048
# Kubernetes' servers take a megabyte of headers; the front proxy sends one for each group of a user.
MAX_HEAD_BYTES = 1024 * 1024
MAX_HEADERS = 2048
MAX_HEADER_LINE = 64 * 1024
# Longer than the API server's client pool keeps idle connections (90 s): it, not we, should drop them.
KEEPALIVE_SECONDS = 120.0
HANDSHAKE_SECONDS = 10.0
SWEEP_SECONDS = 1.0
# Connections that wait for `accept`; a thousand may come at once.
BACKLOG = 1024


class Waiting(Enum):
    """What a connection waits for its client to do."""

    IDLE = "to ask for something more"
    HEAD = "to send the rest of a header"
    BODY = "to send the rest of a body"
    ANSWER = "to read its answer"


# An admission request has 30 s at most, in all; Kubernetes' servers end an answer after 60 s.
LIMITS = {Waiting.HEAD: 15.0, Waiting.BODY: 30.0, Waiting.ANSWER: 60.0}


class Connection(web.RequestHandler):
    """One connection, which knows what it waits for."""

    __slots__ = ("_head_bytes", "_of", "_seen", "since")

    def __init__(self, of: Connections, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._of = of
        # Bytes of a header that has not ended.
        self._head_bytes = 0
        self._seen: tuple[Waiting | None, int] = (None, 0)
        self.since = self._loop.time()

    def waiting(self) -> Waiting | None:
        """What it waits for its client to do; None while that is us."""
        if self.writing_paused:
            return Waiting.ANSWER
        if self._waiter is not None:
            return Waiting.HEAD if self._head_bytes or not self._request_count else Waiting.IDLE
        request = self._current_request
        return Waiting.BODY if request is not None and not request.content.is_eof() else None

    def look(self, now: float) -> None:
        """End the connection if it has waited too long for the same thing."""
        seen = (self.waiting(), self._request_count)
        if seen != self._seen:
            # A new connection waits since it was made.
            if seen != (Waiting.HEAD, 0):
                self.since = now
            self._seen = seen
            return
        waiting = seen[0]
        if waiting is not None and now - self.since > LIMITS.get(waiting, float("inf")):
            logger.debug("connection ended", waited_for=waiting.value)
            self.end()

    def end(self) -> None:
        """Close at once, whatever is under way."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio.Protocol."""
        super().connection_made(transport)
        self._of.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """As asyncio.Protocol."""
        self._of.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As asyncio.Protocol."""
        parsed, expected = self._request_count, self._waiter is not None
        super().data_received(data)
        if self._request_count != parsed:
            self._head_bytes = 0
        elif expected:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                logger.debug("connection ended", waited_for="a header that is too large")
                self.end()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes what was sent
    ) -> web.StreamResponse:
        """The answer to what is not HTTP, or to a bug; the connection ends with it."""
        # aiohttp stumbles over an expectation that is not even text.
        if status == 400 or (isinstance(exc, UnicodeEncodeError) and "Expect" in request.headers):
            status = 400
            too_large = isinstance(exc, LineTooLong)
            logger.debug("request is not HTTP", problem=type(exc).__name__)
            text = "the request's header is too large" if too_large else "the request is not HTTP"
            response = status_response(431 if too_large else status, text)
        else:
            if isinstance(exc, ConnectionError):
                logger.debug("client went away", problem=type(exc).__name__)
            else:
                logger.error("request failed unexpectedly", exc_info=exc)
            response = status_response(status, "Internal error occurred")
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer was sent")
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer; what aiohttp refuses by itself is told in a Status, too."""
        if isinstance(resp, web.HTTPException):
            resp = status_of(resp)
        return await super().finish_response(request, resp, start_time)


class Connections:
    """Makes the connections of one server and ends those that wait too long, or are too many."""

    def __init__(self, server: web.Server, most: int = MAX_CONNECTIONS) -> None:
        self._server = server
        self._most = most
        self._open: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._open)

    def __call__(self) -> Connection:
        """The protocol of a new connection."""
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

    def opened(self, connection: Connection) -> None:
        """Take a connection in; above the bound the one goes that has waited longest for its client."""
        self._open.add(connection)
        if len(self._open) > self._most:
            idle = [known for known in self._open if known.waiting() in (Waiting.IDLE, Waiting.HEAD)]
            victim = min(idle, key=lambda known: known.since, default=connection)
            logger.debug("connection ended", waited_for="a place; there are too many")
            # Not all transports tell of their end at once, and the next one must find the place free.
            self._open.discard(victim)
            victim.end()

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._open.discard(connection)

    async def sweep(self) -> None:
        """Look at all connections each second, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for connection in tuple(self._open):
                connection.look(loop.time())


class Site(web.BaseSite):
    """Where a runner's application is served, with bounded connections."""

    __slots__ = ("_address", "_tls", "connections")

    def __init__(self, runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(runner)
        assert runner.server is not None, "set up before"
        self._address = host, port
        self._tls = tls
        self.connections = Connections(runner.server)

    @property
    def name(self) -> str:
        """As aiohttp calls it."""
        return f"{'https' if self._tls else 'http'}://{self._address[0] or '*'}:{self._address[1]}"

    async def start(self) -> None:
        """Listen. Raises FedHPAError if the address cannot be had."""
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
