"""The Prometheus series that all processes have: the version, and the lag of the event loop."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable
from importlib import metadata

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

logger = structlog.get_logger(__name__)

# Seconds between two measurements. A hold-up is seen without at most this much of it.
TICK_SECONDS = 0.02
# No request and no answer of a member may hold the loop for longer than 50 ms.
LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# A longer hold-up is logged, at most once in LOG_SECONDS.
LOGGED_LAG_SECONDS = 1.0
LOG_SECONDS = 60.0


class LogLimit:
    """Lets one log line of a kind through in `seconds`; the others are counted."""

    def __init__(self, clock: Callable[[], float], seconds: float = LOG_SECONDS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._next: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def left_out(self, kind: str) -> int | None:
        """Returns the lines left out since the last one; None if this line is to be left out, too."""
        now = self._clock()
        if now < self._next.get(kind, now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return None
        self._next[kind] = now + self._seconds
        return self._left_out.pop(kind, 0)


class ProcessSeries:
    """The series of any process, registered in its registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        build = Gauge(
            "fedhpa_build_info",
            "1, with the version of this process and of its Python interpreter as labels.",
            ["version", "python_version"],
            registry=registry,
        )
        build.labels(metadata.version("fedhpa"), platform.python_version()).set(1)
        self.lag = Histogram(
            "fedhpa_event_loop_lag_seconds",
            "How late the event loop ran a timer that is due every 20 ms, because one piece of work held up"
            " all others.",
            buckets=LAG_BUCKETS,
            registry=registry,
        )

    async def measure_lag(self) -> None:
        """Measures the lag of the event loop until cancelled."""
        loop = asyncio.get_running_loop()
        limit = LogLimit(loop.time)
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            lag = max(loop.time() - due, 0.0)
            self.lag.observe(lag)
            if lag > LOGGED_LAG_SECONDS and limit.left_out("lag") is not None:
                logger.warning("the event loop was held up", seconds=round(lag, 3))


class CallerSeries:
    """The outcomes of authentication and authorization."""

    AUTHENTICATED, UNAUTHENTICATED = "authenticated", "unauthenticated"
    ALLOWED, DENIED = "allowed", "denied"
    # The hub could not review the token or the access.
    ERROR = "error"

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._authentications = Counter(
            "fedhpa_adapter_authentications",
            "Requests by the outcome of their authentication; error: a token could not be reviewed.",
            ["outcome"],
            registry=registry,
        )
        self._authorizations = Counter(
            "fedhpa_adapter_authorizations",
            "Requests by the outcome of their authorization; error: the access could not be reviewed.",
            ["outcome"],
            registry=registry,
        )
        # The series exist from the first scrape on, so that increase() sees the first event.
        for outcome in (self.AUTHENTICATED, self.UNAUTHENTICATED, self.ERROR):
            self._authentications.labels(outcome)
        for outcome in (self.ALLOWED, self.DENIED, self.ERROR):
            self._authorizations.labels(outcome)

    def authentication(self, outcome: str) -> None:
        """Counts an authentication."""
        self._authentications.labels(outcome).inc()

    def authorization(self, outcome: str) -> None:
        """Counts an authorization."""
        self._authorizations.labels(outcome).inc()


def register_certificate(registry: CollectorRegistry, expires: Callable[[], float]) -> None:
    """Registers the series of the serving certificate; `expires` returns its end in POSIX seconds."""
    Gauge(
        "fedhpa_serving_certificate_expiration_timestamp_seconds",
        "When the serving certificate in use expires, in seconds since 1970.",
        registry=registry,
    ).set_function(expires)
