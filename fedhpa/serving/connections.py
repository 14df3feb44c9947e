"""HTTP connections: the size of their headers is bounded, and the time for which each waits for its client.

aiohttp has a timeout for idle connections, and bounds for a line, the lines and the buffer of a body.
Without the limits here, a client that sends half a header or half a body, or does not read its response,
could hold its connection forever. Input that is not HTTP is answered with a Status. It is never logged,
because it may contain a token.
"""

from __future__ import annotations

import asyncio

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.typedefs import Handler

from fedhpa.serving.error_responses import closing_response, from_http_exception, status_response
from fedhpa.serving.peers import Peers, Reason

logger = structlog.get_logger(__name__)

BAD_REQUEST, UNAUTHORIZED = 400, 401
# Strangers send a few lines, one with a token. The front proxy sends one line for each group of a user.
MAX_HEAD_BYTES = 16 * 1024
MAX_HEAD_LINES = 64
MAX_VERIFIED_HEAD_BYTES = 256 * 1024
MAX_VERIFIED_HEAD_LINES = 2048
MAX_HEADER_LINE = 16 * 1024
# The first line has the selectors, which users may make long.
MAX_REQUEST_LINE = 64 * 1024
HEAD_END = b"\r\n\r\n"
# Ends of headers in one piece of a stranger's data. A small body in chunks has a second one.
MAX_HEAD_ENDS = 2
# aiohttp stops to receive while more than twice as many bytes wait for a handler. TLS then keeps up to 256 kB
# itself, so this is more than what arrives at once.
BODY_BUFFER = 64 * 1024
# Longer than the 90 s for which the API server's client pool keeps idle connections: the client closes first.
KEEPALIVE_SECONDS = 120.0
# For the rest of a body whose request was answered already. Without it the client may miss the response.
LINGER_SECONDS = 1.0
# An admission request may take 30 s in total. Kubernetes' servers end a response after 60 s.
HEADER_SECONDS, BODY_SECONDS, READ_SECONDS = 15.0, 30.0, 60.0


class Connection(web.RequestHandler):
    """One HTTP connection that knows which action of its client it waits for."""

    __slots__ = (
        "answered",
        "head",
        "link",
        "loop",
        "peers",
        "refusal",
        "request",
        "since",
        "tail",
        "verified",
    )

    def __init__(self, server: web.Server, peers: Peers, *, verified: bool) -> None:
        self.loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=self.loop,
            access_log=None,  # type: ignore[arg-type]  # None means none
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=MAX_REQUEST_LINE,
            max_field_size=MAX_HEADER_LINE,
            max_headers=MAX_VERIFIED_HEAD_LINES if verified else MAX_HEAD_LINES,
            read_bufsize=BODY_BUFFER,
            # A kilobyte can unpack to a megabyte, beside all bounds. Handlers unpack bodies themselves.
            auto_decompress=False,
        )
        self.peers = peers
        self.verified = verified
        self.since = self.loop.time()
        self.link: asyncio.BaseTransport | None = None
        # The request that a handler has begun last, and whether it was answered.
        self.request: web.BaseRequest | None = None
        self.answered = False
        # The response to what is not HTTP.
        self.refusal: web.Response | None = None
        # Bytes received of a header; None once it ended. Its end may lie on both sides of a border.
        self.head: int | None = 0
        self.tail = b""

    def waits_until(self) -> float | None:
        """Returns when the client must have acted; None while the server is at work."""
        if self.writing_paused:
            # Since the answer began. A client that always reads a little would otherwise hold it for ever.
            return self.since + READ_SECONDS
        if self.request is None:
            return self.since + HEADER_SECONDS
        if not self.request.content.is_eof():
            return self.since + BODY_SECONDS
        return self.since + 2 * KEEPALIVE_SECONDS if self.answered else None

    def abort(self) -> None:
        """Closes the connection at once, also within a request."""
        self.force_close()
        if isinstance(self.link, asyncio.WriteTransport):
            self.link.abort()

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Ends the connection when the server stops. A refused peer has no more time to read its answer."""
        if self.transport is None:
            self.abort()
        await super().shutdown(timeout)

    def begin(self, request: web.BaseRequest) -> None:
        """Records that a handler begins a request."""
        self.request, self.answered, self.since = request, False, self.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements asyncio.Protocol."""
        super().connection_made(transport)
        self.link = transport
        self.peers.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Implements asyncio.Protocol."""
        self.peers.discard(self)
        super().connection_lost(exc)
        # A cycle would keep the 256 kB of a TLS connection until a garbage collection.
        self.link = self.request = self.refusal = None

    def data_received(self, data: bytes) -> None:
        """Implements asyncio.Protocol. A header is measured before it is parsed."""
        # aiohttp passes no data to go on with what it left.
        if not data or not self._is_refused(data):
            super().data_received(data)

    def _is_refused(self, data: bytes) -> bool:
        if self.transport is None:
            return True
        if self.request is not None and self.request.content.is_eof():
            if self.answered:
                self.request, self.answered, self.head, self.tail = None, False, 0, b""
                self.since = self.loop.time()
            elif not self.verified:
                # The next request came before the answer. It would wait in memory.
                self.peers.abort(self, Reason.HEADER)
                return True
        if self.request is None and self._is_too_large(data):
            self.peers.count(Reason.HEADER)
            self.transport.write(TOO_LARGE)
            self.force_close()
            return True
        return False

    def _is_too_large(self, data: bytes) -> bool:
        """True if the header that `data` begins or goes on with is larger than its peer may send."""
        if self.head is not None:
            end = (self.tail + data).find(HEAD_END)
            size = self.head + (len(data) if end < 0 else end)
            self.head, self.tail = (size, (self.tail + data)[1 - len(HEAD_END) :]) if end < 0 else (None, b"")
            if size > (MAX_VERIFIED_HEAD_BYTES if self.verified else MAX_HEAD_BYTES):
                return True
        return not self.verified and data.count(HEAD_END) > MAX_HEAD_ENDS

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes the input
    ) -> web.StreamResponse:
        """Returns the response to an unexpected error or to input that is not HTTP; closes the connection."""
        # aiohttp fails with this error on an Expect header that is not text.
        if status == BAD_REQUEST or (isinstance(exc, UnicodeEncodeError) and "Expect" in request.headers):
            logger.debug("request is not HTTP", problem=type(exc).__name__)
            if isinstance(exc, LineTooLong) or getattr(exc, "message", "") == TOO_MANY_LINES:
                response = status_response(431, TOO_LARGE_TEXT)
            else:
                response = status_response(BAD_REQUEST, "the request is not HTTP")
            self.refusal = response
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
        if resp.status == UNAUTHORIZED or (resp.status >= BAD_REQUEST and not request.content.is_eof()):
            # An unknown client keeps no connection, and the body of a refused request is not waited for.
            resp.force_close()
        if self.link is not None:
            # The client may send its next request as soon as it has the response.
            self.request, self.answered, self.since = request, True, self.loop.time()
        if resp is self.refusal and self.transport is not None:
            # No signal takes the name of the software out of it.
            self.transport.write(closing_response(self.refusal))
            return resp, True
        return await super().finish_response(request, resp, start_time)


TOO_LARGE_TEXT = "the request's header is too large"
TOO_LARGE = closing_response(status_response(431, TOO_LARGE_TEXT))
# The words of aiohttp for more than `max_headers` lines.
TOO_MANY_LINES = "Too many headers received"


@web.middleware
async def begin_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware that tells the connection when a handler begins; the connection itself sees the end."""
    if isinstance(request.protocol, Connection):
        request.protocol.begin(request)
    return await handler(request)


async def hide_software(_: web.BaseRequest, response: web.StreamResponse) -> None:
    """Signal handler that removes the header with the versions of Python and aiohttp."""
    response.headers.popall("Server", None)


def is_trusted(request: web.Request) -> bool:
    """True if the peer of this request's connection proved who it is by a client certificate."""
    return isinstance(request.protocol, Connection) and request.protocol.verified
