"""Whether what a member calls usage is a quantity that usage can have.

One value that no client can read spoils the whole answer for kubectl and everybody else, and a negative one
misleads them: a member that sends such is one that did not answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from fedhpa.api.errors import InvalidQuantity, MetricsUnavailable
from fedhpa.api.quantity import Quantity
from fedhpa.api.wire import RawQuantity

# How metrics-server writes usage. What looks so is fine; only what does not is decoded and looked at, which
# costs ten times as much.
ANY = b'"usage"'
USUAL = re.compile(rb':\{"cpu":"[0-9]++[num]?+","memory":"[0-9]++(?:[KMGTPE]i|[kMGTPE])?+"\}').match
# With it the same key can be written in another way.
ESCAPE = b"\\"


class _Container(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    usage: dict[str, RawQuantity] | None = None


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""


class _Measured(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()
    containers: list[_Container] | None = None
    usage: dict[str, RawQuantity] | None = None


class _MeasuredList(msgspec.Struct, frozen=True, gc=False):
    items: list[_Measured] | None = None


_DECODE_LIST = msgspec.json.Decoder(_MeasuredList).decode
_DECODE_ONE = msgspec.json.Decoder(_Measured).decode


def check_list(body: bytes, count: int) -> None:
    """MetricsUnavailable or msgspec's DecodeError for a list of `count` items that is not to be passed on."""
    _, *mentions = body.split(ANY)
    if len(mentions) < count or ESCAPE in body or not all(map(USUAL, mentions)):
        for item in _DECODE_LIST(body).items or ():
            _check(item)


def check_one(body: bytes) -> None:
    """The same for a single object."""
    _check(_DECODE_ONE(body))


def _check(item: _Measured) -> None:
    for field, usage in _usages(item):
        for resource, value in (usage or {}).items():
            problem = _problem(value)
            if problem:
                name = f"{item.metadata.namespace}/{item.metadata.name}".strip("/")
                raise MetricsUnavailable(
                    f"its metrics cannot be used: {name}: {field}usage.{resource} {value!r} {problem}"
                )


def _usages(item: _Measured) -> Iterator[tuple[str, Mapping[str, RawQuantity] | None]]:
    yield "", item.usage
    for index, container in enumerate(item.containers or ()):
        yield f"containers[{index}].", container.usage


def _problem(value: RawQuantity) -> str:
    try:
        return "is negative" if Quantity.parse(value).nano < 0 else ""
    except InvalidQuantity:
        return "is no quantity"
