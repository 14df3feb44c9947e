"""The client of one member: every call has a deadline and reports its outcome to circuit breakers.

One breaker is for the whole member and follows the probes of /readyz. There is also one for each API group,
because an aggregated API (metrics.k8s.io) can hang behind a healthy API server; pods and scales of such a
member stay usable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from fedhpa.api.default_values import MEMBER_DEADLINE_SECONDS
from fedhpa.api.errors import ApiError, MemberUnavailable
from fedhpa.api.texts import redacted
from fedhpa.kube import UNAUTHORIZED, ApiClient, ApiConfig, Response
from fedhpa.kube.transport import CREDENTIALS, TIMEOUT, UNREACHABLE, describe

State = Literal["closed", "open", "half-open"]


class CircuitBreaker:
    """While closed, calls pass. While open, calls are refused with the reason of the last failure.

    The breaker opens after `threshold` failures in a row, or at once with `at_once`. With a `cooldown` it
    lets one call through in each such span (seconds), as a trial. Without, only a probe can close it: the
    prober reports `half_open`, then `success` or `failure`.
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
        self._failures = 0
        self._reason: str | None = None
        self._next_trial = float("inf")
        self._trial = False

    @property
    def state(self) -> State:
        """The state: half-open while a trial or a probe is under way."""
        if self._reason is None:
            return "closed"
        return "half-open" if self._trial else "open"

    @property
    def failures(self) -> int:
        """The number of failures in a row."""
        return self._failures

    @property
    def reason(self) -> str | None:
        """The reason why the breaker is open; None while closed."""
        return self._reason

    def refusal(self) -> str | None:
        """Returns why a call is refused; None if it may be made. The caller must report its outcome."""
        if self._reason is None:
            return None
        now = self._clock()
        if self._cooldown is None or now < self._next_trial:
            return self._reason
        # If the trial is cancelled and not reported, the next span has another one.
        self._trial, self._next_trial = True, now + self._cooldown
        return None

    def half_open(self) -> None:
        """Report that a probe is under way."""
        self._trial = True

    def success(self) -> None:
        """Report that a call or probe was answered."""
        self._failures = 0
        self._reason = None
        self._trial = False

    def failure(self, reason: str, *, at_once: bool = False) -> None:
        """Report that a call or probe was not answered. `at_once` opens the breaker in any case."""
        self._failures += 1
        self._trial = False
        if at_once or self._reason is not None or self._failures >= self._threshold:
            self._reason = reason
            if self._cooldown is not None:
                self._next_trial = self._clock() + self._cooldown


# A refused connection costs nothing, so it takes a few in a row to open the breaker. A timeout costs the
# deadline and opens it at once.
FAILURE_THRESHOLD = 3
# A group that hangs is tried again after this long; a trial may cost one caller the deadline.
GROUP_COOLDOWN_SECONDS = 10.0
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
        self._groups: dict[str, CircuitBreaker] = {}
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
    async def guarded(self, path: str, seconds: float) -> AsyncIterator[None]:
        """Refuse the call while a breaker is open, and report its outcome to the breakers."""
        name = self.config.name
        group = self._group(path)
        reason = self.unavailable() or group.refusal()
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
            reason = self._count(error, group, began, seconds)
            if reason is None:
                raise
            raise MemberUnavailable(name, reason) from error
        else:
            self._answered(group)
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

    def _count(self, error: ApiError, group: CircuitBreaker, began: float, seconds: float) -> str | None:
        reason = self.explain(error, seconds)
        if reason is None:
            self._answered(group)
            return None
        self._suspect()
        if error.status == UNAUTHORIZED:
            return reason
        if error.reason != TIMEOUT:
            self.breaker.failure(reason)
        elif self._answered_at < began:
            self.breaker.failure(reason, at_once=True)
        else:
            group.failure(reason, at_once=True)
        return reason

    async def _redact(self, error: ApiError) -> None:
        """Remove our token from a member's error message, which others may read."""
        error.args = (redacted(str(error), await self.config.credentials.authorization() or ""),)

    def _answered(self, group: CircuitBreaker) -> None:
        self._answered_at = self._clock()
        group.success()
        if self.breaker.reason is None:  # only a probe closes it
            self.breaker.success()

    def _group(self, path: str) -> CircuitBreaker:
        parts = path.split("/", 3)
        name = parts[2] if len(parts) > 2 and parts[1] == "apis" else ""
        breaker = self._groups.get(name)
        if breaker is None:
            breaker = CircuitBreaker(threshold=1, cooldown=GROUP_COOLDOWN_SECONDS, clock=self._clock)
            self._groups[name] = breaker
            if len(self._groups) > MAX_GROUPS:
                del self._groups[next(iter(self._groups))]
        return breaker
