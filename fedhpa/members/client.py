"""The client of one member: every call has a deadline and reports its outcome to circuit breakers.

One breaker is for the whole member and follows the probes of /readyz. There is also one for each API group,
because an aggregated API can hang behind a healthy API server, and one slow metric behind a healthy API.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from fedhpa.api.default_values import MEMBER_DEADLINE_SECONDS
from fedhpa.api.errors import ApiError, MemberUnavailable
from fedhpa.api.texts import listed, redacted
from fedhpa.cache import Recent
from fedhpa.kube import FORBIDDEN, NOT_FOUND, UNAUTHORIZED, ApiClient, ApiConfig, Response
from fedhpa.kube.transport import CREDENTIALS, TIMEOUT, UNREACHABLE, Params, describe

# A request or a group that hangs is tried again after this long; a trial may cost one caller the deadline.
COOLDOWN_SECONDS = 10.0
# Different requests of a namespace that time out in a row, and different namespaces of a group. So one tenant
# with any number of slow metrics refuses nobody else's.
SLOW_IN_A_ROW = 3
# Namespaces, and single requests, of a group with time-outs. Beyond it, the oldest is forgotten.
MAX_SLOW = 1024
# The parameters that, with the path, identify a request. Others change with each page or watch.
SELECTORS = ("fieldSelector", "labelSelector", "metricLabelSelector")


class CircuitBreaker:
    """While closed, calls pass. While open, calls are refused with the reason of the last failure.

    The breaker opens after `threshold` failures in a row, or at once with `at_once`. With a `cooldown` it
    lets one call through in each such span (seconds), as a trial. Without, only a probe can close it.
    """

    def __init__(
        self,
        *,
        threshold: int,
        cooldown: float | None = None,
        clock: Callable[[], float],
    ) -> None:
        self._threshold = threshold
        self._cooldown = cooldown
        self._clock = clock
        # The number of failures in a row.
        self.failures = 0
        # The reason why the breaker is open; None while closed.
        self.reason: str | None = None
        self._next_trial = float("inf")

    def refusal(self) -> str | None:
        """Returns why a call is refused; None if it may be made. The caller must report its outcome."""
        if self.reason is None:
            return None
        now = self._clock()
        if self._cooldown is None or now < self._next_trial:
            return self.reason
        # If the trial is cancelled and not reported, the next span has another one.
        self._next_trial = now + self._cooldown
        return None

    def success(self) -> None:
        """Report that a call or probe was answered."""
        self.failures = 0
        self.reason = None

    def failure(self, reason: str, *, at_once: bool = False) -> None:
        """Report that a call or probe was not answered. `at_once` opens the breaker in any case."""
        self.failures += 1
        if at_once or self.reason is not None or self.failures >= self._threshold:
            self.reason = reason
            if self._cooldown is not None:
                self._next_trial = self._clock() + self._cooldown


class Call(NamedTuple):
    """A request, as the breakers see it.

    `key` is its path with its selectors. `scope` is the namespace in the path, else the path. `group` is ""
    below no API group. `parts` counts the parts of the path.
    """

    key: str
    scope: str
    group: str
    parts: int

    @classmethod
    def of(cls, path: str, params: Mapping[str, object] | None) -> Call:
        """Returns the call for a path and its parameters."""
        selectors = [f"{name}={params[name]}" for name in SELECTORS if params and params.get(name)]
        parts = path.split("/")[1:]
        grouped = parts[0] == "apis" and len(parts) > 1
        below = parts[3 if grouped else 2 :]
        namespaced = len(below) > 2 and below[0] == "namespaces"
        return cls(
            "?".join((path, *selectors)),
            below[1] if namespaced else path,
            parts[1] if grouped else "",
            len(parts),
        )

    @property
    def is_discovery(self) -> bool:
        """True for /apis/GROUP and /apis/GROUP/VERSION, which no caller can make slow."""
        return bool(self.group) and self.parts <= 3


class _Hanging(CircuitBreaker):
    """Refuses calls with something in common, once several different ones timed out in a row."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(threshold=1, cooldown=COOLDOWN_SECONDS, clock=clock)
        self._timed_out: set[str] = set()
        self._answered_at = float("-inf")

    def success(self) -> None:
        """Report an answer."""
        super().success()
        self._answered_at = self._clock()
        self._timed_out.clear()

    def timed_out(self, name: str, reason: str, began: float, *, at_once: bool) -> None:
        """Report that the call `name`, which began at `began`, timed out. `at_once` stands for all calls."""
        if self._answered_at < began:
            self._timed_out.add(name)
        if at_once or self.reason is not None or len(self._timed_out) >= SLOW_IN_A_ROW:
            self._timed_out.clear()
            self.failure(reason)


class GroupBreaker:
    """Refuses calls to an API group: a call that timed out, a namespace or a group that hangs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._group = _Hanging(clock)
        # Both only after a time-out, the oldest first.
        self._scopes: Recent[str, _Hanging] = Recent(MAX_SLOW)
        self._calls: Recent[str, _Hanging] = Recent(MAX_SLOW)

    def __len__(self) -> int:
        return len(self._scopes) + len(self._calls)

    def refusal(self, call: Call) -> str | None:
        """Returns why a call is refused; None if it may be made. The caller must report its outcome."""
        parts = (self._calls.get(call.key), self._scopes.get(call.scope), self._group)
        return next((reason for part in parts if part is not None and (reason := part.refusal())), None)

    def answered(self, call: Call) -> None:
        """Report that a call was answered, also with an error."""
        self._calls.pop(call.key, None)
        if call.scope in self._scopes:
            self._scopes[call.scope].success()
        # The API server itself answers /apis/GROUP, whatever the aggregated server of the group does.
        if not call.group or call.parts != 2:
            self._group.success()

    def timed_out(self, call: Call, reason: str, began: float, *, repeated: bool) -> None:
        """Report that a call, which began at `began`, timed out.

        A `repeated` call is one that timed out before, so it says nothing new about the others.
        """
        self._of(self._calls, call.key).timed_out(call.key, reason, began, at_once=True)
        if not repeated:
            self._of(self._scopes, call.scope).timed_out(call.key, reason, began, at_once=False)
            self._group.timed_out(call.scope, reason, began, at_once=call.is_discovery)

    def _of(self, known: Recent[str, _Hanging], name: str) -> _Hanging:
        found = known[name] = known.get(name) or _Hanging(self._clock)
        return found


# A refused connection costs nothing, so it takes a few in a row to open the breaker. A timeout costs the
# deadline and opens it at once.
FAILURE_THRESHOLD = 3
PROBE_PATH = "/readyz"
PROBE_LIMIT = 64 * 1024
# API groups with a circuit breaker of their own. Targets name any number of groups; the oldest is dropped.
MAX_GROUPS = 256
# Namespaces that an error names.
MAX_NAMED = 5


# A 401 this soon after the token was replaced may concern the old token.
JUST_NOW_SECONDS: Final = 5.0


class MemberToken:
    """The bearer token of a member; after a 401 its source is asked for another one at once."""

    def __init__(self, token: str, reread: Callable[[], Awaitable[None]], clock: Callable[[], float]) -> None:
        self._header = _header(token)
        self._reread = reread
        self._clock = clock
        self._replaced_at = float("-inf")

    def __repr__(self) -> str:
        return "MemberToken(...)"

    def replace(self, token: str) -> None:
        """Use another token from now on. Connections and watches stay open."""
        self._header = _header(token)
        self._replaced_at = self._clock()

    async def authorization(self) -> str | None:
        """Returns the header with the token; None for a member without one."""
        return self._header

    async def renew(self) -> bool:
        """Ask the source. Returns True if the token has changed, also if it changed a moment ago."""
        before = self._header
        if self._clock() - self._replaced_at >= JUST_NOW_SECONDS:
            await self._reread()
        return self._header != before or self._clock() - self._replaced_at < JUST_NOW_SECONDS


def _header(token: str) -> str | None:
    return f"Bearer {token}" if token else None


class MemberClient(ApiClient):
    """An ApiClient that raises MemberUnavailable if the member does not answer or a breaker is open.

    `refusal` returns why no call may be made, or None. `suspect` is called when the member should be probed.
    """

    def __init__(
        self,
        config: ApiConfig,
        *,
        deadline: float = MEMBER_DEADLINE_SECONDS,
        refusal: Callable[[], str | None] = lambda: None,
        suspect: Callable[[], None] = lambda: None,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(config, deadline=deadline)
        self.breaker = CircuitBreaker(threshold=FAILURE_THRESHOLD, clock=clock)
        self._groups: dict[str, GroupBreaker] = {}
        self._refusal = refusal
        self._suspect = suspect
        self._clock = clock
        # The time of the member's last answer; -inf if it never answered.
        self.answered_at = float("-inf")
        # If not empty, nothing else of the member may be read.
        self.namespaces: tuple[str, ...] = ()

    @property
    def deadline(self) -> float:
        """The default deadline of a call, in seconds."""
        return self._deadline

    def unavailable(self) -> str | None:
        """Returns why calls to the member are refused now; None if they are not."""
        return self._refusal() or self.breaker.reason

    async def use(self, config: ApiConfig) -> None:
        """Switch to another configuration and close the breakers."""
        self._groups.clear()
        self.breaker.success()
        self.answered_at = float("-inf")
        await super().use(config)

    @asynccontextmanager
    async def guarded(
        self, path: str, seconds: float, params: Params = None, *, repeated: bool = False
    ) -> AsyncIterator[None]:
        """Refuse the call while a breaker is open, and report its outcome to the breakers.

        A `repeated` call is refused only for the whole member. A trial of a group would otherwise be the
        repetition of a slow call, and never a call that the group can answer.
        """
        name = self.config.name
        call = Call.of(path, params)
        if self.namespaces and call.scope not in self.namespaces and not call.is_discovery:
            raise _outside(name, call, self.namespaces)
        group = self._group(call.group)
        reason = self.unavailable() or (None if repeated else group.refusal(call))
        if reason is not None:
            raise MemberUnavailable(name, reason)
        began, generation = self._clock(), self.generation
        # A probe starts at half the deadline. Its outcome tells if the member or only the API group hangs.
        early = asyncio.get_running_loop().call_later(seconds / 2, self._suspect)
        try:
            yield
        except ApiError as error:
            await self._redact(error)
            if generation != self.generation:
                raise MemberUnavailable(name, "its access was changed during the call") from error
            reason = self.explain(error, seconds)
            if reason is None:
                self._answered(group, call)
                raise
            self._suspect()
            if error.reason == TIMEOUT and self.answered_at >= began:
                group.timed_out(call, reason, began, repeated=repeated)
            elif error.status != UNAUTHORIZED:
                self.breaker.failure(reason, at_once=error.reason == TIMEOUT)
            raise MemberUnavailable(name, reason) from error
        else:
            self._answered(group, call)
        finally:
            early.cancel()

    async def probe(self, path: str = PROBE_PATH) -> Response:
        """Send GET `path`, whatever the state of the breakers, and report to none. Raises ApiError."""
        answer = await self._send("GET", path, None, None, self._deadline, False, PROBE_LIMIT)
        return answer.joined().checked(path)

    def probed(self, reason: str | None) -> None:
        """Report the outcome of a probe: None for ready, otherwise the reason."""
        if reason is None:
            self.answered_at = self._clock()
            self.breaker.success()
        else:
            self.breaker.failure(reason)

    def explain(self, error: ApiError, seconds: float) -> str | None:
        """Returns why an error means that the member is unavailable; None if the member answered."""
        if error.status == UNAUTHORIZED:
            return "its API server refuses our token (HTTP 401)"
        if error.reason == TIMEOUT:
            return f"no answer within {seconds:g} s"
        if error.reason == CREDENTIALS:
            return "its token could not be read again from its Secret"
        if error.reason == UNREACHABLE:
            return describe(error.__cause__ or error)
        return None

    async def _redact(self, error: ApiError) -> None:
        """Remove our token from a member's error message, which others may read."""
        error.args = (redacted(str(error), await self.config.credentials.authorization() or ""),)

    def _answered(self, group: GroupBreaker, call: Call) -> None:
        self.answered_at = self._clock()
        group.answered(call)
        if self.breaker.reason is None:  # only a probe closes it
            self.breaker.success()

    def _group(self, name: str) -> GroupBreaker:
        breaker = self._groups.get(name)
        if breaker is None:
            breaker = self._groups[name] = GroupBreaker(self._clock)
            if len(self._groups) > MAX_GROUPS:
                del self._groups[next(iter(self._groups))]
        return breaker


def _outside(name: str, call: Call, namespaces: tuple[str, ...]) -> ApiError:
    """Returns the answer for what its registration does not open: another namespace runs nothing for us."""
    text = f"{name}: its registration opens only namespaces {listed(namespaces, MAX_NAMED)}"
    if "/" not in call.scope:  # it is a namespace
        return ApiError(text, status=NOT_FOUND, reason="NotFound")
    return ApiError(text, status=FORBIDDEN, reason="Forbidden")
