"""The HTTP side of the webhook: the three paths answer 200 with an AdmissionReview, whatever arrives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from aiohttp import web

from fedhpa.serving.health import Health
from fedhpa.serving.status import MESSAGES, status_response
from webhook.admission_review import MAX_BODY
from webhook.handlers import KINDS, PATHS, Review, judge, refused
from webhook.intake import Intake
from webhook.refusal_log import RefusalLog
from webhook.telemetry import Telemetry
from webhook.verdict import Refused
from webhook.warnings import Advisor

_HEADERS: Final = {"Content-Type": "application/json"}


def build_application(health: Health, telemetry: Telemetry, advisor: Advisor) -> web.Application:
    """The application of the secure port: the webhooks and the health paths."""
    # One byte more than allowed is read, so that too large a body is told from one that just fits.
    application = web.Application(client_max_size=MAX_BODY + 1)
    admission = Admission(telemetry, advisor)
    for path in PATHS:
        application.router.add_route("*", path, admission.handler(path), expect_handler=_expect)
    application.add_routes(health.routes())
    # A route, because a middleware would cost each admission request as much as a metric does.
    application.router.add_route("*", "/{path:.*}", _not_found)
    return application


class Admission:
    """Answers the requests of the three paths."""

    def __init__(self, telemetry: Telemetry, advisor: Advisor) -> None:
        self._telemetry = telemetry
        self._advisor = advisor
        self._intake = Intake(judge)
        self._refusals = RefusalLog()
        # Bound once: a logger that is looked up at each request costs as much as reading the request.
        self._log = structlog.get_logger(__name__).bind()

    def handler(self, path: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        """The handler of one of the paths."""
        series = self._telemetry.paths[path]

        async def admit(request: web.Request) -> web.Response:
            answered = False
            started = series.started()
            try:
                body = await self._answer(path, request)
                answered = True
            finally:
                seconds = series.ended(started, answered=answered)
            self._log.debug("request", method=request.method, path=path, ms=round(seconds * 1000, 3))
            response = web.Response(body=body, headers=_HEADERS)
            if not request.content.is_eof():
                # The connection ends with such a request; a client that is told so sends the next elsewhere.
                response.force_close()
            return response

        return admit

    def answer(self, path: str, review: Review) -> bytes:
        """The bytes of an answer; it is counted, and a refusal logged."""
        self._telemetry.paths[path].judged(review)
        if not review.verdict.allowed:
            self._refusals.add(KINDS[path], review)
        return review.encoded()

    async def _answer(self, path: str, request: web.Request) -> bytes:
        try:
            return self.answer(path, await self._review(path, request))
        except Exception as error:
            # A defect of ours must not end a connection without a word: the caller shows what is answered.
            self._telemetry.defect()
            self._log.exception("admission request met a defect", path=path)
            defect = Refused(f"the webhook met a defect: {type(error).__name__}", code=500)
            return self.answer(path, refused(defect))

    async def _review(self, path: str, request: web.Request) -> Review:
        try:
            return await self._advisor.advised(await self._intake.review(path, request))
        except Refused as refusal:
            return refused(refusal)


async def _not_found(_: web.Request) -> web.Response:
    return status_response(404, MESSAGES[404], details={})


async def _expect(request: web.Request) -> None:
    """Tells a client that waits for it to send the body; any other expectation is not a reason to refuse."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
