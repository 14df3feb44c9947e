"""Reads and judges admission requests with bounded memory and time, because any client can connect.

Small requests are judged on the event loop, with their warnings. Large ones are judged one at a time in a
thread, so other requests and health checks need not wait for them. A decoded object takes about ten times the
memory of its JSON. One of them exists at a time, apart from small ones that wait for the hub.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final

from aiohttp import web

from fedhpa.serving import is_trusted
from webhook.admission_review import MAX_BODY, Refused, too_large
from webhook.handlers import Review

# The deadline for reading a body. API servers give up after three seconds.
BODY_SECONDS: Final = 10.0
# The deadline for a large request to be judged. API servers have given up by then.
TURN_SECONDS: Final = 5.0
# Bytes. Typical objects have a third of this; judging a larger one takes milliseconds.
LARGE_BODY: Final = 16 * 1024
# Bytes of large bodies in work, from the first byte to the verdict: of verified peers, and of all others.
MAX_BODIES: Final = 8 * 2**20

PIECE_BYTES: Final = 16 * 1024
# The argument of zlib that recognises both of its formats by their header.
ANY_FORMAT: Final = zlib.MAX_WBITS | 32

Judge = Callable[[str, bytes, str], Review]
Warn = Callable[[Review], Awaitable[Review]]


class Intake:
    """Reads and judges the requests of one server. `warn` returns a review with its warnings."""

    def __init__(self, judge: Judge, warn: Warn) -> None:
        self._judge = judge
        self._warn = warn
        self._bodies = {first: Bodies() for first in (True, False)}
        self._turns = Turns()

    async def review(self, path: str, request: web.Request) -> Review:
        """Returns the review of a request. Raises Refused if the body cannot be read within the bounds."""
        if _is_small(request):
            return await self._warned(self._judge(path, await _body(request), _content_type(request)))
        if (request.content_length or 0) > MAX_BODY:
            raise too_large()
        first = is_trusted(request)
        with self._bodies[first].held() as held:
            body = await _body(request, held)
            async with self._turns.turn(first=first):
                review = await asyncio.to_thread(self._unpacked, path, body, request)
                return await self._warned(review)

    async def _warned(self, review: Review) -> Review:
        try:
            return await self._warn(review)
        except Exception as error:
            # Without the uid an API server would not accept the answer.
            return review.failed(error)

    def _unpacked(self, path: str, body: bytes, request: web.Request) -> Review:
        if _is_compressed(request):
            body = unpack(body)
        return self._judge(path, body, _content_type(request))


class Held:
    """The bytes of one body in work. `reading` is its deadline while it is arriving."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.size = 0
        self.reading: asyncio.Timeout | None = None

    def grow(self, size: int) -> None:
        """Counts received bytes. Raises Refused if there is no room for them."""
        self._bodies.grow(self, size)


class Bodies:
    """One bound for the bytes of all bodies in work. Verified peers and others have one each.

    Beyond the bound, the body that has been arriving for longest is refused, so half bodies that never end
    keep nobody out.
    """

    def __init__(self) -> None:
        self._held: dict[Held, None] = {}
        self._bytes = 0

    @contextmanager
    def held(self) -> Iterator[Held]:
        """Counts one body within the context."""
        held = Held(self)
        self._held[held] = None
        try:
            yield held
        finally:
            self._release(held)

    def grow(self, held: Held, size: int) -> None:
        """Counts more bytes of a body. Raises Refused if there is no room for them."""
        if held not in self._held:
            raise _too_many()
        held.size += size
        self._bytes += size
        while self._bytes > MAX_BODIES:
            for oldest in self._held:
                if oldest is not held and oldest.reading is not None and not oldest.reading.expired():
                    self._release(oldest)
                    oldest.reading.reschedule(0.0)
                    break
            else:
                raise _too_many()

    def _release(self, held: Held) -> None:
        if held in self._held:
            del self._held[held]
            self._bytes -= held.size


class Turns:
    """The order of large requests: one has its turn. Of strangers only one at a time waits for it."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._strangers = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, *, first: bool) -> AsyncIterator[None]:
        """Holds the turn; those that are `first` wait for at most one of the others.

        Raises Refused if it does not come in time.
        """
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(TURN_SECONDS):
                    for lock in (self._turn,) if first else (self._strangers, self._turn):
                        await stack.enter_async_context(lock)
            except TimeoutError as error:
                raise _too_many() from error
            yield


def _is_small(request: web.Request) -> bool:
    if _is_compressed(request):
        return False
    # The size of a chunked body is not known in advance.
    size = request.content.total_bytes if request.content.is_eof() else request.content_length
    return size is not None and size <= LARGE_BODY


def unpack(body: bytes) -> bytes:
    """Returns the content of a body in gzip or zlib format. Raises Refused if it is broken or too large."""
    decompressor = zlib.decompressobj(wbits=ANY_FORMAT)
    try:
        content = decompressor.decompress(body, MAX_BODY + 1)
    except zlib.error as error:
        raise _unreadable() from error
    if len(content) > MAX_BODY:
        raise too_large()
    if not decompressor.eof:
        raise _unreadable()
    return content


def _unreadable() -> Refused:
    return Refused("the request's body cannot be read")


def _too_many() -> Refused:
    return Refused("too many large requests at once; try again", code=429)


async def _body(request: web.Request, held: Held | None = None) -> bytes:
    content = request.content
    if content.is_eof() and content.exception() is None and content.total_bytes <= LARGE_BODY:
        # The body arrived together with the headers, as it nearly always does.
        return content.read_nowait()
    try:
        async with asyncio.timeout(BODY_SECONDS) as deadline:
            if held is None:
                return await _read(request, lambda _: None)
            held.reading = deadline
            try:
                return await _read(request, held.grow)
            finally:
                held.reading = None
    except (web.RequestPayloadError, ConnectionError) as error:
        # The chunks are invalid, or the client disconnected.
        raise _unreadable() from error
    except TimeoutError as error:
        if held is not None:
            held.grow(0)  # Raises Refused if the body made room for others.
        text = f"the request's body did not arrive within {BODY_SECONDS:g} seconds"
        raise Refused(text, code=408) from error


async def _read(request: web.Request, grow: Callable[[int], None]) -> bytes:
    # Pieces of equal size leave no gaps in the heap. A buffer that grows would be moved again and again.
    pieces: list[bytes] = []
    size, piece = 0, bytearray()
    while data := await request.content.readany():
        size += len(data)
        if size > MAX_BODY:
            raise too_large()
        grow(len(data))
        piece += data
        if len(piece) >= PIECE_BYTES:
            pieces.append(bytes(piece))
            piece.clear()
    return b"".join((*pieces, piece))


def _is_compressed(request: web.Request) -> bool:
    return request.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity")


def _content_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "")
