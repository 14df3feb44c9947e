"""Reads the Pods, Object and External metrics of an object from one cluster.

Each metric is a query of its own, so one may fail alone. Objects with equal queries share one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from fedhpa.api.errors import FedHPAError, InvalidObject, MemberUnavailable, MetricsUnavailable
from fedhpa.api.json import list_items
from fedhpa.api.selectors import Selector, selector_of
from fedhpa.api.wire import PodMetrics
from fedhpa.decision import Answers, Failure
from fedhpa.kube import MAX_MESSAGE, ResourceMapper, contain
from fedhpa.members import METRICS_API, POD_METRICS_LIST, Again, SharedLists, Upstream
from fedhpa.members import metrics as apis
from fedhpa.metric_types.metric import CUSTOM_API, EXTERNAL_API, ScalingMetric
from fedhpa.scaling import CustomSample, ExternalSample, UsageRecord, usage_record

# Concurrent queries of one object to one cluster. Admission allows 64 metrics.
MAX_CONCURRENT: Final = 8
# The name of the task of each query, in the log and the counter of failures.
TASK: Final = "read-metric"

Samples = tuple[CustomSample, ...] | tuple[ExternalSample, ...]


@dataclass(frozen=True)
class MetricSource:
    """The API server to query for one workload, whose pods have the names `pods` and match `selector`.

    Answers may be `max_age` seconds old, and the same are needed `again`.
    """

    lists: SharedLists
    member: Upstream
    mapper: ResourceMapper
    namespace: str
    selector: Selector
    pods: Collection[str]
    max_age: float
    again: Again | None = None


def metric_queries(metrics: Sequence[ScalingMetric]) -> Mapping[str, ScalingMetric]:
    """One metric for each query, by `ScalingMetric.query_key`. The queries are the same for all clusters."""
    return {spec.query_key: spec for spec in metrics if _can_be_queried(spec)}


async def read_metrics(source: MetricSource, queries: Mapping[str, ScalingMetric]) -> Answers:
    """The samples of all queries by key; a query that failed or raised has its reason. Never raises."""
    if not queries:
        return {}
    slots = asyncio.Semaphore(MAX_CONCURRENT)
    about = {"cluster": source.member.name, "namespace": source.namespace}
    async with asyncio.TaskGroup() as group:  # the tasks never raise
        tasks = {
            key: group.create_task(
                contain(TASK, partial(_samples, source, spec, slots), Failure, metric=spec.name, **about)
            )
            for key, spec in queries.items()
        }
    return {key: task.result() for key, task in tasks.items()}


def error_reason(error: FedHPAError) -> str:
    """The error's message without the cluster's name, because the name stands in front of it.

    It is cut at MAX_MESSAGE characters, because a member's error may be longer than a condition should be.
    """
    if isinstance(error, MemberUnavailable):
        return error.reason[:MAX_MESSAGE]
    return str((isinstance(error, MetricsUnavailable) and error.__cause__) or error)[:MAX_MESSAGE]


def _can_be_queried(spec: ScalingMetric) -> bool:
    if spec.metric_type.api not in (CUSTOM_API, EXTERNAL_API) or not spec.present:
        return False
    try:
        _selector(spec)
    except InvalidObject:
        return False  # the decision reports the invalid selector; no cluster is at fault
    return True


def _selector(spec: ScalingMetric) -> str:
    return "" if spec.selector is None else str(selector_of(spec.selector))


async def _samples(source: MetricSource, spec: ScalingMetric, slots: asyncio.Semaphore) -> Samples | Failure:
    per_pod = spec.metric_type.per_pod
    if per_pod and not source.pods:
        return ()  # adapters differ in their answer for no pods
    get = partial(source.lists.get, source.member, max_age=source.max_age, again=source.again)
    try:
        async with slots:
            if spec.metric_type.api == EXTERNAL_API:
                path = apis.external_path(source.namespace, spec.name)
                return (await get(path, {"labelSelector": _selector(spec)}, apis.external_samples)).value
            version = await apis.custom_version(source.lists, source.member, source.again)
            path = await _custom_path(source, spec, version)
            params = {"labelSelector": str(source.selector)} if per_pod else {}
            params |= {"metricLabelSelector": _selector(spec)}
            found = (await get(path, params, apis.custom_samples)).value
        return _own_samples(source, found) if per_pod else found
    except FedHPAError as error:
        return Failure(error_reason(error))
    except ValueError as error:  # the name is not a valid path segment
        return Failure(str(error))


async def _custom_path(source: MetricSource, spec: ScalingMetric, version: str) -> str:
    if spec.metric_type.per_pod:
        return apis.pods_path(version, source.namespace, spec.name)
    described = spec.described_object or {}
    kind = str(described.get("kind") or "")
    api_version = str(described.get("apiVersion") or "v1")
    group = api_version.rpartition("/")[0]
    if kind == "Namespace" and not group:
        # As Kubernetes' HPA: always the object's own namespace, whatever the name.
        return apis.namespace_path(version, source.namespace, spec.name)
    try:
        resource = await source.mapper.resolve(api_version, kind)
    except InvalidObject as error:
        named = f"{kind}.{group}" if group else kind
        raise MetricsUnavailable(f"unable to map kind {named}: {error}") from None
    plural = f"{resource.plural}.{group}" if group else resource.plural
    name = str(described.get("name") or "")
    return apis.object_path(version, source.namespace, plural, name, spec.name)


def _own_samples(source: MetricSource, samples: Sequence[CustomSample]) -> tuple[CustomSample, ...]:
    """The samples of the workload's own pods; a member may send others too."""
    found: dict[str, CustomSample] = {}
    for sample in samples:
        if sample.name not in source.pods or sample.namespace not in ("", source.namespace):
            continue
        if found.setdefault(sample.name, sample).milli != sample.milli:
            raise MetricsUnavailable(f"pod {sample.name} has two values of {sample.metric}")
    return tuple(found.values())


def decode_usage(cluster: str, body: bytes) -> tuple[UsageRecord, ...]:
    """The records of a PodMetricsList. Raises ValueError or InvalidObject if the list is invalid."""
    items = list_items(body, PodMetrics, POD_METRICS_LIST, METRICS_API)
    return checked_usage(tuple([usage_record(cluster, item) for item in items]))


def checked_usage(records: tuple[UsageRecord, ...]) -> tuple[UsageRecord, ...]:
    """The same records. Raises InvalidObject for negative usage, which would cause a scale-down."""
    for record in records:
        for container in record.containers:
            cpu, memory, others = container.cpu, container.memory, container.others
            if (
                (cpu is not None and cpu < 0)
                or (memory is not None and memory < 0)
                or (others is not None and min(others.values()) < 0)
            ):
                place = f"pod {record.namespace}/{record.name}, container {container.name!r}"
                raise InvalidObject(f"{place}: usage is negative")
    return records
