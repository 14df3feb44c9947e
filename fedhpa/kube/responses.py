"""Responses of an API server: decoding their bodies, and errors made from Status bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from multidict import CIMultiDictProxy

from fedhpa.api.answers import check_object
from fedhpa.api.errors import ApiError, Conflict, InvalidObject
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.kube.transport import INVALID_RESPONSE

T = TypeVar("T")

MULTIPLE_CHOICES = 300
UNAUTHORIZED = 401
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


@dataclass(frozen=True)
class Listing(Generic[T]):
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

        The arguments are those of `fedhpa.api.objects.check_object`.
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
