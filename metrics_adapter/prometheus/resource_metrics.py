"""Converts samples of a metrics store to PodMetrics and NodeMetrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter

import msgspec
from msgspec import UNSET, UnsetType

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import Format, Quantity
from fedhpa.api.times import format_duration
from fedhpa.api.wire import CLUSTER_ANNOTATION
from metrics_adapter.apis import MetricsKind
from metrics_adapter.members.custom_metrics import encode_time
from metrics_adapter.members.resource_metrics import MemberItems
from metrics_adapter.members.source import Gathered
from metrics_adapter.prometheus.grouping import Sample
from metrics_adapter.prometheus.rules.model import UsageRule

UsageSamples = Gathered[tuple[str, Sequence[Sample]]]
# Seconds, for a rule without a window.
DEFAULT_WINDOW = 60
NANO_PER_UNIT = 10**9


class _ObjectUsage(msgspec.Struct, gc=False):
    """The usage of one object. `oldest` is the time of its oldest sample."""

    oldest: float
    # Quantities by container and by resource.
    usages: dict[str, dict[str, str]]


class _Metadata(msgspec.Struct, gc=False):
    annotations: dict[str, str]
    name: str
    namespace: str | UnsetType


class _Container(msgspec.Struct, gc=False):
    name: str
    usage: dict[str, str]


class _Object(msgspec.Struct, gc=False):
    """PodMetrics or NodeMetrics, without kind and apiVersion."""

    metadata: _Metadata
    timestamp: str | None
    window: str
    containers: list[_Container] | UnsetType = UNSET
    usage: dict[str, str] | UnsetType = UNSET


_ENCODE = msgspec.json.Encoder().encode


def member_items(
    cpu: UsageSamples, memory: UsageSamples, kind: MetricsKind, rule: UsageRule, names: tuple[str, str]
) -> Gathered[MemberItems]:
    """Joins CPU and memory by object. `names` are the labels of namespace ("" if cluster-scoped) and name.

    A resource without a sample is left out, never zero. A cluster that is missing for
    CPU or memory is missing.
    """
    missing = {**memory.missing, **cpu.missing}
    notes = [*cpu.notes, *(note for note in memory.notes if note not in cpu.notes)]
    answers = []
    by_resource = {"cpu": dict(cpu.answers), "memory": dict(memory.answers)}
    window = format_duration(rule.window or DEFAULT_WINDOW)
    container_label = rule.container_label if kind.namespaced else ""
    for cluster in sorted(by_resource["cpu"].keys() | by_resource["memory"].keys()):
        samples = {resource: clusters.get(cluster, ()) for resource, clusters in by_resource.items()}
        try:
            if cluster not in missing:
                objects = _by_object(samples, container_label, names)
                answers.append(_items(objects, cluster, kind, window))
        except MetricsUnavailable as error:
            missing[cluster] = str(error)
    whole = not (cpu.none_answered or memory.none_answered)
    return Gathered(answers if whole else (), missing, notes)


def _by_object(
    by_resource: Mapping[str, Sequence[Sample]], container_label: str, names: tuple[str, str]
) -> Mapping[tuple[str, str], _ObjectUsage]:
    namespace_label, name_label = names
    objects: dict[tuple[str, str], _ObjectUsage] = {}
    for resource, samples in by_resource.items():
        for sample in samples:
            labels = sample.labels
            key = namespace, name = labels.get(namespace_label, ""), labels[name_label]
            found = objects.get(key)
            if found is None:
                found = objects[key] = _ObjectUsage(sample.at, {})
            elif sample.at < found.oldest:
                found.oldest = sample.at
            usage = found.usages.setdefault(labels.get(container_label, ""), {})
            if resource in usage:
                raise MetricsUnavailable(
                    f"{'/'.join(filter(None, (namespace, name)))} has more than one value of {resource}: let"
                    " the rule's query aggregate, as in sum by (<<.GroupBy>>)"
                )
            usage[resource] = _usage(resource, sample.amount.nano)
    return objects


def _items(
    objects: Mapping[tuple[str, str], _ObjectUsage], cluster: str, kind: MetricsKind, window: str
) -> MemberItems:
    annotations = {CLUSTER_ANNOTATION: cluster}
    items = []
    for (namespace, name), found in sorted(objects.items(), key=itemgetter(0)):
        metadata = _Metadata(annotations, name, namespace if kind.namespaced else UNSET)
        item = _Object(metadata, _time(found.oldest), window)
        if kind.namespaced:
            item.containers = [_Container(name, usage) for name, usage in sorted(found.usages.items())]
        else:
            item.usage = found.usages[""]
        items.append(_ENCODE(item))
    return MemberItems.of(cluster, items, {namespace for namespace, _ in objects})


# All samples of a result have the same time, and many of tens of thousands of pods have the same value.
@lru_cache(maxsize=64)
def _time(seconds: float) -> str | None:
    return encode_time(seconds)


@lru_cache(maxsize=65_536)
def _usage(resource: str, nano: int) -> str:
    if resource == "cpu":
        return str(Quantity(nano))
    # Clients expect memory in whole bytes.
    return str(Quantity(-(-nano // NANO_PER_UNIT) * NANO_PER_UNIT, Format.BINARY_SI))
