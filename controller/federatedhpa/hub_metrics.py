"""Metrics through the hub's metrics APIs (`--metrics-via=hub`): for hubs whose adapter is someone else's.

The requests are those of Kubernetes' own clients: one a workload, with its selector. Pods themselves are read
from the members. Usage says by an annotation which cluster it is of. What does not say so, and values of Pods
metrics, which cannot, counts only where the pod's name is that of one cluster alone: no value is guessed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from controller.federatedhpa.gather import Readers, Reading, Wanted, believable
from controller.federatedhpa.metrics import Asking, read_metrics, reason
from fedhpa.api.errors import ApiError, FedHPAError, MetricsUnavailable
from fedhpa.api.metric_types import EXTERNAL_API
from fedhpa.api.wire import CLUSTER_ANNOTATION, ObjectList, PodMetrics
from fedhpa.decision.snapshot import Failure
from fedhpa.decision.spec.federatedhpa import MetricSpec
from fedhpa.kube.client import ApiClient
from fedhpa.kube.mapping import ResourceMapper
from fedhpa.kube.responses import decoder
from fedhpa.members.breaker import CircuitBreaker
from fedhpa.members.lists import pod_metrics_path
from fedhpa.scaling.records import CustomSample, ExternalSample, UsageRecord, usage_record
from fedhpa.scaling.selection import SelectedPods, select_usage

# A metrics API that hangs is tried again this often, by one look.
AGAIN_SECONDS: Final = 10.0
NO_USAGE: Final = "the hub's metrics API has usage of none of its pods"

Custom = tuple[CustomSample, ...] | Failure
Usage = Mapping[str, tuple[UsageRecord, ...] | Failure]


class HubMetrics:
    """The hub as somebody whose lists are shared. Once it did not answer it is left alone for a while."""

    name = "hub"

    def __init__(
        self,
        client: ApiClient,
        mapper: ResourceMapper,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.mapper = mapper
        self.deadline = deadline
        self._breaker = CircuitBreaker(threshold=1, cooldown=AGAIN_SECONDS, clock=clock)

    def check(self) -> None:
        """MetricsUnavailable while it is left alone."""
        refusal = self._breaker.refusal()
        if refusal is not None:
            raise MetricsUnavailable(refusal)

    def note(self, error: FedHPAError | None) -> None:
        """Take over how a request ended."""
        cause = None if error is None else error.__cause__
        if isinstance(cause, ApiError) and cause.status == 0:
            self._breaker.failure(str(cause), at_once=True)
        elif error is None:
            self._breaker.success()


@dataclass
class Told:
    """What the hub tells: each cluster's reading with its metrics, and the metrics that are no cluster's."""

    readings: dict[str, Reading]
    custom: tuple[CustomSample, ...] = ()
    external: tuple[ExternalSample, ...] = ()


async def read_hub(
    readers: Readers, hub: HubMetrics, namespace: str, readings: Mapping[str, Reading], wanted: Wanted
) -> Told:
    """The readings with the metrics that `wanted` names, as the hub tells them. Never raises for the hub."""
    told = Told(dict(readings))
    groups: dict[str, dict[str, Reading]] = {}
    for name, reading in readings.items():
        # A cluster that does not answer says nothing of pods whose usage could count.
        if reading.selector is not None and reading.snapshot.error is None:
            groups.setdefault(str(reading.selector), {})[name] = reading
    own = {key: spec for key, spec in wanted.questions.items() if spec.metric_type.per_pod}
    rest = {key: spec for key, spec in wanted.questions.items() if not spec.metric_type.per_pod}
    for group in groups.values():
        async with asyncio.TaskGroup() as tasks:  # none of them raises
            usage = tasks.create_task(_usage(readers, hub, namespace, group, wanted))
            asking = _asking(readers, hub, namespace, group, wanted)
            custom, external = await read_metrics(asking, own | rest)
        by_cluster = {key: _apart(custom[key], group) for key in own}
        failed: dict[str, Failure] = {}
        for key, spec in rest.items():
            _keep(told, failed, key, (external if spec.metric_type.api == EXTERNAL_API else custom)[key])
        for name, reading in group.items():
            answers = {key: found.get(name, ()) for key, found in by_cluster.items()}
            told.readings[name] = _with(
                reading, usage.result().get(name, ()), answers, failed, wanted.questions
            )
        rest = {}  # what is no pod's is asked for once, whatever selects the pods
    return told


def _keep(
    told: Told,
    failed: dict[str, Failure],
    key: str,
    answer: Failure | Sequence[CustomSample] | Sequence[ExternalSample],
) -> None:
    if isinstance(answer, Failure):
        failed[key] = answer
        return
    for sample in answer:
        if isinstance(sample, CustomSample):
            told.custom += (sample,)
        else:
            told.external += (sample,)


def _with(
    reading: Reading,
    usage: tuple[UsageRecord, ...] | Failure,
    answers: Mapping[str, Custom],
    failed: Mapping[str, Failure],
    questions: Mapping[str, MetricSpec],
) -> Reading:
    external = {key: why for key, why in failed.items() if questions[key].metric_type.api == EXTERNAL_API}
    custom = {**answers, **{key: why for key, why in failed.items() if key not in external}}
    snapshot = msgspec.structs.replace(
        reading.snapshot, usage=usage, custom_metrics=custom, external_metrics=external
    )
    return replace(reading, snapshot=snapshot)


def _asking(
    readers: Readers, hub: HubMetrics, namespace: str, group: Mapping[str, Reading], wanted: Wanted
) -> Asking:
    selector = next(iter(group.values())).selector
    assert selector is not None, "groups are made by their selectors"
    names = {pod.name for reading in group.values() for pod in reading.snapshot.pods}
    return Asking(readers.lists, hub, hub.mapper, namespace, selector, names, wanted.max_age)


async def _usage(
    readers: Readers, hub: HubMetrics, namespace: str, group: Mapping[str, Reading], wanted: Wanted
) -> Usage:
    if not wanted.usage:
        return {}
    selector = str(next(iter(group.values())).selector)
    params = {"labelSelector": selector} if selector else {}
    try:
        fetched = await readers.lists.get(
            hub,
            pod_metrics_path(namespace),
            params,
            _usage_of_all,
            max_age=wanted.max_age,
            deadline=hub.deadline,
        )
    except FedHPAError as error:
        hub.note(error)
        return dict.fromkeys(group, Failure(reason(error)))
    hub.note(None)
    return _by_cluster(fetched.value, group, namespace)


def _usage_of_all(body: bytes) -> tuple[UsageRecord, ...]:
    """The records of a PodMetricsList, each with the cluster that its annotation names ("" for none)."""
    items = decoder(ObjectList[PodMetrics]).decode(body).items or ()
    annotated = ((item, (item.metadata.annotations or {}).get(CLUSTER_ANNOTATION, "")) for item in items)
    return believable(tuple([usage_record(cluster, item) for item, cluster in annotated]))


def _by_cluster(records: Sequence[UsageRecord], group: Mapping[str, Reading], namespace: str) -> Usage:
    found: dict[str, list[UsageRecord]] = {name: [] for name in group}
    failures: dict[str, Failure] = {}
    owners = _owners(group)
    for record in records:
        if record.namespace not in ("", namespace):
            continue
        if record.cluster:
            if record.cluster in found:
                found[record.cluster].append(record)
            continue
        places = owners.get(record.name, ())
        if len(places) == 1:
            found[places[0]].append(msgspec.structs.replace(record, cluster=places[0]))
        for place in places if len(places) > 1 else ():
            failures[place] = _doubt(record.name, places, f"no annotation {CLUSTER_ANNOTATION}")
    for name, reading in group.items():
        if not found[name] and any(pod.settled for pod in reading.snapshot.pods):
            failures.setdefault(name, Failure(NO_USAGE))
    return {
        name: failures.get(name) or _selected(found[name], reading, namespace)
        for name, reading in group.items()
    }


def _selected(records: Sequence[UsageRecord], reading: Reading, namespace: str) -> tuple[UsageRecord, ...]:
    """The usage of the workload's pods: the hub may send usage of others."""
    assert reading.selector is not None, "groups are made by their selectors"
    return select_usage(records, namespace, reading.selector, SelectedPods(reading.snapshot.pods))


def _apart(answer: Custom, group: Mapping[str, Reading]) -> Mapping[str, Custom]:
    """The values of a Pods metric by the cluster of the pod."""
    if isinstance(answer, Failure):
        return dict.fromkeys(group, answer)
    found: dict[str, Custom] = {}
    samples: dict[str, list[CustomSample]] = {name: [] for name in group}
    owners = _owners(group)
    for sample in answer:
        places = owners.get(sample.name, ())
        if len(places) == 1:
            samples[places[0]].append(sample)
        else:
            found |= dict.fromkeys(places, _doubt(sample.name, places, "custom metrics name no cluster"))
    return {name: tuple(own) for name, own in samples.items()} | found


def _owners(group: Mapping[str, Reading]) -> Mapping[str, Sequence[str]]:
    """Which clusters have a pod of a name."""
    places: dict[str, list[str]] = {}
    for name, reading in sorted(group.items()):
        for pod in reading.snapshot.pods:
            places.setdefault(pod.name, []).append(name)
    return places


def _doubt(pod: str, places: Sequence[str], why: str) -> Failure:
    return Failure(
        f"the hub's metrics do not say whose value that of pod {pod} is ({why}): it is in {', '.join(places)}"
    )
