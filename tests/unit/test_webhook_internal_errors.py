"""An internal error of the webhook refuses the request with its uid, wherever it occurs."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from fedhpa.kube import SYSTEM
from tests.support.admission import FHPA
from webhook import handlers
from webhook.application import Admission
from webhook.handlers import PATHS, Review, judge
from webhook.intake import LARGE_BODY
from webhook.review_series import PathSeries, Telemetry
from webhook.warnings import AdmissionWarnings

BODY = json.dumps({"request": {"uid": "the-uid", "object": {**FHPA, "kind": None}}}).encode()
LARGE = BODY + b" " * LARGE_BODY
ERRORS = st.sampled_from(
    (
        Exception,
        RuntimeError,
        ValueError,
        RecursionError,
        MemoryError,
        OSError,
        AssertionError,
        ExceptionGroup,
    )
)


def error_of(kind: type[Exception]) -> Exception:
    return ExceptionGroup("secret", [ValueError("secret")]) if kind is ExceptionGroup else kind("secret")


def response_of(review: Review) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(review.encoded())["response"]
    return response


@given(kind=ERRORS, path=st.sampled_from(PATHS))
def test_an_exception_of_a_handler_is_answered_with_the_uid(kind: type[Exception], path: str) -> None:
    """The answer names the type of the exception, and the review carries it for the log."""
    error = error_of(kind)

    def broken(_: dict[str, Any], __: bool) -> Any:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(handlers._WEBHOOKS, path, (handlers.KINDS[path], broken))
        review = judge(path, BODY, "application/json")

    response = response_of(review)
    assert response["uid"] == "the-uid"
    assert response["allowed"] is False
    assert response["status"]["code"] == 500
    assert response["status"]["message"] == f"internal error of the webhook: {kind.__name__}"
    assert review.error is error


class Taken:
    """An intake that answers with a review, or fails."""

    def __init__(self, found: Review) -> None:
        self.found = found

    async def review(self, *_: object) -> Review:
        return self.found


async def answer_of(admission: Admission, review: Review) -> dict[str, Any]:
    admission._intake = Taken(review)  # type: ignore[assignment]
    return await answered(admission, None)  # type: ignore[arg-type]


async def answered(admission: Admission, request: web.Request) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(await admission._answer(PATHS[1], request))["response"]
    return answer


def posted(body: bytes) -> web.Request:
    """Returns a request whose body has arrived."""
    payload = StreamReader(Mock(), 2**16, loop=asyncio.get_running_loop())
    payload.feed_data(body)
    payload.feed_eof()
    return make_mocked_request("POST", PATHS[1], {"Content-Type": "application/json"}, payload=payload)


async def test_warnings_that_fail_are_answered_with_the_uid() -> None:
    """An exception while warnings are added refuses the request and is counted."""
    telemetry = Telemetry()

    class Broken(AdmissionWarnings):
        async def added_to(self, review: Review) -> Review:
            raise ZeroDivisionError

    with capture_logs() as logs:
        answers = [
            await answered(Admission(telemetry, Broken(SYSTEM.date), SYSTEM), posted(body))
            for body in (BODY, LARGE)
        ]

    assert [(answer["uid"], answer["status"]["code"]) for answer in answers] == [("the-uid", 500)] * 2
    assert telemetry.registry.get_sample_value("controller_runtime_webhook_panics_total") == 2
    assert "admission request failed" in [line["event"] for line in logs]


async def test_a_verdict_that_cannot_be_counted_is_still_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A series that cannot be written changes no verdict."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(PathSeries, "count", broken)
    review = judge(PATHS[1], BODY, "application/json")

    answer = await answer_of(Admission(Telemetry(), AdmissionWarnings(SYSTEM.date), SYSTEM), review)

    assert answer == response_of(review)


async def test_a_verdict_that_cannot_be_encoded_is_answered_with_the_uid() -> None:
    """The answer is an internal error."""
    review = judge(PATHS[1], BODY, "application/json")
    broken = Review(review.verdict.__class__(True, patch=[{"value": object()}]), uid="the-uid")

    answer = await answer_of(Admission(Telemetry(), AdmissionWarnings(SYSTEM.date), SYSTEM), broken)

    assert (answer["uid"], answer["allowed"], answer["status"]["code"]) == ("the-uid", False, 500)
