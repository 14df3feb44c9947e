"""Values of custom metrics: read from members in either version, put together, written in either version.

Quantities are added exactly. What a client cannot read spoils a whole answer, so a member that sends such
(a time that is none, labels that are no strings, a value that nobody can mean) is one that did not answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.quantity import Quantity
from fedhpa.api.selectors import selector_of
from fedhpa.api.times import format_time, parse_time
from fedhpa.api.wire import MetricValue, ObjectReference
from fedhpa.members.metrics import CUSTOM, custom_values

MAX_INT64 = 2**63 - 1
V1BETA1, V1BETA2 = "v1beta1", "v1beta2"


class Expression(msgspec.Struct, frozen=True, omit_defaults=True):
    """metav1.LabelSelectorRequirement."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, frozen=True, omit_defaults=True):
    """metav1.LabelSelector, so strict that Go's clients can read what is passed on."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: list[Expression] | None = None


@dataclass(frozen=True)
class Value:
    """One value of one object. `key` is what makes it one: the object, the metric and the metric's labels."""

    key: tuple[str, ...]
    described: ObjectReference
    metric: str
    selector: LabelSelector | None
    timestamp: float | None
    window: int | None
    amount: Quantity


def decode_values(body: bytes) -> tuple[Value, ...]:
    """The items of a member's MetricValueList; ValueError or InvalidObject if one cannot be passed on."""
    values = []
    keys = set()
    for index, item in enumerate(custom_values(body)):
        value = _value(item, f"items[{index}]")
        if value.key in keys:
            raise InvalidObject(f"items[{index}]: a second value of {value.described.name!r} with its labels")
        keys.add(value.key)
        values.append(value)
    return tuple(values)


def whole_seconds(window: int | None, field: str) -> int | None:
    """A window that fits Go's int64. Raises InvalidObject."""
    if window is not None and not 0 <= window <= MAX_INT64:
        raise InvalidObject(f"{field}: {window} is no number of seconds")
    return window


def add(left: Quantity, right: Quantity) -> Quantity:
    """The exact sum, written as Kubernetes' Quantity.Add does: a zero takes the other's format."""
    return right if left.nano == 0 else Quantity(left.nano + right.nano, left.format)


def _total(amounts: Sequence[Quantity]) -> Quantity:
    return reduce(add, amounts)


def _average(amounts: Sequence[Quantity]) -> Quantity:
    whole = _total(amounts)
    # Rounded up at the ninth digit, as quantities are read.
    return Quantity(-(-whole.nano // len(amounts)), whole.format)


def _largest(amounts: Sequence[Quantity]) -> Quantity:
    return max(amounts, key=lambda amount: amount.nano)


def _smallest(amounts: Sequence[Quantity]) -> Quantity:
    return min(amounts, key=lambda amount: amount.nano)


# contracts: over clusters, by name.
AGGREGATIONS: Mapping[str, Callable[[Sequence[Quantity]], Quantity]] = {
    "Sum": _total,
    "Average": _average,
    "Max": _largest,
    "Min": _smallest,
}


def side_by_side(answers: Iterable[Sequence[Value]]) -> list[Value]:
    """All values of all clusters, which must come sorted by name, in the order of objects and labels."""
    return sorted((value for values in answers for value in values), key=lambda value: value.key)


def merged(answers: Iterable[Sequence[Value]], aggregation: str) -> list[Value]:
    """One value an object and labels, over clusters.

    Its timestamp is the oldest, an unknown one before all, and its window the longest; how the object is
    described, and the format of the quantity, are the first cluster's by name.
    """
    combine = AGGREGATIONS[aggregation]
    found = []
    for _, group in groupby(side_by_side(answers), key=lambda value: value.key):
        values = list(group)
        times = [value.timestamp for value in values if value.timestamp is not None]
        found.append(
            replace(
                values[0],
                timestamp=min(times) if len(times) == len(values) else None,
                window=max((value.window for value in values if value.window is not None), default=None),
                amount=combine([value.amount for value in values]),
            )
        )
    return found


def values_json(values: Iterable[Value], version: str) -> bytes:
    """The MetricValueList of a version."""
    write = _v1beta2 if version == V1BETA2 else _v1beta1
    return msgspec.json.encode(
        {
            "kind": "MetricValueList",
            "apiVersion": f"{CUSTOM}/{version}",
            "metadata": {},
            "items": [write(value) for value in values],
        }
    )


def time_json(seconds: float | None) -> str | None:
    """metav1.Time: whole seconds, null where there is none."""
    return None if seconds is None else format_time(math.floor(seconds))


def _value(item: MetricValue, field: str) -> Value:
    window = item.windowSeconds if item.windowSeconds is not None else item.window
    given = item.metric.selector if item.metric is not None else item.selector
    selector = None if given is None else msgspec.convert(given, LabelSelector)
    described = item.describedObject
    metric = item.metric.name if item.metric is not None else item.metricName
    group = described.apiVersion.rpartition("/")[0]
    labels = str(selector_of(given))
    return Value(
        key=(described.namespace, described.kind, group, described.name, metric, labels),
        described=described,
        metric=metric,
        selector=selector,
        timestamp=parse_time(item.timestamp),
        window=whole_seconds(window, f"{field}.window"),
        amount=Quantity.parse(item.value),
    )


def _described(value: Value) -> dict[str, str]:
    names = ("kind", "namespace", "name", "apiVersion")
    return {name: text for name in names if (text := getattr(value.described, name))}


def _v1beta1(value: Value) -> dict[str, object]:
    window = {} if value.window is None else {"window": value.window}
    return {
        "describedObject": _described(value),
        "metricName": value.metric,
        "timestamp": time_json(value.timestamp),
        **window,
        "value": str(value.amount),
        "selector": value.selector,
    }


def _v1beta2(value: Value) -> dict[str, object]:
    window = {} if value.window is None else {"windowSeconds": value.window}
    return {
        "describedObject": _described(value),
        "metric": {"name": value.metric, "selector": value.selector},
        "timestamp": time_json(value.timestamp),
        **window,
        "value": str(value.amount),
    }
