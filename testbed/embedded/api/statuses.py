"""The Status answers of Kubernetes, with its words (k8s.io/apimachinery 0.36, api/errors)."""

from collections.abc import Sequence
from typing import Any, Final

from fedhpa.api.fielderror import FieldError, aggregate
from testbed.embedded.api.types import Attributes, Object, Refusal


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


def already_exists(group: str, resource: str, name: str, *, being_deleted: bool = False) -> Refusal:
    """409 for a creation."""
    message = f'{qualified(group, resource)} "{name}" already exists'
    if being_deleted:
        message = f"object is being deleted: {message}"
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


def invalid(group: str, kind: str, name: str, problems: Sequence[FieldError]) -> Refusal:
    """422 with one cause for each problem; `kind` is a kind's name, as Kubernetes has it here alone."""
    causes = [_cause(each) for each in problems]
    message = f'{qualified(group, kind)} "{name}" is invalid: {aggregate(problems)}'
    return Refusal(422, "Invalid", message, details=_details(group, kind, name, causes=causes))


_CAUSES: Final = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}


def _cause(problem: FieldError) -> Object:
    of_type = problem.type == "Invalid value" and " must be of type " in problem.detail
    return {
        "reason": "FieldValueTypeInvalid" if of_type else _CAUSES[problem.type],
        "message": str(problem).removeprefix(f"{problem.path}: "),
        "field": problem.path,
    }


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


def method_not_allowed() -> Refusal:
    """405 for a path that cannot be asked so."""
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, details={})


def not_allowed(at: Attributes) -> Refusal:
    """403 of authorization."""
    who = f'User "{at.user.name}" cannot {at.verb}'
    if not at.resource:
        return Refusal(403, "Forbidden", f'forbidden: {who} path "{at.path}"', details={})
    resource = f"{at.resource}/{at.subresource}" if at.subresource else at.resource
    where = f'in the namespace "{at.namespace}"' if at.namespace else "at the cluster scope"
    why = f'{who} resource "{resource}" in API group "{at.group}" {where}'
    return forbidden(at.group, at.resource, at.name, why)


def not_acceptable() -> Refusal:
    """406 for a client that reads nothing that is written here."""
    readable = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    message = f"406: Not Acceptable\n\nAvailable representations: {readable}"
    return Refusal(406, "NotAcceptable", message, details={})


def plain(message: str) -> Refusal:
    """500 for an error that Kubernetes passes on as it is."""
    return Refusal(500, "", message)


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
    }
    if refusal.reason:
        status["reason"] = refusal.reason
    if refusal.details is not None:
        status["details"] = dict(refusal.details)
    return {**status, "code": refusal.code}
