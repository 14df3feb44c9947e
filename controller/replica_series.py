"""Series of objects and their clusters, rendered at a scrape from the last statuses.

Scrapes run in a thread, so they read copies and change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fedhpa.decision import ANSWERED, ANSWERED_STATES, READY
from fedhpa.kube import Key
from fedhpa.serving import RowGauge

# 10,000 clusters of objects with two samples each. A scrape of them has 1.5 MB.
MAX_SAMPLES: Final = 20_000

Status = Mapping[str, Any]
# Cluster, state and replicas.
Sample = tuple[str, str, int]


class ReplicaSeries(Collector):
    """Collects replicas and memberships of clusters, objects that are not Ready, and clusters that they miss.

    `statuses` are those of the last decisions, and `failing` has the reasons of objects that failed since;
    both are live views. At most `max_samples` are replicas. Objects that are not Ready come first. An object
    is shown with all its clusters, or not at all.
    """

    def __init__(
        self, statuses: Mapping[Key, Status], failing: Mapping[Key, str], max_samples: int = MAX_SAMPLES
    ) -> None:
        self._statuses = statuses
        self._failing = failing
        self._max_samples = max_samples

    def describe(self) -> Iterator[Metric]:
        """Yields the families, so that a part of the registry can be collected."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Yields replicas, memberships, how many are left out, objects not Ready, and clusters they miss."""
        replicas = RowGauge(
            "fedhpa_cluster_replicas",
            "Replicas of an object in a cluster at the last decision, by state: ready (pods; absent "
            "while the cluster does not answer) and desired. Objects whose condition Ready is not True come "
            f"first, up to {MAX_SAMPLES} samples for each process.",
            labels=["namespace", "name", "cluster", "state"],
        )
        memberships = RowGauge(
            "fedhpa_cluster_membership",
            "1 for each cluster of an object that is no Member, with its membership: Cordoned, Leaving, "
            "Stuck or Awaited.",
            labels=["namespace", "name", "cluster", "membership"],
        )
        left_out = 0
        statuses = dict(self._statuses)
        reasons = {key: reason for key, one in statuses.items() if (reason := _not_ready(one))}
        reasons |= dict(self._failing)
        by_need = sorted(statuses, key=lambda key: (key not in reasons, key))
        for key in by_need:
            samples, others = list(_samples(statuses[key])), list(_memberships(statuses[key]))
            count = len(samples) + len(others)
            if len(replicas) + len(memberships) + count > self._max_samples:
                left_out += count
                continue
            for cluster, state, number in samples:
                replicas.add((*key, cluster, state), number)
            for cluster, membership in others:
                memberships.add((*key, cluster, membership), 1)
        yield replicas
        yield memberships
        yield GaugeMetricFamily(
            "fedhpa_cluster_replicas_left_out",
            "Samples of fedhpa_cluster_replicas and fedhpa_cluster_membership that are left out, because "
            f"this process would show more than {MAX_SAMPLES}.",
            left_out,
        )
        not_ready = RowGauge(
            "fedhpa_object_not_ready",
            "1 for a FederatedHPA whose condition Ready is not True, with its reason; absent if it is.",
            labels=["namespace", "name", "reason"],
        )
        for key, reason in sorted(reasons.items()):
            not_ready.add((*key, reason), 1)
        yield not_ready
        missing = GaugeMetricFamily(
            "fedhpa_cluster_missing_objects",
            "FederatedHPAs whose last decision lacks data of a cluster, by its state: MetricsMissing, "
            "Missing, and after lostAfterSeconds MetricsLost, Lost.",
            labels=["cluster", "state"],
        )
        for (cluster, state), count in sorted(_missing(statuses).items()):
            missing.add_metric([cluster, state], count)
        yield missing


def _not_ready(status: Status) -> str:
    """Returns the reason of a condition Ready that is not True, else an empty text."""
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    ready = next((one for one in conditions if one["type"] == READY), {"reason": "NoDecision"})
    return "" if ready.get("status") == "True" else str(ready["reason"])


def _missing(statuses: Mapping[Key, Status]) -> Counter[tuple[str, str]]:
    """Counts objects by cluster and state. A status leaves the state out if the cluster answered."""
    return Counter(
        (entry["name"], state)
        for status in statuses.values()
        for entry in status.get("clusters") or ()
        if (state := entry.get("state")) and state != ANSWERED
    )


def _memberships(status: Status) -> Iterator[tuple[str, str]]:
    """Yields the clusters that are no Members, each with its membership."""
    for entry in status.get("clusters") or ():
        if "membership" in entry:
            yield entry["name"], entry["membership"]


def _samples(status: Status) -> Iterator[Sample]:
    """Yields the replicas of a status, from which numbers that equal others are left out."""
    clusters: Sequence[Mapping[str, Any]] = status.get("clusters") or ()
    read = "lastSeen" in status  # otherwise the entries are those of an earlier decision
    for entry in clusters:
        name, current = entry["name"], entry.get("currentReplicas")
        answers = read and ("state" not in entry or entry["state"] in ANSWERED_STATES)
        ready = entry.get("readyReplicas", current) if answers else None
        desired = entry.get("desiredReplicas", current)
        if ready is not None:
            yield name, "ready", ready
        if desired is not None:
            yield name, "desired", desired
