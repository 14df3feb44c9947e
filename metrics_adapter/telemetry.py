"""The adapter's own Prometheus series; docs/how-to/metrics-adapter.md lists them for people."""

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
from metrics_adapter.kinds import GROUP
from metrics_adapter.members.observer import Observer
from metrics_adapter.server.discovery import SERVED

# Up to --metrics-max-age, 10 s by default, and what lies above for those who raised it.
AGE_BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0, 120.0)


class MembersUp(Collector):
    """Whether members can be asked, and answered when they were last asked; and how often they did not."""

    def __init__(self, members: Callable[[], Mapping[str, Member]]) -> None:
        self._members = members
        self._answered: dict[str, dict[str, bool]] = {api: {} for api in SERVED}
        self._missing: dict[str, dict[str, int]] = {api: {} for api in SERVED}

    def outcome(self, api: str, cluster: str, answered: bool) -> None:
        """How a request for a member's metrics ended."""
        self._answered[api][cluster] = answered
        if not answered:
            self._missing[api][cluster] = self._missing[api].get(cluster, 0) + 1

    def absent(self, api: str, cluster: str) -> None:
        """Nothing is expected of the member any more: it is neither up nor down."""
        self._answered[api].pop(cluster, None)

    def collect(self) -> Iterator[Metric]:
        """One sample a registered cluster, and one for each API that it was asked for."""
        up = GaugeMetricFamily(
            "fedhpa_adapter_member_up",
            "Whether a member cluster can be asked, and answered when last asked for metrics.k8s.io.",
            labels=["cluster"],
        )
        by_api = GaugeMetricFamily(
            "fedhpa_adapter_member_api_up",
            "Whether a member cluster can be asked, and answered when last asked for this API;"
            " absent until it was asked, and while it does not serve the API.",
            labels=["cluster", "api"],
        )
        missing = CounterMetricFamily(
            "fedhpa_adapter_member_missing",
            "Answers to which a member cluster should have added and gave nothing usable.",
            labels=["cluster", "api"],
        )
        members = self._members()
        for api in SERVED:
            for gone in (self._answered[api].keys() | self._missing[api].keys()) - members.keys():
                self._answered[api].pop(gone, None)
                self._missing[api].pop(gone, None)
        for name, member in sorted(members.items()):
            reachable = member.unavailable() is None
            up.add_metric([name], float(reachable and self._answered[GROUP].get(name, True)))
            for api, known in self._answered.items():
                if name in known:
                    by_api.add_metric([name, api], float(reachable and known[name]))
                if name in known or name in self._missing[api]:
                    missing.add_metric([name, api], self._missing[api].get(name, 0))
        yield up
        yield by_api
        yield missing


class Telemetry(Observer):
    """All series of the process, in a registry of their own."""

    def __init__(self, members: Callable[[], Mapping[str, Member]]) -> None:
        self.registry = CollectorRegistry()
        self._members_up = MembersUp(members)
        self.registry.register(self._members_up)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._requests = Counter(
            "fedhpa_adapter_requests",
            "Requests for metrics, by API, resource (that of values is their group), verb and HTTP status.",
            ["api", "resource", "verb", "code"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "fedhpa_adapter_request_duration_seconds",
            "How long requests for metrics took.",
            ["api", "resource", "verb"],
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "fedhpa_adapter_requests_in_flight",
            "Requests for metrics that are being answered.",
            ["api"],
            registry=self.registry,
        )
        self._partial = Counter(
            "fedhpa_adapter_partial_answers",
            "Answers that were given although at least one member cluster was missing.",
            ["api"],
            registry=self.registry,
        )
        self._age = Histogram(
            "fedhpa_adapter_answer_age_seconds",
            "How long ago a member was asked for what was given on.",
            ["api"],
            buckets=AGE_BUCKETS,
            registry=self.registry,
        )
        for api in SERVED:
            # From the first scrape on, or the first partial answer would be no increase.
            self._in_flight.labels(api)
            self._partial.labels(api)
        self._ages = {api: self._age.labels(api) for api in SERVED}

    def outcome(self, api: str, cluster: str, answered: bool) -> None:
        """How a member's part of one answer ended."""
        self._members_up.outcome(api, cluster, answered)

    def absent(self, api: str, cluster: str) -> None:
        """A member does not serve the API."""
        self._members_up.absent(api, cluster)

    def answered(self, api: str, age: float) -> None:
        """How old an answer is that was used."""
        self._ages[api].observe(age)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count and time the requests for metrics; those for values are told apart by their group alone."""
        wanted = Attributes.of(request)
        if wanted.group not in SERVED or request.match_info.http_exception is not None:
            return await handler(request)
        # The names of metrics are the callers', so they are no label.
        resource = wanted.resource if wanted.group == GROUP else wanted.group
        started = time.perf_counter()
        with self._in_flight.labels(wanted.group).track_inprogress():
            response = await handler(request)
        self._seconds.labels(wanted.group, resource, wanted.verb).observe(time.perf_counter() - started)
        self._requests.labels(wanted.group, resource, wanted.verb, str(response.status)).inc()
        if response.status < 300 and "Warning" in response.headers:
            self._partial.labels(wanted.group).inc()
        return response
