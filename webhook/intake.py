"""From a request to its review, within bounds of size, time and number: anybody may send anything.

A small request is judged where it is; a large one waits for its turn in a thread of its own, so that other
requests and health checks need not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from webhook.admission_review import MAX_BODY, too_large
from webhook.handlers import Review
from webhook.verdict import Refused

# The API server gives up after three seconds; a body that trickles in slower is nobody's.
BODY_SECONDS: Final = 10.0
# Nobody waits for a verdict any more that comes later than this.
TURN_SECONDS: Final = 5.0
# Objects as people write them are a tenth of this; judging a larger one takes milliseconds.
LARGE_BODY: Final = 48 * 1024
# A hundred megabytes of bodies in memory, and one of them being taken apart: two at once would be no quicker,
# because one interpreter judges both.
MAX_LARGE: Final = 16

Judge = Callable[[str, bytes, str], Review]


class Intake:
    """Reads and judges the requests of one server. `review` raises Refused for what it does not judge."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._large = 0
        self._turn = asyncio.Lock()

    async def review(self, path: str, request: web.Request) -> Review:
        """The verdict about what a request carries."""
        if _is_small(request):
            return self._judge(path, await _body(request), _content_type(request))
        if (request.content_length or 0) > MAX_BODY:
            raise too_large()
        if self._large >= MAX_LARGE:
            raise _too_many()
        self._large += 1
        try:
            body = await _body(request)
            await self._take_turn()
            try:
                return await asyncio.to_thread(self._judge, path, body, _content_type(request))
            finally:
                self._turn.release()
        finally:
            self._large -= 1

    async def _take_turn(self) -> None:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError as error:
            raise _too_many() from error


def _is_small(request: web.Request) -> bool:
    if request.content.is_eof():
        return request.content.total_bytes <= LARGE_BODY
    # One that comes in chunks, or is to be unpacked, may become of any size.
    length = None if "Content-Encoding" in request.headers else request.content_length
    return length is not None and length <= LARGE_BODY


def _too_many() -> Refused:
    return Refused("too many large requests at once; try again", code=429)


async def _body(request: web.Request) -> bytes:
    content = request.content
    if content.is_eof() and content.exception() is None and content.total_bytes <= LARGE_BODY:
        # It came with the headers, as nearly always.
        return content.read_nowait()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large() from error
    except web.RequestPayloadError as error:
        # Chunks or an encoding that cannot be read, or a client that is gone.
        raise Refused("the request's body cannot be read") from error
    except TimeoutError as error:
        text = f"the request's body did not arrive within {BODY_SECONDS:g} seconds"
        raise Refused(text, code=408) from error


def _content_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "")
