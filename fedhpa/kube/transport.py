"""HTTP to one API server over one keep-alive connection pool; it knows nothing about Kubernetes objects.

Redirects are not followed, because a member could redirect the hub's token anywhere. Cookies are not kept,
proxies of the environment are not used, and bodies are read up to a size limit.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from fedhpa.api.errors import ApiError
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.pieces import Turns
from fedhpa.kube.supervision import explain

try:
    from isal import isal_zlib
except ImportError:
    # There is no wheel for this platform. Python's zlib does the same with four times the CPU.
    _ZLIB: Any = zlib
    _INFLATE_ERROR: type[Exception] = zlib.error
else:
    aiohttp.set_zlib_backend(isal_zlib)  # for what aiohttp itself compresses, as a server
    _ZLIB = isal_zlib
    _INFLATE_ERROR = isal_zlib.error  # type: ignore[assignment]  # its stubs call the class an instance

# Reasons of an ApiError with status 0, for a request without a response.
TIMEOUT: Final = "Timeout"
UNREACHABLE: Final = "Unreachable"
CREDENTIALS: Final = "CredentialsUnavailable"
# Reasons of an ApiError for a response that cannot be used.
TOO_LARGE: Final = "ResponseTooLarge"
TOO_SLOW: Final = "ResponseTooSlow"
INVALID_RESPONSE: Final = "InvalidResponse"

# etcd refuses objects above 1.5 MB, and API servers requests above 3 MB. A larger object is an attack.
MAX_BODY = 8 * 2**20
# A PodMetrics list of 150,000 pods is about 90 MB.
MAX_LIST_BODY = 96 * 2**20
# The bytes that gzip is inflated to in one step: a fraction of a millisecond.
INFLATE_BYTES: Final = 64 * 1024
# zlib's code for gzip with the largest window.
GZIP_WINDOW: Final = 31
# etcd refuses objects above 1.5 MB; a watch event holds one.
MAX_LINE = 16 * 2**20
# A watch line that takes longer than this to arrive is out of date.
LINE_SECONDS = 10.0
# Longer than the usual sync period (15 s), so that connections are reused, and well below the three minutes
# after which an API server closes an idle connection.
KEEPALIVE_SECONDS = 75.0
CONNECT_SECONDS = 10.0
# Headers of a response. A hub may send a Warning for each cluster that did not answer.
MAX_HEADERS = 1024
# The limit for a whole response, even if its bytes keep coming.
LIST_TOTAL_SECONDS = 300.0

Params = Mapping[str, str | int | bool] | None


class ConnectionPool:
    """The connections made under one ApiConfig. Another configuration replaces the whole pool."""

    def __init__(self, config: ApiConfig) -> None:
        self.config = config
        self._users = 0
        self._retired = False
        self._streams: set[aiohttp.ClientResponse] = set()
        self._session = aiohttp.ClientSession(
            connector=(config.connector or tcp_connector)(config),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            max_headers=MAX_HEADERS,
            auto_decompress=False,  # see _uncompressed
            headers={
                "User-Agent": "fedhpa",
                "Accept": "application/json",
                "Accept-Encoding": "gzip" if config.compression else "identity",
            },
        )

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Params = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request and yield the response when its headers are there; the caller reads the body.

        Raises ApiError with status 0 if the transport fails, also while the caller reads the body.
        """
        self._users += 1
        try:
            async with self._requested(method, path, params, body, headers) as response:
                if stream:
                    if self._retired:
                        raise ApiError(
                            f"{self.config.name}: {method} {path}: the configuration was changed meanwhile",
                            status=0,
                            reason=UNREACHABLE,
                        )
                    self._streams.add(response)
                try:
                    yield response
                finally:
                    self._streams.discard(response)
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                raise  # the caller's deadline, not the transport
            raise ApiError(
                f"{self.config.name}: {method} {path}: {describe(error)}", status=0, reason=UNREACHABLE
            ) from error
        except RuntimeError as error:
            # aiohttp raises this to a reader whose connection or session was closed.
            if not self._retired:
                raise
            raise ApiError(
                f"{self.config.name}: {method} {path}: the connection was closed",
                status=0,
                reason=UNREACHABLE,
            ) from error
        finally:
            self._users -= 1
            await self._close_when_idle()

    @asynccontextmanager
    async def _requested(
        self,
        method: str,
        path: str,
        params: Params,
        body: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            response = await self._session.request(
                method,
                target(self.config.server, path, params),
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=self.config.proxy,
                proxy_headers=CIMultiDict(self.config.proxy_headers) if self.config.proxy else None,
                server_hostname=self.config.server_hostname,
            )
        except (aiohttp.ClientError, OSError, RuntimeError):
            raise
        except Exception as error:
            # Addresses and headers come from objects that others write. For those that cannot be used, the
            # libraries raise errors of any kind: UnicodeError for a label of a host that is too long.
            raise ApiError(
                f"{self.config.name}: {method} {path}: cannot send: {explain(error)}",
                status=0,
                reason=UNREACHABLE,
            ) from error
        async with response:
            yield response

    async def retire(self) -> None:
        """Refuse new requests, end the watches, let the other requests finish, then close."""
        self._retired = True
        for response in tuple(self._streams):
            response.close()
        await self._close_when_idle()

    async def close(self) -> None:
        """Close every connection at once."""
        self._retired = True
        await self._session.close()

    async def _close_when_idle(self) -> None:
        if self._retired and not self._users:
            await self._session.close()


def tcp_connector(config: ApiConfig) -> aiohttp.BaseConnector:
    """Returns the connector for TCP, with TLS for https URLs."""
    return aiohttp.TCPConnector(
        limit=0,  # each watch holds one connection; the callers limit the others
        ssl=config.ssl if config.ssl is not None else True,
        keepalive_timeout=KEEPALIVE_SECONDS,
    )


def target(server: str, path: str, params: Params) -> URL:
    """Returns the URL of a percent-encoded path below the server's base URL, which may have a path itself."""
    query = ""
    if params:
        pairs = [(key, _text(value)) for key, value in params.items() if value != ""]
        query = "?" + urlencode(pairs) if pairs else ""
    return URL(server + path + query, encoded=True)


def _text(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class ReadLimits:
    """The size limit and the deadline for reading a response.

    With `idle` each chunk moves the deadline to `idle` seconds from now, within LIST_TOTAL_SECONDS in total.
    """

    def __init__(self, limit: int, timer: asyncio.Timeout, idle: float | None) -> None:
        self.limit = limit
        self._timer = timer
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._latest = self._loop.time() + LIST_TOTAL_SECONDS

    def progress(self) -> None:
        """Move the deadline because a chunk arrived."""
        if self._idle is not None:
            self._timer.reschedule(min(self._loop.time() + self._idle, self._latest))

    def ends_before(self, delay: float) -> bool:
        """True if the deadline passes within `delay` seconds, so that a retry after it is useless."""
        when = self._timer.when()
        return when is not None and self._loop.time() + delay >= when


async def read_body(
    response: aiohttp.ClientResponse, limit: int, progress: Callable[[], None] | None = None
) -> bytes:
    """Returns the whole body. For the arguments see `read_chunks`."""
    chunks = await read_chunks(response, limit, progress)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def read_chunks(
    response: aiohttp.ClientResponse, limit: int, progress: Callable[[], None] | None = None
) -> list[bytes]:
    """Returns the whole body in parts, because joining a large one would take long.

    It has at most `limit` bytes, uncompressed. `progress` is called for each part.
    """
    chunks: list[bytes] = []
    size = 0
    async for chunk in _uncompressed(response):
        size += len(chunk)
        if size > limit:
            raise ApiError(
                f"answer to {response.method} {response.url.path} is larger than {limit} bytes",
                status=response.status,
                reason=TOO_LARGE,
            )
        chunks.append(chunk)
        if progress is not None:
            progress()
    return chunks


async def _uncompressed(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Yields the body as it arrives, uncompressed, in parts of bounded size.

    aiohttp would inflate what arrives in one step: a megabyte becomes a gigabyte, in a second without pause.
    """
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise _unreadable(response, f"its encoding {encoding[:20]!r} was not asked for")
    inflater = _Inflater() if encoding == "gzip" else None
    turns = Turns()
    async for arrived in response.content.iter_any():
        if inflater is None:
            yield arrived
            continue
        try:
            for part in inflater.parts(arrived):
                yield part
                await turns.pause()
        except (zlib.error, _INFLATE_ERROR) as error:
            raise _unreadable(response, f"it is no gzip: {error}") from error
    if inflater is not None and not inflater.is_complete:
        raise ApiError(
            f"answer to {response.method} {response.url.path}: answer cut off", status=0, reason=UNREACHABLE
        )


class _Inflater:
    """Inflates gzip in parts of at most INFLATE_BYTES."""

    def __init__(self) -> None:
        self._stream: Any = None
        self.is_complete = True  # an empty body is no gzip, but is complete

    def parts(self, data: bytes) -> Iterator[bytes]:
        """Yields what the next bytes inflate to."""
        while data:
            if self._stream is None:
                self._stream = _ZLIB.decompressobj(wbits=GZIP_WINDOW)
                self.is_complete = False
            while True:
                part = self._stream.decompress(data, INFLATE_BYTES)
                data = self._stream.unconsumed_tail
                if part:
                    yield part
                if self._stream.eof or (not data and len(part) < INFLATE_BYTES):
                    break
            if self._stream.eof:
                # Several gzip members in a row are one body.
                data, self._stream, self.is_complete = self._stream.unused_data, None, True


def _unreadable(response: aiohttp.ClientResponse, why: str) -> ApiError:
    return ApiError(
        f"answer to {response.method} {response.url.path} cannot be read: {why}",
        status=response.status,
        reason=INVALID_RESPONSE,
    )


async def read_lines(
    response: aiohttp.ClientResponse, idle: float, limit: int = MAX_LINE
) -> AsyncGenerator[bytes, None]:
    """Yields the lines of a streamed response until it ends.

    Raises TimeoutError after `idle` seconds without a byte, and ApiError for a line that is longer than
    `limit` bytes or takes longer than LINE_SECONDS.
    """
    parts: list[bytes] = []
    size = 0
    clock = asyncio.get_running_loop().time
    ends = float("inf")
    chunks = _uncompressed(response)
    while True:
        try:
            async with asyncio.timeout(min(idle, max(ends - clock(), 0.0))):
                chunk = await anext(chunks, b"")
        except TimeoutError:
            if clock() < ends:
                raise
            raise ApiError(
                f"a line of {response.url.path} took longer than {LINE_SECONDS:g} s",
                status=0,
                reason=TOO_SLOW,
            ) from None
        if not chunk:
            return
        head, *rest = chunk.split(b"\n")
        size += len(head)
        if size > limit:
            raise ApiError(
                f"a line of {response.url.path} is longer than {limit} bytes",
                status=response.status,
                reason=TOO_LARGE,
            )
        parts.append(head)
        for piece in rest:
            line = b"".join(parts)
            parts, size = [piece], len(piece)
            if line.strip():
                yield line
        ends = (
            float("inf")
            if not size
            else clock() + LINE_SECONDS
            if rest
            else min(ends, clock() + LINE_SECONDS)
        )


def describe(error: BaseException) -> str:
    """Returns a short text for a transport error, without library names and addresses."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"certificate not accepted: {_verify_message(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"name {error.host} does not resolve"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"proxy answered {error.status}"
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {cause.reason or cause}"
        return f"cannot connect: {_os_message(cause)}"
    if isinstance(error, aiohttp.ServerTimeoutError):
        return "no answer to the connection attempt"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "connection closed without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "answer cut off"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"answer is not HTTP: {error.message[:100]}"
    if isinstance(error, OSError) and error.strerror:
        return f"connection failed: {error.strerror}"
    if isinstance(error, ValueError):
        return f"connection failed: {explain(error)}"
    return f"connection failed: {type(error).__name__}"


def _os_message(error: OSError) -> str:
    """Returns the system's text for an error number; asyncio's own text contains an address."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _verify_message(error: BaseException) -> str:
    return str(getattr(error, "verify_message", "") or error)[:200]
