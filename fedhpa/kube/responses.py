"""Responses of an API server: reading and decoding their bodies, and errors made from Status bodies.

Bodies are inflated in small steps, and bounded in size and time.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Generic, NamedTuple, TypeVar

import aiohttp
import msgspec
from multidict import CIMultiDictProxy

from fedhpa.api.errors import ApiError, Conflict, InvalidObject
from fedhpa.api.json import InvalidJson, check_object, decode_json
from fedhpa.kube.pieces import Turns
from fedhpa.kube.transport import INVALID_RESPONSE, TOO_LARGE, TOO_SLOW, UNREACHABLE

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

# etcd refuses objects above 1.5 MB, and API servers requests above 3 MB. A larger object is an attack.
MAX_BODY = 4 * 2**20
# A PodMetrics list of 150,000 pods is about 90 MB.
MAX_LIST_BODY = 96 * 2**20
# The bytes that gzip is inflated to in one step: a fraction of a millisecond.
INFLATE_BYTES: Final = 64 * 1024
# The digest of an answer, by which it is known again.
DIGEST_BYTES: Final = 16
# zlib's code for gzip with the largest window.
GZIP_WINDOW: Final = 31
# A watch event holds one object.
MAX_LINE = MAX_BODY
# A watch line that takes longer than this to arrive is out of date.
LINE_SECONDS = 10.0
# The limit for a whole response, even if its bytes keep coming.
LIST_TOTAL_SECONDS = 300.0


class ReadLimits:
    """The size limit and the deadline for reading a response.

    With `idle` each chunk moves the deadline to `idle` seconds from now, within LIST_TOTAL_SECONDS in total.
    `known` is the digest of the answer that the caller has, b"" for none, and None if it needs no digest.
    """

    def __init__(
        self, limit: int, timer: asyncio.Timeout, idle: float | None, known: bytes | None = None
    ) -> None:
        self.limit = limit
        self.known = known
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


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Returns the whole body, of at most `limit` bytes."""
    return b"".join(await _collected(response, _uncompressed(response, response.content.iter_any()), limit))


async def read_chunks(
    response: aiohttp.ClientResponse, reading: ReadLimits, limit: int
) -> tuple[list[bytes], bytes]:
    """Returns the whole body in parts, because joining a large one would take long, and its digest.

    It has at most `limit` bytes, uncompressed. Without a known digest there is none, and a body of the known
    one is neither inflated nor returned.
    """
    parts, progress = response.content.iter_any(), reading.progress
    if reading.known is None:
        return await _collected(response, _uncompressed(response, parts), limit, progress), b""
    arrived = await _collected(response, parts, limit, progress)
    digest = blake2b(response.headers.get("Content-Encoding", "").encode(), digest_size=DIGEST_BYTES)
    for part in arrived:
        digest.update(part)
    if digest.digest() == reading.known:
        return [], reading.known
    return await _collected(response, _uncompressed(response, _replayed(arrived)), limit), digest.digest()


async def _collected(
    response: aiohttp.ClientResponse,
    parts: AsyncIterator[bytes],
    limit: int,
    progress: Callable[[], None] | None = None,
) -> list[bytes]:
    chunks: list[bytes] = []
    size = 0
    async for chunk in parts:
        size += len(chunk)
        if size > limit:
            raise _unusable(response, f"is larger than {limit} bytes", TOO_LARGE)
        chunks.append(chunk)
        if progress is not None:
            progress()
    return chunks


async def _replayed(parts: list[bytes]) -> AsyncGenerator[bytes, None]:
    for part in parts:
        yield part


async def _uncompressed(
    response: aiohttp.ClientResponse, parts: AsyncIterator[bytes]
) -> AsyncGenerator[bytes, None]:
    """Yields the parts of a body uncompressed, in parts of bounded size.

    aiohttp would inflate what arrives in one step: a megabyte becomes a gigabyte, in a second without pause.
    """
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise _unusable(response, f"cannot be read: its encoding {encoding[:20]!r} was not asked for")
    if encoding != "gzip":
        async for arrived in parts:
            yield arrived
        return
    inflater, turns = _Inflater(), Turns()
    async for arrived in parts:
        try:
            for part in inflater.parts(arrived):
                yield part
                await turns.pause()
        except (zlib.error, _INFLATE_ERROR) as error:
            raise _unusable(response, f"cannot be read: it is no gzip: {error}") from error
    if not inflater.is_complete:
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


def gzip_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields a body as gzip, compressed as API servers do: at level 1."""
    packer = _ZLIB.compressobj(1, zlib.DEFLATED, GZIP_WINDOW)
    for piece in pieces:
        packed = packer.compress(piece)
        if packed:
            yield packed
    yield packer.flush()


def _unusable(response: aiohttp.ClientResponse, why: str, reason: str = INVALID_RESPONSE) -> ApiError:
    text = f"answer to {response.method} {response.url.path} {why}"
    return ApiError(text, status=response.status, reason=reason)


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
    chunks = _uncompressed(response, response.content.iter_any())
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
            raise _unusable(response, f"has a line that is longer than {limit} bytes", TOO_LARGE)
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


T = TypeVar("T")

MULTIPLE_CHOICES = 300
UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
CONFLICT = 409
GONE = 410
TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500

# The reason and message that client-go uses for a response without a Status, e.g. "404 page not found".
GENERIC = {
    UNAUTHORIZED: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "the server does not allow this request"),
    NOT_FOUND: ("NotFound", "the server could not find the requested resource"),
    TOO_MANY_REQUESTS: ("TooManyRequests", "the server has received too many requests"),
    500: ("InternalError", "an error on the server prevented the request from succeeding"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}
# Status messages can quote whole objects; conditions, events and logs get this many characters.
MAX_MESSAGE = 512


class Listing(NamedTuple, Generic[T]):
    """A complete list, and the resourceVersion from which to watch."""

    items: Sequence[T]
    resource_version: str


@dataclass(frozen=True)
class Response:
    """A successful response (status below 300)."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes = b""
    # The body of a list in parts; empty where `body` has it.
    chunks: Sequence[bytes] = ()
    # Of the body as it was sent, if the caller knows an earlier one by it. An unchanged body is not there.
    digest: bytes = b""
    unchanged: bool = False

    @property
    def parts(self) -> Sequence[bytes]:
        """The body, in parts."""
        return self.chunks or (self.body,)

    @property
    def size(self) -> int:
        """The bytes of the body."""
        return sum(map(len, self.parts))

    def joined(self) -> Response:
        """Returns the response with its body in one part."""
        return Response(self.status, self.headers, b"".join(self.parts)) if self.chunks else self

    def decode(self, kind: type[T]) -> T:
        """Returns the body decoded as `kind`. Raises ApiError (InvalidResponse) if it does not fit."""
        try:
            return decode_json(self.body, kind)
        except InvalidJson as error:
            raise ApiError(
                f"answer cannot be read: {error}", status=self.status, reason=INVALID_RESPONSE
            ) from error

    def json(self) -> dict[str, Any]:
        """Returns the body decoded as a JSON object."""
        return self.decode(dict[str, Any])

    def checked(self, path: str, *, created: bool = False, kind: str = "") -> Response:
        """Returns the response. Raises ApiError (InvalidResponse) unless it is the object at `path`.

        The arguments are those of `fedhpa.api.json.check_object`.
        """
        try:
            check_object(path, self.body, created=created, kind=kind)
        except InvalidObject as error:
            raise ApiError(
                f"answer cannot be read: {error}", status=self.status, reason=INVALID_RESPONSE
            ) from error
        return self


class _StatusBody(msgspec.Struct, frozen=True):
    kind: str = ""
    reason: str | None = None
    message: str | None = None


def status_error(method: str, path: str, status: int, body: bytes) -> ApiError:
    """Returns the error for a response with a status from 300, made from its Status body."""
    try:
        details = decode_json(body, _StatusBody)
    except InvalidJson:
        details = _StatusBody()
    message = (details.message or "")[:MAX_MESSAGE] if details.kind == "Status" else ""
    reason = ((details.reason or "") if details.kind == "Status" else "")[:MAX_MESSAGE]
    if not message:
        generic, phrase = GENERIC.get(status, ("", f"the server answered HTTP {status}"))
        message, reason = f"{phrase} ({method} {path})", reason or generic
    kind = Conflict if status == CONFLICT else ApiError
    return kind(message, status=status, reason=reason)


def retry_after(status: int, headers: Mapping[str, str]) -> float | None:
    """Returns the seconds after which to repeat the request; None without a usable Retry-After.

    As in client-go, 429 and all 5xx responses are repeated, whatever the method: the server refused the
    request before it acted on it.
    """
    if status != TOO_MANY_REQUESTS and status < SERVER_ERRORS:
        return None
    value = headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) < 6 else None
