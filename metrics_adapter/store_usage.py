"""Series of a metrics store as usage of pods and nodes, metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import Format, Quantity
from fedhpa.api.times import format_duration
from metrics_adapter.gather import Gathered
from metrics_adapter.items import MemberItems, decode_list
from metrics_adapter.kinds import MetricsKind
from metrics_adapter.rules import UsageRule
from metrics_adapter.store_series import Measured
from metrics_adapter.values import time_json

Found = Gathered[tuple[str, Sequence[Measured]]]
WINDOW = 60
WHOLE = 10**9


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
    for cluster in sorted(parts["cpu"].keys() | parts["memory"].keys()):
        found = {resource: clusters.get(cluster, ()) for resource, clusters in parts.items()}
        try:
            if cluster not in missing:
                answers.append(decode_list(_list_json(found, kind, rule, names), cluster))
        except MetricsUnavailable as error:
            missing[cluster] = str(error)
    whole = not (cpu.nobody_answered or memory.nobody_answered)
    return Gathered(answers if whole else (), missing, notes)


def _list_json(
    found: Mapping[str, Sequence[Measured]], kind: MetricsKind, rule: UsageRule, names: tuple[str, str]
) -> bytes:
    objects: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    oldest: dict[tuple[str, str], float] = {}
    namespace_label, name_label = names
    container_label = rule.container_label if kind.namespaced else ""
    for resource, measured in found.items():
        for one in measured:
            key = one.labels.get(namespace_label, ""), one.labels[name_label]
            usages = objects.get(key)
            if usages is None:
                usages = objects[key] = {}
                oldest[key] = one.at
            elif one.at < oldest[key]:
                oldest[key] = one.at
            usage = usages.setdefault(one.labels.get(container_label, ""), {})
            if resource in usage:
                raise MetricsUnavailable(
                    f"{'/'.join(filter(None, key))} has more than one value of {resource}: let the rule's"
                    " query aggregate, as in sum by (<<.GroupBy>>)"
                )
            usage[resource] = _usage(resource, one.amount.nano)
    window = format_duration(rule.window or WINDOW)
    items = [
        {
            "metadata": {"name": key[1], "namespace": key[0]} if kind.namespaced else {"name": key[1]},
            "timestamp": _time(oldest[key]),
            "window": window,
            **_usages(usages, kind),
        }
        for key, usages in objects.items()
    ]
    return msgspec.json.encode({"items": items})


def _usages(usages: Mapping[str, Mapping[str, str]], kind: MetricsKind) -> dict[str, Any]:
    if not kind.namespaced:
        return {"usage": usages[""]}
    return {"containers": [{"name": name, "usage": usage} for name, usage in sorted(usages.items())]}


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
