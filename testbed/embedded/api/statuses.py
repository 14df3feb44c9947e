"""Status answers with the wording of Kubernetes (k8s.io/apimachinery 0.36, api/errors)."""

from collections.abc import Sequence
from typing import Any, Final

from fedhpa.api.fielderror import FieldError, aggregate
from testbed.embedded.api.types import Attributes, Object, StatusError

MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_CAUSES: Final = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}


def _qualified(group: str, resource: str) -> str:
    """Returns a name like `deployments.apps` or `pods`."""
    return f"{resource}.{group}" if group else resource


def _details(group: str, kind: str, name: str = "", **more: Any) -> Object:
    found = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in found.items() if value}


def not_found(group: str, resource: str, name: str) -> StatusError:
    """404 for an object."""
    message = f'{_qualified(group, resource)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(group, resource, name))


def already_exists(group: str, resource: str, name: str, *, being_deleted: bool = False) -> StatusError:
    """409 for the creation of an object that exists."""
    message = f'{_qualified(group, resource)} "{name}" already exists'
    if being_deleted:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, details=_details(group, resource, name))


def conflict(group: str, resource: str, name: str, why: str = MODIFIED) -> StatusError:
    """409 for a write whose precondition does not hold."""
    message = f'Operation cannot be fulfilled on {_qualified(group, resource)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(group, resource, name))


def forbidden(group: str, resource: str, name: str, why: str) -> StatusError:
    """403 for a resource."""
    what = _qualified(group, resource) + (f' "{name}"' if name else "")
    return StatusError(
        403, "Forbidden", f"{what} is forbidden: {why}", details=_details(group, resource, name)
    )


def not_allowed(attributes: Attributes) -> StatusError:
    """403 of authorization."""
    who = f'User "{attributes.user.name}" cannot {attributes.verb}'
    if not attributes.resource:
        return StatusError(403, "Forbidden", f'forbidden: {who} path "{attributes.path}"', details={})
    resource, namespace = attributes.resource, attributes.namespace
    if attributes.subresource:
        resource = f"{resource}/{attributes.subresource}"
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    why = f'{who} resource "{resource}" in API group "{attributes.group}" {where}'
    return forbidden(attributes.group, attributes.resource, attributes.name, why)


def invalid(group: str, kind: str, name: str, problems: Sequence[FieldError]) -> StatusError:
    """422 with one cause for each problem."""
    causes = [
        {
            "reason": "FieldValueTypeInvalid" if _is_type_error(problem) else _CAUSES[problem.type],
            "message": str(problem).removeprefix(f"{problem.path}: "),
            "field": problem.path,
        }
        for problem in problems
    ]
    message = f'{_qualified(group, kind)} "{name}" is invalid: {aggregate(problems)}'
    return StatusError(422, "Invalid", message, details=_details(group, kind, name, causes=causes))


def _is_type_error(problem: FieldError) -> bool:
    return problem.type == "Invalid value" and " must be of type " in problem.detail


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    """410 for a version that is no longer in the history."""
    return StatusError(410, "Expired", message)


def no_such_path() -> StatusError:
    """404 for a resource that is not served."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> StatusError:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(accepted: Sequence[str], remedy: str = "") -> StatusError:
    """415 for a body in a format that is not read; `remedy` says what to do."""
    message = "the body of the request was in an unknown format - accepted media types include: "
    text = message + ", ".join(accepted) + (f"; {remedy}" if remedy else "")
    return StatusError(415, "UnsupportedMediaType", text)


def internal(text: str) -> StatusError:
    """500 with the text as its cause."""
    details = {"causes": [{"message": text}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {text}", details=details)


def status_of(error: StatusError) -> Object:
    """Returns the Status body."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
    }
    if error.reason:
        status["reason"] = error.reason
    if error.details is not None:
        status["details"] = dict(error.details)
    return {**status, "code": error.code}
