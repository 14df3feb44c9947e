"""Waits before requests: exponential backoff with jitter, and the client-side rate limit."""

from __future__ import annotations

import random

# Seconds by which sums of POSIX times differ.
ROUNDING = 1e-3


class Backoff:
    """Delays that double from `first` to `most` seconds, each shortened at random by up to half.

    The jitter spreads the clients of a server that comes back.
    """

    def __init__(self, first: float, most: float, *, rng: random.Random | None = None) -> None:
        self._first = first
        self._most = most
        self._rng = rng or random.Random(random.random())
        self._next = first

    def next(self) -> float:
        """Returns the seconds to wait now, and doubles the delay after it."""
        delay = self._next
        self._next = min(self._next * 2, self._most)
        return delay * (0.5 + self._rng.random() / 2)

    def reset(self) -> None:
        """Start again with the first delay, after a success."""
        self._next = self._first


class SuccessPace:
    """Waits after successes in short order, by `backoff`, until one was the last for `useful` seconds."""

    def __init__(self, backoff: Backoff, useful: float) -> None:
        self._backoff = backoff
        self._useful = useful
        self._last = self._due = float("-inf")

    def succeeded(self, now: float) -> None:
        """Record a success. The more of them in short order, the later the next one is due."""
        if now - self._last >= self._useful:
            self._backoff.reset()
        self._last, self._due = now, now + self._backoff.next()

    def wait_seconds(self, now: float) -> float:
        """Returns the seconds until the next attempt is due. Failures do not move it."""
        return max(self._due - now, 0.0)


class RateLimit:
    """A token bucket: `qps` requests a second on average, `burst` at once. qps 0 means no limit."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._slack = self._interval * max(burst - 1, 0)
        self._due = self._seen = float("-inf")

    def allows(self, now: float) -> bool:
        """Take a token that is valid now. Returns False, and takes none, if there is none.

        A clock that is set back takes no token away.
        """
        self._due -= max(self._seen - now, 0.0)
        self._seen = now
        due = max(self._due + self._interval, now - self._slack)
        if due > now + ROUNDING:
            return False
        self._due = due
        return True

    def wait_seconds(self, now: float, tokens: int = 1) -> float:
        """Take the next tokens. Returns the seconds until they are valid.

        They stay taken if the caller gives up: this wastes a token but never allows a burst.
        """
        if not self._interval:
            return 0.0
        self._due = max(self._due + tokens * self._interval, now - self._slack)
        return max(self._due - now, 0.0)
