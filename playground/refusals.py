"""The Status answers of Kubernetes, with its words (k8s.io/apimachinery 0.36, api/errors)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playground.pipeline import Object, Refusal


@dataclass(frozen=True)
class FieldProblem:
    """One cause of an Invalid answer: type as `FieldValueInvalid`, the field's path, what is wrong."""

    type: str
    field: str
    body: str

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def qualified(group: str, resource: str) -> str:
    """`deployments.apps`, `pods`."""
    return f"{resource}.{group}" if group else resource


def _details(group: str, kind: str, name: str = "", **more: Any) -> Object:
    found = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in found.items() if value}


def not_found(group: str, resource: str, name: str) -> Refusal:
    """404 for an object."""
    message = f'{qualified(group, resource)} "{name}" not found'
    return Refusal(404, "NotFound", message, details=_details(group, resource, name))


def already_exists(group: str, resource: str, name: str) -> Refusal:
    """409 for a creation."""
    message = f'{qualified(group, resource)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, details=_details(group, resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, resource: str, name: str, why: str = MODIFIED) -> Refusal:
    """409 for a write on something else than what is there."""
    message = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {why}'
    return Refusal(409, "Conflict", message, details=_details(group, resource, name))


def forbidden(group: str, resource: str, name: str, why: str) -> Refusal:
    """403, of authorization and of admission."""
    what = qualified(group, resource) + (f' "{name}"' if name else "")
    message = f"{what} is forbidden: {why}" if what else f"forbidden: {why}"
    return Refusal(403, "Forbidden", message, details=_details(group, resource, name))


def invalid(group: str, kind: str, name: str, problems: Sequence[FieldProblem]) -> Refusal:
    """422 with one cause for each problem."""
    texts = list(dict.fromkeys(str(problem) for problem in problems))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": each.type, "message": each.body, "field": each.field} for each in problems]
    message = f'{qualified(group, kind)} "{name}" is invalid: {joined}'
    return Refusal(422, "Invalid", message, details=_details(group, kind, name, causes=causes))


def bad_request(message: str) -> Refusal:
    """400."""
    return Refusal(400, "BadRequest", message)


def expired(message: str) -> Refusal:
    """410: the version asked for is forgotten."""
    return Refusal(410, "Expired", message)


def no_such_path() -> Refusal:
    """404 for what is no resource of ours."""
    message = "the server could not find the requested resource"
    return Refusal(404, "NotFound", message, details={})


def method_not_allowed(group: str, resource: str, method: str) -> Refusal:
    """405 for a resource that cannot be asked so."""
    details = _details(group, resource)
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, details=details | {"method": method.lower()})


def unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    """415 for a body that cannot be read here."""
    message = "the body of the request was in an unknown format - accepted media types include: "
    return Refusal(415, "UnsupportedMediaType", message + ", ".join(accepted))


def too_large(limit: int) -> Refusal:
    """413 for a body above the limit."""
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}", details={})


def status_of(refusal: Refusal) -> Object:
    """The body of the answer."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(refusal),
        "reason": refusal.reason,
    }
    if refusal.details is not None:
        status["details"] = dict(refusal.details)
    return {**status, "code": refusal.code}
