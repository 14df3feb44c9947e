"""The controller's series by cluster, which exist as long as the cluster is registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fedhpa.assignment import Result
from fedhpa.members import Member

HUB: Final = ""


class MemberSeries(Collector):
    """Collects the series by cluster, which exist as long as the cluster is registered."""

    def __init__(self) -> None:
        self._members: Callable[[], Mapping[str, Member]] = dict
        self._duplicates: Callable[[], Mapping[str, Member]] = dict
        self._scale_failures: dict[str, int] = {HUB: 0}
        self._hpa_writes: dict[tuple[str, str], int] = {}
        self._shown: set[str] = set()

    def watch(
        self,
        members: Callable[[], Mapping[str, Member]],
        duplicates: Callable[[], Mapping[str, Member]] = dict,
    ) -> None:
        """Show the probes of these members, the failed writes in each, and their other names."""
        self._members, self._duplicates = members, duplicates

    def count_scale_failure(self, cluster: str) -> None:
        """Count a scale that was not written; `cluster` is "" for the hub."""
        self._scale_failures[cluster] = self._scale_failures.get(cluster, 0) + 1

    def count_hpa_write(self, cluster: str, result: str) -> None:
        """Count a write of a member HPA with its result, a value of `Result`."""
        self._hpa_writes[cluster, result] = self._hpa_writes.get((cluster, result), 0) + 1

    def describe(self) -> Iterator[Metric]:
        """Yields the families, so that a part of the registry can be collected."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Yields the failed writes of scales, the writes of HPAs, the last probes, and other names."""
        members = self._members()
        for name in self._shown - members.keys():
            self._scale_failures.pop(name, None)
            for result in Result:
                self._hpa_writes.pop((name, result.value), None)
        self._shown = set(members)
        failures = CounterMetricFamily(
            "fedhpa_controller_scale_write_failures",
            "Writes of a scale that failed, by cluster; the cluster of a template on the hub is empty.",
            labels=["cluster"],
        )
        for name in sorted(self._shown.union(self._scale_failures)):
            failures.add_metric([name], self._scale_failures.get(name, 0))
        yield failures
        writes = CounterMetricFamily(
            "fedhpa_distributed_writes",
            "Writes of member HPAs in mode Distributed, by cluster and result: confirmed, refused, unknown "
            "(no clear answer).",
            labels=["cluster", "result"],
        )
        for name in sorted(self._shown):
            for result in Result:
                writes.add_metric([name, result.value], self._hpa_writes.get((name, result.value), 0))
        yield writes
        probes = GaugeMetricFamily(
            "fedhpa_controller_member_probe_duration_seconds",
            "Duration of a member's last probe, also if it failed; absent before the first one.",
            labels=["cluster"],
        )
        for name, member in sorted(members.items()):
            if member.probe_seconds is not None:
                probes.add_metric([name], member.probe_seconds)
        yield probes
        duplicates = GaugeMetricFamily(
            "fedhpa_controller_cluster_duplicate",
            "1 for a Cluster that is left out because it is the same cluster as another one, `same_as`.",
            labels=["cluster", "same_as"],
        )
        for name, member in sorted(self._duplicates().items()):
            duplicates.add_metric([name, member.same_as], 1)
        yield duplicates
