"""The AdmissionReview: reads a request from bytes, and writes a verdict to bytes.

Only `uid`, `object` and `oldObject` of a request are used. The error texts are those of Karmada v1.19
(controller-runtime 0.24).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from webhook.strict_json import BadJSON, loads

MAX_BODY: Final = 7 * 1024 * 1024
# API servers cut a warning after 256 bytes, and all warnings of a response after 4 KiB.
MAX_WARNINGS: Final = 5
MAX_WARNING: Final = 255
# Field errors quote invalid values, and a value may have megabytes.
MAX_MESSAGE: Final = 64 * 1024

_GROUP: Final = "admission.k8s.io"
VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
NO_CONTENT: Final = "there is no content to decode"


class Request(msgspec.Struct, frozen=True):
    """The used part of an admission request. The objects are any JSON values, or None if they are absent."""

    uid: str
    object: Any
    old: Any


class Verdict(msgspec.Struct, frozen=True):
    """The answer to one request. `code` belongs to the status in the response; HTTP always has 200."""

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    patch: list[dict[str, Any]] = []
    warnings: tuple[str, ...] = ()


class Refused(Exception):
    """A request is refused before its object is validated. `verdict` is the answer."""

    def __init__(self, message: str, *, code: int = 400, warnings: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.verdict = Verdict(False, code, message=message, warnings=tuple(warnings))


def too_large() -> Refused:
    """Returns the refusal of a body above the limit."""
    return Refused(f"request entity is too large; limit is {MAX_BODY} bytes", code=413)


def read_envelope(body: bytes, content_type: str) -> dict[str, Any]:
    """Reads the AdmissionReview of a body. Raises Refused if it is not a valid one."""
    if not body:
        raise Refused(NO_CONTENT)
    if len(body) > MAX_BODY:
        raise too_large()
    if content_type != "application/json":
        raise Refused(f"contentType={content_type[:100]}, expected application/json")
    try:
        envelope = loads(body)
    except BadJSON as error:
        raise Refused(str(error)) from error
    if not isinstance(envelope, dict):
        kind = json_type(envelope)
        raise Refused(f"json: cannot unmarshal {kind} into Go value of type v1.AdmissionReview")
    api_version = text_of(envelope, "apiVersion", "AdmissionReview.apiVersion")
    kind = text_of(envelope, "kind", "AdmissionReview.kind")
    if (kind or "AdmissionReview") != "AdmissionReview" or (api_version or VERSIONS[0]) not in VERSIONS:
        shown = group_version_kind(api_version, kind)
        raise Refused(f"unable to decode {shown[:200]} into *v1.AdmissionReview")
    return envelope


def request_of(envelope: Mapping[str, Any]) -> Request:
    """Returns the request of an AdmissionReview. Raises Refused if it has none."""
    request = envelope.get("request")
    if request is None:
        raise Refused(NO_CONTENT)
    if not isinstance(request, dict):
        raise Refused(_wrong_type(request, "AdmissionReview.request", "v1.AdmissionRequest"))
    uid = text_of(request, "uid", "AdmissionRequest.request.uid", "types.UID")
    return Request(uid, request.get("object"), request.get("oldObject"))


def encode_answer(uid: str, version: str, verdict: Verdict) -> bytes:
    """Returns the AdmissionReview with a verdict, in the version of the request."""
    status: dict[str, Any] = {"metadata": {}}
    if verdict.message:
        status["message"] = _bounded_message(verdict.message)
    if verdict.reason:
        status["reason"] = verdict.reason
    status["code"] = verdict.code
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed, "status": status}
    if verdict.patch:
        response["patch"] = base64.b64encode(_dump(verdict.patch)).decode("ascii")
        response["patchType"] = "JSONPatch"
    if verdict.warnings:
        response["warnings"] = _bounded_warnings(verdict.warnings)
    return _dump({"kind": "AdmissionReview", "apiVersion": version or VERSIONS[0], "response": response})


def _dump(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # JSON can contain an escaped lone surrogate, which has no UTF-8.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _bounded_warnings(warnings: Iterable[str]) -> list[str]:
    """Returns at most five warnings in order, without repetitions, each on one line of at most 255 bytes."""
    texts = list(dict.fromkeys(bounded_line(text, MAX_WARNING) for text in warnings))
    if len(texts) > MAX_WARNINGS:
        more = len(texts) - MAX_WARNINGS + 1
        texts[MAX_WARNINGS - 1 :] = [f"and {more} more warnings"]
    return texts


def _bounded_message(message: str) -> str:
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[:MAX_MESSAGE]}... and {len(message) - MAX_MESSAGE} more characters"


def bounded_line(text: str, limit: int) -> str:
    """Returns the text without control characters, cut with dots at `limit` bytes of UTF-8."""
    # Cut first, because the text may have megabytes.
    line = "".join(character if character.isprintable() else "?" for character in text[: limit + 1])
    encoded = line.encode()
    if len(encoded) <= limit:
        return line
    return encoded[: limit - 3].decode(errors="ignore") + "..."


def text_of(holder: Mapping[str, Any], key: str, field_: str, type_: str = "string") -> str:
    """Returns a string field, or "" if it is absent. Raises Refused if it has another type."""
    value = holder.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Refused(_wrong_type(value, field_, type_))
    return value


def _wrong_type(value: Any, field_: str, type_: str) -> str:
    return f"json: cannot unmarshal {json_type(value)} into Go struct field {field_} of type {type_}"


def json_type(value: Any) -> str:
    """Returns the JSON type of a value, with Go's name for it."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list):
        return "array"
    return "null" if value is None else "object"


def group_version_kind(api_version: str, kind: str) -> str:
    """Returns a GroupVersionKind as Go prints it."""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"
