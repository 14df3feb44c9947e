"""The three admission webhooks, as pure functions from the bytes of an AdmissionReview to a verdict.

Every request gets a verdict in the `response` of the answer, never as an HTTP error. A malformed review or
object is refused with code 400 and the error of the decoder. An invalid object is refused with code 403,
reason Forbidden and all its field errors. A verdict depends only on the object and on --propagation. An
update that leaves the spec alone is always admitted: today's rules may refuse what is stored, and a label or
a finalizer must still be possible. Source: Karmada v1.19.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fedhpa.admission.cronfederatedhpa import validate_cronfederatedhpa, warn_cronfederatedhpa
from fedhpa.admission.defaults import default_patch
from fedhpa.admission.federatedhpa import federatedhpa_remedies, validate_federatedhpa, warn_federatedhpa
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import WrongType, decode
from fedhpa.api.federatedhpa import API_VERSION, FederatedHPA
from fedhpa.api.federatedhpa import KIND as FHPA_KIND
from fedhpa.api.fielderror import FieldError, aggregate, remedies
from webhook.admission_review import (
    MAX_WARNINGS,
    NO_CONTENT,
    Refused,
    Verdict,
    encode_answer,
    object_of,
    read_envelope,
    request_of,
)
from webhook.strict_json import BadJSON, check_nesting

MUTATE_FEDERATEDHPA: Final = "/mutate-federatedhpa"
VALIDATE_FEDERATEDHPA: Final = "/validate-federatedhpa"
VALIDATE_CRONFEDERATEDHPA: Final = "/validate-cronfederatedhpa"

Subject = FederatedHPA | CronFederatedHPA


class Review(msgspec.Struct, frozen=True):
    """A request with its verdict.

    `raw` is the JSON of its object, or None if it cannot be read. `subject` is the decoded object if it was
    admitted by a validating webhook, for warnings about other objects and about the schedule. `error` is the
    exception of a request that was refused because of an internal error.
    """

    verdict: Verdict
    uid: str = ""
    version: str = ""
    raw: dict[str, Any] | None = None
    subject: Subject | None = None
    error: Exception | None = None

    def failed(self, error: Exception) -> Review:
        """Returns the refusal of the same request because of an internal error."""
        # The API server shows this message to the user, who otherwise would see a closed connection.
        refusal = Refused(f"internal error of the webhook: {type(error).__name__}", code=500)
        return replace(self, verdict=refusal.verdict, subject=None, error=error)

    def warned(self, warnings: Iterable[str]) -> Review:
        """Returns the review with more warnings, before the present ones."""
        verdict = replace(self.verdict, warnings=(*warnings, *self.verdict.warnings))
        return replace(self, verdict=verdict)

    def encoded(self) -> bytes:
        """Returns the bytes of the answer."""
        return encode_answer(self.uid, self.version, self.verdict)


def judge(path: str, body: bytes, content_type: str, *, karmada: bool = False) -> Review:
    """Returns the review of a request to one of the three paths. Raises nothing: every error is a refusal.

    `karmada` is True with --propagation=karmada.
    """
    uid, version = "", ""
    raw: dict[str, Any] | None = None
    request: dict[str, Any] = {}
    subject: Subject | None = None
    try:
        envelope = read_envelope(body, content_type)
        version = envelope.get("apiVersion") or ""
        uid, request = request_of(envelope)
        if path not in _WEBHOOKS:
            raise Refused(f"no webhook is served at {path[:200]}", code=404)
        kind, handle = _WEBHOOKS[path]
        if request.get("object") is None:
            raise Refused(NO_CONTENT)
        raw = object_of(request["object"], f"v1alpha1.{kind}", (API_VERSION,))
        if _is_being_deleted(raw):
            verdict = Verdict(True)
        else:
            check_nesting(raw)
            verdict, subject = handle(raw, karmada)
    except Refused as refusal:
        verdict = refusal.verdict
    except BadJSON as error:
        verdict = Refused(str(error)).verdict
    except WrongType as error:
        verdict = Refused(str(error), warnings=[error.remedy]).verdict
    except Exception as error:
        # Without the uid an API server would not accept the answer.
        return Review(Verdict(False), uid, version, raw).failed(error)
    if (verdict.patch or not verdict.allowed) and _keeps_spec(raw, request.get("oldObject")):
        # A patch would change the spec, and then the rules would judge it.
        verdict = Verdict(True, warnings=verdict.warnings)
    return Review(verdict, uid, version, raw, subject)


def _is_being_deleted(raw: dict[str, Any]) -> bool:
    """True if the object is being deleted. Even an invalid object must be able to lose its finalizer."""
    metadata = raw.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def _keeps_spec(raw: dict[str, Any] | None, old: Any) -> bool:
    """True if the stored object has the same spec."""
    if raw is None or not isinstance(old, dict) or "spec" not in old or "spec" not in raw:
        return False
    try:
        # As JSON, because Python's 1, 1.0 and True are equal.
        return json.dumps(old["spec"], sort_keys=True) == json.dumps(raw["spec"], sort_keys=True)
    except RecursionError:
        return False


Handler = Callable[[dict[str, Any], bool], tuple[Verdict, Subject | None]]


def _mutate_federatedhpa(raw: dict[str, Any], _: bool) -> tuple[Verdict, None]:
    # The API server checks the schema after mutation and before validation. The remedies for what the schema
    # refuses must therefore be given here. The API server removes repeated warnings.
    warnings = tuple(federatedhpa_remedies(decode(FederatedHPA, raw).spec))
    return Verdict(True, patch=default_patch(raw), warnings=warnings), None


def _validate_federatedhpa(raw: dict[str, Any], karmada: bool) -> tuple[Verdict, FederatedHPA | None]:
    fhpa = decode(FederatedHPA, raw)
    errors = validate_federatedhpa(fhpa, karmada=karmada)
    verdict = _verdict(errors, warn_federatedhpa(fhpa, admitted=not errors))
    return verdict, fhpa if verdict.allowed else None


def _validate_cronfederatedhpa(raw: dict[str, Any], _: bool) -> tuple[Verdict, CronFederatedHPA | None]:
    cron = decode(CronFederatedHPA, raw)
    errors = validate_cronfederatedhpa(cron)
    # More remedies would repeat the same. The refusal names every wrong rule.
    verdict = _verdict(errors, (*islice(remedies(errors), MAX_WARNINGS), *warn_cronfederatedhpa(cron)))
    return verdict, cron if verdict.allowed else None


_WEBHOOKS: Final[dict[str, tuple[str, Handler]]] = {
    MUTATE_FEDERATEDHPA: (FHPA_KIND, _mutate_federatedhpa),
    VALIDATE_FEDERATEDHPA: (FHPA_KIND, _validate_federatedhpa),
    VALIDATE_CRONFEDERATEDHPA: (CRON_KIND, _validate_cronfederatedhpa),
}
PATHS: Final = tuple(_WEBHOOKS)
KINDS: Final = {path: kind for path, (kind, _) in _WEBHOOKS.items()}


def _verdict(errors: list[FieldError], warnings: Iterable[str]) -> Verdict:
    if errors:
        return Verdict(False, 403, "Forbidden", aggregate(errors), warnings=tuple(warnings))
    return Verdict(True, warnings=tuple(warnings))
