"""The client of one member: every call has a deadline and reports its outcome to circuit breakers.

One breaker is for the whole member and follows the probes of /readyz. There is also one for each API group.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fedhpa.api.default_values import MEMBER_DEADLINE_SECONDS
from fedhpa.api.errors import ApiError, MemberUnavailable
from fedhpa.api.texts import redacted
from fedhpa.kube import UNAUTHORIZED, ApiClient, ApiConfig, Response
from fedhpa.kube.transport import CREDENTIALS, TIMEOUT, UNREACHABLE, Params, describe
from fedhpa.members.breakers import Call, CircuitBreaker, GroupBreaker

# A refused connection costs nothing, so it takes a few in a row to open the breaker. A timeout costs the
# deadline and opens it at once.
FAILURE_THRESHOLD = 3
PROBE_PATH = "/readyz"
PROBE_LIMIT = 64 * 1024
# API groups with a circuit breaker of their own. Targets name any number of groups; the oldest is dropped.
MAX_GROUPS = 256


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
        self._answered_at = float("-inf")

    @property
    def deadline(self) -> float:
        """The default deadline of a call, in seconds."""
        return self._deadline

    @property
    def answered_at(self) -> float:
        """The time of the member's last answer, by the given clock; -inf if it never answered."""
        return self._answered_at

    def unavailable(self) -> str | None:
        """Returns why calls to the member are refused now; None if they are not."""
        return self._refusal() or self.breaker.reason

    async def use(self, config: ApiConfig) -> None:
        """Switch to another configuration and close the breakers."""
        self._groups.clear()
        self.breaker.success()
        self._answered_at = float("-inf")
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
            if error.reason == TIMEOUT and self._answered_at >= began:
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
        answer = await self._send("GET", path, None, None, {}, self._deadline, False, PROBE_LIMIT)
        return answer.joined().checked(path)

    def probed(self, reason: str | None) -> None:
        """Report the outcome of a probe: None for ready, otherwise the reason."""
        if reason is None:
            self._answered_at = self._clock()
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
        self._answered_at = self._clock()
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
