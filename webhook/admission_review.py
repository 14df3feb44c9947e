"""The AdmissionReview: reads a request from bytes, and writes a verdict to bytes.

Only `uid`, `object` and `oldObject` of a request are used. The error texts are those of Karmada v1.19
(controller-runtime 0.24).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fedhpa.api.decode import json_type
from webhook.strict_json import loads

MAX_BODY: Final = 7 * 1024 * 1024
# API servers cut a warning after 256 bytes, and all warnings of a response after 4 KiB.
MAX_WARNINGS: Final = 5
MAX_WARNING: Final = 255
# Field errors quote invalid values, and a value may have megabytes.
MAX_MESSAGE: Final = 64 * 1024

_GROUP: Final = "admission.k8s.io"
VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
NO_CONTENT: Final = "there is no content to decode"


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
    """Reads the AdmissionReview of a body. Raises Refused if it is not a valid one, and BadJSON."""
    if not body:
        raise Refused(NO_CONTENT)
    if len(body) > MAX_BODY:
        raise too_large()
    if content_type != "application/json":
        raise Refused(f"contentType={content_type[:100]}, expected application/json")
    return object_of(loads(body), "v1.AdmissionReview", VERSIONS)


def request_of(envelope: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the uid and the request of an AdmissionReview. Raises Refused if it has none."""
    request = envelope.get("request")
    if request is None:
        raise Refused(NO_CONTENT)
    if not isinstance(request, dict):
        raise Refused(_wrong_type(request, "AdmissionReview.request", "v1.AdmissionRequest"))
    return _text(request, "uid", "AdmissionRequest.request.uid", "types.UID"), request


def object_of(raw: Any, go: str, versions: Sequence[str]) -> dict[str, Any]:
    """Returns a JSON object of a Go type. Raises Refused for another one; absent versions and kinds fit."""
    if not isinstance(raw, dict):
        raise Refused(f"json: cannot unmarshal {json_type(raw)} into Go value of type {go}")
    kind = go.rpartition(".")[2]
    version, written = _text(raw, "apiVersion", f"{kind}.apiVersion"), _text(raw, "kind", f"{kind}.kind")
    if (written or kind) != kind or (version or versions[0]) not in versions:
        # As Go prints a GroupVersionKind.
        group, _, number = version.rpartition("/")
        raise Refused(f"unable to decode {f'{group}/{number}, Kind={written}'[:200]} into *{go}")
    return raw


def encode_answer(uid: str, version: str, verdict: Verdict) -> bytes:
    """Returns the AdmissionReview with a verdict, in the version of the request."""
    status: dict[str, Any] = {"metadata": {}}
    if verdict.message:
        more = len(verdict.message) - MAX_MESSAGE
        cut = f"... and {more} more characters" if more > 0 else ""
        status["message"] = verdict.message[:MAX_MESSAGE] + cut
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
        texts[MAX_WARNINGS - 1 :] = [f"and {len(texts) - MAX_WARNINGS + 1} more warnings"]
    return texts


def bounded_line(text: str, limit: int) -> str:
    """Returns the text without control characters, cut with dots at `limit` bytes of UTF-8."""
    # Cut first, because the text may have megabytes.
    line = "".join(character if character.isprintable() else "?" for character in text[: limit + 1])
    encoded = line.encode()
    if len(encoded) <= limit:
        return line
    return encoded[: limit - 3].decode(errors="ignore") + "..."


def _text(holder: Mapping[str, Any], key: str, field: str, type_: str = "string") -> str:
    """Returns a string field, or "" if it is absent. Raises Refused if it has another type."""
    value = holder.get(key)
    if value is not None and not isinstance(value, str):
        raise Refused(_wrong_type(value, field, type_))
    return value or ""


def _wrong_type(value: Any, field: str, type_: str) -> str:
    return f"json: cannot unmarshal {json_type(value)} into Go struct field {field} of type {type_}"
