"""The adapter's own Prometheus series."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from fedhpa.members.member import Member
from fedhpa.serving.authorization import Attributes
from fedhpa.serving.server import Handler
from metrics_adapter.discovery import SERVED
from metrics_adapter.kinds import GROUP


class MembersUp(Collector):
    """`fedhpa_adapter_member_up{cluster}`: 1 while a member can be asked and answered when last asked."""

    def __init__(self, members: Callable[[], Mapping[str, Member]]) -> None:
        self._members = members
        self._failed: set[str] = set()

    def outcome(self, cluster: str, answered: bool) -> None:
        """How a request for a member's metrics ended."""
        if answered:
            self._failed.discard(cluster)
        else:
            self._failed.add(cluster)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample a registered cluster."""
        family = GaugeMetricFamily(
            "fedhpa_adapter_member_up",
            "Whether a member cluster can be asked and answered when it was last asked for metrics.",
            labels=["cluster"],
        )
        members = self._members()
        self._failed.intersection_update(members)
        for name, member in sorted(members.items()):
            up = name not in self._failed and member.unavailable() is None
            family.add_metric([name], float(up))
        yield family


class Telemetry:
    """All series of the process, in a registry of their own."""

    def __init__(self, members: Callable[[], Mapping[str, Member]]) -> None:
        self.registry = CollectorRegistry()
        self.members_up = MembersUp(members)
        self.registry.register(self.members_up)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._requests = Counter(
            "fedhpa_adapter_requests",
            "Requests for metrics, by resource (that of values is their group), verb and HTTP status.",
            ["resource", "verb", "code"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "fedhpa_adapter_request_duration_seconds",
            "How long requests for metrics took.",
            ["resource", "verb"],
            registry=self.registry,
        )

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count and time the requests for metrics; those for values are told apart by their group alone."""
        wanted = Attributes.of(request)
        if wanted.group not in SERVED or request.match_info.http_exception is not None:
            return await handler(request)
        # The names of metrics are the callers', so they are no label.
        resource = wanted.resource if wanted.group == GROUP else wanted.group
        started = time.perf_counter()
        response = await handler(request)
        self._seconds.labels(resource, wanted.verb).observe(time.perf_counter() - started)
        self._requests.labels(resource, wanted.verb, str(response.status)).inc()
        return response
