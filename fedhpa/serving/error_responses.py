"""Error responses with metav1.Status bodies, as Kubernetes clients expect them.

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
# Headers of aiohttp's own error responses that are kept.
KEPT_HEADERS = ("Allow", "Retry-After")


class Refusal(Exception):
    """A request is answered with `response`, whatever is left of its handler."""

    def __init__(self, response: web.Response) -> None:
        super().__init__(response.status)
        self.response = response


def status_response(
    code: int,
    message: str,
    *,
    reason: str | None = None,
    details: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Returns a failure Status; `reason` defaults to Kubernetes' reason for the code."""
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
    body = msgspec.json.encode(status)
    return web.Response(status=code, body=body, content_type="application/json", headers=headers)


def closing_response(response: web.Response) -> bytes:
    """Returns the bytes of a whole HTTP/1.1 response with a Status, after which the server closes."""
    assert isinstance(response.body, bytes), "a Status"
    head = (
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(response.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + response.body


def from_http_exception(error: web.HTTPException) -> web.Response:
    """Returns the Status for an error response of aiohttp."""
    message = MESSAGES.get(error.status) or HTTPStatus(error.status).phrase
    headers = {name: error.headers[name] for name in KEPT_HEADERS if name in error.headers}
    details = {"retryAfterSeconds": RETRY_SECONDS} if "Retry-After" in headers else {}
    return status_response(error.status, message, details=details, headers=headers)


def too_many_requests() -> web.HTTPTooManyRequests:
    """Returns the 429 of Kubernetes' API servers; clients retry after one second."""
    return web.HTTPTooManyRequests(headers={"Retry-After": str(RETRY_SECONDS)})


@web.middleware
async def status_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware that turns errors into Status responses, and forbids caching unless a response allows it."""
    response = await _answered(request, handler)
    response.headers.setdefault("Cache-Control", "no-cache, private")
    return response


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as refusal:
        return refusal.response
    except InvalidObject as error:
        return status_response(400, str(error))
    except ApiError as error:
        logger.warning("request failed", path=request.path, error=str(error))
        return status_response(500, f"Internal error occurred: {error}")
    except FedHPAError as error:
        logger.warning("request failed", path=request.path, error=str(error))
        return status_response(503, str(error))
    except web.HTTPException as error:
        return from_http_exception(error)
    except ConnectionError:
        # The client disconnected while the response was sent: there is nobody to answer and nothing to log.
        raise
    except Exception:
        # A bug ends one request, not the process. The trace goes to the log, not to the client.
        logger.exception("request failed unexpectedly", path=request.path)
        return status_response(500, "Internal error occurred")
