"""HTTP connections: the size of their headers is bounded, and the time for which each waits for its client.

aiohttp has one timeout, for idle connections. Without the limits here, a client that sends half a header or
half a body, or does not read its response, could hold its connection forever. Input that is not HTTP is
answered with a Status. It is never logged, because it may contain a token.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from fedhpa.api.errors import FedHPAError
from fedhpa.serving.listener import Listener, bind
from fedhpa.serving.peers import (
    BUFFER_COPIES,
    PIECE_BYTES,
    TLS_BYTES,
    WAIT_LIMITS,
    Peer,
    Peers,
    Reason,
    Waiting,
)
from fedhpa.serving.status import closing_response, from_http_exception, status_response

logger = structlog.get_logger(__name__)

BAD_REQUEST, UNAUTHORIZED = 400, 401
# Unknown peers send a few lines, one with a token. The front proxy sends one line for each group of a user.
MAX_HEAD_BYTES = 16 * 1024
MAX_HEAD_LINES = 64
MAX_VERIFIED_HEAD_BYTES = 256 * 1024
MAX_HEADERS = 2048
MAX_HEADER_LINE = 16 * 1024
# The first line has the selectors, which users may make long.
MAX_REQUEST_LINE = 64 * 1024
# Requests of an unknown peer that may wait for their turn.
MAX_PIPELINED = 4
# The header of an unknown peer after which its connection is closed.
KEPT_BYTES = 8 * 1024
# A header is in memory twice: as received, and parsed. The other two are what each of its lines and each
# request cost besides: measured with aiohttp 3.13, and rounded up.
HEADER_COPIES = 2
LINE_BYTES = 512
REQUEST_BYTES = 8 * 1024
HEAD_END = b"\r\n\r\n"
# Longer than the 90 s for which the API server's client pool keeps idle connections: the client closes first.
KEEPALIVE_SECONDS = 120.0
# For the rest of a body whose request was answered already. Without it the client may miss the response.
LINGER_SECONDS = 1.0
SWEEP_SECONDS = 1.0
# Seconds that a refused peer has to read the answer.
REFUSED_SECONDS = 0.25
TOO_LARGE_TEXT = "the request's header is too large"
TOO_LARGE = closing_response(431, TOO_LARGE_TEXT)


class Connection(web.RequestHandler):
    """One HTTP connection that knows which action of its client it waits for."""

    __slots__ = (
        "_buffer",
        "_header_bytes",
        "_header_lines",
        "_keeps_much",
        "_peer",
        "_refused",
        "_seen",
        "_tls",
    )

    def __init__(self, peer: Peer, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._peer = peer
        # Bytes and lines received of an incomplete header.
        self._header_bytes = self._header_lines = 0
        # True if the present header is larger than an unknown peer may leave behind.
        self._keeps_much = False
        # The transport of a refused peer, until it is aborted.
        self._refused: asyncio.Transport | None = None
        self._tls = False
        self._buffer = PIECE_BYTES
        self._seen: tuple[Waiting | None, int] = (None, 0)

    @property
    def peer(self) -> Peer:
        """The other end of the connection."""
        return self._peer

    def waiting(self) -> Waiting | None:
        """Returns the awaited action of the client; None while the server is at work."""
        if self.writing_paused:
            return Waiting.READ
        if self._waiter is not None:
            return Waiting.HEADER if self._header_bytes or not self._request_count else Waiting.IDLE
        if not self._request_in_progress and not self._messages:
            return Waiting.BODY  # Of a request that was answered before its body arrived.
        request = self._current_request
        return Waiting.BODY if request is not None and not request.content.is_eof() else None

    def check_timeout(self, now: float) -> None:
        """Aborts the connection if it has waited too long for the same action."""
        seen = (self.waiting(), self._request_count)
        if seen != self._seen:
            # A new connection has been waiting since it was made.
            if seen != (Waiting.HEADER, 0):
                self._peer.since = now
            self._seen = seen
            return
        waiting = seen[0]
        if waiting is not None and now - self._peer.since > WAIT_LIMITS.get(waiting, float("inf")):
            self._peer.abort(Reason.TIMEOUT)

    def abort(self) -> None:
        """Closes the connection at once, also within a request."""
        if self.transport is not None:
            self.transport.abort()
        self._messages.clear()
        if self._waiter is not None or not self._request_count:
            self._forget_requests()

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Ends the connection when the server stops. A refused peer has no more time to read its answer."""
        self._abort_refused()
        await super().shutdown(timeout)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements asyncio.Protocol."""
        super().connection_made(transport)
        self._peer.stage = self
        tls: Any = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._tls = True
            self._peer.weigh(TLS_BYTES)
            if tls.getpeercert(binary_form=True):
                self._peer.verify()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Implements asyncio.Protocol."""
        self._peer.remove()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Implements asyncio.Protocol."""
        self._weigh_buffer(len(data))
        parsed = self._request_count
        expected = self._expects_header()
        # All is weighed before it is parsed: a header that arrives in one piece is many times as large then.
        self._peer.received(self._weight(data) if expected or self._messages else len(data))
        if self.transport is None or self.transport.is_closing():
            return  # The process has no room for the data, or a header was too large.
        if expected and self._is_too_large(data):
            self._refuse(self.transport)
            return
        super().data_received(data)
        if self._request_count != parsed:
            self._header_bytes = self._header_lines = 0
        if len(self._messages) > MAX_PIPELINED and not self._peer.verified:
            self._peer.abort(Reason.HEADER)

    def _expects_header(self) -> bool:
        """True if the next data belongs to a header, also of a request that follows one in progress."""
        if not self._request_count:
            return True  # The first data may arrive before the server waits for it.
        if self._messages:
            return self._messages[-1][1].is_eof()
        if self._waiter is not None:
            return True
        request = self._current_request
        return request is not None and request.content.is_eof()

    def _weigh_buffer(self, size: int) -> None:
        """Count what TLS keeps: its buffers are as large as the largest piece of data that arrived."""
        if self._tls and size > self._buffer:
            self._buffer = size
            self._peer.weigh(TLS_BYTES + BUFFER_COPIES * (size - PIECE_BYTES))

    def _weight(self, data: bytes) -> int:
        """Returns the bytes in memory of received headers after they are parsed."""
        parsed = data.count(b"\n") * LINE_BYTES + data.count(HEAD_END) * REQUEST_BYTES
        return len(data) * HEADER_COPIES + parsed

    def _is_too_large(self, data: bytes) -> bool:
        """True if the header that `data` begins or goes on with is larger than its peer may send."""
        end = data.find(HEAD_END)
        size = len(data) if end < 0 else end
        self._header_bytes += size
        self._header_lines += data.count(b"\n", 0, size)
        self._keeps_much = self._header_bytes > KEPT_BYTES
        if self._peer.verified:
            return self._header_bytes > MAX_VERIFIED_HEAD_BYTES
        if self._header_bytes > MAX_HEAD_BYTES or self._header_lines > MAX_HEAD_LINES:
            return True
        # The body of another request may hold anything.
        return data.startswith((b"GET ", b"HEAD ")) and data.count(HEAD_END) > MAX_PIPELINED

    def _refuse(self, transport: asyncio.Transport) -> None:
        """Answer that the header is too large, and close. The header is never parsed."""
        if self._request_count and (self._waiter is None or self._messages):
            self._peer.abort(Reason.HEADER)  # Another request is not answered yet.
            return
        self._peer.refuse(Reason.HEADER)
        transport.write(TOO_LARGE)
        transport.close()
        # A peer that sends on never confirms the end of TLS.
        self._refused = transport
        asyncio.get_running_loop().call_later(REFUSED_SECONDS, self._abort_refused)
        self._forget_requests()

    def _abort_refused(self) -> None:
        if self._refused is not None:
            self._refused.abort()
            self._refused = None

    def _forget_requests(self) -> None:
        """Free the requests that nobody serves: the loop reports the end only after others' data."""
        self._messages.clear()
        self._parser = None
        if self._task_handler is not None:
            self._task_handler.cancel()

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
            text = TOO_LARGE_TEXT if too_large else "the request is not HTTP"
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
        if self._keeps_much and not self._peer.verified:
            # The server keeps a header until the next one arrives.
            resp.force_close()
        if resp.status == UNAUTHORIZED or (resp.status >= BAD_REQUEST and not request.content.is_eof()):
            # An unknown client keeps no connection, and the body of a refused request is not waited for.
            resp.force_close()
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            if not self._messages:
                self._peer.answered()


async def hide_software(_: web.BaseRequest, response: web.StreamResponse) -> None:
    """Signal handler that removes the header with the versions of Python and aiohttp."""
    response.headers.popall("Server", None)


def trust_peer(request: web.Request) -> None:
    """Records that the peer of this request's connection proved who it is."""
    if isinstance(request.protocol, Connection):
        request.protocol.peer.verify()


def is_trusted(request: web.Request) -> bool:
    """True if the peer of this request's connection proved who it is."""
    return isinstance(request.protocol, Connection) and request.protocol.peer.verified


class Site(web.BaseSite):
    """Serves a runner's application on one address. `peers` are all connections of the process."""

    __slots__ = ("_address", "_peers", "_tls")

    def __init__(
        self,
        runner: web.AppRunner,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        peers: Peers | None = None,
    ) -> None:
        super().__init__(runner)
        self._address = host, port
        self._tls = tls
        self._peers = Peers() if peers is None else peers

    @property
    def name(self) -> str:
        """The URL of the site, for aiohttp's messages."""
        return f"{'https' if self._tls else 'http'}://{self._address[0] or '*'}:{self._address[1]}"

    @property
    def peers(self) -> Peers:
        """All connections of the process."""
        return self._peers

    async def start(self) -> None:
        """Starts to listen. Raises FedHPAError if the address cannot be used."""
        await super().start()
        host, port = self._address
        try:
            sockets = await asyncio.to_thread(bind, host, port)
        except OSError as error:
            raise FedHPAError(f"cannot listen on {host or '*'}:{port}: {error.strerror}") from error
        # aiohttp needs its sockets and `close` alone.
        listener = Listener(sockets, self._tls, self._peers, self._connection)
        self._server = cast(asyncio.AbstractServer, listener)

    def _connection(self, peer: Peer) -> Connection:
        server = self._runner.server
        assert server is not None, "the runner is set up"
        return Connection(
            peer,
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=MAX_REQUEST_LINE,
            max_field_size=MAX_HEADER_LINE,
            max_headers=MAX_HEADERS,
            # A kilobyte can unpack to a megabyte, beside all bounds. Handlers unpack bodies themselves.
            auto_decompress=False,
        )


async def close_stalled(peers: Peers) -> None:
    """Closes connections whose client stalls, each second, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        for peer in peers:
            peer.stage.check_timeout(loop.time())
