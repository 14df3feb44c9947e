"""Errors as Kubernetes clients read them: metav1.Status bodies, whatever went wrong.

Source of texts and reasons: Kubernetes 1.36, apimachinery's api/errors and apiserver's responsewriters.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject

logger = structlog.get_logger(__name__)

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
MESSAGES = {
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    429: "Too many requests, please try again later.",
}
RETRY_SECONDS = 1
# What of aiohttp's own answers is passed on.
PASSED_ON = ("Allow", "Retry-After")


def status_response(
    code: int,
    message: str,
    *,
    reason: str | None = None,
    details: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """A failure Status; `reason` defaults to the one that belongs to the code."""
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": REASONS.get(code, "") if reason is None else reason,
        "code": code,
    }
    if details is not None:
        status["details"] = details
    return web.Response(
        status=code, body=msgspec.json.encode(status), content_type="application/json", headers=headers
    )


def status_of(error: web.HTTPException) -> web.Response:
    """What aiohttp refuses by itself, as a Status."""
    message = MESSAGES.get(error.status) or HTTPStatus(error.status).phrase
    headers = {name: error.headers[name] for name in PASSED_ON if name in error.headers}
    details = {"retryAfterSeconds": RETRY_SECONDS} if "Retry-After" in headers else {}
    return status_response(error.status, message, details=details, headers=headers)


def too_many_requests() -> web.HTTPTooManyRequests:
    """The 429 of Kubernetes' API servers: its clients come again after a second."""
    return web.HTTPTooManyRequests(headers={"Retry-After": str(RETRY_SECONDS)})


@web.middleware
async def status_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error of the application with a Status body."""
    try:
        return await handler(request)
    except InvalidObject as error:
        return status_response(400, str(error))
    except ApiError as error:
        logger.warning("request failed", path=request.path, error=str(error))
        return status_response(500, f"Internal error occurred: {error}")
    except FedHPAError as error:
        logger.warning("request failed", path=request.path, error=str(error))
        return status_response(503, str(error))
    except web.HTTPException as error:
        return status_of(error)
    except ConnectionError:
        # The client went away while it was sent its answer: nobody is there to be told, and nothing is wrong.
        raise
    except Exception:
        # The bug stays one request's; the process goes on, and the trace is in the log, not in the answer.
        logger.exception("request failed unexpectedly", path=request.path)
        return status_response(500, "Internal error occurred")
