"""Which workloads run in which member of a fleet in a box. Everything follows from the size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class FleetSize:
    """`objects` autoscalers over `namespaces`; each namespace runs in `spread` of the `clusters`.

    Each workload has `pods_each` pods in each of its clusters, so that all have nearly `pods`.
    """

    clusters: int = 10
    pods: int = 20_000
    objects: int = 1_000
    spread: int = 10
    # Seconds between two reconciles of an object.
    period: int = 60

    @property
    def width(self) -> int:
        """The clusters of each namespace."""
        return min(self.spread, self.clusters)

    @property
    def namespaces(self) -> int:
        """The number of namespaces: 50 objects each, at most 200 namespaces."""
        return max(min(self.objects // 50, 200), 1)

    @property
    def pods_each(self) -> int:
        """The pods of a workload in one cluster."""
        return max(round(self.pods / (self.objects * self.width)), 1)

    @property
    def all_pods(self) -> int:
        """The pods that there are."""
        return self.objects * self.width * self.pods_each

    def cluster(self, number: int) -> str:
        """The name of a cluster."""
        return f"member-{number:03}"

    def clusters_of(self, namespace: int) -> list[int]:
        """The clusters of a namespace: as many namespaces are in each cluster, as far as that is possible."""
        first = namespace * self.clusters // self.namespaces
        return [(first + each) % self.clusters for each in range(self.width)]

    @cached_property
    def workloads(self) -> Mapping[str, list[str]]:
        """The names of the workloads, which their autoscalers share, by namespace."""
        found: dict[str, list[str]] = {f"team-{number}": [] for number in range(self.namespaces)}
        for number in range(self.objects):
            found[f"team-{number % self.namespaces}"].append(f"web-{number}")
        return found

    def namespaces_in(self, cluster: int) -> list[str]:
        """The namespaces of a cluster."""
        numbers = range(self.namespaces)
        return [f"team-{number}" for number in numbers if cluster in self.clusters_of(number)]
