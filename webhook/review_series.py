"""The webhook's Prometheus series: those of controller-runtime, which Karmada dashboards use, and our own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.federatedhpa import KIND as FHPA_KIND
from webhook.handlers import PATHS, Review

# Seconds. A verdict takes a fraction of a millisecond, and the API server gives up after three seconds.
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

ALLOWED, DENIED, MALFORMED, INTERNAL_ERROR = "allowed", "denied", "malformed", "defect"
VERDICTS: Final = (ALLOWED, DENIED, MALFORMED, INTERNAL_ERROR)
_KINDS: Final = (FHPA_KIND, CRON_KIND)
# Labels have a fixed set of values, so a client cannot create series with the kind of its object.
OTHER, NONE = "other", "none"


class PathSeries:
    """The series of one path. Labelled children are kept, because a look-up costs more than counting."""

    def __init__(self, telemetry: Telemetry, path: str) -> None:
        self._path = path
        self._telemetry = telemetry
        self._in_flight = 0
        telemetry.in_flight.labels(path).set_function(lambda: self._in_flight)
        self._latency = telemetry.latency.labels(path)
        self._codes = {code: telemetry.requests.labels(path, code) for code in ("200", "500")}
        self._verdicts: dict[tuple[str, str], Counter] = {}
        self._warned = telemetry.warned.labels(path)
        for kind in _KINDS:
            for verdict in VERDICTS:
                self._counter(kind, verdict)

    def started(self) -> float:
        """Counts a request in flight. Returns the time to pass to `ended`."""
        self._in_flight += 1
        return time.perf_counter()

    def ended(self, started: float, *, answered: bool) -> float:
        """Counts a request that was answered, or whose client disconnected. Returns its seconds."""
        seconds = time.perf_counter() - started
        self._latency.observe(seconds)
        self._in_flight -= 1
        self._codes["200" if answered else "500"].inc()
        return seconds

    def count(self, review: Review) -> None:
        """Counts an answer by its kind and verdict."""
        self._counter(_kind_of(review), _verdict_of(review)).inc()
        if review.verdict.warnings:
            self._warned.inc()

    def _counter(self, kind: str, verdict: str) -> Counter:
        counter = self._verdicts.get((kind, verdict))
        if counter is None:
            counter = self._telemetry.verdicts.labels(self._path, kind, verdict)
            self._verdicts[kind, verdict] = counter
        return counter


class Telemetry:
    """All series of the webhook process. The label `webhook` is the path."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.requests = Counter(
            "controller_runtime_webhook_requests",
            "Admission requests by HTTP status code; a refusal is a 200 too.",
            ["webhook", "code"],
            registry=self.registry,
        )
        self.latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Time to process an admission request.",
            ["webhook"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Admission requests being served.",
            ["webhook"],
            registry=self.registry,
        )
        self.panics = Counter(
            "controller_runtime_webhook_panics",
            "Admission requests refused because of an internal error of the webhook.",
            registry=self.registry,
        )
        self.verdicts = Counter(
            "fedhpa_admission_requests",
            "Admission requests by the object's kind and the verdict.",
            ["webhook", "kind", "verdict"],
            registry=self.registry,
        )
        self.warned = Counter(
            "fedhpa_admission_warned_requests",
            "Admission requests that were answered with warnings.",
            ["webhook"],
            registry=self.registry,
        )
        self._hub = Gauge(
            "fedhpa_admission_hub_current",
            "1 while the local copy of the hub's objects of a kind is current, for cross-object warnings.",
            ["kind"],
            registry=self.registry,
        )
        self.paths = {path: PathSeries(self, path) for path in PATHS}

    def follow_hub(self, kind: str, knows: Callable[[str], bool]) -> None:
        """Exports whether the local copy of a kind is current."""
        self._hub.labels(kind).set_function(lambda: float(knows(kind)))


def _kind_of(review: Review) -> str:
    if review.raw is None:
        return NONE
    kind = review.raw.get("kind")
    return kind if kind in _KINDS else OTHER


def _verdict_of(review: Review) -> str:
    verdict = review.verdict
    if verdict.allowed:
        return ALLOWED
    if verdict.code >= 500:
        return INTERNAL_ERROR
    return DENIED if verdict.code == 403 else MALFORMED
