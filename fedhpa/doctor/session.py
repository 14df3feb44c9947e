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
from fedhpa.kube import NOT_FOUND, UNAUTHORIZED, ApiClient, Clock, ResourceMapper, Response, explain
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
        target = self.path or ".".join(filter(None, (self.resource, self.group)))
        name = f"/{self.name}" if self.name else ""
        return f"{self.verb} {target}{name}" + (f" in {self.namespace}" if self.namespace else "")


class Session:
    """One API server, read with a deadline of `seconds` for each answer.

    `secret` is a credential that error texts must not contain.
    """

    def __init__(self, client: ApiClient, seconds: float, *, secret: str = "") -> None:
        self.client, self.seconds, self._secret = client, seconds, secret
        self._slots = asyncio.Semaphore(MAX_CALLS)
        # One run is short, so that nothing becomes old. Many targets have one kind, which is discovered once.
        self.mapper, self.mapping = ResourceMapper(client, clock=lambda: 0.0), asyncio.Lock()

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

    async def timed(self, path: str, clock: Clock) -> tuple[Response | Problem, float]:
        """Returns the answer at a path, and the server's clock minus ours in seconds; 0 if it is unknown."""
        begun = clock.wall()
        answer = await self.request("GET", path)
        date, middle = date_of(answer), (begun + clock.wall()) / 2
        return answer, 0.0 if date is None else date - middle

    def json(self, answer: Response | Problem) -> Json | Problem:
        """Returns the object in a response."""
        try:
            return answer if isinstance(answer, Problem) else answer.json()
        except Exception as error:
            return self.problem(error)

    async def lacking(
        self, rights: Sequence[Right], account: Json | None = None
    ) -> tuple[Right, ...] | Problem:
        """Returns the rights that an account, its user and groups, or the caller lacks.

        If a review fails, the result is its problem.
        """
        kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"

        async def review(right: Right) -> Json | Problem:
            plural, _, below = right.resource.partition("/")
            named = msgspec.structs.asdict(right) | {"resource": plural, "subresource": below}
            field = "nonResourceAttributes" if right.path else "resourceAttributes"
            spec = {field: {key: value for key, value in named.items() if value}, **(account or {})}
            body = {"apiVersion": AUTHORIZATION, "kind": kind, "spec": spec}
            return self.json(await self.request("POST", f"/apis/{AUTHORIZATION}/{kind.lower()}s", body))

        answers = await asyncio.gather(*map(review, rights))
        problem = next((each for each in answers if isinstance(each, Problem)), None)
        pairs = zip(rights, answers, strict=True)
        return problem or tuple(one for one, found in pairs if at(found, "status", "allowed") is not True)

    def problem(self, error: BaseException) -> Problem:
        """Returns the problem that an error stands for."""
        cause, text = Cause.FAILED, str(error) if isinstance(error, FedHPAError) else explain(error)
        if isinstance(error, TimeoutError):
            cause, text = Cause.TIMEOUT, "no complete answer in time"
        elif isinstance(error, ApiError) and error.reason == TIMEOUT:
            cause, text = Cause.TIMEOUT, "no answer in time"
        elif isinstance(error, ApiError) and error.reason == UNREACHABLE:
            text = describe(error.__cause__ or error)
            is_tls = text.startswith(("certificate not accepted", "TLS failed"))
            cause = Cause.UNTRUSTED if is_tls else Cause.UNREACHABLE
        elif isinstance(error, ApiError):
            cause = _STATUSES.get(error.status, Cause.FAILED)
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


def date_of(answer: Response | Problem) -> float | None:
    """Returns the server's time (POSIX seconds) in a response; None if there is no usable one."""
    try:
        # HTTP dates are whole seconds, so the mean error is half a second.
        text = "" if isinstance(answer, Problem) else answer.headers.get("Date", "")
        return parsedate_to_datetime(text[:64]).timestamp() + 0.5
    except (ValueError, TypeError, OverflowError):
        return None
