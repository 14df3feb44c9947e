"""Values of custom metrics: decoded from members in either API version, merged, and encoded in either.

Quantities are added exactly. One value that a client cannot read would spoil the whole answer. A member
that sends an invalid time, label or quantity therefore counts as unavailable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import convert_json
from fedhpa.api.quantity import MAX_INT64, Quantity
from fedhpa.api.selectors import selector_of
from fedhpa.api.times import format_time, parse_time
from fedhpa.api.wire import MetricValue, ObjectReference
from fedhpa.members.metrics import CUSTOM, custom_values

V1BETA1, V1BETA2 = "v1beta1", "v1beta2"


class MetricLabelRequirement(msgspec.Struct, frozen=True, omit_defaults=True):
    """metav1.LabelSelectorRequirement."""

    key: str
    operator: str
    values: list[str] | None = None


class MetricLabelSelector(msgspec.Struct, frozen=True, omit_defaults=True):
    """metav1.LabelSelector, decoded strictly, so that Go clients can read what is passed on."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: list[MetricLabelRequirement] | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A value of a metric, with its time and its window in seconds."""

    metric: str
    timestamp: float | None
    window: int | None
    amount: Quantity


@dataclass(frozen=True, kw_only=True)
class CustomValue(Measured):
    """One value of one object. `key` identifies it by object, metric and the metric's labels."""

    key: tuple[str, ...]
    described: ObjectReference
    selector: MetricLabelSelector | None


V = TypeVar("V", bound=Measured)


def decode_values(body: bytes) -> tuple[CustomValue, ...]:
    """Returns the items of a member's MetricValueList. Raises ValueError or InvalidObject for a bad item."""
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
    """Returns the window if it is not negative and fits Go's int64. Raises InvalidObject."""
    if window is not None and not 0 <= window <= MAX_INT64:
        raise InvalidObject(f"{field}: {window} is no number of seconds")
    return window


def add_quantities(left: Quantity, right: Quantity) -> Quantity:
    """Returns the exact sum. Like Kubernetes' Quantity.Add, a zero takes the format of the other operand."""
    return right if left.nano == 0 else Quantity(left.nano + right.nano, left.format)


def _total(amounts: Sequence[Quantity]) -> Quantity:
    return reduce(add_quantities, amounts)


def _average(amounts: Sequence[Quantity]) -> Quantity:
    whole = _total(amounts)
    # Rounds up at the ninth decimal, as parsing of a quantity does.
    return Quantity(-(-whole.nano // len(amounts)), whole.format)


# The functions that merge values over clusters. `?aggregation=` and the rules file use these names.
AGGREGATIONS: Mapping[str, Callable[[Sequence[Quantity]], Quantity]] = {
    "Sum": _total,
    "Average": _average,
    "Max": partial(max, key=attrgetter("nano")),
    "Min": partial(min, key=attrgetter("nano")),
}


def sort_values(answers: Iterable[Sequence[CustomValue]]) -> list[CustomValue]:
    """Returns the values of all clusters by object and labels. `answers` must be sorted by cluster."""
    return sorted((value for values in answers for value in values), key=lambda value: value.key)


def merge_values(answers: Iterable[Sequence[CustomValue]], aggregation: str) -> list[CustomValue]:
    """Returns one value for each object and label set, aggregated over clusters.

    The first cluster by name gives the description of the object and the format of the quantity.
    """
    groups = groupby(sort_values(answers), key=lambda value: value.key)
    return [combined(list(values), aggregation) for _, values in groups]


def combined(values: Sequence[V], aggregation: str) -> V:
    """Returns the first value with the amount of all of them.

    The timestamp is the oldest one, or none if any value has none. The window is the longest one.
    """
    times = [value.timestamp for value in values if value.timestamp is not None]
    return replace(
        values[0],
        timestamp=min(times) if len(times) == len(values) else None,
        window=max((value.window for value in values if value.window is not None), default=None),
        amount=AGGREGATIONS[aggregation]([value.amount for value in values]),
    )


def encode_values(values: Iterable[CustomValue], version: str) -> bytes:
    """Returns the JSON of a MetricValueList in one API version."""
    write = _WRITERS[version]
    return msgspec.json.encode(
        {
            "kind": "MetricValueList",
            "apiVersion": f"{CUSTOM}/{version}",
            "metadata": {},
            "items": [write(value) for value in values],
        }
    )


def encode_time(seconds: float | None) -> str | None:
    """Returns a metav1.Time, which has whole seconds, or None for an unknown time."""
    return None if seconds is None else _whole_time(math.floor(seconds))


# The values of an answer have few different times.
_whole_time = lru_cache(maxsize=1024)(format_time)


def _value(item: MetricValue, field: str) -> CustomValue:
    window = item.windowSeconds if item.windowSeconds is not None else item.window
    given = item.metric.selector if item.metric is not None else item.selector
    selector = None if given is None else convert_json(given, MetricLabelSelector)
    described = item.describedObject
    metric = item.metric.name if item.metric is not None else item.metricName
    group = described.apiVersion.rpartition("/")[0]
    labels = str(selector_of(given))
    return CustomValue(
        key=(described.namespace, described.kind, group, described.name, metric, labels),
        described=described,
        metric=metric,
        selector=selector,
        timestamp=parse_time(item.timestamp),
        window=whole_seconds(window, f"{field}.window"),
        amount=Quantity.parse(item.value),
    )


def _described(value: CustomValue) -> dict[str, str]:
    names = ("kind", "namespace", "name", "apiVersion")
    return {name: text for name in names if (text := getattr(value.described, name))}


def _v1beta1(value: CustomValue) -> dict[str, object]:
    names = {"metricName": value.metric, "selector": value.selector}
    return {"describedObject": _described(value), **names, **timed(value, "window")}


def _v1beta2(value: CustomValue) -> dict[str, object]:
    metric = {"name": value.metric, "selector": value.selector}
    return {"describedObject": _described(value), "metric": metric, **timed(value, "windowSeconds")}


def timed(value: Measured, window: str) -> dict[str, object]:
    """Returns the fields that all values have. `window` is the name of the field with the window."""
    seconds = {} if value.window is None else {window: value.window}
    return {"timestamp": encode_time(value.timestamp), **seconds, "value": str(value.amount)}


# The form of a value in each version that is served.
_WRITERS = {V1BETA1: _v1beta1, V1BETA2: _v1beta2}
