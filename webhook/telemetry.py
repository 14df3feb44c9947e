"""The webhook's Prometheus series: controller-runtime's names, which dashboards for Karmada know."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from webhook.review import PATHS

# A verdict takes a fraction of a millisecond; the caller gives up after three seconds.
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Telemetry:
    """Counts requests by path (label `webhook`) and HTTP status (label `code`)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "controller_runtime_webhook_requests",
            "Admission requests by HTTP status code; a refusal is a 200 too.",
            ["webhook", "code"],
            registry=self.registry,
        )
        self._latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Time to process an admission request.",
            ["webhook"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Admission requests being served.",
            ["webhook"],
            registry=self.registry,
        )
        self._panics = Counter(
            "controller_runtime_webhook_panics",
            "Admission requests that met a defect of the webhook and were refused.",
            registry=self.registry,
        )
        for path in PATHS:
            for code in ("200", "500"):
                self._requests.labels(path, code)
            self._latency.labels(path)
            self._in_flight.labels(path)

    @contextmanager
    def serving(self, path: str) -> Iterator[None]:
        """Measures one request to a webhook's path, which is always answered with 200."""
        in_flight = self._in_flight.labels(path)
        in_flight.inc()
        started = time.perf_counter()
        try:
            yield
            self._requests.labels(path, "200").inc()
        except BaseException:
            self._requests.labels(path, "500").inc()
            raise
        finally:
            self._latency.labels(path).observe(time.perf_counter() - started)
            in_flight.dec()

    def defect(self) -> None:
        """A request met a defect."""
        self._panics.inc()
