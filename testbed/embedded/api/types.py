"""The types that the parts of the API server share: users, attributes, writes, errors."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Object = dict[str, Any]


class StatusError(Exception):
    """An error that is answered as a Kubernetes Status; `details` is the field of that name."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details


@dataclass(frozen=True)
class User:
    """An authenticated user, or ANONYMOUS."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True)
class Attributes:
    """A request as authorization sees it. `resource` is "" for paths outside the resource APIs.

    `verb` is get, list, watch, create, update, patch, delete or deletecollection; outside the resource APIs
    it is the HTTP method in lower case.
    """

    user: User
    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class Write:
    """A write before it is stored. `operation` is CREATE, UPDATE or DELETE.

    `object` is None for a deletion, `old` is None for a creation. `warn` adds a Warning header.
    """

    attributes: Attributes
    operation: str
    kind: str
    object: Object | None
    old: Object | None
    dry_run: bool = False
    warn: Callable[[str], None] = lambda _text: None


Handler = Callable[[web.Request, User], Awaitable[web.StreamResponse]]
# Returns the handler of a path that the API server does not serve itself, or None.
Router = Callable[[str], Handler | None]
# Prunes, defaults and checks an object.
Validate = Callable[[Object], Object]
# Returns the object to store, None for a deletion; runs `Validate` between mutation and validation.
Admit = Callable[[Write, Validate], Awaitable[Object | None]]
