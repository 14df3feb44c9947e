"""The AdmissionReview around an object: bytes to a request, a verdict to bytes.

Only uid and object of a request are relied on. Source of texts: Karmada v1.19 (controller-runtime 0.24).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from webhook.strict_json import BadJSON, loads
from webhook.verdict import Refused, Verdict, shown_message, shown_warnings

MAX_BODY: Final = 7 * 1024 * 1024

_GROUP: Final = "admission.k8s.io"
VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
NO_CONTENT: Final = "there is no content to decode"


class Request(msgspec.Struct, frozen=True):
    """What is relied on of an admission request; `object` is any JSON value, None where there is none."""

    uid: str
    object: Any


def too_large() -> Refused:
    """The refusal of a body beyond the limit."""
    return Refused(f"request entity is too large; limit is {MAX_BODY} bytes", code=413)


def read_envelope(body: bytes, content_type: str) -> dict[str, Any]:
    """The AdmissionReview that the bytes are, unless they are none: Refused."""
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
    """The request within an AdmissionReview."""
    request = envelope.get("request")
    if request is None:
        raise Refused(NO_CONTENT)
    if not isinstance(request, dict):
        raise Refused(_unfit(request, "AdmissionReview.request", "v1.AdmissionRequest"))
    uid = text_of(request, "uid", "AdmissionRequest.request.uid", "types.UID")
    return Request(uid, request.get("object"))


def encode_answer(uid: str, version: str, verdict: Verdict) -> bytes:
    """The AdmissionReview that carries a verdict."""
    status: dict[str, Any] = {"metadata": {}}
    if verdict.message:
        status["message"] = shown_message(verdict.message)
    if verdict.reason:
        status["reason"] = verdict.reason
    status["code"] = verdict.code
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed, "status": status}
    if verdict.patch:
        response["patch"] = base64.b64encode(_dump(verdict.patch)).decode("ascii")
        response["patchType"] = "JSONPatch"
    if verdict.warnings:
        response["warnings"] = shown_warnings(verdict.warnings)
    return _dump({"kind": "AdmissionReview", "apiVersion": version or VERSIONS[0], "response": response})


def _dump(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A lone surrogate, which JSON may escape into a text, has no UTF-8.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def text_of(holder: Mapping[str, Any], key: str, field_: str, type_: str = "string") -> str:
    """A text of the envelope or object, "" if absent; refused where it is no text."""
    value = holder.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Refused(_unfit(value, field_, type_))
    return value


def _unfit(value: Any, field_: str, type_: str) -> str:
    return f"json: cannot unmarshal {json_type(value)} into Go struct field {field_} of type {type_}"


def json_type(value: Any) -> str:
    """The JSON type of a value, as Go's messages call it."""
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
    """A kind as Go prints it."""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"
