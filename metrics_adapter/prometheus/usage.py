"""Series of a metrics store as usage of pods and nodes, metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec import UNSET, UnsetType

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import Format, Quantity
from fedhpa.api.times import format_duration
from fedhpa.api.wire import CLUSTER_ANNOTATION
from metrics_adapter.kinds import MetricsKind
from metrics_adapter.members.gather import Gathered
from metrics_adapter.members.items import BETWEEN, Item, MemberItems
from metrics_adapter.members.values import time_json
from metrics_adapter.prometheus.rules import UsageRule
from metrics_adapter.prometheus.series import Measured

Found = Gathered[tuple[str, Sequence[Measured]]]
WINDOW = 60
WHOLE = 10**9


class _Used(msgspec.Struct, gc=False):
    """What is known of one object; `oldest` is when the first of its values was looked at."""

    namespace: str
    name: str
    oldest: float
    # By container, and by resource.
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
    cpu: Found, memory: Found, kind: MetricsKind, rule: UsageRule, names: tuple[str, str]
) -> Gathered[MemberItems]:
    """CPU and memory put together; `names` are the labels of namespace, "" for what has none, and name.

    What one of them does not have is left out, never zero; a cluster that is missing for one is missing.
    """
    missing = {**memory.missing, **cpu.missing}
    notes = [*cpu.notes, *(note for note in memory.notes if note not in cpu.notes)]
    answers = []
    parts = {"cpu": dict(cpu.answers), "memory": dict(memory.answers)}
    window = format_duration(rule.window or WINDOW)
    container_label = rule.container_label if kind.namespaced else ""
    for cluster in sorted(parts["cpu"].keys() | parts["memory"].keys()):
        found = {resource: clusters.get(cluster, ()) for resource, clusters in parts.items()}
        try:
            if cluster not in missing:
                used = _by_object(found, container_label, names)
                answers.append(MemberItems(cluster, _items(used, cluster, kind, window)))
        except MetricsUnavailable as error:
            missing[cluster] = str(error)
    whole = not (cpu.nobody_answered or memory.nobody_answered)
    return Gathered(answers if whole else (), missing, notes)


def _by_object(
    found: Mapping[str, Sequence[Measured]], container_label: str, names: tuple[str, str]
) -> Mapping[str, _Used]:
    namespace_label, name_label = names
    objects: dict[str, _Used] = {}
    for resource, measured in found.items():
        for one in measured:
            labels = one.labels
            namespace, name = labels.get(namespace_label, ""), labels[name_label]
            key = namespace + BETWEEN + name
            used = objects.get(key)
            if used is None:
                used = objects[key] = _Used(namespace, name, one.at, {})
            elif one.at < used.oldest:
                used.oldest = one.at
            usage = used.usages.setdefault(labels.get(container_label, ""), {})
            if resource in usage:
                raise MetricsUnavailable(
                    f"{'/'.join(filter(None, (namespace, name)))} has more than one value of {resource}: let"
                    " the rule's query aggregate, as in sum by (<<.GroupBy>>)"
                )
            usage[resource] = _usage(resource, one.amount.nano)
    return objects


def _items(objects: Mapping[str, _Used], cluster: str, kind: MetricsKind, window: str) -> list[Item]:
    annotations = {CLUSTER_ANNOTATION: cluster}
    items = []
    for key, used in objects.items():
        metadata = _Metadata(annotations, used.name, used.namespace if kind.namespaced else UNSET)
        measured = _Object(metadata, _time(used.oldest), window)
        if kind.namespaced:
            measured.containers = [_Container(name, usage) for name, usage in sorted(used.usages.items())]
        else:
            measured.usage = used.usages[""]
        items.append(Item(key, cluster, _ENCODE(measured)))
    return items


# Of one answer all times are the same, and of tens of thousands of pods many values.
@lru_cache(maxsize=64)
def _time(seconds: float) -> str | None:
    return time_json(seconds)


@lru_cache(maxsize=65_536)
def _usage(resource: str, nano: int) -> str:
    if resource == "cpu":
        return str(Quantity(nano))
    # Whole bytes, as who reads memory expects them.
    return str(Quantity(-(-nano // WHOLE) * WHOLE, Format.BINARY_SI))
