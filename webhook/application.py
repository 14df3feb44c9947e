"""The HTTP application of the webhook. Three paths answer every request with 200 and an AdmissionReview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import structlog
from aiohttp import web

from fedhpa.api.free_json import at, text_at
from fedhpa.cache import Recent
from fedhpa.kube import Clock
from fedhpa.serving import Health
from fedhpa.serving.error_responses import MESSAGES, status_response
from webhook.admission_review import MAX_BODY, Refused, Verdict, bounded_line
from webhook.handlers import KINDS, PATHS, Review, judge
from webhook.intake import Intake
from webhook.review_series import Telemetry
from webhook.warnings import AdmissionWarnings

_HEADERS: Final = {"Content-Type": "application/json"}


REPEAT_SECONDS: Final = 600.0
MINUTE: Final = 60.0
LINES_PER_MINUTE: Final = 120
LINES_PER_MINUTE_OF_NAMESPACE: Final = 20
MAX_KNOWN: Final = 2000
MAX_REASON: Final = 500
MAX_NAME: Final = 253


def build_application(
    health: Health, telemetry: Telemetry, warnings: AdmissionWarnings, clock: Clock, *, karmada: bool = False
) -> web.Application:
    """Returns the application of the secure port: the webhooks and the health paths.

    `karmada` is True with --propagation=karmada.
    """
    # aiohttp reads one byte more than the limit, so a body that is too large can be recognised.
    application = web.Application(client_max_size=MAX_BODY + 1)
    admission = Admission(telemetry, warnings, clock, karmada=karmada)
    for path in PATHS:
        application.router.add_route("*", path, admission.handler(path), expect_handler=_expect)
    application.add_routes(health.routes())
    # A middleware would run for every admission request; a route for other paths costs them nothing.
    application.router.add_route("*", "/{path:.*}", _not_found)
    return application


class Admission:
    """Answers the requests to the three paths."""

    def __init__(
        self, telemetry: Telemetry, warnings: AdmissionWarnings, clock: Clock, *, karmada: bool = False
    ) -> None:
        self._telemetry = telemetry
        self._intake = Intake(partial(judge, karmada=karmada), warnings.added_to)
        self._refusals = RefusalLog(clock.monotonic)
        # Bound once, because binding a logger costs as much as decoding a request.
        self._log = structlog.get_logger(__name__).bind()

    def handler(self, path: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Returns the aiohttp handler of a path."""
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
                # The body was not read to its end, so the connection cannot serve another request.
                response.force_close()
            return response

        return admit

    def answer(self, path: str, review: Review) -> bytes:
        """Counts a review, logs it if it is a refusal, and returns the bytes of the answer."""
        try:
            body = review.encoded()
        except Exception as error:
            review = review.failed(error)
            body = review.encoded()
        try:
            self._record(path, review)
        except Exception:
            self._log.exception("admission request not counted", path=path)
        return body

    def _record(self, path: str, review: Review) -> None:
        if review.error is not None:
            self._telemetry.panics.inc()
            self._log.error("admission request failed", path=path, exc_info=review.error)
        self._telemetry.paths[path].count(review)
        if not review.verdict.allowed:
            self._refusals.add(KINDS[path], review)

    async def _answer(self, path: str, request: web.Request) -> bytes:
        review = Review(Verdict(False))
        try:
            review = await self._intake.review(path, request)
        except Refused as refusal:
            review = Review(refusal.verdict)
        except Exception as error:
            review = review.failed(error)
        return self.answer(path, review)


class RefusalLog:
    """Logs refused requests with bounded volume, so that no tenant can fill the disk.

    A refusal is logged again only after ten minutes, because GitOps tools retry without end. The lines per
    minute are limited, for each namespace and in total. The next line counts the refusals that were left out.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._log = structlog.get_logger(__name__)
        self._suppressed_until: Recent[tuple[str, str, str, str], float] = Recent(MAX_KNOWN)
        self._minute = float("-inf")
        # The lines of this minute by namespace.
        self._written: Counter[str] = Counter()
        self._left_out = 0

    def add(self, kind: str, review: Review) -> None:
        """Logs a refusal, unless it was logged recently or a limit is reached."""
        metadata = at(review.raw, "metadata")
        name = text_at(metadata, "name") or text_at(metadata, "generateName")
        namespace, name = (bounded_line(each, MAX_NAME) for each in (text_at(metadata, "namespace"), name))
        reason = bounded_line(review.verdict.message, MAX_REASON)
        refusal = (kind, namespace, name, reason)
        now = self._clock()
        if now - self._minute >= MINUTE:
            self._minute, self._written = now, Counter()
        if now < self._suppressed_until.get(refusal, now):
            return
        own = self._written[namespace]
        if own >= LINES_PER_MINUTE_OF_NAMESPACE or self._written.total() >= LINES_PER_MINUTE:
            self._left_out += 1
            return
        self._written[namespace] = own + 1
        self._suppressed_until[refusal] = now + REPEAT_SECONDS
        left_out, self._left_out = self._left_out, 0
        more: dict[str, Any] = {"left_out": left_out} if left_out else {}
        code = review.verdict.code
        self._log.info("refused", kind=kind, namespace=namespace, name=name, code=code, reason=reason, **more)


async def _not_found(_: web.Request) -> web.Response:
    return status_response(404, MESSAGES[404], details={})


async def _expect(request: web.Request) -> None:
    """Answers `Expect: 100-continue`, and ignores any other expectation instead of refusing the request."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
