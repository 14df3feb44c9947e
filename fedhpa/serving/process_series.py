"""The Prometheus series that all processes have: the version, and the lag of the event loop."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Iterable
from importlib import metadata

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

logger = structlog.get_logger(__name__)

# Seconds between two measurements. A hold-up is seen without at most this much of it.
TICK_SECONDS = 0.02
# No request and no answer of a member may hold the loop for longer than 50 ms.
LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# A longer hold-up is logged.
LOGGED_LAG_SECONDS = 1.0


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
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            lag = max(loop.time() - due, 0.0)
            self.lag.observe(lag)
            if lag > LOGGED_LAG_SECONDS:
                logger.warning("the event loop was held up", seconds=round(lag, 3))


class CallerSeries:
    """The outcomes of authentication and authorization, by the label `outcome`."""

    AUTHENTICATED, UNAUTHENTICATED = "authenticated", "unauthenticated"
    ALLOWED, DENIED = "allowed", "denied"
    # The hub could not review the token or the access.
    ERROR = "error"

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.authentications = counter(
            "fedhpa_adapter_authentications",
            "Requests by the outcome of their authentication; error: a token could not be reviewed.",
            registry,
            outcome=(self.AUTHENTICATED, self.UNAUTHENTICATED, self.ERROR),
        )
        self.authorizations = counter(
            "fedhpa_adapter_authorizations",
            "Requests by the outcome of their authorization; error: the access could not be reviewed.",
            registry,
            outcome=(self.ALLOWED, self.DENIED, self.ERROR),
        )


def counter(
    name: str, documentation: str, registry: CollectorRegistry | None, **label: Iterable[str]
) -> Counter:
    """Returns a counter with one label, whose known values are given.

    Their series exist from the first scrape on, so that increase() sees the first event.
    """
    found = Counter(name, documentation, list(label), registry=registry)
    for values in label.values():
        for value in values:
            found.labels(value)
    return found


def register_certificate(registry: CollectorRegistry, expires: Callable[[], float]) -> None:
    """Registers the series of the serving certificate; `expires` returns its end in POSIX seconds."""
    Gauge(
        "fedhpa_serving_certificate_expiration_timestamp_seconds",
        "When the serving certificate in use expires, in seconds since 1970.",
        registry=registry,
    ).set_function(expires)
