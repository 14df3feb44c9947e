"""The HTTP side of the webhook: the three paths answer 200 with an AdmissionReview, whatever arrives."""

from __future__ import annotations

import asyncio

import structlog
from aiohttp import web

from fedhpa.serving.health import Health
from fedhpa.serving.server import access_log
from webhook.review import MAX_BODY, PATHS, refusal, review
from webhook.telemetry import Telemetry

logger = structlog.get_logger(__name__)

# The API server gives up after three seconds; a body that trickles in slower is nobody's.
BODY_SECONDS = 10.0
# Judging a body of this size takes tens of milliseconds: health checks must not wait behind it.
LARGE_BODY = 256 * 1024


def build_application(health: Health, telemetry: Telemetry) -> web.Application:
    """The application of the secure port: the webhooks and the health paths."""
    # One byte more than allowed is read, so that too large a body is told from one that just fits.
    application = web.Application(middlewares=[access_log], client_max_size=MAX_BODY + 1)

    async def admit(request: web.Request) -> web.Response:
        with telemetry.serving(request.path):
            return web.Response(body=await _answer(request, telemetry), content_type="application/json")

    for path in PATHS:
        application.router.add_route("*", path, admit, expect_handler=_expect)
    application.add_routes(health.routes())
    return application


async def _expect(request: web.Request) -> None:
    """Tells a client that waits for it to send the body; any other expectation is not a reason to refuse."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _answer(request: web.Request, telemetry: Telemetry) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        return refusal(f"request entity is too large; limit is {MAX_BODY} bytes", 413)
    except web.RequestPayloadError:
        # Chunks or an encoding that cannot be read, or a client that is gone.
        return refusal("the request's body cannot be read", 400)
    except TimeoutError:
        return refusal(f"the request's body did not arrive within {BODY_SECONDS:g} seconds", 408)
    content_type = request.headers.get("Content-Type", "")
    try:
        if len(body) > LARGE_BODY:
            return await asyncio.to_thread(review, request.path, body, content_type)
        return review(request.path, body, content_type)
    except Exception as error:
        # A defect of ours must not end a connection without a word: the caller shows what is answered.
        telemetry.defect()
        logger.exception("admission request met a defect", path=request.path)
        return refusal(f"the webhook met a defect: {type(error).__name__}", 500)
