"""Reads metrics through the hub's metrics APIs (`--metrics-via=hub`), for hubs with another metrics adapter.

The requests are those of Kubernetes' own clients: one a workload, with its selector. Pods are still read from
the members. An annotation on PodMetrics names the cluster. Without the annotation, and for values of Pods
metrics, which have none, a value counts only if exactly one cluster has a pod of that name.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from controller.federatedhpa.cluster_reader import MemberCaches, MetricNeeds
from controller.federatedhpa.metric_reader import (
    MetricSource,
    Samples,
    checked_usage,
    error_reason,
    read_metrics,
)
from fedhpa.api.errors import ApiError, FedHPAError, MetricsUnavailable
from fedhpa.api.json import list_items
from fedhpa.api.wire import CLUSTER_ANNOTATION, PodMetrics
from fedhpa.decision import Answers, ClusterSnapshot, Failure
from fedhpa.kube import ApiClient, ResourceMapper, contain
from fedhpa.members import METRICS_API, POD_METRICS_LIST, CircuitBreaker, pod_metrics_path
from fedhpa.scaling import CustomSample, SelectedPods, UsageRecord, select_usage, usage_record

# A hanging metrics API gets one probing request in this time.
COOLDOWN_SECONDS: Final = 10.0

UsageByCluster = Mapping[str, tuple[UsageRecord, ...] | Failure]


class HubMetrics:
    """The hub as a source of shared lists. A circuit breaker opens when the hub does not answer."""

    name = "hub"

    def __init__(
        self,
        client: ApiClient,
        mapper: ResourceMapper,
        deadline: float,
        clock: Callable[[], float],
    ) -> None:
        self.client = client
        self.mapper = mapper
        self.deadline = deadline
        self._breaker = CircuitBreaker(threshold=1, cooldown=COOLDOWN_SECONDS, clock=clock)

    def check(self) -> None:
        """Raise MetricsUnavailable while the circuit breaker is open."""
        refusal = self._breaker.refusal()
        if refusal is not None:
            raise MetricsUnavailable(refusal)

    def note(self, error: FedHPAError | None) -> None:
        """Record the outcome of a request; None is a success."""
        cause = None if error is None else error.__cause__
        if isinstance(cause, ApiError) and cause.status == 0:
            self._breaker.failure(str(cause), at_once=True)
        elif error is None:
            self._breaker.success()


async def read_hub(
    caches: MemberCaches,
    hub: HubMetrics,
    namespace: str,
    readings: Mapping[str, ClusterSnapshot],
    needs: MetricNeeds,
) -> tuple[dict[str, ClusterSnapshot], Answers]:
    """The readings, completed with the hub's metrics, and those that belong to no cluster.

    An error becomes the reason in the readings.
    """
    found, of_hub = dict(readings), dict[str, Samples]()
    groups: dict[str, dict[str, ClusterSnapshot]] = {}
    for name, reading in readings.items():
        # The pods of a cluster that does not answer are unknown, so their usage cannot count.
        if reading.workload.selector is not None and reading.error is None:
            groups.setdefault(str(reading.workload.selector), {})[name] = reading
    of_pods = {key: spec for key, spec in needs.queries.items() if spec.metric_type.per_pod}
    # The others do not depend on pods: the first group queries them, and a failure is every group's.
    queries, failed = needs.queries, dict[str, Failure]()
    for group in groups.values():
        about = {"cluster": hub.name, "namespace": namespace}
        selector = next(iter(group.values())).workload.selector
        assert selector is not None, "clusters are grouped by selector"
        pods = {pod.name for reading in group.values() for pod in reading.pods}
        source = MetricSource(
            caches.lists, hub, hub.mapper, namespace, selector, pods, needs.max_age, needs.again
        )
        usage: UsageByCluster = {}
        async with asyncio.TaskGroup() as tasks:  # the tasks never raise
            if needs.usage:
                read = functools.partial(_usage, source, hub, group)
                failed_usage = functools.partial(_all_failed, group)
                reading_usage = tasks.create_task(contain("read-usage", read, failed_usage, **about))
            answers = await read_metrics(source, queries)
        if needs.usage:
            usage = reading_usage.result()
        for key in queries.keys() - of_pods.keys():
            if isinstance(answer := answers[key], Failure):
                failed[key] = answer
            else:
                of_hub[key] = answer
        queries = of_pods
        by_cluster = {key: _split_by_cluster(answers[key], group) for key in of_pods}
        for name, reading in group.items():
            metrics = {key: of.get(name, ()) for key, of in by_cluster.items()} | failed
            found[name] = msgspec.structs.replace(reading, usage=usage.get(name, ()), metrics=metrics)
    return found, of_hub


def _all_failed(group: Mapping[str, ClusterSnapshot], reason: str) -> UsageByCluster:
    return dict.fromkeys(group, Failure(reason))


async def _usage(
    source: MetricSource, hub: HubMetrics, group: Mapping[str, ClusterSnapshot]
) -> UsageByCluster:
    params = {"labelSelector": text} if (text := str(source.selector)) else {}
    path = pod_metrics_path(source.namespace)
    try:
        fetched = await source.lists.get(
            hub,
            path,
            params,
            _decode_usage,
            max_age=source.max_age,
            deadline=hub.deadline,
            again=source.again,
        )
    except FedHPAError as error:
        hub.note(error)
        return dict.fromkeys(group, Failure(error_reason(error)))
    hub.note(None)
    return _by_cluster(fetched.value, group, source.namespace)


def _decode_usage(body: bytes) -> tuple[UsageRecord, ...]:
    """The records of a PodMetricsList, each with the cluster of its annotation ("" without one)."""
    items = list_items(body, PodMetrics, POD_METRICS_LIST, METRICS_API)
    annotated = ((item, (item.metadata.annotations or {}).get(CLUSTER_ANNOTATION, "")) for item in items)
    return checked_usage(tuple([usage_record(cluster, item) for item, cluster in annotated]))


def _by_cluster(
    records: Sequence[UsageRecord], group: Mapping[str, ClusterSnapshot], namespace: str
) -> UsageByCluster:
    found: dict[str, list[UsageRecord]] = {name: [] for name in group}
    failures: dict[str, Failure] = {}
    owners = _clusters_of_pods(group)
    for record in records:
        if record.namespace not in ("", namespace):
            continue
        if record.cluster:
            if record.cluster in found:
                found[record.cluster].append(record)
            continue
        clusters = owners.get(record.name, ())
        if len(clusters) == 1:
            found[clusters[0]].append(msgspec.structs.replace(record, cluster=clusters[0]))
        for cluster in clusters if len(clusters) > 1 else ():
            failures[cluster] = _ambiguous(record.name, clusters, f"no annotation {CLUSTER_ANNOTATION}")
    return {
        name: failures.get(name) or _selected(found[name], reading, namespace)
        for name, reading in group.items()
    }


def _selected(
    records: Sequence[UsageRecord], reading: ClusterSnapshot, namespace: str
) -> tuple[UsageRecord, ...]:
    """The usage of the workload's pods; the hub may send usage of others too."""
    assert reading.workload.selector is not None, "clusters are grouped by selector"
    return select_usage(records, namespace, reading.workload.selector, SelectedPods(reading.pods))


def _split_by_cluster(
    answer: Samples | Failure, group: Mapping[str, ClusterSnapshot]
) -> Mapping[str, tuple[CustomSample, ...] | Failure]:
    """The samples of a Pods metric by the cluster of their pods."""
    if isinstance(answer, Failure):
        return dict.fromkeys(group, answer)
    found: dict[str, tuple[CustomSample, ...] | Failure] = {}
    samples: dict[str, list[CustomSample]] = {name: [] for name in group}
    owners = _clusters_of_pods(group)
    for sample in answer:
        assert isinstance(sample, CustomSample), "Pods metrics are custom metrics"
        clusters = owners.get(sample.name, ())
        if len(clusters) == 1:
            samples[clusters[0]].append(sample)
        else:
            found |= dict.fromkeys(
                clusters, _ambiguous(sample.name, clusters, "custom metrics name no cluster")
            )
    return {name: tuple(own) for name, own in samples.items()} | found


def _clusters_of_pods(group: Mapping[str, ClusterSnapshot]) -> Mapping[str, Sequence[str]]:
    """The sorted clusters that have a pod of a name, by name."""
    found: dict[str, list[str]] = {}
    for name, reading in sorted(group.items()):
        for pod in reading.pods:
            found.setdefault(pod.name, []).append(name)
    return found


def _ambiguous(pod: str, clusters: Sequence[str], why: str) -> Failure:
    return Failure(
        f"the hub's metrics name no cluster for pod {pod} ({why}), which is in {', '.join(clusters)}"
    )
