"""What a request is about, read from its method, path and query (k8s.io/apiserver 0.36, request info)."""

from collections.abc import Mapping
from typing import Final

from testbed.embedded.api.types import Attributes, User

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
# What follows /namespaces/NAME and is about the namespace itself.
_OF_NAMESPACES: Final = ("status", "finalize")
# /api/VERSION/RESOURCE, /apis/GROUP/VERSION/RESOURCE
_PREFIX: Final = {"api": 2, "apis": 3}


def attributes(user: User, method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """What authorization is asked."""
    parts = [part for part in path.split("/") if part]
    prefix = _PREFIX.get(parts[0], 0) if parts else 0
    if not prefix or len(parts) <= prefix:
        return Attributes(user, method.lower(), path)
    group, version = ("", parts[1]) if prefix == 2 else (parts[1], parts[2])
    rest, namespace = parts[prefix:], ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS.get(method, method.lower())
    if not name and verb == "get":
        verb = "watch" if is_true(query.get("watch")) else "list"
        name = _required_name(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(user, verb, path, group, version, resource, subresource, namespace, name)


def is_true(value: str | None) -> bool:
    """A flag in a query."""
    return value is not None and value.lower() not in ("false", "0")


def _required_name(field_selector: str) -> str:
    for term in field_selector.split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name":
            return value.removeprefix("=")
    return ""
