"""Circuit breaker, backoff and client-side rate limit."""

from __future__ import annotations

import random

from fedhpa.kube import SYSTEM
from fedhpa.kube.supervision import Backoff, RateLimit
from fedhpa.members.client import CircuitBreaker


def test_it_opens_after_failures_in_a_row() -> None:
    """Two failures, a success and two failures leave it closed; the third in a row opens it."""
    breaker = CircuitBreaker(threshold=3, clock=SYSTEM.monotonic)
    for answered in (False, False, True, False, False):
        if answered:
            breaker.success()
        else:
            breaker.failure("refused")
    before = breaker.refusal()
    breaker.failure("refused")

    assert before is None
    assert breaker.refusal() == "refused"


def test_it_can_open_at_once() -> None:
    """One failure opens the breaker with `at_once`, which is for timeouts."""
    breaker = CircuitBreaker(threshold=3, clock=SYSTEM.monotonic)
    breaker.failure("no answer", at_once=True)

    assert breaker.refusal() == "no answer"


def test_without_a_cooldown_only_a_probe_closes_it() -> None:
    """Calls are refused until the probe succeeds."""
    now = 0.0
    breaker = CircuitBreaker(threshold=1, clock=lambda: now)
    breaker.failure("gone")
    now = 1e6
    refusals = [breaker.refusal()]
    breaker.failure("still gone")
    refusals.append(breaker.refusal())
    breaker.success()
    refusals.append(breaker.refusal())

    assert refusals == ["gone", "still gone", None]


def test_with_a_cooldown_one_call_in_each_span_is_a_trial() -> None:
    """After ten seconds one call passes and the next does not; a failed trial starts another span."""
    now = 0.0
    breaker = CircuitBreaker(threshold=1, cooldown=10, clock=lambda: now)
    breaker.failure("hangs")
    seen = []
    for now in (9.9, 10.0, 10.1, 20.0):  # noqa: B007  # the clock reads it
        seen.append(breaker.refusal())
    breaker.failure("hangs still")
    seen.append(breaker.refusal())

    assert seen == ["hangs", None, "hangs", None, "hangs still"]


def test_an_unreported_trial_does_not_block() -> None:
    """A cancelled trial is followed by another in the next span."""
    now = 0.0
    breaker = CircuitBreaker(threshold=1, cooldown=10, clock=lambda: now)
    breaker.failure("hangs")
    now = 10.0
    first = breaker.refusal()
    now = 20.0

    assert (first, breaker.refusal()) == (None, None)


def test_backoff_doubles_within_bounds() -> None:
    """Each delay is between half of its value and all of it, and doubles up to the maximum."""
    backoff = Backoff(1, 8, rng=random.Random(7))
    delays = [backoff.next() for _ in range(6)]
    backoff.reset()

    bounds = [1, 2, 4, 8, 8, 8]
    assert all(bound / 2 <= delay <= bound for delay, bound in zip(delays, bounds, strict=True))
    assert backoff.next() <= 1


def test_rate_limit_allows_a_burst_and_then_the_rate() -> None:
    """With 10 a second and a burst of 3, the fourth call waits 0.1 s and the fifth 0.2 s."""
    limit = RateLimit(10, 3)
    waits = [round(limit.wait_seconds(100.0), 6) for _ in range(5)]
    later = [round(limit.wait_seconds(200.0), 6) for _ in range(4)]

    assert waits == [0, 0, 0, 0.1, 0.2]
    assert later == [0, 0, 0, 0.1]


def test_no_rate_is_no_limit() -> None:
    """qps 0 means no limit."""
    limit = RateLimit(0, 0)

    assert [limit.wait_seconds(0.0) for _ in range(1000)] == [0.0] * 1000
