"""Compact records of pods, usage and metric values. A list is decoded into them once; decisions read them.

Requests and quantities are parsed when a record is made. The pods of a workload share their labels and their
requests, so both are interned: a record costs its name, two floats and pointers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from fedhpa.api import wire
from fedhpa.api.default_values import POD_METRIC_WINDOW_SECONDS
from fedhpa.api.errors import InvalidObject, InvalidQuantity
from fedhpa.api.quantity import parse_milli
from fedhpa.api.selectors import Selector
from fedhpa.api.times import ZERO_TIME, parse_duration, parse_time
from fedhpa.scaling.requests import (
    MAX_INTERNED_SET,
    TEXTS,
    PodRequests,
    amounts,
    intern_value,
    shared_requests,
)

# Labels that the Deployment controller and that of StatefulSets write.
POD_TEMPLATE_HASH: Final = "pod-template-hash"
REVISION_HASH: Final = "controller-revision-hash"

# PodRecord.state.
NORMAL: Final = 0
PENDING: Final = 1
IGNORED: Final = 2


_TIMES: Final = ("ready_since", "start", "unschedulable_since", "created")


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    """One pod of one cluster. Times are POSIX seconds; `start` is None for a pod that was never started.

    `ready` is the status of the Ready condition ("True", "False", "Unknown", "" without the condition) and
    `ready_since` its last transition. `settled` is True if the pod counts, has started and is not unready:
    then only its age can make it unready. `unschedulable_since` is when the scheduler found no node for it.
    `restarted` is True if one of its containers was started again.
    """

    cluster: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    requests: PodRequests
    state: int = NORMAL
    running: bool = False
    ready: str = ""
    ready_since: float = ZERO_TIME
    start: float | None = None
    settled: bool = False
    unschedulable_since: float | None = None
    created: float = ZERO_TIME
    restarted: bool = False

    def moved(self, seconds: float) -> PodRecord:
        """Returns the record with its times moved by so many seconds. A time that is not set stays."""
        times = {name: getattr(self, name) for name in _TIMES}
        moved = {name: at + seconds for name, at in times.items() if at is not None and at != ZERO_TIME}
        return msgspec.structs.replace(self, **moved)

    @property
    def template(self) -> str:
        """The hash of the template that it was made from; "" if its labels have none."""
        labels = self.labels
        return labels.get(POD_TEMPLATE_HASH) or labels.get(REVISION_HASH) or ""


class ContainerUsage(msgspec.Struct, frozen=True, gc=False):
    """One container's usage in milli-units; `others` has the resources besides cpu and memory."""

    name: str
    cpu: int | None = None
    memory: int | None = None
    others: Mapping[str, int] | None = None

    def milli(self, resource: str) -> int | None:
        """Returns the usage of a resource; None if it was not measured."""
        if resource == "cpu":
            return self.cpu
        if resource == "memory":
            return self.memory
        return None if self.others is None else self.others.get(resource)


class UsageRecord(msgspec.Struct, frozen=True, gc=False):
    """One pod's usage as metrics.k8s.io reports it, in milli-units.

    `cpu` and `memory` are sums over the containers, None if a container lacks the resource. `containers`
    serves the other resources, and metrics of one container.
    """

    cluster: str
    namespace: str
    name: str
    timestamp: float
    window: float
    cpu: int | None
    memory: int | None
    containers: tuple[ContainerUsage, ...]
    labels: Mapping[str, str] | None = None

    def moved(self, seconds: float) -> UsageRecord:
        """Returns the record with its time moved by so many seconds."""
        return msgspec.structs.replace(self, timestamp=self.timestamp + seconds)


class CustomSample(msgspec.Struct, frozen=True, gc=False):
    """One value of custom.metrics.k8s.io in milli-units; `selector` is the metric's, as decoded JSON."""

    metric: str
    kind: str
    namespace: str
    name: str
    milli: int
    timestamp: float = ZERO_TIME
    window: float = POD_METRIC_WINDOW_SECONDS
    selector: Mapping[str, object] | None = None


class ExternalSample(msgspec.Struct, frozen=True, gc=False):
    """One value of external.metrics.k8s.io in milli-units."""

    metric: str
    labels: Mapping[str, str] | None
    milli: int


# Characters of a time or duration that is cached.
MAX_TIME: Final = 40

_label_sets: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
_NO_LABELS: Final[Mapping[str, str]] = {}


def pod_record(cluster: str, pod: wire.Pod) -> PodRecord:
    """Returns the record of a decoded pod. Raises InvalidObject naming the field."""
    meta, status = pod.metadata, pod.status
    state = NORMAL
    if meta.deletionTimestamp is not None or status.phase == "Failed":
        state = IGNORED
    elif status.phase == "Pending":
        state = PENDING
    ready, ready_since = "", ZERO_TIME
    for index, condition in enumerate(status.conditions or ()):
        if condition.type == "Ready":
            ready = TEXTS[condition.status]
            moment = _time(condition.lastTransitionTime, "status.conditions", index, ".lastTransitionTime")
            ready_since = ZERO_TIME if moment is None else moment
            break
    unschedulable = _unschedulable_since(status) if state == PENDING else None
    start = _time(status.startTime, "status.startTime")
    created = _time(meta.creationTimestamp, "metadata.creationTimestamp")
    return PodRecord(
        cluster=cluster,
        namespace=TEXTS[meta.namespace],
        name=meta.name,
        labels=_shared_labels(meta.labels),
        requests=shared_requests(pod.spec),
        state=state,
        running=status.phase == "Running",
        ready=ready,
        ready_since=ready_since,
        start=start,
        settled=state == NORMAL and bool(ready) and ready != "False" and start is not None,
        unschedulable_since=unschedulable,
        created=ZERO_TIME if created is None else created,
        restarted=any(one.restartCount > 0 for one in status.containerStatuses or ()),
    )


def _unschedulable_since(status: wire.PodStatus) -> float | None:
    for index, condition in enumerate(status.conditions or ()):
        if (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable"):
            return _time(condition.lastTransitionTime, "status.conditions", index, ".lastTransitionTime")
    return None


def usage_record(cluster: str, metrics: wire.PodMetrics) -> UsageRecord:
    """Returns the record of a decoded PodMetrics. Raises InvalidObject naming the field."""
    moment = _time(metrics.timestamp, "timestamp")
    containers = tuple([_container(container, i) for i, container in enumerate(metrics.containers or ())])
    if len(containers) == 1:
        cpu, memory = containers[0].cpu, containers[0].memory
    else:
        cpu, memory = sum_over(containers, "cpu"), sum_over(containers, "memory")
    return UsageRecord(
        cluster=cluster,
        namespace=TEXTS[metrics.metadata.namespace],
        name=metrics.metadata.name,
        timestamp=ZERO_TIME if moment is None else moment,
        window=_window(metrics.window),
        cpu=cpu,
        memory=memory,
        containers=containers,
        labels=None if metrics.metadata.labels is None else _shared_labels(metrics.metadata.labels),
    )


def custom_sample(value: wire.MetricValue) -> CustomSample:
    """Returns the record of a decoded MetricValue, v1beta2 or v1beta1. Raises InvalidObject."""
    moment = _time(value.timestamp, "timestamp")
    window = value.windowSeconds if value.windowSeconds is not None else value.window
    return CustomSample(
        metric=value.metric.name if value.metric is not None else value.metricName,
        kind=value.describedObject.kind,
        namespace=value.describedObject.namespace,
        name=value.describedObject.name,
        milli=_value(value.value),
        timestamp=ZERO_TIME if moment is None else moment,
        window=POD_METRIC_WINDOW_SECONDS if window is None else float(window),
        selector=value.metric.selector if value.metric is not None else value.selector,
    )


def external_sample(value: wire.ExternalMetricValue) -> ExternalSample:
    """Returns the record of a decoded ExternalMetricValue. Raises InvalidObject naming the field."""
    return ExternalSample(value.metricName, value.metricLabels or None, _value(value.value))


def sum_over(containers: Sequence[ContainerUsage], resource: str) -> int | None:
    """Returns the sum of a resource over all containers; None if one lacks it or there are none."""
    if not containers:
        return None
    total = 0
    for container in containers:
        amount = container.milli(resource)
        if amount is None:
            return None
        total += amount
    return total


def _container(container: wire.ContainerMetrics, index: int) -> ContainerUsage:
    usage = container.usage
    if usage is not None and len(usage) == 2 and "cpu" in usage and "memory" in usage:
        try:  # the fast path: metrics-server measures these two
            milli = parse_milli(usage["cpu"]), parse_milli(usage["memory"])
        except InvalidQuantity:
            pass  # the slow path below names the field
        else:
            return ContainerUsage(TEXTS[container.name], *milli)
    try:
        found = dict(amounts(container.usage, "usage"))
    except InvalidObject as error:
        raise InvalidObject(f"containers[{index}].{error}") from error
    cpu, memory = found.pop("cpu", None), found.pop("memory", None)
    return ContainerUsage(TEXTS[container.name], cpu, memory, found or None)


def _time(text: str | None, field: str, index: int | None = None, rest: str = "") -> float | None:
    try:
        return _moment(text) if text is None or len(text) <= MAX_TIME else parse_time(text)
    except InvalidObject as error:
        place = field if index is None else f"{field}[{index}]{rest}"
        raise InvalidObject(f"{place}: {error}") from error


# The pods of a list were mostly measured in the same few seconds, and their windows repeat.
_moment = functools.lru_cache(maxsize=4096)(parse_time)
_span = functools.lru_cache(maxsize=4096)(parse_duration)


def _window(text: str | None) -> float:
    if text is None:
        return 0.0
    try:
        return _span(text) if len(text) <= MAX_TIME else parse_duration(text)
    except InvalidObject as error:
        raise InvalidObject(f"window: {error}") from error


def _value(quantity: wire.RawQuantity) -> int:
    try:
        return parse_milli(quantity)
    except InvalidQuantity as error:
        raise InvalidObject(f"value: {error}") from error


def _shared_labels(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    if not labels:
        return _NO_LABELS
    key = tuple(labels.items())
    found = _label_sets[key] if key in _label_sets else None  # noqa: SIM401  # for each pod of each list
    if found is None:
        found = {TEXTS[name]: TEXTS[value] for name, value in key}
        if sum(map(len, chain.from_iterable(key))) <= MAX_INTERNED_SET:
            intern_value(_label_sets, key, found)
    return found


class SelectedPods(NamedTuple):
    """The pods of one workload in one cluster, and the names of its namespace's other listed pods.

    The controller keeps the same up to date from its watches (`controller.federatedhpa.pod_index`).
    """

    pods: tuple[PodRecord, ...] = ()
    others: frozenset[str] = frozenset()


def select_pods(pods: Sequence[PodRecord], namespace: str, selector: Selector) -> SelectedPods:
    """Splits the pods of a namespace by a selector. Pods of other namespaces are left out.

    Namespace "" takes pods of every namespace. A pod without a namespace is taken as one of `namespace`.
    """
    selected: list[PodRecord] = []
    others: set[str] = set()
    labels: Mapping[str, str] | None = None
    place: str | None = None
    listed = matches = False
    for pod in pods:
        # The pods of a workload follow each other in a list and share one label set and one namespace.
        if pod.labels is not labels or pod.namespace is not place:
            labels, place = pod.labels, pod.namespace
            listed = not namespace or not place or place == namespace
            matches = selector.matches(labels)
        if listed and matches:
            selected.append(pod)
        elif listed:
            others.add(pod.name)
    if others:
        others.difference_update(pod.name for pod in selected)
    return SelectedPods(tuple(selected), frozenset(others))


def select_usage(
    records: Sequence[UsageRecord], namespace: str, selector: Selector, selected: SelectedPods
) -> tuple[UsageRecord, ...]:
    """The usage of the selected pods, and of pods that are not listed but would be selected.

    A record of an unlisted pod is selected by its own labels; one without labels is taken.
    """
    if namespace:
        records = [record for record in records if record.namespace in ("", namespace)]
    names = {pod.name for pod in selected.pods}
    unlisted = {record.name: record.labels for record in records if record.name not in names}
    if not unlisted:
        return tuple(records)
    names.update(
        name
        for name, labels in unlisted.items()
        if name not in selected.others and (labels is None or selector.matches(labels))
    )
    return tuple([record for record in records if record.name in names])
