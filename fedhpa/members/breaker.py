"""Not asking again what just did not answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

State = Literal["closed", "open", "half-open"]


class CircuitBreaker:
    """Closed: calls pass. Open: calls are refused with the reason of the failure that opened it.

    It opens after `threshold` failures in a row, or at once if told so. With a `cooldown` (seconds) one
    call in each such span is let through as a trial; without, only `half_open` and `success` of whoever
    probes lead back.
    """

    def __init__(
        self,
        *,
        threshold: int,
        cooldown: float | None = None,
        clock: Callable[[], float] = time.monotonic,
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
        """Half-open while a trial or a probe is under way."""
        if self._reason is None:
            return "closed"
        return "half-open" if self._trial else "open"

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    @property
    def reason(self) -> str | None:
        """Why it is open; None when closed."""
        return self._reason

    def refusal(self) -> str | None:
        """None if a call may go ahead now (it then must be reported), else why not."""
        if self._reason is None:
            return None
        now = self._clock()
        if self._cooldown is None or now < self._next_trial:
            return self._reason
        # Should the trial be cancelled and never reported, the next span has another one.
        self._trial, self._next_trial = True, now + self._cooldown
        return None

    def half_open(self) -> None:
        """Somebody tries whether it answers again."""
        self._trial = True

    def success(self) -> None:
        """A call or probe was answered."""
        self._failures = 0
        self._reason = None
        self._trial = False

    def failure(self, reason: str, *, at_once: bool = False) -> None:
        """A call or probe was not answered; `at_once` opens whatever was before."""
        self._failures += 1
        self._trial = False
        if at_once or self._reason is not None or self._failures >= self._threshold:
            self._reason = reason
            if self._cooldown is not None:
                self._next_trial = self._clock() + self._cooldown
