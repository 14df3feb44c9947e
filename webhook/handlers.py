"""The three webhooks as pure functions of bytes: AdmissionReview in, verdict out.

Whatever arrives, there is a verdict; it is in the answer's `response`, never in the HTTP status. A malformed
review or object is refused with code 400 and the decoder's text, a wrong object with code 403, reason
Forbidden and the aggregate of its field errors. Verdicts depend on the object alone. Source: Karmada v1.19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fedhpa.admission import (
    default_patch,
    federatedhpa_remedies,
    validate_cronfederatedhpa,
    validate_federatedhpa,
    warn_cronfederatedhpa,
    warn_federatedhpa,
)
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import WrongType, decode
from fedhpa.api.federatedhpa import API_VERSION, FederatedHPA
from fedhpa.api.federatedhpa import KIND as FHPA_KIND
from fedhpa.api.fielderror import FieldError, aggregate
from webhook.admission_review import (
    MAX_BODY,
    NO_CONTENT,
    encode_answer,
    group_version_kind,
    json_type,
    read_envelope,
    request_of,
    text_of,
)
from webhook.verdict import Refused, Verdict

MUTATE_FEDERATEDHPA: Final = "/mutate-federatedhpa"
VALIDATE_FEDERATEDHPA: Final = "/validate-federatedhpa"
VALIDATE_CRONFEDERATEDHPA: Final = "/validate-cronfederatedhpa"

Subject = FederatedHPA | CronFederatedHPA


class Review(msgspec.Struct, frozen=True):
    """One request that was judged. `raw` is its object as it came (None: there is none that can be read),
    `subject` the same object where it was admitted and others may be affected by it.
    """

    verdict: Verdict
    uid: str = ""
    version: str = ""
    raw: dict[str, Any] | None = None
    subject: Subject | None = None

    def warned(self, warnings: Iterable[str]) -> Review:
        """The same with more warnings, which come first."""
        verdict = replace(self.verdict, warnings=(*warnings, *self.verdict.warnings))
        return replace(self, verdict=verdict)

    def encoded(self) -> bytes:
        """The answer."""
        return encode_answer(self.uid, self.version, self.verdict)


def review(path: str, body: bytes, content_type: str) -> bytes:
    """Answers one request to one of the three paths, whatever it carries."""
    return judge(path, body, content_type).encoded()


def refused(refusal: Refused) -> Review:
    """A request that is refused without being looked at, such as one that is too large."""
    return Review(refusal.verdict)


def judge(path: str, body: bytes, content_type: str) -> Review:
    """The verdict about one request to one of the three paths, whatever it carries."""
    uid, version = "", ""
    raw: dict[str, Any] | None = None
    subject: Subject | None = None
    try:
        envelope = read_envelope(body, content_type)
        version = envelope.get("apiVersion") or ""
        request = request_of(envelope)
        uid = request.uid
        kind, look = _webhook(path)
        raw = _object(request.object, kind)
        verdict, subject = _ON_ITS_WAY_OUT if _is_on_its_way_out(raw) else look(raw)
    except Refused as refusal:
        verdict = refusal.verdict
    except WrongType as error:
        verdict = Refused(str(error), warnings=[error.remedy]).verdict
    except RecursionError:
        verdict = Verdict(False, 400, message="the object is nested too deeply")
    return Review(verdict, uid, version, raw, subject)


def _webhook(path: str) -> tuple[str, Look]:
    webhook = _WEBHOOKS.get(path)
    if webhook is None:
        raise Refused(f"no webhook is served at {path[:200]}", code=404)
    return webhook


def _object(raw: Any, kind: str) -> dict[str, Any]:
    if raw is None:
        raise Refused(NO_CONTENT)
    if not isinstance(raw, dict):
        raise Refused(f"json: cannot unmarshal {json_type(raw)} into Go value of type v1alpha1.{kind}")
    api_version = text_of(raw, "apiVersion", f"{kind}.apiVersion")
    written_kind = text_of(raw, "kind", f"{kind}.kind")
    if (api_version or API_VERSION) != API_VERSION or (written_kind or kind) != kind:
        shown = group_version_kind(api_version, written_kind)
        raise Refused(f"unable to decode {shown[:200]} into *v1alpha1.{kind}")
    return raw


def _is_on_its_way_out(raw: dict[str, Any]) -> bool:
    """Whether the object is being deleted: it may always lose its finalizer, however wrong it is."""
    metadata = raw.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


_ON_ITS_WAY_OUT: Final = (Verdict(True), None)

Look = Callable[[dict[str, Any]], tuple[Verdict, Subject | None]]


def _mutate_federatedhpa(raw: dict[str, Any]) -> tuple[Verdict, None]:
    # What the schema refuses never comes to validation, so what to write instead is said here already; an API
    # server passes on one warning once, however often it is told.
    warnings = tuple(federatedhpa_remedies(decode(FederatedHPA, raw).spec))
    return Verdict(True, patch=default_patch(raw), warnings=warnings), None


def _validate_federatedhpa(raw: dict[str, Any]) -> tuple[Verdict, FederatedHPA | None]:
    fhpa = decode(FederatedHPA, raw)
    errors = validate_federatedhpa(fhpa)
    verdict = _judged(errors, warn_federatedhpa(fhpa, admitted=not errors))
    return verdict, fhpa if verdict.allowed else None


def _validate_cronfederatedhpa(raw: dict[str, Any]) -> tuple[Verdict, CronFederatedHPA | None]:
    cron = decode(CronFederatedHPA, raw)
    errors = validate_cronfederatedhpa(cron)
    verdict = _judged(errors, warn_cronfederatedhpa(cron, admitted=not errors))
    return verdict, cron if verdict.allowed else None


_WEBHOOKS: Final[dict[str, tuple[str, Look]]] = {
    MUTATE_FEDERATEDHPA: (FHPA_KIND, _mutate_federatedhpa),
    VALIDATE_FEDERATEDHPA: (FHPA_KIND, _validate_federatedhpa),
    VALIDATE_CRONFEDERATEDHPA: (CRON_KIND, _validate_cronfederatedhpa),
}
PATHS: Final = tuple(_WEBHOOKS)
KINDS: Final = {path: kind for path, (kind, _) in _WEBHOOKS.items()}


def _judged(errors: list[FieldError], warnings: Iterable[str]) -> Verdict:
    if errors:
        return Verdict(False, 403, "Forbidden", aggregate(errors), warnings=tuple(warnings))
    return Verdict(True, warnings=tuple(warnings))


__all__ = [
    "KINDS",
    "MAX_BODY",
    "MUTATE_FEDERATEDHPA",
    "PATHS",
    "VALIDATE_CRONFEDERATEDHPA",
    "VALIDATE_FEDERATEDHPA",
    "Review",
    "Subject",
    "judge",
    "refused",
    "review",
]
