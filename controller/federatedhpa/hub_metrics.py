"""Reads metrics through the hub's metrics APIs (`--metrics-via=hub`), for hubs with another metrics adapter.

The requests are those of Kubernetes' own clients: one a workload, with its selector. Pods are still read from
the members. An annotation on PodMetrics names the cluster. Without the annotation, and for values of Pods
metrics, which have none, a value counts only if exactly one cluster has a pod of that name.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from controller.federatedhpa.cluster_reader import MemberCaches, MetricNeeds
from controller.federatedhpa.metric_reader import MetricSource, checked_usage, error_reason, read_metrics
from fedhpa.api.answers import list_items
from fedhpa.api.errors import ApiError, FedHPAError, MetricsUnavailable
from fedhpa.api.wire import CLUSTER_ANNOTATION, PodMetrics
from fedhpa.decision import ClusterSnapshot, Failure
from fedhpa.kube import ApiClient, ResourceMapper, contain
from fedhpa.members import METRICS_API, POD_METRICS_LIST, CircuitBreaker, pod_metrics_path
from fedhpa.metric_types.metric import EXTERNAL_API, ScalingMetric
from fedhpa.scaling import CustomSample, ExternalSample, SelectedPods, UsageRecord, select_usage, usage_record

# A hanging metrics API gets one probing request in this time.
COOLDOWN_SECONDS: Final = 10.0

CustomSamples = tuple[CustomSample, ...] | Failure
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


@dataclass
class HubSamples:
    """The metrics that the hub serves and that belong to no cluster."""

    custom: tuple[CustomSample, ...] = ()
    external: tuple[ExternalSample, ...] = ()


async def read_hub(
    caches: MemberCaches,
    hub: HubMetrics,
    namespace: str,
    readings: Mapping[str, ClusterSnapshot],
    needs: MetricNeeds,
) -> tuple[dict[str, ClusterSnapshot], HubSamples]:
    """The readings, completed with the hub's metrics, and those that belong to no cluster.

    An error becomes the reason in the readings.
    """
    found, samples = dict(readings), HubSamples()
    groups: dict[str, dict[str, ClusterSnapshot]] = {}
    for name, reading in readings.items():
        # The pods of a cluster that does not answer are unknown, so their usage cannot count.
        if reading.workload.selector is not None and reading.error is None:
            groups.setdefault(str(reading.workload.selector), {})[name] = reading
    of_pods = {key: spec for key, spec in needs.queries.items() if spec.metric_type.per_pod}
    # These metrics do not depend on pods: the first group queries them, and a failure is every group's.
    rest = {key: spec for key, spec in needs.queries.items() if not spec.metric_type.per_pod}
    failed: dict[str, Failure] = {}
    for number, group in enumerate(groups.values()):
        queries = of_pods | rest if number == 0 else of_pods
        about = {"cluster": hub.name, "namespace": namespace}
        async with asyncio.TaskGroup() as tasks:  # the tasks never raise
            usage = tasks.create_task(
                contain(
                    "read-usage",
                    functools.partial(_usage, caches, hub, namespace, group, needs),
                    functools.partial(_all_failed, group),
                    **about,
                )
            )
            source = _source(caches, hub, namespace, group, needs)
            custom, external = await read_metrics(source, queries)
        by_cluster = {key: _split_by_cluster(custom[key], group) for key in of_pods}
        for key, spec in rest.items() if number == 0 else ():
            _add_samples(
                samples, failed, key, (external if spec.metric_type.api == EXTERNAL_API else custom)[key]
            )
        for name, reading in group.items():
            answers = {key: of.get(name, ()) for key, of in by_cluster.items()}
            found[name] = _with_metrics(reading, usage.result().get(name, ()), answers, failed, needs.queries)
    return found, samples


def _all_failed(group: Mapping[str, ClusterSnapshot], reason: str) -> UsageByCluster:
    return dict.fromkeys(group, Failure(reason))


def _add_samples(
    samples: HubSamples,
    failed: dict[str, Failure],
    key: str,
    answer: Failure | Sequence[CustomSample] | Sequence[ExternalSample],
) -> None:
    if isinstance(answer, Failure):
        failed[key] = answer
        return
    for sample in answer:
        if isinstance(sample, CustomSample):
            samples.custom += (sample,)
        else:
            samples.external += (sample,)


def _with_metrics(
    reading: ClusterSnapshot,
    usage: tuple[UsageRecord, ...] | Failure,
    answers: Mapping[str, CustomSamples],
    failed: Mapping[str, Failure],
    queries: Mapping[str, ScalingMetric],
) -> ClusterSnapshot:
    external = {key: why for key, why in failed.items() if queries[key].metric_type.api == EXTERNAL_API}
    custom = {**answers, **{key: why for key, why in failed.items() if key not in external}}
    return msgspec.structs.replace(reading, usage=usage, custom_metrics=custom, external_metrics=external)


def _source(
    caches: MemberCaches,
    hub: HubMetrics,
    namespace: str,
    group: Mapping[str, ClusterSnapshot],
    needs: MetricNeeds,
) -> MetricSource:
    selector = next(iter(group.values())).workload.selector
    assert selector is not None, "clusters are grouped by selector"
    names = {pod.name for reading in group.values() for pod in reading.pods}
    return MetricSource(caches.lists, hub, hub.mapper, namespace, selector, names, needs.max_age, needs.again)


async def _usage(
    caches: MemberCaches,
    hub: HubMetrics,
    namespace: str,
    group: Mapping[str, ClusterSnapshot],
    needs: MetricNeeds,
) -> UsageByCluster:
    if not needs.usage:
        return {}
    selector = str(next(iter(group.values())).workload.selector)
    params = {"labelSelector": selector} if selector else {}
    try:
        fetched = await caches.lists.get(
            hub,
            pod_metrics_path(namespace),
            params,
            _decode_usage,
            max_age=needs.max_age,
            deadline=hub.deadline,
            again=needs.again,
        )
    except FedHPAError as error:
        hub.note(error)
        return dict.fromkeys(group, Failure(error_reason(error)))
    hub.note(None)
    return _by_cluster(fetched.value, group, namespace)


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
    answer: CustomSamples, group: Mapping[str, ClusterSnapshot]
) -> Mapping[str, CustomSamples]:
    """The samples of a Pods metric by the cluster of their pods."""
    if isinstance(answer, Failure):
        return dict.fromkeys(group, answer)
    found: dict[str, CustomSamples] = {}
    samples: dict[str, list[CustomSample]] = {name: [] for name in group}
    owners = _clusters_of_pods(group)
    for sample in answer:
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
