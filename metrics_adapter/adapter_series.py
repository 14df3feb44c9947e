"""The adapter's own Prometheus series, which docs/reference/metrics.md lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from fedhpa.kube import KUBE_TASKS
from fedhpa.members import MEMBER_TASKS, Member
from fedhpa.serving import counter
from fedhpa.serving.authorization import Attributes
from metrics_adapter.apis import GROUP, KINDS, SERVED_VERSIONS
from metrics_adapter.members.probes import Probe
from metrics_adapter.members.source import MemberObserver

# The label of APIs, resources and verbs that the adapter does not serve.
OTHER = "other"
# Alerts compare counters with what they were before: each task's series exists before its first failure.
TASKS = (*KUBE_TASKS, *MEMBER_TASKS, "member-answer", "metrics-probe")
RESOURCES = tuple(kind.plural for kind in KINDS)
VERBS = frozenset({"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"})
# Seconds. Ages reach --metrics-max-age, which is 10 s by default and may be raised.
AGE_BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0, 120.0)


class Telemetry(MemberObserver, Collector):
    """All series of the process, in their own registry.

    It collects whether each member answers, how long its probes take, and how often it was missing.
    """

    def __init__(self, members: Callable[[], Mapping[str, Member]]) -> None:
        self._members = members
        self._answered: dict[str, dict[str, bool]] = {api: {} for api in SERVED_VERSIONS}
        self._missing: dict[str, dict[str, int]] = {api: {} for api in SERVED_VERSIONS}
        self._probes: dict[str, Probe] = {}
        # Called with the name of a member that failed to answer for metrics.k8s.io.
        self.suspect: Callable[[str], None] = lambda _: None
        self.registry = CollectorRegistry()
        self.registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._requests = Counter(
            "fedhpa_adapter_requests",
            "Requests by API (other: health, discovery of all groups, and unknown paths), resource (for"
            " custom and external metrics the API group), verb and HTTP status code; also those refused.",
            ["api", "resource", "verb", "code"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "fedhpa_adapter_request_duration_seconds",
            "Duration of requests, also of those that are refused.",
            ["api", "resource", "verb"],
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "fedhpa_adapter_requests_in_flight",
            "Requests in flight.",
            ["api"],
            registry=self.registry,
        )
        self._partial = counter(
            "fedhpa_adapter_partial_answers",
            "Answers served although at least one member cluster was missing.",
            self.registry,
            api=SERVED_VERSIONS,
        )
        self._age = Histogram(
            "fedhpa_adapter_answer_age_seconds",
            "Age of the member answers that were served: seconds since they were requested.",
            ["api"],
            buckets=AGE_BUCKETS,
            registry=self.registry,
        )
        self._task_failures = counter(
            "fedhpa_task_failures",
            "Unexpected failures of background tasks, which were started again.",
            self.registry,
            task=TASKS,
        )
        for api in (OTHER, *SERVED_VERSIONS):
            self._in_flight.labels(api)
        self._ages = {api: self._age.labels(api) for api in SERVED_VERSIONS}

    def outcome(self, api: str, cluster: str, answered: bool, *, provoked: bool = False) -> None:
        """Records the outcome of a request to a member. A provoked failure counts as missing only."""
        if not answered:
            self._missing[api][cluster] = self._missing[api].get(cluster, 0) + 1
        if provoked:
            return
        self._answered[api][cluster] = answered
        if api == GROUP and not answered:
            self.suspect(cluster)

    def absent(self, api: str, cluster: str) -> None:
        """Records that the member does not serve the API, so it is neither up nor down."""
        self._answered[api].pop(cluster, None)

    def probed(self, cluster: str, probe: Probe) -> None:
        """Records the outcome of a probe."""
        self._probes[cluster] = probe

    def collect(self) -> Iterator[Metric]:
        """Yields one sample for each registered cluster, and one for each API requested from it."""
        up = GaugeMetricFamily(
            "fedhpa_adapter_member_up",
            "1 if a member cluster is available and answered the last probe of metrics.k8s.io, else 0."
            " Requests of callers never change it.",
            labels=["cluster"],
        )
        by_api = GaugeMetricFamily(
            "fedhpa_adapter_member_api_answered",
            "1 if a member cluster is available and answered the last request of a caller for this API, else"
            " 0; absent before the first request and while the member does not serve the API. A request that"
            " the member refuses because of what it asks for does not count. Callers choose their requests,"
            " so only fedhpa_adapter_member_up says if the member is well.",
            labels=["cluster", "api"],
        )
        missing = CounterMetricFamily(
            "fedhpa_adapter_member_missing",
            "Answers in which an expected member cluster was missing.",
            labels=["cluster", "api"],
        )
        probes = GaugeMetricFamily(
            "fedhpa_adapter_member_probe_duration_seconds",
            "Duration of the last probe of metrics.k8s.io, also if it failed; absent before the first one.",
            labels=["cluster"],
        )
        members = self._members()
        self._forget(members)
        for name, member in sorted(members.items()):
            reachable = member.unavailable() is None
            probe = self._probes.get(name)
            up.add_metric([name], float(reachable and (probe is None or probe.ok)))
            if probe is not None:
                probes.add_metric([name], probe.seconds)
            for api, outcomes in self._answered.items():
                if name in outcomes:
                    by_api.add_metric([name, api], float(reachable and outcomes[name]))
                if name in outcomes or name in self._missing[api]:
                    missing.add_metric([name, api], self._missing[api].get(name, 0))
        yield up
        yield by_api
        yield missing
        yield probes

    def _forget(self, members: Mapping[str, Member]) -> None:
        tables: list[dict[str, Any]] = [self._probes]
        for table in (*tables, *self._answered.values(), *self._missing.values()):
            for gone in table.keys() - members.keys():
                table.pop(gone, None)  # a scrape runs in a thread

    def task_known(self, task: str) -> None:
        """Shows the failures of a background task before its first one."""
        self._task_failures.labels(task)

    def task_failed(self, task: str) -> None:
        """Counts an unexpected failure of a background task."""
        self._task_failures.labels(task).inc()

    def answered(self, api: str, age: float) -> None:
        """Records the age of a member answer that was used."""
        self._ages[api].observe(age)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Counts and times all requests, also those that are refused; the outermost middleware.

        Callers choose paths and names of metrics, so labels have only values that are known beforehand.
        """
        attributes = Attributes.of(request)
        api = attributes.group if attributes.group in SERVED_VERSIONS else OTHER
        if api == GROUP:
            resource = attributes.resource if attributes.resource in ("", *RESOURCES) else OTHER
        else:
            # Custom and external metrics are labelled by group alone.
            resource = api if attributes.resource and api != OTHER else ""
        verb = attributes.verb if attributes.verb in VERBS else OTHER
        started = time.perf_counter()
        with self._in_flight.labels(api).track_inprogress():
            response = await handler(request)
        self._seconds.labels(api, resource, verb).observe(time.perf_counter() - started)
        self._requests.labels(api, resource, verb, str(response.status)).inc()
        if api != OTHER and response.status < 300 and "Warning" in response.headers:
            self._partial.labels(api).inc()
        return response
