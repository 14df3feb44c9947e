"""Status answers with the wording of Kubernetes (k8s.io/apimachinery 0.36, api/errors)."""

from collections.abc import Sequence
from typing import Any, Final

from fedhpa.api.fielderror import FieldError, aggregate
from testbed.embedded.api.types import Attributes, Object, StatusError

MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def _qualified(group: str, resource: str) -> str:
    """Returns a name like `deployments.apps` or `pods`."""
    return f"{resource}.{group}" if group else resource


def _details(group: str, kind: str, name: str = "", **more: Any) -> Object:
    found = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in found.items() if value}


def _about(code: int, reason: str, about: tuple[str, str, str], message: str) -> StatusError:
    """Returns an error about (group, resource, name)."""
    return StatusError(code, reason, message, details=_details(*about))


def not_found(group: str, resource: str, name: str) -> StatusError:
    """404 for an object."""
    message = f'{_qualified(group, resource)} "{name}" not found'
    return _about(404, "NotFound", (group, resource, name), message)


def already_exists(group: str, resource: str, name: str, *, being_deleted: bool = False) -> StatusError:
    """409 for the creation of an object that exists."""
    message = f'{_qualified(group, resource)} "{name}" already exists'
    text = f"object is being deleted: {message}" if being_deleted else message
    return _about(409, "AlreadyExists", (group, resource, name), text)


def conflict(group: str, resource: str, name: str) -> StatusError:
    """409 for a write of an old version."""
    message = f'Operation cannot be fulfilled on {_qualified(group, resource)} "{name}": {MODIFIED}'
    return _about(409, "Conflict", (group, resource, name), message)


def forbidden(group: str, resource: str, name: str, why: str) -> StatusError:
    """403 for a resource."""
    what = _qualified(group, resource) + (f' "{name}"' if name else "")
    return _about(403, "Forbidden", (group, resource, name), f"{what} is forbidden: {why}")


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
            "reason": f"FieldValue{problem.type.title().replace(' ', '').removesuffix('Value')}",
            "message": str(problem).removeprefix(f"{problem.path}: "),
            "field": problem.path,
        }
        for problem in problems
    ]
    message = f'{_qualified(group, kind)} "{name}" is invalid: {aggregate(problems)}'
    return StatusError(422, "Invalid", message, details=_details(group, kind, name, causes=causes))


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
