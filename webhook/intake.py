"""Reads and judges admission requests with bounded memory and time, because any client can connect.

Small requests are judged on the event loop. Large ones are judged one at a time in a thread, so other
requests and health checks need not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from webhook.admission_review import MAX_BODY, Refused, too_large
from webhook.handlers import Review

# The deadline for reading a body. API servers give up after three seconds.
BODY_SECONDS: Final = 10.0
# The deadline for a large request to be judged. API servers have given up by then.
TURN_SECONDS: Final = 5.0
# Bytes. Typical objects have a tenth of this; judging a larger one takes milliseconds.
LARGE_BODY: Final = 48 * 1024
# Large bodies in memory, about a hundred megabytes. Only one is decoded at a time, because the interpreter
# lock makes two at once no faster.
MAX_LARGE: Final = 16

Judge = Callable[[str, bytes, str], Review]


class Intake:
    """Reads and judges the requests of one server."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._large = 0
        self._turn = asyncio.Lock()

    async def review(self, path: str, request: web.Request) -> Review:
        """Returns the review of a request. Raises Refused if the body cannot be read within the bounds."""
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
    # The size of a chunked or compressed body is not known in advance.
    length = None if "Content-Encoding" in request.headers else request.content_length
    return length is not None and length <= LARGE_BODY


def _too_many() -> Refused:
    return Refused("too many large requests at once; try again", code=429)


async def _body(request: web.Request) -> bytes:
    content = request.content
    if content.is_eof() and content.exception() is None and content.total_bytes <= LARGE_BODY:
        # The body arrived together with the headers, as it nearly always does.
        return content.read_nowait()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large() from error
    except web.RequestPayloadError as error:
        # The chunks or the compression are invalid, or the client disconnected.
        raise Refused("the request's body cannot be read") from error
    except TimeoutError as error:
        text = f"the request's body did not arrive within {BODY_SECONDS:g} seconds"
        raise Refused(text, code=408) from error


def _content_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "")
