"""A circuit breaker: it refuses calls to a server that has just failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

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
