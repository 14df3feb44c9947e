"""The adapter's own Prometheus series, which docs/reference/metrics.md lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from fedhpa.members.member import Member
from fedhpa.serving.authorization import Attributes
from metrics_adapter.apis import GROUP, SERVED_VERSIONS
from metrics_adapter.members.source import MemberObserver

# Seconds. Ages reach --metrics-max-age, which is 10 s by default and may be raised.
AGE_BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0, 120.0)


class MemberSeries(Collector):
    """Collects whether each member is available and answered last time, and how often it was missing."""

    def __init__(self, members: Callable[[], Mapping[str, Member]]) -> None:
        self._members = members
        self._answered: dict[str, dict[str, bool]] = {api: {} for api in SERVED_VERSIONS}
        self._missing: dict[str, dict[str, int]] = {api: {} for api in SERVED_VERSIONS}

    def outcome(self, api: str, cluster: str, answered: bool) -> None:
        """Records the outcome of a request to a member."""
        self._answered[api][cluster] = answered
        if not answered:
            self._missing[api][cluster] = self._missing[api].get(cluster, 0) + 1

    def absent(self, api: str, cluster: str) -> None:
        """Records that the member does not serve the API, so it is neither up nor down."""
        self._answered[api].pop(cluster, None)

    def collect(self) -> Iterator[Metric]:
        """Yields one sample for each registered cluster, and one for each API requested from it."""
        up = GaugeMetricFamily(
            "fedhpa_adapter_member_up",
            "1 if a member cluster is available and answered the last request for metrics.k8s.io, else 0.",
            labels=["cluster"],
        )
        by_api = GaugeMetricFamily(
            "fedhpa_adapter_member_api_up",
            "1 if a member cluster is available and answered the last request for this API, else 0;"
            " absent before the first request and while the member does not serve the API.",
            labels=["cluster", "api"],
        )
        missing = CounterMetricFamily(
            "fedhpa_adapter_member_missing",
            "Answers in which an expected member cluster was missing.",
            labels=["cluster", "api"],
        )
        members = self._members()
        for api in SERVED_VERSIONS:
            for gone in (self._answered[api].keys() | self._missing[api].keys()) - members.keys():
                self._answered[api].pop(gone, None)
                self._missing[api].pop(gone, None)
        for name, member in sorted(members.items()):
            reachable = member.unavailable() is None
            up.add_metric([name], float(reachable and self._answered[GROUP].get(name, True)))
            for api, outcomes in self._answered.items():
                if name in outcomes:
                    by_api.add_metric([name, api], float(reachable and outcomes[name]))
                if name in outcomes or name in self._missing[api]:
                    missing.add_metric([name, api], self._missing[api].get(name, 0))
        yield up
        yield by_api
        yield missing


class Telemetry(MemberObserver):
    """All series of the process, in their own registry."""

    def __init__(self, members: Callable[[], Mapping[str, Member]]) -> None:
        self.registry = CollectorRegistry()
        self._member_series = MemberSeries(members)
        self.registry.register(self._member_series)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._requests = Counter(
            "fedhpa_adapter_requests",
            "Requests for metrics by API, resource (for custom and external metrics the API group), verb and"
            " HTTP status code.",
            ["api", "resource", "verb", "code"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "fedhpa_adapter_request_duration_seconds",
            "Duration of requests for metrics.",
            ["api", "resource", "verb"],
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "fedhpa_adapter_requests_in_flight",
            "Requests for metrics in flight.",
            ["api"],
            registry=self.registry,
        )
        self._partial = Counter(
            "fedhpa_adapter_partial_answers",
            "Answers served although at least one member cluster was missing.",
            ["api"],
            registry=self.registry,
        )
        self._age = Histogram(
            "fedhpa_adapter_answer_age_seconds",
            "Age of the member answers that were served: seconds since they were requested.",
            ["api"],
            buckets=AGE_BUCKETS,
            registry=self.registry,
        )
        self._task_failures = Counter(
            "fedhpa_task_failures",
            "Unexpected failures of background tasks, which were started again.",
            ["task"],
            registry=self.registry,
        )
        for api in SERVED_VERSIONS:
            # The series exist from the first scrape on, so that increase() sees the first partial answer.
            self._in_flight.labels(api)
            self._partial.labels(api)
        self._ages = {api: self._age.labels(api) for api in SERVED_VERSIONS}

    def outcome(self, api: str, cluster: str, answered: bool) -> None:
        """Records the outcome of a member's part of one answer."""
        self._member_series.outcome(api, cluster, answered)

    def absent(self, api: str, cluster: str) -> None:
        """Records that a member does not serve the API."""
        self._member_series.absent(api, cluster)

    def task_failed(self, task: str) -> None:
        """Counts an unexpected failure of a background task."""
        self._task_failures.labels(task).inc()

    def answered(self, api: str, age: float) -> None:
        """Records the age of a member answer that was used."""
        self._ages[api].observe(age)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Counts and times requests for metrics. Custom and external metrics are labelled by group alone."""
        attributes = Attributes.of(request)
        if attributes.group not in SERVED_VERSIONS or request.match_info.http_exception is not None:
            return await handler(request)
        # Callers choose the names of metrics, so a label with them could have any number of values.
        resource = attributes.resource if attributes.group == GROUP else attributes.group
        started = time.perf_counter()
        with self._in_flight.labels(attributes.group).track_inprogress():
            response = await handler(request)
        self._seconds.labels(attributes.group, resource, attributes.verb).observe(
            time.perf_counter() - started
        )
        self._requests.labels(attributes.group, resource, attributes.verb, str(response.status)).inc()
        if response.status < 300 and "Warning" in response.headers:
            self._partial.labels(attributes.group).inc()
        return response
