"""AdmissionReview in, AdmissionReview out: the three webhooks as pure functions of bytes.

Whatever arrives, the answer is an AdmissionReview; the verdict is in its `response`, never the HTTP status.
A malformed review or object is refused with code 400 and the decoder's text, a wrong object with code 403,
reason Forbidden and the aggregate of its field errors. Only uid, kind, operation and object of a request are
relied on, and verdicts depend on the object alone. Source: Karmada v1.19 (controller-runtime 0.24).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import WrongType, decode
from fedhpa.api.defaults import default_patch
from fedhpa.api.federatedhpa import API_VERSION, FederatedHPA
from fedhpa.api.federatedhpa import KIND as FHPA_KIND
from fedhpa.api.fielderror import FieldError, aggregate
from fedhpa.api.validation import validate_federatedhpa
from fedhpa.api.warnings import presentable, warn_federatedhpa
from fedhpa.cron.validation import validate_cronfederatedhpa
from fedhpa.cron.warnings import warn_cronfederatedhpa
from webhook.strict_json import BadJSON, loads

MAX_BODY: Final = 7 * 1024 * 1024

MUTATE_FEDERATEDHPA: Final = "/mutate-federatedhpa"
VALIDATE_FEDERATEDHPA: Final = "/validate-federatedhpa"
VALIDATE_CRONFEDERATEDHPA: Final = "/validate-cronfederatedhpa"

_GROUP: Final = "admission.k8s.io"
_VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_NO_CONTENT: Final = "there is no content to decode"


@dataclass(frozen=True)
class Verdict:
    """What is answered about one object; `code` is that of the response's status, not of HTTP."""

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    patch: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class _Refused(Exception):
    """Ends the reading of a review early with a verdict."""

    def __init__(self, message: str, *, code: int = 400, warnings: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.verdict = Verdict(False, code, message=message, warnings=presentable(warnings))


def review(path: str, body: bytes, content_type: str) -> bytes:
    """Answers one request to one of the three paths, whatever it carries."""
    uid, version = "", _VERSIONS[0]
    try:
        envelope = _envelope(body, content_type)
        version = envelope.get("apiVersion") or version
        request = _request(envelope)
        uid = request.get("uid") or ""
        verdict = _verdict(path, request)
    except _Refused as refused:
        verdict = refused.verdict
    except RecursionError:
        verdict = Verdict(False, 400, message="the object is nested too deeply")
    return _encode(uid, version, verdict)


def refusal(message: str, code: int) -> bytes:
    """An AdmissionReview that refuses a request that was not read, such as one that is too large."""
    return _encode("", _VERSIONS[0], Verdict(False, code, message=message))


def _envelope(body: bytes, content_type: str) -> dict[str, Any]:
    if not body:
        raise _Refused(_NO_CONTENT)
    if len(body) > MAX_BODY:
        raise _Refused(f"request entity is too large; limit is {MAX_BODY} bytes", code=413)
    if content_type != "application/json":
        raise _Refused(f"contentType={content_type[:100]}, expected application/json")
    try:
        envelope = loads(body)
    except BadJSON as error:
        raise _Refused(str(error)) from error
    if not isinstance(envelope, dict):
        kind = _json_type(envelope)
        raise _Refused(f"json: cannot unmarshal {kind} into Go value of type v1.AdmissionReview")
    api_version = _text(envelope, "apiVersion", "AdmissionReview.apiVersion")
    kind = _text(envelope, "kind", "AdmissionReview.kind")
    if (kind or "AdmissionReview") != "AdmissionReview" or (api_version or _VERSIONS[0]) not in _VERSIONS:
        shown = _group_version_kind(api_version, kind)
        raise _Refused(f"unable to decode {shown[:200]} into *v1.AdmissionReview")
    return envelope


def _request(envelope: Mapping[str, Any]) -> dict[str, Any]:
    request = envelope.get("request")
    if request is None:
        raise _Refused(_NO_CONTENT)
    if not isinstance(request, dict):
        raise _Refused(_unfit(request, "AdmissionReview.request", "v1.AdmissionRequest"))
    _text(request, "uid", "AdmissionRequest.request.uid", "types.UID")
    return request


def _verdict(path: str, request: Mapping[str, Any]) -> Verdict:
    webhook = _WEBHOOKS.get(path)
    if webhook is None:
        raise _Refused(f"no webhook is served at {path[:200]}", code=404)
    kind, judge = webhook
    raw = request.get("object")
    if raw is None:
        raise _Refused(_NO_CONTENT)
    if not isinstance(raw, dict):
        raise _Refused(f"json: cannot unmarshal {_json_type(raw)} into Go value of type v1alpha1.{kind}")
    api_version = _text(raw, "apiVersion", f"{kind}.apiVersion")
    written_kind = _text(raw, "kind", f"{kind}.kind")
    if (api_version or API_VERSION) != API_VERSION or (written_kind or kind) != kind:
        shown = _group_version_kind(api_version, written_kind)
        raise _Refused(f"unable to decode {shown[:200]} into *v1alpha1.{kind}")
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and metadata.get("deletionTimestamp"):
        # An object on its way out may always lose its finalizer, however wrong it is.
        return Verdict(True)
    try:
        return judge(raw)
    except WrongType as error:
        raise _Refused(str(error), warnings=[error.remedy]) from error


def _mutate_federatedhpa(raw: dict[str, Any]) -> Verdict:
    decode(FederatedHPA, raw)
    return Verdict(True, patch=default_patch(raw))


def _validate_federatedhpa(raw: dict[str, Any]) -> Verdict:
    fhpa = decode(FederatedHPA, raw)
    return _judged(validate_federatedhpa(fhpa), warn_federatedhpa(fhpa))


def _validate_cronfederatedhpa(raw: dict[str, Any]) -> Verdict:
    cron = decode(CronFederatedHPA, raw)
    return _judged(validate_cronfederatedhpa(cron), warn_cronfederatedhpa(cron))


_WEBHOOKS: Final[dict[str, tuple[str, Callable[[dict[str, Any]], Verdict]]]] = {
    MUTATE_FEDERATEDHPA: (FHPA_KIND, _mutate_federatedhpa),
    VALIDATE_FEDERATEDHPA: (FHPA_KIND, _validate_federatedhpa),
    VALIDATE_CRONFEDERATEDHPA: (CRON_KIND, _validate_cronfederatedhpa),
}
PATHS: Final = tuple(_WEBHOOKS)


def _judged(errors: list[FieldError], warnings: Iterable[str]) -> Verdict:
    shown = presentable(warnings)
    if errors:
        return Verdict(False, 403, "Forbidden", aggregate(errors), warnings=shown)
    return Verdict(True, warnings=shown)


def _encode(uid: str, version: str, verdict: Verdict) -> bytes:
    status: dict[str, Any] = {"metadata": {}}
    if verdict.message:
        status["message"] = verdict.message
    if verdict.reason:
        status["reason"] = verdict.reason
    status["code"] = verdict.code
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed, "status": status}
    if verdict.patch:
        response["patch"] = base64.b64encode(_dump(verdict.patch)).decode("ascii")
        response["patchType"] = "JSONPatch"
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    return _dump({"kind": "AdmissionReview", "apiVersion": version, "response": response})


def _dump(value: Any) -> bytes:
    # A lone surrogate, which JSON may escape into a text, has no UTF-8.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


def _text(holder: Mapping[str, Any], key: str, field_: str, type_: str = "string") -> str:
    value = holder.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Refused(_unfit(value, field_, type_))
    return value


def _unfit(value: Any, field_: str, type_: str) -> str:
    return f"json: cannot unmarshal {_json_type(value)} into Go struct field {field_} of type {type_}"


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list):
        return "array"
    return "null" if value is None else "object"


def _group_version_kind(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"
