"""Reads one API server. Each call has a deadline, and a failure is a `Problem`, never an exception."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.free_json import Json, at
from fedhpa.api.texts import one_line, redacted
from fedhpa.kube import NOT_FOUND, UNAUTHORIZED, ApiClient, Resource, ResourceMapper, Response, explain
from fedhpa.kube.transport import TIMEOUT, UNREACHABLE, describe

T = TypeVar("T")

# Concurrent calls to one server. More of them cost more TLS handshakes than they save.
MAX_CALLS: Final = 8
MAX_TEXT: Final = 300
# Items of one list that are looked at.
MAX_ITEMS: Final = 10_000
AUTHORIZATION: Final = "authorization.k8s.io/v1"


class Cause(StrEnum):
    """Reasons why a value could not be read."""

    ABSENT = "absent"
    FORBIDDEN = "forbidden"
    UNAUTHORIZED = "unauthorized"
    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"
    TIMEOUT = "timeout"
    FAILED = "failed"


_STATUSES: Final = {UNAUTHORIZED: Cause.UNAUTHORIZED, 403: Cause.FORBIDDEN, NOT_FOUND: Cause.ABSENT}


class Problem(msgspec.Struct, frozen=True):
    """A value that could not be read: the cause, and the words of the server or of the transport.

    The functions of `fedhpa.api.free_json` find nothing in it.
    """

    cause: Cause
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"it is {self.cause}"


class Items(list[T]):
    """The items of a list. It is empty if it could not be read, which its `problem` says."""

    def __init__(self, items: Iterable[T] = (), problem: Problem | None = None) -> None:
        super().__init__(items)
        self.problem = problem


class Right(msgspec.Struct, frozen=True):
    """One verb on one resource, or on one path that is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        target = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f"/{self.name}" if self.name else ""
        return f"{self.verb} {target}{name}" + (f" in {self.namespace}" if self.namespace else "")

    def attributes(self) -> Json:
        """Returns the spec of an access review."""
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        plural, _, below = self.resource.partition("/")
        wanted = msgspec.structs.asdict(self) | {"resource": plural, "subresource": below}
        return {"resourceAttributes": {key: value for key, value in wanted.items() if value}}


class Session:
    """One API server, read with a deadline of `seconds` for each answer.

    `secret` is a credential that error texts must not contain.
    """

    def __init__(self, client: ApiClient, seconds: float, *, secret: str = "") -> None:
        self.client, self.seconds, self._secret = client, seconds, secret
        self._slots = asyncio.Semaphore(MAX_CALLS)
        # One run is short, so that nothing becomes old.
        self._mapper, self._mapping = ResourceMapper(client, clock=lambda: 0.0), asyncio.Lock()

    async def get(self, path: str, **params: str) -> Json | Problem:
        """Returns the object at a path."""
        return self.json(await self.request("GET", path, None, 0.0, **params))

    async def list(self, path: str, item: type[T], *, labels: str = "") -> Items[T]:
        """Returns the items of a collection that can be decoded, at most MAX_ITEMS; `labels` selects some."""

        async def read() -> Items[T]:
            found, _ = await self.client.list_leniently(path, item, idle=self.seconds, label_selector=labels)
            return Items([each for each in found if not isinstance(each, msgspec.Raw)][:MAX_ITEMS])

        found = await self.guarded(read)
        return Items(problem=found) if isinstance(found, Problem) else found

    async def request(
        self, method: str, path: str, body: Any = None, patience: float = 0.0, **params: str
    ) -> Response | Problem:
        """Returns the response to a request. `patience` are seconds beyond the usual deadline."""
        raw, deadline = None if body is None else msgspec.json.encode(body), self.seconds + patience
        return await self.guarded(
            lambda: self.client.request(method, path, params=params, body=raw, deadline=deadline), deadline
        )

    def json(self, answer: Response | Problem) -> Json | Problem:
        """Returns the object in a response."""
        try:
            return answer if isinstance(answer, Problem) else answer.json()
        except Exception as error:
            return self.problem(error)

    async def resource(self, version: str, kind: str) -> Resource:
        """Returns the resource of a kind. Raises InvalidObject for none, and ApiError without an answer."""
        async with self._mapping:  # many targets have one kind, which is then discovered once
            return await self._mapper.resolve(version, kind, deadline=self.seconds)

    async def allows(self, right: Right, account: Json | None = None) -> bool | Problem:
        """Returns if the server grants a right to an account, its user and groups, or to the caller."""
        spec = right.attributes() | (account or {})
        kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
        body = {"apiVersion": AUTHORIZATION, "kind": kind, "spec": spec}
        answer = self.json(await self.request("POST", f"/apis/{AUTHORIZATION}/{kind.lower()}s", body))
        return answer if isinstance(answer, Problem) else at(answer, "status", "allowed") is True

    async def lacking(
        self, rights: Sequence[Right], account: Json | None = None
    ) -> tuple[Right, ...] | Problem:
        """Returns the rights that are not granted, or the first problem of a review."""
        answers = await asyncio.gather(*(self.allows(right, account) for right in rights))
        for answer in answers:
            if isinstance(answer, Problem):
                return answer
        return tuple(right for right, granted in zip(rights, answers, strict=True) if not granted)

    def problem(self, error: BaseException) -> Problem:
        """Returns the problem that an error stands for."""
        cause, text = _cause(error)
        return Problem(cause, self.line(text))

    def line(self, text: str, most: int = MAX_TEXT) -> str:
        """Returns a text of the server as one short line without the credential."""
        return one_line(redacted(text, self._secret), most)

    async def guarded(self, call: Callable[[], Awaitable[T]], deadline: float = 0.0) -> T | Problem:
        """Returns what a call returns, or the problem that it raised."""
        async with self._slots:
            try:
                # A server that sends a byte now and then would hold a list for minutes.
                async with asyncio.timeout(2 * (deadline or self.seconds)):
                    return await call()
            except Exception as error:
                return self.problem(error)


def _cause(error: BaseException) -> tuple[Cause, str]:
    if isinstance(error, TimeoutError):
        return Cause.TIMEOUT, "no complete answer in time"
    if not isinstance(error, ApiError):
        return Cause.FAILED, str(error) if isinstance(error, FedHPAError) else explain(error)
    if error.reason == TIMEOUT:
        return Cause.TIMEOUT, "no answer in time"
    if error.reason == UNREACHABLE:
        text = describe(error.__cause__ or error)
        is_tls = text.startswith(("certificate not accepted", "TLS failed"))
        return Cause.UNTRUSTED if is_tls else Cause.UNREACHABLE, text
    return _STATUSES.get(error.status, Cause.FAILED), str(error)


def date_of(answer: Response | Problem) -> float | None:
    """Returns the server's time (POSIX seconds) in a response; None if there is no usable one."""
    try:
        # HTTP dates are whole seconds, so the mean error is half a second.
        text = "" if isinstance(answer, Problem) else answer.headers.get("Date", "")
        return parsedate_to_datetime(text[:64]).timestamp() + 0.5
    except (ValueError, TypeError, OverflowError):
        return None
