"""The seams of the embedded API server: what a request is once understood, and who may have a say in it.

`ApiServer` asks, in this order: `Authenticator`, `Authorizer`, `Router` (is the path
somebody else's?), and for each write the `Admitter`. A Kubernetes error that anybody raises is a
`Refusal`; the server makes its Status body.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

Object = dict[str, Any]


class Refusal(Exception):
    """A Status to answer with. `details` is the Status's field of that name, `headers` go with the answer."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.headers = headers or {}


@dataclass(frozen=True)
class User:
    """Who asks, as Kubernetes names people: `system:anonymous` of `system:unauthenticated` is nobody."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True)
class Attributes:
    """What is asked for, as authorization sees it. `resource` is "" for paths that are no resource's
    (`path` has it).
    """

    user: User
    # get, list, watch, create, update, patch, delete, deletecollection; of paths the method in lower case
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
    """A write before it is stored: what admission may change or refuse. `operation` is CREATE, UPDATE or
    DELETE; `object` is None for a deletion, `old` None for a creation.
    """

    attributes: Attributes
    operation: str
    kind: str
    object: Object | None
    old: Object | None
    dry_run: bool = False
    warn: Callable[[str], None] = lambda _text: None  # adds a Warning header to the answer


class Authenticator(Protocol):
    """Finds out who sent a request."""

    async def authenticate(self, request: web.Request) -> User | None:
        """The user, ANONYMOUS without credentials, None if the credentials are wrong (401)."""


class Authorizer(Protocol):
    """Says who may do what."""

    def allowed(self, attributes: Attributes) -> str | None:
        """Why it is allowed, or None if it is not."""


class Admitter(Protocol):
    """Has the last word before an object is stored."""

    async def admit(self, write: Write, validate: Callable[[Object], Object]) -> Object | None:
        """The object to store (None for a deletion); `validate` is the schema's pruning, defaulting and
        checking, due between mutation and validation. Refusal if it is not to be stored.
        """


class Router(Protocol):
    """Takes requests away: the aggregator for the groups of APIServices."""

    def handler(self, path: str) -> Callable[[web.Request, User], Awaitable[web.StreamResponse]] | None:
        """Who answers the path, or None."""
