"""Reads a request: its attributes, its kind, its query (k8s.io/apiserver 0.36, RequestInfo)."""

import dataclasses
from collections.abc import Mapping
from typing import Final

from fedhpa.api.fielderror import forbidden
from testbed.embedded.api import statuses
from testbed.embedded.api.types import Attributes, User
from testbed.embedded.objects.kinds import NAMESPACES, Kind

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
# Subresources of a namespace itself, which follow /namespaces/NAME.
_OF_NAMESPACES: Final = ("status", "finalize")
# The number of path segments before the resource: /api/VERSION/..., /apis/GROUP/VERSION/...
_PREFIX: Final = {"api": 2, "apis": 3}


def attributes_of(user: User, method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """Returns the attributes that authorization checks."""
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
        verb = "watch" if query.get("watch", "false").lower() not in ("false", "0") else "list"
        name = _selected_name(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(user, verb, path, group, version, resource, subresource, namespace, name)


def _selected_name(field_selector: str) -> str:
    for term in field_selector.split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name":
            return value.removeprefix("=")
    return ""


def has_path(attributes: Attributes, kind: Kind) -> bool:
    """True if the kind is served at the path: its scope and its subresource match."""
    scoped = kind.namespaced or not attributes.namespace or kind.collection == NAMESPACES
    return scoped and (not attributes.subresource or attributes.subresource in kind.subresources)


def check_query(attributes: Attributes, query: Mapping[str, str]) -> None:
    """Raises StatusError for a watch list: client-go lists instead when it is refused."""
    if query.get("sendInitialEvents"):
        detail = "sendInitialEvents is forbidden unless the WatchList feature gate is enabled"
        problems = [forbidden("sendInitialEvents", detail)]
        raise statuses.invalid("meta.k8s.io", f"{attributes.verb.title()}Options", "", problems)


@dataclasses.dataclass
class ResourceRequest:
    """A request for objects of a kind. `warnings` become Warning headers."""

    attributes: Attributes
    kind: Kind
    query: Mapping[str, str]
    body: bytes = b""
    content_type: str = ""
    warnings: list[str] = dataclasses.field(default_factory=list)

    @property
    def namespace(self) -> str:
        """The namespace of the objects; "" for cluster-scoped kinds and for all namespaces."""
        return self.attributes.namespace if self.kind.namespaced else ""

    @property
    def is_scale(self) -> bool:
        """True for the scale subresource."""
        return self.attributes.subresource == "scale"

    @property
    def dry_run(self) -> bool:
        """True if nothing is to be stored."""
        return bool(self.query.get("dryRun"))
