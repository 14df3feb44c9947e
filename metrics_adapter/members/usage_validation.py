"""Checks that the usage in a member's PodMetrics and NodeMetrics is valid and not negative.

A quantity that clients cannot parse spoils the whole answer for kubectl and every other client. A negative
one misleads them. A member that sends either counts as unavailable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from fedhpa.api.errors import InvalidQuantity, MetricsUnavailable
from fedhpa.api.json import decode_json
from fedhpa.api.quantity import Quantity
from fedhpa.api.wire import RawQuantity

USAGE_KEY = b'"usage"'
# Finds usage in another form than metrics-server writes. A body without it is not decoded here, because
# decoding costs ten times as much.
UNCOMMON_USAGE = re.compile(
    rb'"usage"(?!:\{"cpu":"[0-9]++[num]?+","memory":"[0-9]++(?:[KMGTPE]i|[kMGTPE])?+"\})'
).search
# An escape sequence can spell the same key in another way.
ESCAPE = b"\\"


class _Container(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    usage: dict[str, RawQuantity] | None = None


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""


class _UsageItem(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()
    containers: list[_Container] | None = None
    usage: dict[str, RawQuantity] | None = None


class _UsageItemList(msgspec.Struct, frozen=True, gc=False):
    items: list[_UsageItem] | None = None


def check_list(body: bytes, count: int) -> None:
    """Checks a list of `count` items. Raises MetricsUnavailable, or InvalidJson."""
    if body.count(USAGE_KEY) < count or ESCAPE in body or UNCOMMON_USAGE(body):
        for item in decode_json(body, _UsageItemList).items or ():
            _check(item)


def check_one(body: bytes) -> None:
    """Checks a single object. Raises MetricsUnavailable, or InvalidJson."""
    _check(decode_json(body, _UsageItem))


def _check(item: _UsageItem) -> None:
    for field, usage in _usages(item):
        for resource, value in (usage or {}).items():
            problem = _problem(value)
            if problem:
                name = f"{item.metadata.namespace}/{item.metadata.name}".strip("/")
                raise MetricsUnavailable(
                    f"its metrics cannot be used: {name}: {field}usage.{resource} {value!r} {problem}"
                )


def _usages(item: _UsageItem) -> Iterator[tuple[str, Mapping[str, RawQuantity] | None]]:
    yield "", item.usage
    for index, container in enumerate(item.containers or ()):
        yield f"containers[{index}].", container.usage


def _problem(value: RawQuantity) -> str:
    try:
        return "is negative" if Quantity.parse(value).nano < 0 else ""
    except InvalidQuantity:
        return "is not a quantity"
